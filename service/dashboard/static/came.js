// What came, and what was expected: the whole history, in parts that add up; users' spread, or one user.

import { get } from "./api.js"
import { make, number } from "./dom.js"
import { bandOver, plotCard, stack, TIME } from "./plots.js"

const LOOKS = {
  base: { label: "base", color: "--six" }, trend: { label: "trend", color: "--seven" }, season: { label: "season", color: "--five" },
  covariates: { label: "covariates", color: "--four" }, levels: { label: "users' levels", color: "--three" }, actions: { label: "actions", color: "--one", isStrong: true },
}
const REWARD = { label: "what came", color: "--ink", isLine: true }
const MOST_TRAJECTORIES = 20 // to choose from
const ROUNDS = 100_000, BINS = 400
const LEAST_TIMES = 8, LEAST_SECONDS = 3600 // fewer points, or shorter ones, tell little by their time

// Rewards over time where there are times, else by round of each user, or by round.
export async function readSeries(path, session, rounds, signal) {
  const ask = by => get(`${path}/series`, { rounds, bins: BINS, by }, signal)
  const by = session.n_trajectories > 1 ? "round" : "position"
  const isOld = (Date.now() - new Date(session.created_at)) / 1000 > LEAST_TIMES * LEAST_SECONDS
  const timed = session.clock || isOld ? await ask("time") : null
  const isTimed = timed && (session.clock || (timed.items.length >= LEAST_TIMES && timed.bin_seconds >= LEAST_SECONDS))
  return isTimed ? { ...timed, by: "time", isByPosition: true } : { ...await ask(by), by, isByPosition: by === "position" }
}

export const xsOf = ({ by }, items) => items.map(item => (by === "time" ? new Date(item.at) / 1000 : by === "round" ? item.first_round : (item.first_round + item.last_round) / 2))
export const xName = ({ by }, session) => (by === "time" ? TIME : by === "round" ? "round of each user" : session.clock ? "slot" : "round")

export function cameCard(name, beside) {
  const plot = plotCard("What came, and what it is made of", `${name} rewards`, [], null)
  const spread = plotCard("How users differ", `${name} users`, ["at", "mean", "low", "high"], null)
  const key = make("input", { id: "user", list: "users", autocomplete: "off", placeholder: "all" }), list = make("datalist", { id: "users" })
  const chooser = make("form", { class: "bar" }, make("label", { for: "user" }, "One user alone:"), key, list, make("button", {}, "Show"))
  const node = make("div", {}, chooser, plot.node, spread.node, beside)
  let again = () => {}
  chooser.addEventListener("submit", event => {
    event.preventDefault()
    again()
  })
  const update = async (session, path, signal, whole) => {
    chooser.hidden = session.n_trajectories < 2 || session.clock?.totals === "all" // everybody's, together
    if (!chooser.hidden && !list.children.length) {
      const some = (await get(`${path}/trajectories`, { limit: MOST_TRAJECTORIES }, signal)).items
      list.replaceChildren(...some.map(({ trajectory }) => make("option", { value: trajectory })))
    }
    const show = async () => {
      const wanted = key.value.trim()
      const series = wanted ? { ...await get(`${path}/series`, { rounds: ROUNDS, bins: BINS, by: "round", trajectory: wanted }, signal), by: "round" } : whole
      draw(plot, spread, series, session)
      if (wanted && series.items.length === 0) plot.say(`There is no reward of ${wanted}.`)
    }
    again = () => show().catch(error => { if (error.name !== "AbortError") plot.say(error.message) })
    await show()
  }
  return { node, update }
}

function draw(plot, spread, series, session) {
  const items = series.items.filter(item => item.reward !== null)
  const x = xName(series, session), xs = xsOf(series, items)
  const isExpected = items.some(item => item.parts)
  const names = Object.keys(LOOKS).filter(part => part === "base" || part === "actions" || items.some(item => item.parts?.[part]))
  const parts = isExpected ? names : []
  const looks = [...parts.map(part => LOOKS[part]), REWARD]
  const columns = [xs, ...parts.map(part => items.map(item => item.parts?.[part] ?? null)), items.map(item => item.reward)]
  plot.redraw(items.length ? columns : [[]], undefined, { draw: stack(x, "mean reward", looks), heads: ["at", ...parts, "reward"] })
  plot.say(words(series, items, isExpected, session))
  const wide = items.filter(item => item.spread)
  spread.node.hidden = wide.length === 0
  if (wide.length) {
    spread.redraw([xsOf(series, wide), wide.map(item => item.reward), ...[0, 1].map(end => wide.map(item => item.spread[end]))], undefined,
      { draw: bandOver(x, "mean"), heads: ["at", "mean", "low", "high"] })
    spread.say("The line is the mean of all users; eight of ten users lie in the band.")
  }
}

function words({ reason, first_round, last_round, by }, items, isExpected, session) {
  if (items.length === 0) return session.n_rounds ? "No reward yet. Rewards may come at any time." : "No round yet."
  if (!isExpected) return reason || "No estimate is in use, so nothing is expected: the first fit will tell what rewards are made of."
  const off = items.filter(item => item.parts).reduce((sum, item) => sum + Math.abs(item.reward - item.expected), 0) / items.length
  const begun = session.clock ? session.clock.n_slots : session.n_rounds
  const part = begun > last_round - first_round + 1 && by !== "round" ? ` The latest ${number(last_round - first_round + 1)} rounds.` : ""
  return `The layers add up to what the estimate in use expects; the line is what came, ${number(off)} away on average. The axis need not begin at 0.${part}`
}
