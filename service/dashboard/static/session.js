// One session as one story: what it earns, what to do, what actions are worth and when they pay, what
// came of it, what it chooses, and the data and fits behind it.

import { advice } from "./advice.js"
import { all, get, watch } from "./api.js"
import { besidesCard } from "./besides.js"
import { cameCard, readSeries } from "./came.js"
import { choosesCard } from "./chooses.js"
import { dataFacts } from "./data.js"
import { badge, loading, make, number, state, time } from "./dom.js"
import { fitTable, LAST_FITS } from "./fits.js"
import { headline } from "./headline.js"
import { lagsCard } from "./lags.js"
import { liftCard } from "./compared.js"
import { trust } from "./trust.js"
import { spoken } from "./units.js"
import { usersCard } from "./users.js"
import { isApart, worthCard } from "./worth.js"

const MOST_FITS = 500 // that the slider walks through
const ALL = 100_000 // rounds, the most that are read
export const FEW = 5000 // rounds that are read at each change; more, first these and then all, once a minute
export const LATELY = { rounds: FEW, bins: 10 } // decisions that the one number is of
const BINS = 60
const MINUTE = 60_000

export async function showSession(main, signal, id, user) {
  main.replaceChildren(loading("Loading the session …"))
  const path = `/v1/sessions/${encodeURIComponent(id)}`
  const session = await get(path, {}, signal)
  const page = layout(session, user)
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

// What arms pay on average, where it is not told from the base.
const common = (arms, estimate) => (isApart(arms, estimate) ? arms.items.reduce((sum, item) => sum + item.one.in_all, 0) / arms.items.length : null)

const part = (heading, ...nodes) => make("section", { class: "part" }, make("h2", {}, heading), ...nodes)

function layout(session, user) {
  const name = session.name || session.id
  const status = make("span"), live = make("span", { class: "soft" })
  const earns = make("div", { class: "card" }), todo = make("div"), trusted = make("div")
  const facts = make("dl", { class: "facts" }), quality = make("div"), fits = make("div")
  const lift = liftCard(name), worth = worthCard(name), users = usersCard(name, user), lags = lagsCard(name)
  const beside = besidesCard(), came = cameCard(name, beside.node), chooses = choosesCard(name)
  const nodes = [
    make("h1", {}, name), make("p", { class: "bar" }, status, live), earns, lift.node,
    part("What to do", todo), part("Can it be trusted?", trusted), part("What actions are worth", worth.node, users.node), part("When they pay", lags.node),
    part("What came, and what was expected", came.node), part("What it chooses", chooses.node),
    make("details", { class: "part" }, make("summary", {}, "Data and fits"), facts, quality, make("h3", {}, "Fits, and why"), fits),
  ]
  const say = text => { live.textContent = text === "live" ? "Live: this page follows the session." : text }
  let learned = [], newest = 0, done = [], checked = [], read = null, readAt = 0, nFits = 0
  const reading = async (now, path, signal, rounds) => {
    const ask = (by, asked = {}) => get(`${path}/credit/arms`, { rounds, bins: BINS, by, ...asked }, signal)
    const [arms, lately] = await Promise.all([ask("position"), rounds > FEW && now.n_rounds > FEW ? ask("position", LATELY) : null])
    const series = await readSeries(path, now, rounds, arms.bins, signal)
    arms.isWhole = rounds === ALL
    return { series, arms, lately: lately ?? arms, shares: series.by === "position" ? arms : await ask(series.by) }
  }

  const update = async (now, path, signal) => {
    const isLong = now.n_rounds > FEW || (now.clock?.n_slots ?? 0) > FEW
    if (!isLong) read = await reading(now, path, signal, ALL)
    else if (read === null) {
      read = await reading(now, path, signal, FEW)
      await draw(now, path, signal)
    }
    if (isLong && Date.now() - readAt > MINUTE) {
      read = await reading(now, path, signal, ALL)
      readAt = Date.now()
    }
    await draw(now, path, signal)
  }

  const draw = async (found, path, signal) => {
    const { series, arms, lately, shares } = read, now = spoken(found, arms)
    const [compared, checks, estimates, epochs] = await Promise.all([
      lift.update(now, path, signal), get(`${path}/estimate`, {}, signal),
      all(`${path}/estimates`, { cursor: newest }, signal), all(`${path}/epochs`, { cursor: newest }, signal),
    ])
    newest = estimates.at(-1)?.number ?? newest
    checked = [...checked, ...estimates.filter(fit => fit.findings)].slice(-MOST_FITS)
    nFits += estimates.filter(fit => !["skipped", "failed"].includes(fit.status)).length
    learned = [...learned, ...estimates.filter(fit => fit.theta && fit.lag_weights)].slice(-MOST_FITS)
    done = [...done, ...estimates.filter(fit => fit.status !== "skipped")].slice(-LAST_FITS)
    const to_come = epochs.filter(epoch => !epoch.at), last = done.at(-1), estimate = checks.status === "none" ? undefined : checks // in use
    status.replaceChildren(badge(state(now, series.alarm)))
    earns.replaceChildren(...headline({ session: now, lift: compared, estimate, arms: lately, series, epochs: to_come }))
    todo.replaceChildren(advice({ session: now, lift: compared, series, checks, failed: last?.status === "failed" ? last.reason : null, unknown: arms.reason }))
    trusted.replaceChildren(trust({ session: now, estimate, checks, fits: checked, series, nFits }))
    lags.update(learned, now, arms)
    if (estimate) beside.show(estimate, now)
    chooses.update(now, shares, series)
    facts.replaceChildren(...Object.entries({
      algorithm: now.algorithm, decisions: number(now.n_rounds), users: number(now.n_trajectories), features: number(now.dim),
      horizon: number(now.horizon), "model version": number(now.model_version), made: time(now.created_at), id: now.id,
    }).map(([term, value]) => make("div", {}, make("dt", {}, term), make("dd", {}, value))))
    quality.replaceChildren(dataFacts(now, series))
    fits.replaceChildren(fitTable([...done, ...to_come], now))
    await Promise.all([worth.update(now, path, signal, arms, estimate), users.update(now, path, signal, estimate), came.update(now, path, signal, series, common(arms, estimate))])
  }
  return { nodes, update, say }
}
