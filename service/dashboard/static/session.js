// One session: what it earns, what it has learned, how that came about, and what is due.

import { all, get, watch } from "./api.js"
import { badge, duration, features, loading, make, number, state, table, time } from "./dom.js"
import { liftCard } from "./lift.js"
import { barsOver, lines, plotCard, withIntervals } from "./plots.js"

const LAST_DECISIONS = 12
const LAST_FITS = 8
const MOST_FITS = 500 // that the slider walks through
const WHISKERS = "Whiskers: 95% intervals."
const STATUS = { ok: "new estimate", zero: "no new estimate", insufficient_data: "too few data", waiting_for_rewards: "waits for rewards" }

export async function showSession(main, id, signal) {
  main.replaceChildren(loading("Loading the session …"))
  const path = `/v1/sessions/${encodeURIComponent(id)}`
  const session = await get(path, {}, signal)
  const page = layout(session)
  main.replaceChildren(...page.nodes)
  await page.update(session, path, signal)
  let isBusy = false, latest = null
  const onChange = async now => {
    latest = now
    if (isBusy) return
    isBusy = true
    while (latest !== null) {
      const shown = latest
      latest = null
      try {
        await page.update(shown, path, signal)
      } catch (error) {
        if (error.name !== "AbortError") page.say(error.message)
      }
    }
    isBusy = false
  }
  watch(`${path}/changes`, onChange, page.say, signal)
}

const UNITS = new Map([[1, "seconds"], [60, "minutes"], [3600, "hours"], [86400, "days"], [604800, "weeks"]])

// what a lag counts: rounds, or slots of time where there is a clock
function ago(clock) {
  if (!clock) return "rounds ago"
  return `${UNITS.get(clock.slot_seconds) ?? `slots of ${number(clock.slot_seconds)} s`} ago`
}

function layout(session) {
  const name = session.name || session.id
  const title = make("h1", {}, name)
  const status = make("p")
  const advice = make("ul", { "aria-label": "What checks of the model find" })
  const live = make("span", { class: "soft" })
  const facts = make("dl", { class: "facts" })
  const rewards = plotCard("Reward, and what was expected of it", `${name} rewards`, ["round", "reward", "expected"],
    lines("round", "mean reward", [{ label: "reward", color: "--one" }, { label: "expected", color: "--two", dash: [6, 4] }]))
  const explored = plotCard("Share of decisions that explored", `${name} explored`, ["round", "explored"],
    lines("round", "share", [{ label: "explored", color: "--one" }]))
  const lags = plotCard("Lag weights: which past rounds pay", `${name} lag weights`, ["lag", "weight", "low", "high"],
    barsOver(ago(session.clock), "weight"))
  const theta = plotCard("Theta: what makes a choice good", `${name} theta`, ["feature", "value", "low", "high"],
    barsOver("feature", "value"))
  const history = make("input", { type: "range", min: 1, value: 1, id: "fit", "aria-label": "Fit to show" })
  const which = make("output", { for: "fit", class: "soft" })
  lags.node.append(make("div", {}, make("label", { for: "fit" }, "How they came about: fit "), history, " ", which))
  const fits = make("section", { class: "card wide" }, make("h2", {}, "Fits, and why"))
  const credit = make("section", { class: "card" }, make("h2", {}, "What the last decisions earned"))
  const quality = make("section", { class: "card" }, make("h2", {}, "Data"))
  const lift = liftCard(name)
  const beside = make("section", { class: "card" })
  beside.hidden = true
  const nodes = [title, status, advice, live, facts,
    make("div", { class: "grid" }, rewards.node, lift.node, lags.node, theta.node, explored.node, beside, credit, quality, fits)]
  const say = text => { live.textContent = text === "live" ? "Live: this page follows the session." : text }
  let learned = [], labels = features(session), newest = 0, missing = new Map(), isFollowing = true
  const showFit = i => {
    const fit = learned[i]
    if (!fit) return
    const { intervals } = fit
    which.textContent = `${i + 1} of ${learned.length}, after round ${number(fit.due)}`
    history.setAttribute("aria-valuetext", which.textContent)
    lags.redraw(withIntervals(fit.lag_weights, intervals?.lag_weights, intervals?.lags))
    theta.redraw(withIntervals(fit.theta, intervals?.theta), labels)
    lags.say([fit.reason, intervals && WHISKERS, fit.no_intervals].filter(Boolean).join(" "))
    theta.say(intervals ? WHISKERS : "")
    beside.hidden = !fit.effects
    if (fit.effects) beside.replaceChildren(make("h2", {}, "What moves the reward besides"), effectsTable(fit.effects))
  }
  history.addEventListener("input", () => {
    isFollowing = Number(history.value) === learned.length
    showFit(Number(history.value) - 1)
  })

  const update = async (now, path, signal) => {
    const [series, estimates, epochs, earned] = await Promise.all([
      get(`${path}/series`, { rounds: 2000, bins: 100 }, signal), all(`${path}/estimates`, { cursor: newest }, signal),
      all(`${path}/epochs`, { cursor: Math.max(0, newest - LAST_FITS) }, signal), creditTable(now, path, signal),
      lift.update(now, path, signal),
    ])
    labels = features(now)
    status.replaceChildren(badge(state(now, series.alarm)))
    facts.replaceChildren(...Object.entries({
      algorithm: now.algorithm, rounds: number(now.n_rounds), trajectories: number(now.n_trajectories), features: number(now.dim),
      horizon: number(now.horizon), "model version": number(now.model_version), made: time(now.created_at), id: now.id,
    }).map(([term, value]) => make("div", {}, make("dt", {}, term), make("dd", {}, value))))
    drawRewards(rewards, explored, series)
    newest = estimates.at(-1)?.number ?? newest
    const checked = estimates.filter(fit => fit.findings).at(-1)
    if (checked) advice.replaceChildren(...checked.findings.map(found => make("li", {}, found.message)))
    learned = [...learned, ...estimates.filter(fit => fit.theta && fit.lag_weights)].slice(-MOST_FITS)
    history.max = Math.max(1, learned.length)
    history.disabled = learned.length < 2
    if (learned.length === 0) {
      lags.say("Nothing has been learned yet: the session explores until a fit finds a direction.")
      theta.say("Nothing has been learned yet.")
      which.textContent = "none yet"
    } else if (isFollowing) {
      history.value = learned.length
      showFit(learned.length - 1)
    }
    for (const fit of estimates) missing.set(fit.number, fit.n_missing)
    fits.replaceChildren(fits.firstChild, fitTable(epochs, missing))
    quality.replaceChildren(quality.firstChild, dataFacts(now, series))
    credit.replaceChildren(credit.firstChild, earned)
  }
  return { nodes, update, say }
}

function drawRewards(rewards, explored, { items, reason }) {
  const middle = items.map(item => (item.first_round + item.last_round) / 2)
  const wanted = ["reward", "expected"].map(name => items.map(item => item[name]))
  rewards.redraw([middle, ...wanted])
  explored.redraw([middle, items.map(item => item.explored)])
  if (items.length === 0) rewards.say("No round yet.")
  else if (items.every(item => item.reward === null)) rewards.say("No reward yet. Rewards may come at any time.")
  else rewards.say(items.every(item => item.expected === null)
    ? reason || "No estimate is in use, so nothing is expected." : "Dashed: what the estimate in use expects of the same choices.")
}

// Seasons, a trend: each group's share of the variance of the rewards.
function effectsTable(effects) {
  const percent = share => `${Math.round(100 * share)}%`
  const rows = effects.groups.map((group, i) => ({ group, share: effects.share[i], included: effects.included[i] }))
  return table("Effects that do not depend on what is chosen", [
    ["effect", row => row.group], ["share of the rewards' variance", row => percent(row.share), true],
    ["probability that there is one", row => percent(row.included), true],
  ], rows)
}

function fitTable(epochs, missing) {
  const last = epochs.slice(-LAST_FITS).reverse()
  if (last.length === 0) return make("p", { class: "soft" }, "No fit yet, and none is due.")
  return table("Fits, newest first", [
    ["epoch", row => number(row.epoch), true], ["status", row => STATUS[row.status] || row.status],
    ["due after round of the session", row => number(row.window.due), true], ["why", row => row.reason || row.due_reason || ""],
    ["at", row => time(row.at || row.due_at)],
  ], last)
}

async function creditTable(session, path, signal) {
  if (session.n_rounds === 0) return make("p", { class: "soft" }, "No decision yet.")
  if (session.n_trajectories > 1) {
    return make("p", { class: "soft" }, "Credit is listed by trajectory: ask GET …/credit?trajectory=KEY, and GET …/trajectories for the keys.")
  }
  const [{ trajectory }] = (await get(`${path}/trajectories`, { limit: 1 }, signal)).items
  const cursor = Math.max(0, session.n_rounds - LAST_DECISIONS)
  const { items } = await get(`${path}/credit`, { trajectory, cursor, limit: LAST_DECISIONS }, signal)
  if (items.every(item => item.earned === null)) return make("p", { class: "soft" }, items[0].reason)
  return table("Credit, newest first", [
    ["round", row => number(row.round), true], ["arm", row => row.arm_id ?? number(row.arm), true],
    ["earned so far", row => number(row.earned), true], ["still to come", row => number(row.to_come), true],
  ], items.reverse())
}

// Missing values, late ones, and how long they take to come.
function dataFacts(session, series) {
  const { arrivals } = series
  const rounds = series.last_round - series.first_round + 1
  if (rounds < 1) return make("p", { class: "soft" }, "No round yet.")
  const measured = series.items.reduce((sum, item) => sum + item.n_measured, 0)
  const share = (part, whole) => (whole ? `${number(part)} (${Math.round((100 * part) / whole)}%)` : "–")
  const rows = [["rounds looked at", number(rounds)], ["measured", share(measured, rounds)], ["missing", share(rounds - measured, rounds)]]
  if (arrivals) {
    rows.push(["came after the next round had begun", share(arrivals.n_late, arrivals.n_values)],
      ["half of the values came within", duration(arrivals.median_seconds)],
      ["nine of ten came within", duration(arrivals.nine_tenths_seconds)], ["the slowest took", duration(arrivals.longest_seconds)])
  }
  const mode = session.reward_mode === "sum" ? "Values of a round add up." : "A round has one value."
  return make("div", {}, make("dl", { class: "pairs" }, ...rows.map(([term, value]) => make("div", {}, make("dt", {}, term), make("dd", {}, value)))),
    make("p", { class: "soft" }, `${mode} The newest may still be on their way: a reward may come at any time.`),
    ...retention(session).map(said => make("p", {}, said)))
}

// What is kept of old rounds, and how many have gone.
function retention({ keep_rounds, keep_days, n_dropped_rounds }) {
  const kept = [keep_rounds && `the latest ${number(keep_rounds)} rounds`, keep_days && `those of the last ${number(keep_days)} days`].filter(Boolean)
  const said = kept.length ? [`Kept for certain: ${kept.join(" and ")}. Older ones may go once a fit has learned from them.`] : []
  return n_dropped_rounds ? [...said, `${number(n_dropped_rounds)} old rounds are not listed any more. What was learned from them stays.`] : said
}
