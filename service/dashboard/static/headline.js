// What the session earns: a number, over what, since when, how sure, and how long until it is known.

import { duration, make, number } from "./dom.js"
import { amount, inWords, many, one, several, signed } from "./units.js"
import { bandOf } from "./worth.js"

const isOpen = ({ low, high }) => low < 0 && high > 0
const NOTHING_BEFORE = "Whether this beats what you had is not known: there is neither a control group nor a log of it."

const LITTLE = 0.05 // of the gain
const BELOW = 1.3, FAR_BELOW = 2.1, ABOVE = 1.4 // how far the interval's ends are from that mean: lhb_engine/posterior/gain.py
const VERY_LONG = 100 // times the rows so far

const between = ({ low, high }, session) => `between ${signed(low)} and ${signed(high, session)}`
const seconds = text => new Date(text).getTime() / 1000

// The one number of a session, with its interval: beside control, else its own choices beside those
// by chance. `value` is null while it is not known.
export function figure({ session, lift, estimate, arms }) {
  const measured = lift?.[lift.decides]
  if (measured) {
    const { difference: value, low, high } = measured
    return { value, low, high, by: lift.decides === "lift" ? one(session.unit) : "a user in all", over: "control" }
  }
  if (session.n_rounds === 0) return null
  const gain = estimate?.gain && { ...estimate.gain.over_chance, by: one(session.each), over: "choosing by chance", whose: `for the choices of its latest ${many(session.unit)}` }
  if (arms.reason) return gain ? { ...gain, value: null } : null
  if (gain) return gain
  const player = playerOf(arms, "agent") ?? playerOf(arms, "caller")
  return player ? { ...overChance(player, arms, estimate, session), whose: `by ${whose(player, session).replace(/,$/, "")}` } : null
}

// That number in a few words, for a list.
export function inBrief(found, session) {
  if (found === null) return session.n_rounds ? "not known yet" : "no round yet"
  const { value, low, high, by, over } = found
  if (value === null) return `not known yet: ${between(found, session)} ${by} over ${over}`
  return `${signed(value, session)} ${by} over ${over}${isOpen(found) ? ", not sure yet" : ""}${low === undefined ? "" : ` (${signed(low)} to ${signed(high)})`}`
}

export const playerOf = (arms, who) => arms.players.find(({ by, one }) => by === who && one) ?? null

function whose({ by, n }, { clock, each }) {
  const choices = `${clock ? "" : "choices of "}${several(n, each)}`
  return { agent: `its own ${choices}`, control: `control's ${choices}` }[by] ?? `others' ${choices}, as in a log of what you had,`
}

// What a decision of one player pays more than that of another, with its interval where there is one.
function beside(player, other, estimate, session) {
  const value = player.one.in_all - other.one.in_all
  const ends = bandOf(estimate?.totals, player.context.map((x, i) => x - other.context[i]), value)
  return { value, by: one(session.each), ...(ends ? { low: ends[0], high: ends[1] } : {}) }
}

function overChance(player, { items }, estimate, session) {
  const isFixed = items.length > 1 && items.every(item => item.is_fixed)
  const mean = of => (isFixed ? items.reduce((sum, item) => sum + of(item), 0) / items.length : 0)
  const chance = { one: { in_all: mean(item => item.one.in_all) }, context: player.context.map((_, i) => mean(item => item.context[i])) }
  return { ...beside(player, chance, estimate, session), over: isFixed ? "choosing these arms by chance" : "taking no action" }
}

export function headline({ session, lift, estimate, arms, series, epochs }) {
  const found = figure({ session, lift, estimate, arms }), own = playerOf(arms, "agent")
  const others = ["control", "caller"].map(who => playerOf(arms, who)).filter(other => other && own)
  const aside = session.holdout && lift ? `Over control, as measured: ${inWords(lift.verdict, session)}` : playerOf(arms, "caller") && own ? "" : NOTHING_BEFORE
  if (session.n_rounds === 0) return said(null, session, ["No round yet.", "The first decision begins the story.", session.holdout ? aside : ""])
  if (!found || found.value === null) {
    return said(null, session, ["What it earns is not known yet.", arms.reason, found ? `By its model it is ${between(found, session)} ${one(session.each)} over choosing by chance, with probability 95%.` : "",
      found ? untilKnown(estimate, series, arms, session) : "", when({ session, series, epochs }), aside])
  }
  const often = session.clock?.n_slots ? `There are ${number(session.n_rounds / session.clock.n_slots, 2)} decisions ${one(session.unit)}.` : ""
  const doubt = session.deciding === "in_doubt" ? "This is in doubt: see what to do." : ""
  const more = [...others.map(other => overOther(own, other, arms, estimate, session, lift?.decides === "lift" && lift.lift)), doubt, others.length ? "" : progress(series, session)]
  const measured = lift?.[lift.decides]
  if (measured) return overControl(lift, found, session, [spread(lift, estimate, session), ...more])
  const sure = found.low === undefined ? `How sure this is cannot be told yet. ${estimate?.no_totals ?? ""}` : `By its model it is ${between(found, session)}, with probability 95%${estimate?.totals?.if_shared ? `, if all features pay at the same lags${provided(session, estimate).replace(/^,/, " and")}` : provided(session, estimate)}.`
  const first = `${found.by} over ${found.over}, ${found.whose}${isOpen(found) ? ": not sure yet" : ""}.`
  return said(found, session, [first, sure, often, ...(estimate?.gain ? gained(estimate, arms, series, session) : []), ...more, aside])
}

function overControl(lift, found, session, more) {
  const { verdict, [lift.decides]: { ratio } } = lift
  const percent = ratio === null ? "" : ` (${signed(100 * (ratio - 1))}%)`
  return said(found, session, [`${found.by} ${found.value < 0 ? "against" : "over"} control${percent}.`, inWords(verdict, session), ...more])
}

// What others' choices pay, by the same model.
function overOther(own, other, arms, estimate, session, measured) {
  const more = beside(own, other, estimate, session)
  const band = more.low === undefined ? "" : ` (${signed(more.low)} to ${signed(more.high)})`
  if (other.by === "control") return `By its model${estimate?.levels ? ", which leaves out how users differ by themselves," : ""} its own choices pay ${signed(more.value, session)}${band} ${more.by} over control's.${inBoth(more, measured, session)}`
  const theirs = overChance(other, arms, estimate, session)
  return `${whose(other, session).replace("o", "O")} earned ${signed(theirs.value, session)} over ${theirs.over}. Its own earn ${signed(more.value, session)}${band} ${more.by} over theirs, by its model.`
}

// What the measured interval and that of the model have in common, where both are of rounds.
function inBoth({ low, high }, measured, session) {
  if (!measured || session.clock || low === undefined) return ""
  const [from, to] = [Math.max(low, measured.low), Math.min(high, measured.high)]
  return from < to ? ` Plan with what both intervals hold: ${signed(from)} to ${signed(to, session)}.` : " The two intervals have nothing in common: one of them is off."
}

// Where users have levels, the groups differ by these, too, unless users' own past takes them away.
function spread({ agent, control, units, decides, lift }, estimate, session) {
  const level = estimate?.levels?.spread
  if (!level || units !== "trajectories" || decides !== "lift" || lift.narrowed_by_past) return ""
  return `Of that interval ${amount(1.96 * level * Math.sqrt(1 / agent.n_units + 1 / control.n_units), session)} either way is how the groups' users differ by themselves.`
}

// What an interval takes for granted: what moves rewards over time looks like a change of choices.
export function provided(session, estimate) {
  const unchecked = (estimate?.unchecked ?? []).flatMap(({ codes }) => codes), { trend, seasonality } = session.options
  if (session.holdout) return "" // control plays at the same times
  const taken = [!trend && unchecked.includes("trend") && "trend", !seasonality?.length && unchecked.includes("season") && "season"].filter(Boolean)
  return taken.length ? `, if rewards have no ${taken.join(" and no ")} of their own, which could not be checked` : ""
}

function gained(estimate, arms, series, session) {
  const { over_chance: gain, over_best_arm: fixed, still_to_gain: left } = estimate.gain
  return [
    left.high < LITTLE * gain.value ? "Other choices would add almost nothing." : `The best choices would add ${amount(left.value, session)} more.`,
    fixed && !arms.items.every(item => item.is_fixed) ? `Over always choosing the same arm, the best one, it is ${signed(fixed.value, session)}, ${between(fixed, session)}.` : "",
    untilKnown(estimate, series, arms, session),
  ]
}

// Intervals shrink with the root of the rows, around the mean of the draws.
function untilKnown({ gain, n_rows, diagnostics }, { items, last_round }, arms, session) {
  if (!gain || gain.over_chance.low >= 0) return ""
  const { low, high } = gain.over_chance
  const isFar = (arms.items.length && arms.items.every(item => item.is_fixed)) || diagnostics?.autocorrelation > 0
  const below = isFar ? FAR_BELOW : BELOW
  const mean = (ABOVE * low + below * high) / (ABOVE + below)
  const times = mean > 0 ? ((mean - low) / mean) ** 2 : Infinity
  if (times >= VERY_LONG) return "At this pace it will not be known for a very long time: the difference is small beside the noise."
  const first = items.find(item => item.at), rounds = n_rows * (times - 1)
  const pace = first ? (last_round - first.first_round + 1) / Math.max(1, Date.now() / 1000 - seconds(first.at)) : 0
  return `If it stays as large, about ${several(Math.round(rounds), session.unit).replace(" ", " more ")} decide${pace ? `, about ${duration(rounds / pace)} at the pace so far` : ""}.`
}

// Whether it became better: what choices bring in the last tenth of the rounds beside the first.
function progress({ items }, session) {
  const known = items.filter(item => item.parts), n = Math.ceil(known.length / 10)
  if (known.length < 10) return ""
  const mean = some => some.reduce((sum, item) => sum + item.parts.actions * item.n_measured, 0) / some.reduce((sum, item) => sum + item.n_measured, 0)
  const more = mean(known.slice(-n)) - mean(known.slice(0, n))
  return `Choices of the last tenth bring ${amount(Math.abs(more), session)} ${one(session.unit)} ${more < 0 ? "less" : "more"} than those of the first, by its model.`
}

// When something will be known: how far the next fit is away.
function when({ session, series, epochs }) {
  const measured = series.items.reduce((sum, item) => sum + item.n_measured, 0)
  if (measured === 0) return "No reward has come yet; nothing is learned without."
  const open = epochs.find(epoch => !epoch.at)
  const { unit } = session
  if (!open) return ""
  const left = open.window.due - series.last_round
  return left > 0 ? `The next fit comes after ${unit} ${number(open.window.due)}, in ${several(left, unit)}.` : "A fit is due and waits for rewards."
}

function said(found, session, words) {
  const [first, ...rest] = words.filter(Boolean)
  const tone = found?.low > 0 ? "good" : found?.high < 0 ? "bad" : ""
  const shown = found === null ? [] : [make("strong", { class: tone }, signed(found.value, session)), " "]
  return [make("p", { class: "headline" }, ...shown, make("span", {}, first)), make("p", {}, rest.join(" "))]
}
