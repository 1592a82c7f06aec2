// The page: where we are, who may see it, and what to say when something fails.

import { forgetKey, get, hasKey, keepKey } from "./api.js"
import { showComparison } from "./compare.js"
import { make, notice } from "./dom.js"
import { showPlayground } from "./playground.js"
import { showSession } from "./session.js"
import { showSessions } from "./sessions.js"

const main = document.getElementById("main")
const play = document.getElementById("play")
const leave = document.getElementById("leave")
let current = new AbortController()

async function show() {
  current.abort()
  current = new AbortController()
  const { signal } = current
  main.setAttribute("aria-busy", "true") // until all that is asked for has been drawn once
  leave.hidden = !hasKey()
  const [, room, ...ids] = location.hash.split("/")
  try {
    if (room === "sessions" && ids[0]) await showSession(main, signal, ...ids.map(decodeURIComponent))
    else if (room === "compare" && ids[0]) await showComparison(main, ids.map(decodeURIComponent), signal)
    else if (room === "playground") await showPlayground(main, signal)
    else await showSessions(main, signal)
    if (play.hidden) play.hidden = !(await get("/dashboard/playground", {}, signal)).is_open
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return
    if (error.status === 401) login(hasKey() ? "This key is not known, or it was revoked." : "")
    else fail(error)
  } finally {
    if (!signal.aborted) main.setAttribute("aria-busy", "false")
  }
}

function login(problem) {
  const key = make("input", { type: "password", id: "key", autocomplete: "off", required: true })
  const form = make("form", { class: "login", onsubmit: event => {
    event.preventDefault()
    keepKey(key.value.trim())
    show()
  } }, make("h1", {}, "A key, please"),
  make("p", { class: "soft" }, "This server answers to keys only. The key stays in this tab and is forgotten when it closes."),
  make("label", { for: "key" }, "API key"), key, make("button", {}, "Open"),
  problem ? make("p", { class: "error", role: "alert" }, problem) : null)
  main.replaceChildren(form)
  key.focus()
}

const FAILURES = {
  0: ["The server does not answer.", "It may be starting, or the network is down."],
  403: ["You may not see this.", "This key, or this address, has no permission here."],
  404: ["There is no such session.", "It may be deleted or renamed, or it belongs to a tenant whose data this key may not see."],
  429: ["Too many requests.", "This key has used up its share for the moment."],
}

function fail(error) {
  const [heading, words] = FAILURES[error.status] || ["That did not work.", "Something on this page failed."]
  const said = error.status === 404 ? "" : error.message
  main.replaceChildren(notice(heading, make("p", { class: "error", role: "alert" }, said || heading), make("p", { class: "soft" }, words),
    make("p", {}, make("button", { onclick: show }, "Try again"), " ", make("a", { href: "#/" }, "All sessions"))))
}

leave.addEventListener("click", () => {
  forgetKey()
  location.hash = "#/"
  show()
})
addEventListener("hashchange", () => {
  show()
  main.focus()
})
show()
