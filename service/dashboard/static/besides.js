// What moves the reward besides decisions: seasons, a trend, covariates, and levels of trajectories.

import { make, number, table } from "./dom.js"
import { almost, amount, swing } from "./units.js"

export function besidesCard() {
  const node = make("section", { class: "card" })
  const show = (fit, session) => {
    node.hidden = !fit.effects && !fit.levels
    if (node.hidden) return
    node.replaceChildren(make("h3", {}, "What moves the reward besides"),
      ...(fit.effects ? [effectsTable(fit.effects, session)] : []),
      ...(fit.levels ? [make("p", {}, levels(fit.levels, session))] : []))
  }
  node.hidden = true
  return { node, show }
}

// `covariates` are the first of the groups, of one value each; a season's harmonics are one effect.
function effectsTable({ groups, values, share, included }, session) {
  const covariates = session.options.covariates ?? []
  const rows = new Map()
  groups.forEach((group, i) => {
    const period = i >= covariates.length && /^season (.+), harmonic/.exec(group)?.[1], name = period ? swing(Number(period), session.seconds) : group
    const before = rows.get(name) ?? { share: 0, included: 0 }
    rows.set(name, { name, adds: i < covariates.length ? amount(values[i], session) : "", share: before.share + share[i], included: Math.max(before.included, included[i]) })
  })
  return table("Effects that do not depend on what is chosen", [
    ["effect", row => row.name], ...(covariates.length ? [["one more of it adds", row => row.adds, true]] : []),
    ["share of the rewards' variance", row => almost(row.share), true], ["probability that there is one", row => almost(row.included), true],
  ], [...rows.values()])
}

const levels = ({ spread, interval: [low, high] }, session) =>
  `Users differ in level by ${amount(spread, session)} (standard deviation; 95% interval ${number(low)} to ${number(high)}), whatever is chosen.`
