// What the agent adds beside its control group, or how it agrees with its caller.

import { get } from "./api.js"
import { make, number, table } from "./dom.js"
import { inUsers } from "./headline.js"
import { bandOver, plotCard, TIME } from "./plots.js"

const VISIBLE = 0.01 // of the interval

const percent = share => `${(100 * share).toFixed(1)}%`

export function liftCard(name) {
  const card = plotCard("Lift: what the agent adds a round", `${name} lift`, ["rounds", "lift", "low", "high"],
    bandOver("measured rounds", "lift"))
  card.node.classList.add("part")
  const groups = make("div"), shadow = make("p", { class: "soft" })
  card.node.append(groups, shadow)
  card.node.hidden = true
  const update = async (session, path, signal) => {
    card.node.hidden = !session.holdout && session.mode !== "shadow"
    if (card.node.hidden) return null
    const [lift, watched] = await Promise.all([get(`${path}/lift`, {}, signal), get(`${path}/shadow`, {}, signal)])
    drawLift(card, lift)
    groups.replaceChildren(...(session.holdout ? [groupTable(lift)] : []))
    shadow.textContent = watched.n_rounds ? said(watched) : ""
    return lift
  }
  return { node: card.node, update }
}

function drawLift(card, { lift, reason, points, agent, control }) {
  const columns = ["difference", "low", "high"].map(name => points.map(point => point[name]))
  const times = points.map(point => new Date(point.at) / 1000)
  const isTimed = times.at(-1) - times[0] > 86400 // else dates tell nothing
  const timed = { draw: bandOver(TIME, "lift"), heads: ["at", "lift", "low", "high"] }
  card.redraw(points.length ? [isTimed ? times : points.map(point => point.n_rounds), ...columns] : [[]], undefined, isTimed ? timed : undefined)
  card.say(lift === null ? `No lift yet: ${inUsers(reason)}.`
    : `${number(lift.difference)} a round, ${number(lift.low)} to ${number(lift.high)}. The band holds the truth at all looks together with probability ${percent(lift.level)}.${explained(lift, agent.reward - control.reward)}`)
}

// Why the groups' means differ by something else than lift.
function explained({ difference, low, high }, raw) {
  if (Math.abs(raw - difference) < VISIBLE * (high - low)) return ""
  return ` The means below are as they came, ${number(raw)} apart: ${number(raw - difference)} of that is what contexts, and units' own past, explain, not the agent.`
}

function groupTable(lift) {
  const rows = ["agent", "control"].map(group => ({ group, ...lift[group] }))
  return table("Reward of both groups", [
    ["group", row => row.group], ["reward a round", row => (row.reward === null ? "–" : number(row.reward)), true],
    ["measured rounds", row => number(row.n_rounds), true], [inUsers(lift.units), row => number(row.n_units), true],
  ], rows)
}

function said({ n_rounds, agreement, expected_agent, expected_caller }) {
  const agrees = `Of ${number(n_rounds)} rounds that the caller played, the agent agrees in ${percent(agreement)}.`
  if (expected_agent === null) return agrees
  return `${agrees} By its model an action of the caller pays ${number(expected_caller)} in all, the agent's own ${number(expected_agent)}.`
}
