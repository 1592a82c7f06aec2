// All sessions: search, state in words, and a sparkline of the last rewards.

import { all, get } from "./api.js"
import { announce, badge, make, number, state } from "./dom.js"
import { sparkline } from "./plots.js"

export async function showSessions(main, signal) {
  const search = make("input", { type: "search", id: "search", placeholder: "name, id, algorithm or state" })
  const count = make("p", { class: "soft" }, "Loading …")
  const body = make("tbody")
  const heads = ["name", "state", "algorithm", "rounds", "trajectories", "last rewards"]
  const list = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Sessions" },
    make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((head, i) =>
      make("th", { scope: "col", class: i === 3 || i === 4 ? "number" : null }, head)))), body))
  main.replaceChildren(make("h1", {}, "Sessions"), make("label", { for: "search", class: "hidden" }, "Search"),
    search, count, list)
  const sessions = (await all("/v1/sessions", {}, signal)).reverse()
  if (sessions.length === 0) {
    list.remove()
    search.remove()
    count.replaceChildren("There is no session yet. The ", make("a", { href: "/docs" }, "API"),
      " makes one with POST /v1/sessions; the README has ten lines of curl and Python.")
    return
  }
  const seen = new IntersectionObserver(entries => entries.filter(entry => entry.isIntersecting).forEach(entry => {
    seen.unobserve(entry.target)
    spark(entry.target, signal)
  }))
  const rows = sessions.map(session => {
    const words = state(session)
    const canvas = make("canvas", { class: "spark", "data-id": session.id, "aria-hidden": "true" })
    const name = make("a", { href: `#/sessions/${session.id}` }, session.name || session.id)
    const node = make("tr", {}, make("td", {}, name), make("td", {}, badge(words)), make("td", {}, session.algorithm),
      make("td", { class: "number" }, number(session.n_rounds)), make("td", { class: "number" }, number(session.n_trajectories)),
      make("td", {}, canvas))
    return { node, canvas, text: `${session.name} ${session.id} ${session.algorithm} ${words[0]}`.toLowerCase() }
  })
  const filter = () => {
    const wanted = search.value.trim().toLowerCase()
    const found = rows.filter(row => row.text.includes(wanted))
    body.replaceChildren(...found.map(row => row.node))
    found.forEach(row => seen.observe(row.canvas))
    count.textContent = wanted ? `${found.length} of ${rows.length} sessions` : `${rows.length} sessions`
    announce(count.textContent)
  }
  search.addEventListener("input", filter)
  signal.addEventListener("abort", () => seen.disconnect())
  filter()
}

async function spark(canvas, signal) {
  try {
    const { items } = await get(`/v1/sessions/${canvas.dataset.id}/series`, { rounds: 1000, bins: 40 }, signal)
    sparkline(canvas, items.map(item => item.reward))
  } catch { /* the row says enough without it */ }
}
