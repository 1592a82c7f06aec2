// What the agent adds beside its control group, or how it agrees with its caller.

import { get } from "./api.js"
import { make, number, table } from "./dom.js"
import { bandOver, plotCard, TIME } from "./plots.js"
import { amount, inWords, many, one, several, signed } from "./units.js"

const LITTLE = 0.05 // of the interval
const percent = share => `${(100 * share).toFixed(1)}%`

export function liftCard(name) {
  const card = plotCard("Lift: what the agent adds", `${name} lift`, [], null)
  card.node.classList.add("part")
  const groups = make("div"), shadow = make("p", { class: "soft" })
  card.node.append(groups, shadow)
  card.node.hidden = true
  const update = async (session, path, signal) => {
    card.node.hidden = !session.holdout && session.mode !== "shadow"
    if (card.node.hidden) return null
    const [lift, watched] = await Promise.all([get(`${path}/lift`, {}, signal), get(`${path}/shadow`, {}, signal)])
    drawLift(card, lift, session)
    const left = session.clock && lift.units !== "trajectories" ? [make("p", { class: "soft" }, `The first ${many(session.unit)} of a block still pay for the block before, and are left out.`)] : []
    groups.replaceChildren(...(session.holdout ? [groupTable(lift, session), ...left] : []))
    shadow.textContent = watched.n_rounds ? said(watched, session) : ""
    return lift
  }
  return { node: card.node, update }
}

function drawLift(card, { lift, in_all, decides, reason, points, agent, control }, session) {
  const columns = ["difference", "low", "high"].map(name => points.map(point => point[name]))
  const times = points.map(point => new Date(point.at) / 1000)
  const isTimed = times.at(-1) - times[0] > 86400 // else dates tell nothing
  const counted = { draw: bandOver(many(session.unit), "lift"), heads: [many(session.unit), "lift", "low", "high"] }
  const timed = { draw: bandOver(TIME, "lift"), heads: ["at", "lift", "low", "high"] }
  card.redraw(points.length ? [isTimed ? times : points.map(point => point.n_rounds), ...columns] : [[]], undefined, isTimed ? timed : counted)
  card.say(lift === null ? `No lift yet: ${inWords(reason, session)}.`
    : `${amount(lift.difference, session)} ${one(session.unit)}, ${amount(lift.low, session)} to ${amount(lift.high, session)}. The band holds the truth at all looks together with probability ${percent(lift.level)}.${explained(lift, agent.reward - control.reward, session)}${decides === "lift" ? "" : ` What decides is what a user brings in all: ${amount(in_all.difference, session)}, ${amount(in_all.low, session)} to ${amount(in_all.high, session)}.`}`)
}

// Why the groups' means differ by something else than lift.
function explained({ difference, low, high }, raw, session) {
  if (Math.abs(raw - difference) < LITTLE * (high - low)) return ""
  return ` The means below are as they came, ${amount(raw, session)} apart. Lift leaves out what contexts, and units' own past, explain of that: ${signed(raw - difference, session)}.`
}

function groupTable(lift, session) {
  const rows = ["agent", "control"].map(group => ({ group, ...lift[group] }))
  return table("Reward of both groups", [
    ["group", row => row.group], [`reward ${one(session.unit)}`, row => (row.reward === null ? "–" : amount(row.reward, session)), true],
    [many(session.unit), row => number(row.n_rounds), true], [inWords(lift.units, session), row => number(row.n_units), true],
  ], rows)
}

function said({ n_rounds, agreement, expected_agent, expected_caller }, session) {
  const agrees = `Of ${several(n_rounds, session.each)} that the caller played, the agent agrees in ${percent(agreement)}.`
  if (expected_agent === null) return agrees
  return `${agrees} By its model an action of the caller pays ${amount(expected_caller, session)} in all, the agent's own ${amount(expected_agent, session)}.`
}
