// All sessions: state in words, what each earns, its findings and age; search, and which to compare.

import { all, get } from "./api.js"
import { MOST_COMPARED } from "./compare.js"
import { figure, inBrief } from "./headline.js"
import { announce, badge, duration, loading, make, notice, number, state } from "./dom.js"
import { sparkline } from "./plots.js"
import { LATELY } from "./session.js"
import { inWords, spoken } from "./units.js"

const SPARK = { rounds: 2000, bins: 40, brief: true }
const HEADS = ["compare", "name", "what it earns", "findings", "state", "decisions", "last rewards", "made"]
const PACE = { rounds: 400, bins: 10 }
const SLICE = 60 // rows drawn at once
const NUMBERS = ["decisions"]

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
  const chosen = new Set(), drawn = new Map()
  const isFull = () => chosen.size >= MOST_COMPARED
  const choose = (box, id) => {
    if (box.checked) chosen.add(id)
    else chosen.delete(id)
    compare.disabled = chosen.size < 2
    compare.textContent = chosen.size < 2 ? "Tick two or more to compare" : `Compare ${chosen.size} sessions`
    for (const { box } of rows) if (box) box.disabled = isFull() && !box.checked
  }
  const seen = new IntersectionObserver(entries => entries.filter(entry => entry.isIntersecting).forEach(entry => {
    seen.unobserve(entry.target)
    if (entry.target === rest) more()
    else fill(drawn.get(entry.target), signal)
  }), { rootMargin: "200px" })
  const rows = sessions.map(session => {
    const words = state(session)
    return { session, words, text: `${session.name} ${session.id} ${session.algorithm} ${words[0]}`.toLowerCase() }
  })
  const draw = row => {
    const { session, words } = row
    const title = session.name || session.id
    const canvas = make("canvas", { class: "spark", "data-id": session.id, "aria-hidden": "true" })
    row.box = make("input", { type: "checkbox", "aria-label": `Compare ${title}`, disabled: isFull(), onchange: () => choose(row.box, session.id) })
    row.node = make("tr", {}, make("td", {}, row.box), make("td", {}, make("a", { href: `#/sessions/${session.id}` }, title)),
      row.gain = make("td"), row.found = make("td"), make("td", {}, badge(words)),
      make("td", { class: "number" }, number(session.n_rounds)), make("td", {}, canvas),
      make("td", {}, `${duration((Date.now() - new Date(session.created_at)) / 1000)} ago`))
    row.canvas = canvas
    drawn.set(row.node, row)
    seen.observe(row.node)
  }
  // rows are drawn as the reader comes to them: a browser takes seconds to lay out a thousand
  let found = rows
  const more = () => {
    const next = found.slice(body.children.length, body.children.length + SLICE)
    next.filter(row => !row.node).forEach(draw)
    body.append(...next.map(row => row.node))
    rest.hidden = body.children.length >= found.length
    rest.textContent = `Show more: ${number(found.length - body.children.length)} are left`
    if (!rest.hidden) seen.observe(rest)
  }
  const rest = make("button", { onclick: more })
  const filter = () => {
    const wanted = search.value.trim().toLowerCase()
    found = rows.filter(row => row.text.includes(wanted))
    body.replaceChildren()
    more()
    count.textContent = wanted ? `${found.length} of ${rows.length} sessions` : `${rows.length} session${rows.length === 1 ? "" : "s"}`
    announce(count.textContent)
  }
  main.replaceChildren(make("h1", {}, "Sessions"), make("label", { for: "search", class: "hidden" }, "Search"),
    make("div", { class: "bar" }, search, compare), count, list, rest)
  choose({ checked: false }, null)
  search.addEventListener("input", filter)
  signal.addEventListener("abort", () => seen.disconnect())
  filter()
}

// What a row shows of a session beyond its settings, once the reader sees the row.
async function fill({ session, gain, found, canvas }, signal) {
  const path = `/v1/sessions/${session.id}`
  try {
    const [{ items }, estimate, compared] = await Promise.all([
      get(`${path}/series`, SPARK, signal), get(`${path}/estimate`, {}, signal), session.holdout ? get(`${path}/lift`, {}, signal) : null,
    ])
    const { gain: known } = estimate, isOne = session.n_trajectories === 1 && !session.clock
    const { reason } = compared?.lift ? {} : await get(`${path}/credit/features`, { rounds: 1 }, signal)
    const isShort = compared?.lift || known || reason // the number needs no arms, and one's days only a few
    const arms = isShort && !isOne ? { reason, bins: [] } : await get(`${path}/credit/arms`, isShort ? PACE : LATELY, signal)
    const now = spoken(session, arms)
    sparkline(canvas, items.map(item => item.reward))
    gain.textContent = inBrief(figure({ session: now, lift: compared, estimate, arms }), now)
    gain.title = inWords(compared?.verdict ?? estimate.no_gain ?? "", now)
    const n = estimate.findings.length
    found.textContent = n ? `${n} to read` : estimate.checked ? "none" : "not checked"
    found.title = estimate.findings.map(one => inWords(one.message, now)).join("\n")
    if (n) found.classList.add("error")
  } catch { /* the row says enough without it */ }
}
