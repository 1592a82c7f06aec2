// Whether it can be trusted: how sure it is, which checks were made, which could not be made and why,
// since when findings stand, and what was said until lately.

import { make, number } from "./dom.js"
import { provided } from "./headline.js"
import { dated } from "./plots.js"
import { almost, inWords } from "./units.js"

const CALM = 2 // checked fits without it after which a finding is over

// `fits` are those that made checks, in order; `checks` are the last one's, with `checked` in words.
export function trust({ session, estimate, checks, fits, series, nFits }) {
  const { findings } = checks, counted = session.unit
  const at = fit => `the fit after ${counted} ${number(fit.due)} (${dated(new Date(fit.at) / 1000)})`
  const lines = findings.map(({ code, message }) => `Since ${at(since(fits, code))}: ${inWords(message.split(/\.(?: |$)/)[0], session)}.`)
  const gone = over(fits).map(([one, fit]) => `Was said until ${at(fit)}, and not since: ${inWords(one.message, session)}`)
  return make("div", {}, make("p", {}, make("b", {}, verdict({ session, estimate, checks, series, nFits })), ` ${sure(session, estimate)}`),
    lines.length + gone.length ? make("ul", { "aria-label": "Findings" }, ...[...lines, ...gone].map(text => make("li", {}, text))) : null,
    ...[checks.checked, ...checks.unchecked.map(one => one.message)].filter(Boolean).map(text => make("p", { class: "soft" }, inWords(text, session))))
}

function verdict({ session, estimate, checks, series, nFits }) {
  if (session.deciding === "none") return "It learns nothing, so that there is nothing to trust."
  if (nFits === 0) return "Not yet: the first fit makes the checks."
  if (session.deciding === "in_doubt") return "No: what it learned is in doubt, see what to do."
  if (series.alarm) return "No: later rewards fit the model badly."
  if (checks.checked === null) return "No checks are made for this algorithm."
  if (checks.findings.length) return `With care: ${checks.findings.length === 1 ? "one finding stands" : `${checks.findings.length} findings stand`}, see what to do.`
  if (session.deciding !== "in_use") return "Not yet: nothing stands out from the noise."
  if (!estimate?.gain) return "In part: nothing was found, and how sure its choices are is not known yet."
  if (provided(session, estimate)) return "In part: nothing was found, and whether rewards move over time by themselves could not be checked."
  return checks.unchecked.length ? "Yes, as far as could be checked: nothing was found, and some checks could not be made." : "Yes, as far as the checks see: nothing was found."
}

function sure(session, estimate) {
  if (!estimate || !["in_use", "in_doubt"].includes(session.deciding)) return ""
  const taken = provided(session, estimate)
  const from = `It has learned from ${number(estimate.n_rows)} rewards, up to its latest fit.${taken ? ` Its intervals hold${taken.replace(/^,/, "")}.` : ""}`
  return estimate.gain ? `${from} What it takes for the best choice is the best with probability ${almost(estimate.gain.best_is_right)}.` : from
}

const has = (fit, code) => fit.findings.some(one => one.code === code)

// The first fit of those in which a finding stands; that it was missing from a few does not count.
function since(fits, code) {
  let first = fits.at(-1), missing = 0
  for (const fit of fits.toReversed()) {
    missing = has(fit, code) ? 0 : missing + 1
    if (missing > CALM) break
    if (!missing) first = fit
  }
  return first
}

// What a fit found, and the next ones did not, a few ago at most; each with the last that did.
function over(fits) {
  const last = fits.at(-1), found = new Map()
  for (const fit of fits.slice(-1 - CALM, -1)) {
    for (const one of fit.findings) if (!has(last, one.code)) found.set(one.code, [one, fit])
  }
  return [...found.values()]
}
