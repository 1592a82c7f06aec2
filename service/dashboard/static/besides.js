// What moves the reward besides decisions: seasons, a trend, covariates, and levels of trajectories.

import { make, number, table } from "./dom.js"

export function besidesCard() {
  const node = make("section", { class: "card" })
  const show = (fit, session) => {
    node.hidden = !fit.effects && !fit.levels
    if (node.hidden) return
    node.replaceChildren(make("h3", {}, "What moves the reward besides"),
      ...(fit.effects ? [effectsTable(fit.effects, session.options.covariates ?? [])] : []),
      ...(fit.levels ? [make("p", {}, levels(fit.levels))] : []))
  }
  node.hidden = true
  return { node, show }
}

// `covariates` are the first of the groups, of one value each.
function effectsTable(effects, covariates) {
  const percent = share => `${Math.round(100 * share)}%`
  const rows = effects.groups.map((group, i) => ({
    group, adds: i < covariates.length ? number(effects.values[i]) : "", share: effects.share[i], included: effects.included[i],
  }))
  return table("Effects that do not depend on what is chosen", [
    ["effect", row => row.group], ...(covariates.length ? [["one more of it adds", row => row.adds, true]] : []),
    ["share of the rewards' variance", row => percent(row.share), true], ["probability that there is one", row => percent(row.included), true],
  ], rows)
}

const levels = ({ spread, interval: [low, high] }) =>
  `Trajectories differ in level by ${number(spread)} (standard deviation; 95% interval ${number(low)} to ${number(high)}), whatever is chosen.`
