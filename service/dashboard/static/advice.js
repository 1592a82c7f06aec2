// What to do: what is wrong with the session, worst first, each with what helps.

import { make, number } from "./dom.js"
import { inWords } from "./units.js"

const MOST_MISSING = 0.1 // share of the rounds at hand
const HOLDOUT = "Only a control group measures whether this beats what you had: create a session with holdout, which leaves a share of all rounds to what you had."

export function advice({ session, lift, series, checks, failed, unknown }) {
  const found = []
  const add = (said, isBad = false) => {
    const text = inWords(said, session)
    found.push(make("li", { class: isBad ? "error" : null }, isBad ? make("span", { role: "alert" }, text) : text))
  }
  if (session.guard === "tripped") add("The guard has tripped: the agent earned less than control, whose policy plays alone until the guard is armed again.", true)
  if (series.alarm) add("Later rounds fit the model badly: the world, or the data, has changed. Look at what came and what was expected, below.", true)
  if (failed) add(`The last fit failed: ${failed}`, true)
  if (lift?.groups_differ) add(lift.groups_differ, true)
  for (const one of checks.findings) add(one.message)
  const older = series.items.slice(0, -2), rounds = older.reduce((sum, item) => sum + item.last_round - item.first_round + 1, 0)
  const missing = rounds - older.reduce((sum, item) => sum + item.n_measured, 0)
  if (series.isByPosition && session.reward_mode !== "sum" && missing > MOST_MISSING * rounds) {
    add(`${number(missing)} of ${number(rounds)} older rounds have no reward. If they never come, send their value, or set default_reward.`)
  }
  if (session.n_rounds === 0) add("Take decisions, and send rewards.")
  else if (unknown && !["none", "in_doubt"].includes(session.deciding)) add(`What choices pay is not known yet. ${unknown}${found.length ? "" : " Go on: take decisions, and report every reward."}`)
  else if (!found.length) add("No check found anything wrong. Go on: take decisions, and report every reward.")
  if (session.n_rounds && !session.holdout && session.mode === "live" && session.deciding !== "none") add(HOLDOUT)
  return make("ul", { "aria-label": "What to do" }, ...found)
}
