// What came, and what was expected: all of it, in parts that add up; users' spread, or one user.

import { get } from "./api.js"
import { make, number } from "./dom.js"
import { NOTHING } from "./palette.js"
import { bandOver, dated, lines, plotCard, stack, TIME } from "./plots.js"
import { amount, one, several } from "./units.js"

const PARTS = { trend: "--trend", season: "--season", covariates: "--covariates", levels: "--levels" } // besides base and actions
const NAMES = { levels: "users' levels" }
const REWARD = { label: "what came", color: "--ink", isLine: true }
const MOST_TRAJECTORIES = 20 // to choose from
const ROUNDS = 100_000, BINS = 1000
const LEAST_MOVE = 0.01 // of what rewards move by, for a part to be drawn
const LEAST_TIMES = 8, LEAST_SECONDS = 3600 // fewer points, or shorter ones, tell little by their time

// Rewards over time where decisions have times that tell something, as `bins` of them say; else by
// round of each user, or by round, with dates where each round is an item.
export async function readSeries(path, session, rounds, bins, signal) {
  const ask = by => get(`${path}/series`, { rounds, bins: BINS, by }, signal)
  const by = session.n_trajectories > 1 ? "round" : "position"
  const isLong = bins.length > 1 && new Date(bins.at(-1).at) - new Date(bins[0].at) > 1000 * LEAST_TIMES * LEAST_SECONDS
  if (isLong && by === "position" && !session.clock && session.n_rounds <= BINS) {
    const series = await ask(by), dates = []
    for (const item of series.items) dates[item.first_round] = dated(new Date(item.at) / 1000)
    return { ...series, by, dates, isByPosition: true }
  }
  const timed = session.clock || isLong ? await ask("time") : null
  const isTimed = timed && (session.clock || (timed.items.length >= LEAST_TIMES && timed.bin_seconds >= LEAST_SECONDS))
  return isTimed ? { ...timed, by: "time", isByPosition: true } : { ...await ask(by), by, isByPosition: by === "position" }
}

export const xsOf = ({ by }, items) => items.map(item => (by === "time" ? new Date(item.at) / 1000 : by === "round" ? item.first_round : (item.first_round + item.last_round) / 2))
export const xName = ({ by, dates }, session) => (by === "time" ? TIME : by === "round" ? `${session.unit} of each user` : dates ? { label: session.unit, dates } : session.unit)

export function cameCard(name, beside) {
  const plot = plotCard("What came, and what it is made of", `${name} rewards`, [], null)
  const parts = plotCard("What moves it besides actions", `${name} parts`, [], null)
  const spread = plotCard("How users differ", `${name} users`, ["at", "mean", "low", "high"], null)
  const key = make("input", { id: "user", list: "users", autocomplete: "off", placeholder: "all" }), list = make("datalist", { id: "users" })
  const chooser = make("form", { class: "bar" }, make("label", { for: "user" }, "One user alone:"), key, list, make("button", {}, "Show"))
  const node = make("div", {}, chooser, plot.node, parts.node, spread.node, beside)
  let again = () => {}
  chooser.addEventListener("submit", event => {
    event.preventDefault()
    again()
  })
  const update = async (session, path, signal, whole, common) => {
    chooser.hidden = session.n_trajectories < 2 || session.clock?.totals === "all" // everybody's, together
    if (!chooser.hidden && !list.children.length) {
      const some = (await get(`${path}/trajectories`, { limit: MOST_TRAJECTORIES }, signal)).items
      list.replaceChildren(...some.map(({ trajectory }) => make("option", { value: trajectory })))
    }
    const show = async () => {
      const wanted = key.value.trim()
      const series = wanted ? { ...await get(`${path}/series`, { rounds: ROUNDS, bins: BINS, by: "round", trajectory: wanted }, signal), by: "round" } : whole
      draw({ plot, parts, spread }, series, session, common)
      if (wanted && series.items.length === 0) plot.say(`There is no reward of ${wanted}.`)
    }
    again = () => show().catch(error => { if (error.name !== "AbortError") plot.say(error.message) })
    await show()
  }
  return { node, update }
}

// `common` is what arms pay on average, where it cannot be told from the base; else null.
function draw({ plot, parts, spread }, series, session, common) {
  const items = series.items.filter(item => item.reward !== null), made = items.filter(item => item.parts)
  const x = xName(series, session), xs = xsOf(series, items), y = session.reward_unit ? `mean reward ${one(session.unit)}, ${session.reward_unit}` : `mean reward ${one(session.unit)}`
  const extent = of => Math.max(...made.map(of)) - Math.min(...made.map(of))
  const names = Object.keys(PARTS).filter(part => made.length && extent(item => item.parts[part]) > LEAST_MOVE * extent(item => item.reward))
  const rest = item => item.expected - item.parts.actions + (common ?? 0), actions = item => item.parts.actions - (common ?? 0)
  const layers = !made.length ? [] : [
    { label: common === null ? "without actions" : "arms by chance", color: NOTHING, of: rest },
    { label: common === null ? "actions" : "its choices beyond", color: "--one", isStrong: true, of: actions },
  ]
  const columns = [xs, ...layers.map(({ of }) => items.map(item => (item.parts ? of(item) : null))), items.map(item => item.reward)]
  plot.redraw(items.length ? columns : [[]], undefined, { draw: stack(x, y, [...layers, REWARD]), heads: ["at", ...layers.map(look => look.label), "reward"] })
  const mean = part => made.reduce((sum, item) => sum + item.parts[part], 0) / made.length
  const still = Object.keys(PARTS).filter(part => !names.includes(part) && made.length && Math.abs(mean(part)) > LEAST_MOVE * extent(item => item.reward))
  const below = made.length ? ` The ${["base", ...still].map(part => `${NAMES[part] ?? part} ${amount(mean(part), session)}`).join(", ").replace("base", "base is")}.` : ""
  plot.say(words(series, items, made, session, common) + below)
  parts.node.hidden = names.length === 0
  if (names.length) {
    parts.redraw([xsOf(series, made), ...names.map(part => made.map(item => item.parts[part]))], undefined,
      { draw: lines(x, y, names.map(part => ({ label: NAMES[part] ?? part, color: PARTS[part] }))), heads: ["at", ...names] })
    parts.say("About the base, whatever is chosen.")
  }
  const wide = items.filter(item => item.spread)
  spread.node.hidden = wide.length === 0
  if (wide.length) {
    spread.redraw([xsOf(series, wide), wide.map(item => item.reward), ...[0, 1].map(end => wide.map(item => item.spread[end]))], undefined,
      { draw: bandOver(x, y), heads: ["at", "mean", "low", "high"] })
    spread.say("The line is the mean of all users; eight of ten users lie in the band.")
  }
}

function words({ reason, first_round, last_round, by }, items, made, session, common) {
  if (items.length === 0) return session.n_rounds ? "No reward yet. Rewards may come at any time." : "No round yet."
  if (!made.length) return reason || "No estimate is in use, so nothing is expected: the first fit will tell what rewards are made of."
  const off = made.reduce((sum, item) => sum + Math.abs(item.reward - item.expected), 0) / made.length
  const begun = session.clock ? session.clock.n_slots : session.n_rounds
  const part = begun > last_round - first_round + 1 && by !== "round" ? ` The latest ${several(last_round - first_round + 1, session.unit)}.` : ""
  const shared = common === null ? "" : " What these arms have in common cannot be told from the base: the lower layer has it, the upper one what its choices pay beyond."
  return `The layers add up to what the estimate in use expects; the line is what came, ${amount(off, session)} away on average.${shared} The axis need not begin at 0.${part}`
}
