// What lags count: rounds, or slots of time where a session has a clock.

import { number } from "./dom.js"

const NAMES = new Map([[1, "second"], [60, "minute"], [3600, "hour"], [86400, "day"], [604800, "week"]])

export function lagUnit(clock) {
  if (!clock) return "round"
  return NAMES.get(clock.slot_seconds) ?? `slot of ${number(clock.slot_seconds)} s`
}

export const one = unit => (unit === "hour" ? "an hour" : `a ${unit}`)

export const several = (n, unit) => (n === 1 ? `1 ${unit}` : `${n} ${unit.replace(/^\w+/, "$&s")}`)

export const ago = clock => `${several(0, lagUnit(clock)).slice(2)} ago`

// How soon a choice pays, in a sentence; "" where some lags pay against others.
export function howSoon(weights, clock) {
  const whole = weights.reduce((sum, one) => sum + one, 0)
  if (!(whole > 0) || Math.min(...weights) < -0.05 * whole) return ""
  const by = share => {
    let sum = 0
    const lag = weights.findIndex(one => (sum += one) >= share * whole)
    return lag === 0 ? `in its own ${lagUnit(clock)}` : `within ${several(lag, lagUnit(clock))}`
  }
  const [half, most] = [by(0.5), by(0.9)]
  return half === most ? `Nine tenths of what a choice earns come ${most}.` : `Half of what a choice earns comes ${half}, nine tenths ${most}.`
}
