// Some sessions side by side: what they earn, which past rounds pay, what makes a choice good.

import { get } from "./api.js"
import { badge, features, loading, make, number, state, table } from "./dom.js"
import { joined, lines, plotCard } from "./plots.js"

export const MOST_COMPARED = 4
const LOOKS = [
  { color: "--one" }, { color: "--two", dash: [8, 4] }, { color: "--three", dash: [2, 3] }, { color: "--four", dash: [12, 3, 2, 3] },
]

export async function showComparison(main, ids, signal) {
  main.replaceChildren(loading("Loading the sessions …"))
  const found = await Promise.all(ids.slice(0, MOST_COMPARED).map(id => read(id, signal)))
  const looks = found.map(({ session }, i) => ({ label: session.name || session.id, ...LOOKS[i] }))
  const names = looks.map(look => look.label)
  const rewards = plotCard("Reward", "compared rewards", ["round", ...names], lines("round", "mean reward", looks))
  const lags = plotCard("Lag weights: which past choices pay", "compared lag weights", ["lag", ...names], lines("rounds ago", "weight", looks))
  const theta = plotCard("Theta: what makes a choice good", "compared theta", ["feature", ...names],
    lines("feature", "value", looks.map(look => ({ ...look, dots: true }))))
  main.replaceChildren(make("h1", {}, "Sessions compared"),
    make("p", { class: "soft" }, "Rounds are counted from each session's own first one. ", make("a", { href: "#/" }, "Choose other sessions")),
    facts(found, names), make("div", { class: "grid" }, rewards.node, lags.node, theta.node))
  drawRewards(rewards, found)
  drawLearned(lags, theta, found)
}

async function read(id, signal) {
  const path = `/v1/sessions/${encodeURIComponent(id)}`
  const [session, series, estimate] = await Promise.all([
    get(path, {}, signal), get(`${path}/series`, { rounds: 2000, bins: 100 }, signal), get(`${path}/estimate`, {}, signal),
  ])
  return { session, series, learned: estimate.theta ? estimate : null }
}

function facts(found, names) {
  const mean = (items, of) => {
    const known = items.filter(item => item[of] !== null)
    const n = known.reduce((sum, item) => sum + item.n_measured, 0)
    return n ? known.reduce((sum, item) => sum + item[of] * item.n_measured, 0) / n : null
  }
  const rows = found.map(({ session, series, learned }, i) => ({ session, series, learned, name: names[i] }))
  return make("section", { class: "card" }, make("h2", {}, "At a glance"), table("The sessions compared", [
    ["session", row => make("a", { href: `#/sessions/${encodeURIComponent(row.session.id)}` }, row.name)],
    ["state", row => badge(state(row.session, row.series.alarm))], ["algorithm", row => row.session.algorithm],
    ["rounds", row => number(row.session.n_rounds), true],
    ["mean reward", row => number(mean(row.series.items, "reward")), true],
    ["expected", row => number(mean(row.series.items, "expected")), true],
    ["strongest lag", row => (row.learned ? number(strongest(row.learned.lag_weights)) : "–"), true],
    ["sum of lag weights", row => (row.learned ? number(row.learned.lag_weights.reduce((sum, one) => sum + one, 0)) : "–"), true],
  ], rows))
}

const strongest = weights => weights.reduce((best, one, i) => (Math.abs(one) > Math.abs(weights[best]) ? i : best), 0)

function drawRewards(card, found) {
  card.redraw(joined(found.map(({ series: { items } }) => [
    items.map(item => (item.first_round + item.last_round) / 2), items.map(item => item.reward),
  ])))
  if (found.every(({ series }) => series.items.every(item => item.reward === null))) card.say("No reward yet.")
}

function drawLearned(lags, theta, found) {
  const silent = found.filter(one => one.learned === null).map(one => one.session.name || one.session.id)
  const longest = Math.max(0, ...found.map(({ learned }) => learned?.lag_weights.length ?? 0))
  lags.redraw([Array.from({ length: longest }, (_, i) => i),
    ...found.map(({ learned }) => Array.from({ length: longest }, (_, i) => learned?.lag_weights[i] ?? null))])
  const labels = [...new Set(found.flatMap(({ session, learned }) => features(session, learned)))]
  const values = found.map(({ session, learned }) => {
    const own = features(session, learned)
    return labels.map(label => learned?.theta[own.indexOf(label)] ?? null)
  })
  theta.redraw(longest ? [labels.map((_, i) => i), ...values] : [[]], labels)
  for (const card of [lags, theta]) card.say(silent.length ? `Nothing learned yet: ${silent.join(", ")}.` : "")
}
