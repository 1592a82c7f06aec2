// What rounds are called: rounds, or hours where a session has a clock, or days where one comes a day.

import { number } from "./dom.js"

const REGULAR = 0.05, MOST = 0.8 // of what a round takes, and of the rounds
const NAMES = new Map([[1, "second"], [60, "minute"], [3600, "hour"], [86400, "day"], [604800, "week"]])

function lagUnit(clock) {
  if (!clock) return "round"
  return NAMES.get(clock.slot_seconds) ?? `slot of ${number(clock.slot_seconds)} s`
}

// An amount of reward, in the session's unit.
export const amount = (value, session) => [number(value), session?.reward_unit].filter(Boolean).join(" ")
export const signed = (value, session) => `${value > 0 ? "+" : ""}${amount(value, session)}`

export const one = unit => (unit === "hour" ? "an hour" : `a ${unit}`)

// A session as its page speaks of it: `unit` is what a round is called, `each` what a decision is.
// Where a session has no clock, a decision is a round.
export function spoken(session, arms) {
  const seconds = pace(session, arms), unit = lagUnit(seconds && { slot_seconds: seconds })
  return { ...session, seconds, unit, each: session.clock ? "decision" : unit }
}

// What the server says of rounds and of trajectories, in the session's words.
export const inWords = (text, { unit }) => text.replaceAll("trajectories", "users").replaceAll("Trajectories", "Users").replaceAll("a trajectory", "a user")
  .replace(/\ba round\b/g, one(unit)).replace(/\brounds\b/g, many(unit)).replace(/\bround\b/g, unit)

export const many = unit => unit.replace(/^\w+/, "$&s")

export const several = (n, unit) => (n === 1 ? `1 ${unit}` : `${number(n)} ${many(unit)}`)

export const ago = ({ unit }) => `${many(unit)} ago`

// How soon a choice pays, in a sentence; "" where some lags pay against others.
export function howSoon(weights, { unit }) {
  const whole = weights.reduce((sum, one) => sum + one, 0)
  if (!(whole > 0) || Math.min(...weights) < -0.05 * whole) return ""
  const by = share => {
    let sum = 0
    const lag = weights.findIndex(one => (sum += one) >= share * whole)
    return lag === 0 ? `in its own ${unit}` : `within ${several(lag, unit)}`
  }
  const [half, most] = [by(0.5), by(0.9)]
  return half === most ? `Nine tenths of what a choice earns come ${most}.` : `Half of what a choice earns comes ${half}, nine tenths ${most}.`
}

// A probability that is not quite 1, or 0, is not said to be.
export const almost = share => (share > 0.999 ? ">99.9%" : share < 0.001 ? "<0.1%" : `${number(100 * share)}%`)

// How many seconds a round takes, where rounds come so regularly that this is a unit of time.
function pace(session, { bins }) {
  if (session.clock) return session.clock.slot_seconds
  if (session.n_trajectories > 1 || bins.length < 3) return null
  const each = (later, first) => (new Date(later.at) - new Date(first.at)) / 1000 / (later.first_round - first.first_round)
  const ends = bins.slice(1).map((bin, i) => each(bin, bins[i]))
  const isNear = size => ends.filter(one => Math.abs(one / size - 1) < REGULAR).length > MOST * ends.length
  return [...NAMES.keys()].find(size => size >= 3600 && isNear(size)) ?? null
}

// A season in words.
export function swing(period, size) {
  const name = NAMES.get(Math.round(period * size))
  return `${name ? `${one(name)}'s swing` : "a swing"} (period ${number(period)})`
}
