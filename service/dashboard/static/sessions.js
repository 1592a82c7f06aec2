// All sessions: search, state in words, a sparkline of the last rewards, and which to compare.

import { all, get } from "./api.js"
import { MOST_COMPARED } from "./compare.js"
import { announce, badge, loading, make, notice, number, state } from "./dom.js"
import { sparkline } from "./plots.js"

const SPARK = { rounds: 400, bins: 40, brief: true }
const HEADS = ["compare", "name", "state", "algorithm", "rounds", "trajectories", "last rewards"]
const NUMBERS = ["rounds", "trajectories"]

export async function showSessions(main, signal) {
  main.replaceChildren(loading("Loading the sessions …"))
  const sessions = (await all("/v1/sessions", {}, signal)).reverse()
  if (sessions.length === 0) {
    main.replaceChildren(notice("There is no session yet.",
      make("p", {}, "A session is one agent that learns from what you tell it. Make the first one with Python or curl:"),
      make("pre", { tabindex: "0" }, make("code", {}, `curl -H content-type:application/json ${location.origin}/v1/sessions \\\n  -d '{"name": "first", "dim": 2, "horizon": 10}'`)),
      make("p", {}, make("a", { href: "/docs" }, "The API"), " says what comes next. This page shows the session when it is there."),
      make("button", { onclick: () => showSessions(main, signal) }, "Look again")))
    return
  }
  const search = make("input", { type: "search", id: "search", placeholder: "name, id, algorithm or state" })
  const count = make("p", { class: "soft" })
  const compare = make("button", { disabled: true, onclick: () => { location.hash = `#/compare/${[...chosen].map(encodeURIComponent).join("/")}` } })
  const body = make("tbody")
  const list = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Sessions" },
    make("table", { class: "sessions" }, make("thead", {}, make("tr", {}, ...HEADS.map(head =>
      make("th", { scope: "col", class: NUMBERS.includes(head) ? "number" : null }, head)))), body))
  const chosen = new Set()
  const choose = (box, id) => {
    if (box.checked) chosen.add(id)
    else chosen.delete(id)
    compare.disabled = chosen.size < 2
    compare.textContent = chosen.size < 2 ? "Tick two or more to compare" : `Compare ${chosen.size} sessions`
    for (const row of rows) row.box.disabled = chosen.size >= MOST_COMPARED && !row.box.checked
  }
  const seen = new IntersectionObserver(entries => entries.filter(entry => entry.isIntersecting).forEach(entry => {
    seen.unobserve(entry.target)
    spark(entry.target, signal)
  }))
  const rows = sessions.map(session => {
    const words = state(session), title = session.name || session.id
    const canvas = make("canvas", { class: "spark", "data-id": session.id, "aria-hidden": "true" })
    const box = make("input", { type: "checkbox", "aria-label": `Compare ${title}`, onchange: () => choose(box, session.id) })
    const node = make("tr", {}, make("td", {}, box), make("td", {}, make("a", { href: `#/sessions/${session.id}` }, title)),
      make("td", {}, badge(words)), make("td", {}, session.algorithm),
      make("td", { class: "number" }, number(session.n_rounds)), make("td", { class: "number" }, number(session.n_trajectories)),
      make("td", {}, canvas))
    return { node, canvas, box, text: `${session.name} ${session.id} ${session.algorithm} ${words[0]}`.toLowerCase() }
  })
  const filter = () => {
    const wanted = search.value.trim().toLowerCase()
    const found = rows.filter(row => row.text.includes(wanted))
    body.replaceChildren(...found.map(row => row.node))
    found.forEach(row => seen.observe(row.canvas))
    count.textContent = wanted ? `${found.length} of ${rows.length} sessions` : `${rows.length} sessions`
    announce(count.textContent)
  }
  main.replaceChildren(make("h1", {}, "Sessions"), make("label", { for: "search", class: "hidden" }, "Search"),
    make("div", { class: "bar" }, search, compare), count, list)
  choose({ checked: false }, null)
  search.addEventListener("input", filter)
  signal.addEventListener("abort", () => seen.disconnect())
  filter()
}

async function spark(canvas, signal) {
  try {
    const { items } = await get(`/v1/sessions/${canvas.dataset.id}/series`, SPARK, signal)
    sparkline(canvas, items.map(item => item.reward))
  } catch { /* the row says enough without it */ }
}
