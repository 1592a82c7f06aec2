// Missing values, late ones, how long they take to come, and which rounds are kept.

import { duration, make, number } from "./dom.js"
import { many, one, several } from "./units.js"

export function dataFacts(session, series) {
  const { arrivals } = series
  const { unit } = session
  const rounds = series.last_round - series.first_round + 1
  if (rounds < 1) return make("p", { class: "soft" }, `No ${unit} yet.`)
  const measured = series.items.reduce((sum, item) => sum + item.n_measured, 0)
  const share = (part, whole) => (whole ? `${number(part)} (${Math.round((100 * part) / whole)}%)` : "–")
  const rows = [[`${many(unit)} looked at`, number(rounds)], ["measured", share(measured, rounds)], ["missing", share(rounds - measured, rounds)]]
  if (arrivals) {
    rows.push([`came after the next ${unit} had begun`, share(arrivals.n_late, arrivals.n_values)],
      ["half of the values came within", duration(arrivals.median_seconds)],
      ["nine of ten came within", duration(arrivals.nine_tenths_seconds)], ["the slowest took", duration(arrivals.longest_seconds)])
  }
  return make("div", {}, make("dl", { class: "pairs" }, ...rows.map(([term, value]) => make("div", {}, make("dt", {}, term), make("dd", {}, value)))),
    make("p", { class: "soft" }, `${mode(session)} The newest may still be on their way: a reward may come at any time.`),
    ...retention(session).map(said => make("p", {}, said)))
}

function mode({ clock, reward_mode, unit }) {
  if (clock) return `A reward is the total of whole ${many(unit)}.`
  return reward_mode === "sum" ? `Values of ${one(unit)} add up.` : `There is one value ${one(unit)}.`
}

// What is kept of old rounds, and how many have gone.
function retention({ keep_rounds, keep_days, n_dropped_rounds, each }) {
  const kept = [keep_rounds && `the latest ${several(keep_rounds, each)}`, keep_days && `those of the last ${number(keep_days)} days`].filter(Boolean)
  const said = kept.length ? [`Kept for certain: ${kept.join(" and ")}. Older ones may go once no coming fit needs them.`] : []
  return n_dropped_rounds ? [...said, `${several(n_dropped_rounds, each).replace(" ", " old ")} are not listed any more. What was learned from them stays.`] : said
}
