// What actions are worth, now and later apart: by arm and by feature, over a chosen stretch.

import { get } from "./api.js"
import { features, make, number, table } from "./dom.js"
import { barPairs, dated, plotCard, WHISKERS } from "./plots.js"
import { amount, several } from "./units.js"

const MOST_FEATURES = 8
const MOST_ARMS = 12
const FEW = 20 // choices of an arm
const BY_LUCK = 4 / 3 // the best of several looks better than it is: how much wider it is beside the next
const STRETCHES = [100, 1000, 10_000, 100_000]
const FIRST_SHOWN = 10_000 // decisions, before the reader chooses

const PARTS = ["at once", "later"]

const soft = words => make("p", { class: "soft" }, words)
export const armName = item => item.arm_id ?? (item.arm === null || !item.context.some(Boolean) ? "no action" : `arm ${item.arm}`)
export const areNamed = arms => arms.items.some(item => item.arm_id !== null) || arms.items.every(item => item.is_fixed)

export function worthCard(name) {
  const words = make("p"), byArm = make("div"), byFeature = make("div")
  const stretch = make("select", { id: "stretch" })
  const plot = plotCard("One choice of each arm: at once and later", `${name} worth of arms`, ["arm", ...PARTS], barPairs("arm", "pays", PARTS))
  const apart = plotCard("One more of each feature: at once and later", `${name} worth of features`,
    ["feature", ...PARTS, ...PARTS.flatMap(part => [`${part}, low`, "high"])], barPairs("feature", "pays", PARTS))
  const node = make("div", {}, make("p", {}, make("label", { for: "stretch" }, "Of the last "), stretch), words, plot.node, byArm, apart.node, byFeature)
  let again = () => {}
  stretch.addEventListener("change", () => again())
  const rounds = () => Number(stretch.value || STRETCHES.at(-1))
  const update = async (session, path, signal, arms, estimate) => {
    const wanted = stretch.value, fits = STRETCHES.filter((n, i) => i === 0 || STRETCHES[i - 1] < session.n_rounds)
    stretch.replaceChildren(...fits.map(n => make("option", { value: n }, several(Math.min(n, session.n_rounds), session.each))))
    stretch.value = fits.includes(Number(wanted)) ? wanted : fits.findLast(n => n <= FIRST_SHOWN)
    const show = async () => {
      const [own, parts] = await Promise.all([
        rounds() >= session.n_rounds && arms.isWhole ? arms : get(`${path}/credit/arms`, { rounds: rounds() }, signal),
        get(`${path}/credit/features`, { rounds: rounds() }, signal),
      ])
      stretch.parentNode.hidden = session.n_rounds === 0
      drawArms(own, estimate, session, { words, plot, byArm })
      // of named arms that never change, features tell the same once more
      const repeats = areNamed(own) && own.items.every(item => item.is_fixed)
      drawFeatures(repeats ? { items: [] } : parts, session, estimate, { plot: apart, byFeature })
    }
    again = () => show().catch(error => { if (error.name !== "AbortError") words.textContent = error.message })
    await show()
  }
  return { node, update }
}

function drawArms(arms, estimate, session, { words, plot, byArm }) {
  const known = arms.items.filter(item => item.one)
  plot.node.hidden = true
  byArm.replaceChildren()
  if (arms.items.length === 0) words.textContent = "No decision yet."
  else if (known.length === 0) words.textContent = `Not known: ${arms.reason}`
  else if (!areNamed(arms)) words.textContent = "Arms have no ids (arm_ids), and their contexts change each time: what they are worth is told by feature."
  else {
    const apart = isApart(arms, estimate)
    const rows = (apart ? overMean(known, estimate) : known).toSorted((a, b) => b.one.in_all - a.one.in_all)
    const shown = rows.slice(0, MOST_ARMS), [best, next] = shown, names = shown.map(armName)
    const second = next ? `; ${overNext(best, next, estimate, apart, session)}` : ""
    const over = apart ? " more than the mean of these arms" : ""
    words.textContent = `One choice of ${armName(best)} is worth ${withBand(best.one.in_all, best.one.interval, session)}${over}: ${amount(best.one.at_once, session)} at once, ${amount(best.one.later, session)} later${second}. It was chosen ${times(best.n)}${since(arms)}.`
    plot.node.hidden = false
    plot.redraw([shown.map((_, i) => i), shown.map(row => row.one.at_once), shown.map(row => row.one.later)], names)
    byArm.replaceChildren(table("Worth by arm", [
      ["arm", armName], ["chosen", row => times(row.n, arms.first_round), true], ["one: at once", row => number(row.one.at_once), true],
      ["later", row => number(row.one.later), true], ["in all", row => withBand(row.one.in_all, row.one.interval), true],
      ...(apart ? [] : [["all choices", row => number(row.at_once + row.later), true], ["still to come", row => number(row.to_come), true]]),
    ], rows), soft([
      "One choice: with what the arm is offered with on average, whoever chooses it.",
      apart ? "Beside the mean of these arms: what they have in common cannot be told from the base." : "",
      rows.some(row => row.one.interval) ? "In brackets: 95% intervals." : `How sure this is cannot be told. ${arms.no_intervals}`,
      rows.some(row => row.n < FEW) ? `What was chosen fewer than ${FEW} times is little known.` : "",
    ].filter(Boolean).join(" ")))
  }
}

// Whether it is known how arms differ, and not what they have in common.
export const isApart = (arms, estimate) => Boolean(estimate?.totals) && arms.items.some(item => item.one && !item.one.interval)

// What one choice of each arm is worth beside their mean.
function overMean(items, { totals }) {
  const mean = of => items.reduce((sum, item) => sum + of(item), 0) / items.length
  const [at_once, later] = [mean(item => item.one.at_once), mean(item => item.one.later)], context = items[0].context.map((_, i) => mean(item => item.context[i]))
  return items.map(item => {
    const now = item.one.at_once - at_once, then = item.one.later - later
    return { ...item, one: { at_once: now, later: then, in_all: now + then, interval: bandOf(totals, item.context.map((one, i) => one - context[i]), now + then) } }
  })
}

const times = (n, first) => (n === 0 ? (first === 1 ? "never" : "not in these") : n === 1 ? "once" : `${number(n)} times`)

// The 95% interval of what a context pays in all, with what is said of it; null where it is not known.
export function bandOf(totals, context, value) {
  const dot = row => row.reduce((sum, one, i) => sum + one * context[i], 0), size = Math.hypot(...context)
  if (!totals || totals.unknown.some(row => Math.abs(dot(row)) > 1e-6 * size)) return null
  const middle = dot(totals.values), half = Math.sqrt(Math.max(0, dot(totals.squares.map(dot))))
  return [Math.min(value, middle - half), Math.max(value, middle + half)]
}

// Since when, where rounds have dates that tell something; a log may have come all at once.
export function since({ bins }) {
  const at = bins.map(bin => new Date(bin.at) / 1000)
  return at.at(-1) - at[0] > 86400 ? ` since ${dated(at[0])}` : ""
}

// No action pays nothing, so that what the best pays is its lead.
function overNext(best, next, estimate, apart, session) {
  if (!apart && next.context.every(one => one === 0)) return `${armName(next)}, the next best, pays nothing`
  const more = best.one.in_all - next.one.in_all
  const band = bandOf(estimate?.totals, best.context.map((one, i) => one - next.context[i]), more)
  return `${withBand(more, band?.map(end => more + BY_LUCK * (end - more)), session)} more than one of ${armName(next)}, the next best`
}

const SMALL = 1e-3 // of an interval's width

function withBand(value, band, session) {
  const wide = band ? band[1] - band[0] : 0
  const ends = band?.map(end => number(Math.abs(end) < SMALL * wide ? 0 : end))
  return wide > 0 ? `${amount(value, session)} (${ends.join(" to ")})` : amount(value, session)
}

// What one more of a feature pays: at each lag.
const profile = ({ lag_profiles: rows, lag_weights, theta }, i) => rows?.map(row => row[i]) ?? lag_weights.map(weight => weight * theta[i])
const sum = values => values.reduce((all, one) => all + one, 0)

// In all lags together, with its interval where there is one.
function ofOne(estimate, i) {
  const value = sum(profile(estimate, i))
  return withBand(value, bandOf(estimate.totals, estimate.theta.map((_, j) => Number(i === j)), value))
}

// One more of each feature in two parts, split as the table below splits all choices: columns for `barPairs`.
function split(rows, estimate) {
  const paid = rows.map(row => profile(estimate, row.feature)), bands = estimate.intervals?.lag_sums
  const columns = [rows.map((_, i) => i), rows.map((row, i) => sum(paid[i].slice(0, row.first_lags))), rows.map((row, i) => sum(paid[i].slice(row.first_lags)))]
  return bands ? [...columns, ...[0, 1].flatMap(part => [0, 1].map(end => rows.map(row => bands[row.feature][part][end])))] : columns
}

function drawFeatures({ items, first_round, last_round }, session, estimate, { plot, byFeature }) {
  plot.node.hidden = items.length === 0 || !estimate
  byFeature.replaceChildren()
  if (items.length === 0) return
  const labels = features(session, estimate)
  const weight = row => Math.abs(row.at_once) + Math.abs(row.later)
  const largest = [...items].sort((a, b) => weight(b) - weight(a)).slice(0, MOST_FEATURES).sort((a, b) => a.feature - b.feature)
  if (estimate) {
    plot.redraw(split(largest, estimate), largest.map(row => labels[row.feature]))
    plot.say(estimate.intervals?.lag_sums ? WHISKERS : "")
  }
  byFeature.replaceChildren(make("h3", {}, "By feature"), table("Credit by feature", [
    ["feature", row => labels[row.feature]], ["one more of it", row => (estimate ? ofOne(estimate, row.feature) : ""), true], ["all choices: at once", row => withBand(row.at_once, row.intervals?.at_once), true],
    ["later", row => withBand(row.later, row.intervals?.later), true], ["in all", row => withBand(row.at_once + row.later, row.intervals?.in_all), true],
    ["still to come", row => number(row.to_come), true],
  ], largest), soft(`Features add up: an arm is worth the sum over what it has of each. Totals of ${several(last_round - first_round + 1, session.each)}, beside 0 of a feature: choices that avoid what costs have a gain there.${items.length > largest.length ? " Features that paid less are left out." : ""}${estimate?.totals || largest[0].intervals ? " In brackets: 95% intervals." : ` How sure this is cannot be told. ${estimate?.no_totals ?? ""}`}`))
}
