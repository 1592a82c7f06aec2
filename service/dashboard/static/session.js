// One session: what it earns, what it has learned, how that came about, and what is due.

import { all, get, watch } from "./api.js"
import { besidesCard } from "./besides.js"
import { creditCard } from "./credit.js"
import { dataFacts } from "./data.js"
import { badge, features, loading, make, number, state, table, time } from "./dom.js"
import { liftCard } from "./lift.js"
import { barsOver, lines, plotCard, withIntervals } from "./plots.js"
import { profilesCard } from "./profiles.js"
import { ago, howSoon } from "./units.js"

const LAST_FITS = 8
const MOST_FITS = 500 // that the slider walks through
const WHISKERS = "Whiskers: 95% intervals."
const ALONE = "Whether the agent beats what you had is shown with a control group (holdout) or in a shadow only."
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

function layout(session) {
  const name = session.name || session.id
  const title = make("h1", {}, name)
  const status = make("p")
  const advice = make("ul", { "aria-label": "What checks of the model find" })
  const live = make("span", { class: "soft" })
  const facts = make("dl", { class: "facts" })
  const counted = session.clock ? "slot" : "round"
  const rewards = plotCard("Reward, and what was expected of it", `${name} rewards`, [counted, "reward", "expected"],
    lines(counted, "mean reward", [{ label: "reward", color: "--one" }, { label: "expected", color: "--two", dash: [6, 4] }]))
  const explored = plotCard("Share of decisions that explored", `${name} explored`, ["round", "explored"],
    lines("round", "share", [{ label: "explored", color: "--one" }], [0, 1.02]))
  explored.node.hidden = Boolean(session.clock)
  const lags = plotCard("Lag weights: which past rounds pay", `${name} lag weights`, ["lag", "weight", "low", "high"],
    barsOver(ago(session.clock), "weight"))
  const theta = plotCard("Theta: what makes a choice good", `${name} theta`, ["feature", "value", "low", "high"],
    barsOver("feature", "value"))
  const history = make("input", { type: "range", min: 1, value: 1, id: "fit", "aria-label": "Fit to show" })
  const which = make("output", { for: "fit", class: "soft" })
  lags.node.append(make("div", {}, make("label", { for: "fit" }, "How they came about: fit "), history, " ", which))
  const fits = make("section", { class: "card wide" }, make("h2", {}, "Fits, and why"))
  const credit = creditCard()
  const quality = make("section", { class: "card" }, make("h2", {}, "Data"))
  const lift = liftCard(name)
  const beside = besidesCard()
  const profiles = profilesCard(name, session.clock)
  const nodes = [title, status, advice, live, facts,
    make("div", { class: "grid" }, rewards.node, lift.node, lags.node, theta.node, profiles.node, explored.node, credit.node, beside.node, quality, fits)]
  const say = text => { live.textContent = text === "live" ? "Live: this page follows the session." : text }
  let learned = [], labels = features(session), newest = 0, done = [], isFollowing = true
  const showFit = i => {
    const fit = learned[i]
    if (!fit) return
    const { intervals } = fit
    which.textContent = `${i + 1} of ${learned.length}, after ${counted} ${number(fit.due)}`
    history.setAttribute("aria-valuetext", which.textContent)
    lags.redraw(withIntervals(fit.lag_weights, intervals?.lag_weights, intervals?.lags))
    theta.redraw(withIntervals(fit.theta, intervals?.theta), labels)
    lags.say([howSoon(fit.lag_weights, session.clock), fit.reason, intervals && WHISKERS, fit.no_intervals].filter(Boolean).join(" "))
    theta.say(intervals ? WHISKERS : "")
    beside.show(fit, session)
    profiles.show(fit, labels)
  }
  history.addEventListener("input", () => {
    isFollowing = Number(history.value) === learned.length
    showFit(Number(history.value) - 1)
  })

  const update = async (now, path, signal) => {
    const [series, estimates, epochs] = await Promise.all([
      get(`${path}/series`, { rounds: 2000, bins: 100 }, signal), all(`${path}/estimates`, { cursor: newest }, signal),
      all(`${path}/epochs`, { cursor: newest }, signal), credit.update(now, path, signal), lift.update(now, path, signal),
    ])
    labels = features(now)
    status.replaceChildren(badge(state(now, series.alarm)))
    facts.replaceChildren(...Object.entries({
      algorithm: now.algorithm, rounds: number(now.n_rounds), trajectories: number(now.n_trajectories), features: number(now.dim),
      horizon: number(now.horizon), "model version": number(now.model_version), made: time(now.created_at), id: now.id,
    }).map(([term, value]) => make("div", {}, make("dt", {}, term), make("dd", {}, value))))
    drawRewards(rewards, explored, series, now)
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
    done = [...done, ...estimates.filter(fit => fit.status !== "skipped")].slice(-LAST_FITS)
    fits.replaceChildren(fits.firstChild, fitTable([...done, ...epochs.filter(epoch => !epoch.at)], counted))
    quality.replaceChildren(quality.firstChild, dataFacts(now, series))
  }
  return { nodes, update, say }
}

function drawRewards(rewards, explored, { items, reason }, session) {
  const middle = items.map(item => (item.first_round + item.last_round) / 2)
  const wanted = ["reward", "expected"].map(name => items.map(item => item[name]))
  rewards.redraw([middle, ...wanted])
  explored.redraw([middle, items.map(item => item.explored)])
  const alone = session.holdout || session.clock || session.mode === "shadow" || session.deciding === "none" ? "" : ALONE
  if (items.length === 0) rewards.say("No round yet.")
  else if (items.every(item => item.reward === null)) rewards.say("No reward yet. Rewards may come at any time.")
  else rewards.say([items.every(item => item.expected === null)
    ? reason || "No estimate is in use, so nothing is expected." : "Dashed: what the estimate in use expects of the same choices.", alone].join(" "))
}

function fitTable(epochs, counted) {
  const last = epochs.slice(-LAST_FITS).reverse()
  if (last.length === 0) return make("p", { class: "soft" }, "No fit yet, and none is due.")
  return table("Fits, newest first", [
    ["epoch", row => number(row.epoch), true], ["status", row => STATUS[row.status] || row.status],
    [`due after ${counted} of the session`, row => number(row.window.due), true], ["why", row => row.reason || row.due_reason || ""],
    ["at", row => time(row.at || row.due_at)],
  ], last)
}
