// The page: where we are, who may see it, and what to say when something fails.

import { forgetKey, hasKey, keepKey } from "./api.js"
import { make } from "./dom.js"
import { showSession } from "./session.js"
import { showSessions } from "./sessions.js"

const main = document.getElementById("main")
const leave = document.getElementById("leave")
let current = new AbortController()

async function show() {
  current.abort()
  current = new AbortController()
  const { signal } = current
  leave.hidden = !hasKey()
  const [, room, id] = location.hash.split("/")
  try {
    if (room === "sessions" && id) await showSession(main, decodeURIComponent(id), signal)
    else await showSessions(main, signal)
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return
    if (error.status === 401) login(hasKey() ? "This key is not known, or it was revoked." : "")
    else fail(error)
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

function fail(error) {
  const words = error.status === 404 ? "There is no such session, or this key may not see it."
    : error.status ? error.message : error.message || "Something on this page failed."
  main.replaceChildren(make("h1", {}, "That did not work"), make("p", { class: "error", role: "alert" }, words),
    make("p", {}, make("button", { onclick: show }, "Try again"), " ", make("a", { href: "#/" }, "All sessions")))
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
