// What the last decisions of a trajectory earned, and are expected to earn still.

import { get } from "./api.js"
import { make, number, table } from "./dom.js"

const LAST_DECISIONS = 12
const MOST_TRAJECTORIES = 20 // to choose from

const soft = words => make("p", { class: "soft" }, words)

export function creditCard() {
  const body = make("div")
  const choice = make("select", { id: "trajectory" })
  const chooser = make("p", {}, make("label", { for: "trajectory" }, "Trajectory "), choice)
  const more = soft("")
  const node = make("section", { class: "card" }, make("h2", {}, "What the last decisions earned"), chooser, body, more)
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
    await list(path, signal)
  }
  return { node, update }
}

async function creditTable(path, { trajectory, n_rounds }, signal) {
  const cursor = Math.max(0, n_rounds - LAST_DECISIONS)
  const { items } = await get(`${path}/credit`, { trajectory, cursor, limit: LAST_DECISIONS }, signal)
  if (items.every(item => item.earned === null)) return soft(items[0]?.reason ?? "No decision is left.")
  return table("Credit, newest first", [
    ["round", row => number(row.round), true], ["arm", row => row.arm_id ?? number(row.arm), true],
    ["earned so far", row => number(row.earned), true], ["still to come", row => number(row.to_come), true],
  ], items.reverse())
}
