// What the session earns: a number, over what, since when, how sure, and how long until it is known.

import { duration, make, number } from "./dom.js"
import { one, several, lagUnit } from "./units.js"
import { bandOf, since } from "./worth.js"

const NO_CONTROL = "Whether this beats what you had is not known: the session has no control group. Create a session with holdout to know: a share of rounds is left to what you had."

const NO_PAST = "What users differ by is taken away by what each earned before the trial: append that log before the first decision, or begin as a shadow. More users help, too."

const LITTLE = 0.05 // of the gain
const BELOW = 1.3, FIXED_BELOW = 2, ABOVE = 1.7 // how far the interval's ends are from that mean
const VERY_LONG = 100 // times the rows so far

const called = units => (units === "trajectories" ? "users" : units)
const signed = value => (value > 0 ? `+${number(value)}` : number(value))
const between = (low, high) => `between ${signed(low)} and ${signed(high)}`
const seconds = text => new Date(text).getTime() / 1000

export function headline({ session, lift, estimate, arms, series, epochs }) {
  const from = since(arms)
  const unit = session.clock ? lagUnit(session.clock) : "round"
  if (session.n_rounds === 0) return said(null, ["No round yet.", "The first decision begins the story."])
  if (lift?.lift) return overControl(lift, from)
  const waits = lift && session.holdout ? [`Over control: not known yet, ${lift.reason}.`] : []
  const aside = waits.length ? waits : [NO_CONTROL]
  if (estimate?.gain) return byModel(estimate.gain, `${one(unit)} over choosing by chance, for the choices of its latest rounds.`, [arms.reason ?? "", untilKnown(estimate, series, arms), progress(series, unit), ...aside])
  const sums = arms.items.filter(item => item.earned !== null)
  if (sums.length) return byCredit({ items: sums, from, estimate, series, unit }, aside)
  return said(null, ["What it earns is not known yet.", arms.reason ?? "", when({ session, series, epochs }), ...waits])
}

const tone = (low, high) => (low > 0 ? "good" : high < 0 ? "bad" : "")

function overControl({ lift, rounds_to_go, days_to_go, agent, control, units }, from) {
  const { difference: value, low, high, ratio, level, narrowed_by_past } = lift
  const verdict = low > 0 ? "It is better than control." : high < 0 ? "It is worse than control." : "It is not decided yet."
  const more = ratio === null ? "" : ` (${signed(100 * (ratio - 1))}%)`
  const words = [`a round ${value < 0 ? "against" : "over"} control${more}${from}.`, verdict,
    `It is ${between(low, high)}, with probability ${number(100 * level)}% however often you look, from ${number(agent.n_rounds + control.n_rounds)} measured rounds of ${number(agent.n_units + control.n_units)} ${called(units)}.`]
  if (narrowed_by_past >= 0.01) words.push(`What ${called(units)} earned before narrows that by ${number(Math.round(100 * narrowed_by_past))}%.`)
  if (low <= 0 && high >= 0) {
    words.push(ofUnits(rounds_to_go, days_to_go, called(units)))
    if (narrowed_by_past < 0.01 && called(units) === "users") words.push(NO_PAST)
  }
  return said({ value, low, high }, words, tone(low, high))
}

function byModel({ over_chance: gain, still_to_gain: left }, first, more) {
  return said(gain, [first, `By its model it is ${between(gain.low, gain.high)} with probability 95%, and ${left.high < LITTLE * gain.value ? "almost nothing is left to gain" : `the best choices would add ${number(left.value)} more`}.`, ...more],
    tone(gain.low, gain.high))
}

// Intervals shrink with the root of the rows, around the mean of the draws.
function untilKnown({ gain: { over_chance: { low, high } }, n_rows }, { items, last_round }, arms) {
  if (low > 0) return ""
  const below = arms.items.length && arms.items.every(item => item.is_fixed) ? FIXED_BELOW : BELOW
  const mean = (ABOVE * low + below * high) / (ABOVE + below)
  const times = mean > 0 ? ((mean - low) / mean) ** 2 : Infinity
  if (times >= VERY_LONG) return "At this pace it will not be known for a very long time: the difference is small beside the noise."
  const first = items.find(item => item.at), rounds = n_rows * (times - 1)
  const pace = first ? (last_round - first.first_round + 1) / Math.max(1, Date.now() / 1000 - seconds(first.at)) : 0
  return howLong(rounds, pace ? `, about ${duration(rounds / pace)} at the pace so far` : "")
}

function ofUnits(rounds, days, units) {
  if (rounds === null) return `More rounds of the same ${units} will not decide it: the difference is small beside what ${units} differ by.`
  return howLong(rounds, days === null ? "" : `, about ${duration(86400 * days)} at the pace of late`)
}

function howLong(rounds, time) {
  return `If it stays as large, about ${number(Math.round(rounds))} more measured rounds decide${time}.`
}

function byCredit({ items, from, estimate, series, unit }, more) {
  const sum = of => items.reduce((all, item) => all + of(item), 0)
  const n = sum(item => item.n), whole = sum(item => item.earned + item.to_come)
  // of arms that never change, what they have in common cannot be told from the base: differences can
  const isFixed = items.length > 1 && items.every(item => item.is_fixed)
  const chance = isFixed ? sum(item => item.one.in_all) / items.length : 0
  const value = whole / n - chance
  const beside = items[0].context.map((_, i) => sum(item => item.context[i] * (item.n / n - isFixed / items.length)))
  const ends = bandOf(estimate?.totals, beside, value)
  return said({ value }, [`a decision over ${isFixed ? "choosing these arms by chance" : "taking no action"}, by its model${from}.`,
    `Its ${number(n)} decisions bring ${number(whole)} in all beside no action, of which ${number(sum(item => item.to_come))} are still to come.`,
    ends ? `It is ${between(...ends)}, with probability 95%.`
      : `How sure this is cannot be told yet. ${estimate?.no_totals ?? ""}`, progress(series, unit), ...more], "")
}

// Whether it became better: what actions bring in the first and in the last tenth of the history.
function progress({ items }, unit) {
  const known = items.filter(item => item.parts), n = Math.ceil(known.length / 10)
  if (known.length < 10) return ""
  const mean = some => some.reduce((sum, item) => sum + item.parts.actions, 0) / some.length
  const [before, now] = [mean(known.slice(0, n)), mean(known.slice(-n))]
  return `Beside no action it brought ${signed(before)} ${one(unit)} in its first tenth, and ${signed(now)} in its last.`
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
