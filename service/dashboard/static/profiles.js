// What each feature pays, and when, where features have lag profiles of their own.

import { make } from "./dom.js"
import { barPairs, plotCard, profileLines } from "./plots.js"
import { ago } from "./units.js"

const MOST_FEATURES = 8 // in one plot: those with the largest profiles

export function profilesCard(name, clock) {
  const node = make("div", { class: "cards" })
  const show = (fit, labels) => {
    node.hidden = !fit.lag_profiles
    if (node.hidden) return
    const { lag_profiles: profiles, intervals } = fit
    const size = i => Math.max(...profiles.map(row => Math.abs(row[i])))
    const chosen = labels.map((_, i) => i).sort((a, b) => size(b) - size(a)).slice(0, MOST_FEATURES).sort((a, b) => a - b)
    const names = chosen.map(i => labels[i])
    const bounds = end => intervals?.lag_profiles && chosen.map(i => intervals.lag_profiles.map(row => row[i][end]))
    const curves = chosen.map(i => profiles.map(row => row[i]))
    const columns = [profiles.map((_, lag) => lag), ...curves, ...(bounds(0) ?? []), ...(bounds(1) ?? [])]
    const heads = ["lag", ...names, ...names.map(one => `${one}, low`), ...names.map(one => `${one}, high`)]
    const sums = curves.map(split)
    const whiskers = part => (end => chosen.map(i => intervals?.lag_sums?.[i][part][end] ?? null))
    const when = plotCard("Lag profiles: what each feature pays, and when", `${name} lag profiles`, heads,
      profileLines(ago(clock), "pays", names), said(intervals?.lag_profiles, "Bands", labels.length - chosen.length))
    const what = plotCard("Now and later: what each feature pays in all", `${name} now and later`,
      ["feature", "now", "later", "now low", "now high", "later low", "later high"], barPairs("feature", "pays", ["now", "later"]),
      said(intervals?.lag_sums, "Whiskers", labels.length - chosen.length))
    node.replaceChildren(when.node, what.node)
    when.redraw(columns)
    const ends = [0, 1].flatMap(part => [whiskers(part)(0), whiskers(part)(1)])
    what.redraw([chosen.map((_, i) => i), sums.map(([now]) => now), sums.map(([, later]) => later), ...(intervals?.lag_sums ? ends : [])], names)
  }
  node.hidden = true
  return { node, show }
}

// What a profile pays in its first lags, and later. The first lags are those up to which it adds up
// most to the other side of its total, at least lag 0, as in GET .../credit/features.
function split(profile) {
  const total = profile.reduce((sum, one) => sum + one, 0)
  let sum = 0, now = profile[0], least = Infinity
  for (const one of profile) {
    sum += one
    if (sum * Math.sign(total) < least) [least, now] = [sum * Math.sign(total), sum]
  }
  return [now, total - now]
}

const said = (bands, what, left) =>
  [bands && `${what}: 95% intervals.`, left > 0 && `The ${left} features with smaller profiles are left out.`].filter(Boolean).join(" ")
