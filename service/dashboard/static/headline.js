// What the session earns: a number, over what, since when, how sure, and how long until it is known.

import { duration, make, number } from "./dom.js"
import { one, several, lagUnit } from "./units.js"
import { bandOf, isApart, since } from "./worth.js"

const NO_CONTROL = "Whether this beats what you had is not known: the session has no control group. Create a session with holdout to know: a share of rounds is left to what you had."

const LITTLE = 0.05 // of the gain
const BELOW = 1.3, FIXED_BELOW = 2, ABOVE = 1.7 // how far the interval's ends are from that mean
const VERY_LONG = 100 // times the rows so far

export const inUsers = text => text.replaceAll("trajectories", "users")
const signed = value => (value > 0 ? `+${number(value)}` : number(value))
const between = ({ low, high }) => `between ${signed(low)} and ${signed(high)}`
const seconds = text => new Date(text).getTime() / 1000

export function headline({ session, lift, estimate, arms, series, epochs }) {
  const unit = session.clock ? lagUnit(session.clock) : "round"
  const aside = lift && session.holdout ? `Over control: ${inUsers(lift.verdict)}` : NO_CONTROL
  if (session.n_rounds === 0) return said(null, ["No round yet.", "The first decision begins the story.", session.holdout ? aside : ""])
  const more = [session.deciding === "in_doubt" ? "This is in doubt: see what to do." : "", progress(series, unit), aside]
  if (lift?.lift) return overControl(lift, more.slice(0, -1))
  if (arms.reason) return said(null, ["What it earns is not known yet.", arms.reason, guess(estimate, series, arms), when({ session, series, epochs }), aside])
  if (estimate?.gain) return byModel({ estimate, arms, series }, more)
  const sums = arms.items.filter(item => item.earned !== null)
  if (sums.length) return byCredit({ items: sums, arms, estimate }, more)
  return said(null, ["What it earns is not known yet.", when({ session, series, epochs }), aside])
}

const tone = (low, high) => (low > 0 ? "good" : high < 0 ? "bad" : "")

function overControl({ lift: { difference: value, low, high, ratio }, verdict }, more) {
  const percent = ratio === null ? "" : ` (${signed(100 * (ratio - 1))}%)`
  return said({ value }, [`a round ${value < 0 ? "against" : "over"} control${percent}.`, inUsers(verdict), ...more], tone(low, high))
}

function byModel({ estimate, arms, series }, more) {
  const { over_chance: gain, over_best_arm: fixed, still_to_gain: left } = estimate.gain
  const beside = fixed && !arms.items.every(item => item.is_fixed) ? `Over always choosing the same arm, the best one, it is ${signed(fixed.value)}, ${between(fixed)}.` : ""
  return said(gain, ["a decision over choosing by chance, for the choices of its latest rounds.",
    `By its model it is ${between(gain)} with probability 95%, and ${left.high < LITTLE * gain.value ? "almost nothing is left to gain" : `the best choices would add ${number(left.value)} more`}.`,
    beside, untilKnown(estimate, series, arms), ...more], tone(gain.low, gain.high))
}

// What the likeliest direction would earn, while none stands out.
function guess(estimate, series, arms) {
  if (!estimate?.gain) return ""
  return `By its model it is ${between(estimate.gain.over_chance)} a decision over choosing by chance, with probability 95%. ${untilKnown(estimate, series, arms)}`
}

// Intervals shrink with the root of the rows, around the mean of the draws.
function untilKnown({ gain: { over_chance: { low, high } }, n_rows }, { items, last_round }, arms) {
  if (low >= 0) return ""
  const below = arms.items.length && arms.items.every(item => item.is_fixed) ? FIXED_BELOW : BELOW
  const mean = (ABOVE * low + below * high) / (ABOVE + below)
  const times = mean > 0 ? ((mean - low) / mean) ** 2 : Infinity
  if (times >= VERY_LONG) return "At this pace it will not be known for a very long time: the difference is small beside the noise."
  const first = items.find(item => item.at), rounds = n_rows * (times - 1)
  const pace = first ? (last_round - first.first_round + 1) / Math.max(1, Date.now() / 1000 - seconds(first.at)) : 0
  return `If it stays as large, about ${number(Math.round(rounds))} more measured rounds decide${pace ? `, about ${duration(rounds / pace)} at the pace so far` : ""}.`
}

function byCredit({ items, arms, estimate }, more) {
  const sum = of => items.reduce((all, item) => all + of(item), 0)
  const n = sum(item => item.n), whole = sum(item => item.earned + item.to_come)
  // of arms that never change, what they have in common cannot be told from the base: differences can
  const isFixed = items.length > 1 && items.every(item => item.is_fixed)
  const chance = isFixed ? sum(item => item.one.in_all) / items.length : 0
  const value = whole / n - chance
  const beside = items[0].context.map((_, i) => sum(item => item.context[i] * (item.n / n - isFixed / items.length)))
  const ends = bandOf(estimate?.totals, beside, value)
  return said({ value }, [`a decision over ${isFixed ? "choosing these arms by chance" : "taking no action"}, by its model${since(arms)}, whoever chose.`,
    ends ? `It is ${between({ low: ends[0], high: ends[1] })}, with probability 95%.` : `How sure this is cannot be told yet. ${estimate?.no_totals ?? ""}`,
    isApart(arms, estimate) ? "" : `The ${number(n)} decisions bring ${number(whole)} in all beside no action, of which ${number(sum(item => item.to_come))} are still to come.`,
    ...more], "")
}

// Whether it became better: what its own choices bring beside those of others (a log, control), else
// what choices bring in the last tenth of the history beside the first.
function progress({ items }, unit) {
  const known = items.filter(item => item.parts), n = Math.ceil(known.length / 10)
  const own = known.filter(item => item.explored !== null), others = known.filter(item => item.explored === null)
  const isOwn = own.length > 0 && others.length > 0
  if (!isOwn && known.length < 10) return ""
  const mean = some => some.reduce((sum, item) => sum + item.parts.actions * item.n_measured, 0) / some.reduce((sum, item) => sum + item.n_measured, 0)
  const more = isOwn ? mean(own) - mean(others) : mean(known.slice(-n)) - mean(known.slice(0, n))
  const [now, before] = isOwn ? ["What it chose itself brings", "what others chose, as in a log"] : ["Choices of the last tenth bring", "those of the first"]
  return `${now} ${number(Math.abs(more))} ${one(unit)} ${more < 0 ? "less" : "more"} than ${before}, by its model.`
}

// When something will be known: how far the next fit is away.
function when({ session, series, epochs }) {
  const measured = series.items.reduce((sum, item) => sum + item.n_measured, 0)
  if (measured === 0) return "No reward has come yet; nothing is learned without."
  const open = epochs.find(epoch => !epoch.at)
  const unit = session.clock ? "slot" : "round"
  if (!open) return ""
  const left = open.window.due - series.last_round
  return left > 0 ? `The next fit comes after ${unit} ${number(open.window.due)}, in ${several(left, unit)}.` : "A fit is due and waits for rewards."
}

function said(number_, words, tone_ = "") {
  const [first, ...rest] = words.filter(Boolean)
  const figure = number_ === null ? [] : [make("strong", { class: tone_ }, signed(number_.value)), " "]
  return [make("p", { class: "headline" }, ...figure, make("span", {}, first)), make("p", {}, rest.join(" "))]
}
