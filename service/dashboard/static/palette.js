// One colour for one thing in all plots of a page: an arm, a feature, a part of rewards.

import { features } from "./dom.js"
import { armName } from "./worth.js"

export const TONES = ["--two", "--three", "--four", "--five", "--seven", "--eight", "--nine"]
export const NOTHING = "--six" // no action, and what comes without one

// By name; an arm that is a feature alone has the feature's colour.
export function palette(session, arms) {
  const labels = features(session), tones = new Map(labels.map((label, i) => [label, TONES[i % TONES.length]])), taken = new Set()
  for (const item of arms.items.toSorted((a, b) => (armName(a) < armName(b) ? -1 : 1))) {
    const name = armName(item), has = labels.filter((_, i) => item.context[i])
    const isOne = item.is_fixed && has.length === 1 && !taken.has(has[0])
    if (isOne) taken.add(has[0])
    if (isOne || !tones.has(name)) tones.set(name, !has.length ? NOTHING : isOne ? tones.get(has[0]) : TONES[tones.size % TONES.length])
  }
  return tones
}
