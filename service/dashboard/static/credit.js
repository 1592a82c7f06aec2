// What the last decisions earned, and are expected to earn still: by feature, and one by one.

import { get } from "./api.js"
import { features, make, number, table } from "./dom.js"

const LAST_DECISIONS = 12
const LAST_ROUNDS = 2000 // of the session
const MOST_FEATURES = 8
const MOST_TRAJECTORIES = 20 // to choose from

const soft = words => make("p", { class: "soft" }, words)

export function creditCard() {
  const body = make("div")
  const choice = make("select", { id: "trajectory" })
  const chooser = make("p", {}, make("label", { for: "trajectory" }, "Trajectory "), choice)
  const more = soft("")
  const parts = make("div")
  const node = make("section", { class: "card" }, make("h2", {}, "What the last decisions earned"), parts, chooser, body, more)
  let shown = [], again = () => {}
  choice.addEventListener("change", () => again())
  const list = async (path, signal) => {
    const one = shown.find(({ trajectory }) => trajectory === choice.value) ?? shown[0]
    body.replaceChildren(one ? await creditTable(path, one, signal) : soft("No decision yet."))
  }
  const update = async (session, path, signal) => {
    shown = (await get(`${path}/trajectories`, { limit: MOST_TRAJECTORIES }, signal)).items
    const wanted = choice.value
    choice.replaceChildren(...shown.map(({ trajectory }) => make("option", { value: trajectory }, trajectory || "without a key")))
    if (shown.some(({ trajectory }) => trajectory === wanted)) choice.value = wanted
    chooser.hidden = shown.length < 2
    more.textContent = session.n_trajectories > shown.length
      ? `${shown.length} of ${number(session.n_trajectories)} trajectories are listed; GET …/credit?trajectory=KEY has any.` : ""
    again = () => list(path, signal).catch(error => { if (error.name !== "AbortError") body.replaceChildren(soft(error.message)) })
    const [found] = await Promise.all([featureTable(path, session, signal), list(path, signal)])
    parts.replaceChildren(...found)
  }
  return { node, update }
}

async function featureTable(path, session, signal) {
  const { items, first_round, last_round } = await get(`${path}/credit/features`, { rounds: LAST_ROUNDS }, signal)
  if (items.length === 0) return []
  const labels = features(session)
  const words = (value, interval) => (interval ? `${number(value)} (${number(interval[0])} to ${number(interval[1])})` : number(value))
  const largest = [...items].sort((a, b) => weight(b) - weight(a)).slice(0, MOST_FEATURES).sort((a, b) => a.feature - b.feature)
  return [table("Credit by feature", [
    ["feature", row => labels[row.feature]], ["at once", row => words(row.at_once, row.intervals?.at_once), true],
    ["later", row => words(row.later, row.intervals?.later), true], ["still to come", row => number(row.to_come), true],
  ], largest), soft(`All ${number(last_round - first_round + 1)} last decisions of the session, beside decisions with 0 in a feature's place.${items.length > largest.length ? " Features that paid less are left out." : ""}${largest[0].intervals ? " In brackets: 95% intervals." : ""}`)]
}

const weight = row => Math.abs(row.at_once) + Math.abs(row.later)

async function creditTable(path, { trajectory, n_rounds }, signal) {
  const cursor = Math.max(0, n_rounds - LAST_DECISIONS)
  const { items } = await get(`${path}/credit`, { trajectory, cursor, limit: LAST_DECISIONS }, signal)
  if (items.every(item => item.earned === null)) return soft(items[0]?.reason ?? "No decision is left.")
  return table("Credit, newest first", [
    ["round", row => number(row.round), true], ["arm", row => row.arm_id ?? number(row.arm), true],
    ["earned so far", row => number(row.earned), true], ["still to come", row => number(row.to_come), true],
  ], items.reverse())
}
