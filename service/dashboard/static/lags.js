// When actions pay: the lag weights, or the lag profiles of features, of the fit that is shown.

import { features, make, number } from "./dom.js"
import { TONES, palette } from "./palette.js"
import { barsOver, plotCard, profileLines, WHISKERS, withIntervals } from "./plots.js"
import { ago, howSoon } from "./units.js"

const MOST_FEATURES = 8 // in one plot: those with the largest profiles
const HEADS = ["lag", "weight", "low", "high"]

export function lagsCard(name) {
  const shared = plotCard("Lag weights: which past choices pay", `${name} lag weights`, HEADS, null)
  const own = make("div"), none = make("p", {}, "Nothing has been learned yet: the session explores until a fit finds a direction.")
  const slider = make("input", { type: "range", min: 1, value: 1, id: "fit", "aria-label": "Fit to show" })
  const which = make("output", { for: "fit", class: "soft" })
  const walk = make("p", {}, make("label", { for: "fit" }, "How they came about: fit "), slider, " ", which)
  const node = make("div", {}, none, shared.node, own, walk)
  let fits = [], isFollowing = true, now = null, tones = null
  const show = i => {
    const fit = fits[i]
    none.hidden = Boolean(fit)
    walk.hidden = fits.length < 2
    shared.node.hidden = !fit || Boolean(fit.lag_profiles)
    own.hidden = !fit?.lag_profiles
    if (!fit) return
    which.textContent = `${i + 1} of ${fits.length}, after ${now.unit} ${number(fit.due)}`
    slider.setAttribute("aria-valuetext", which.textContent)
    const { intervals } = fit
    if (fit.lag_profiles) own.replaceChildren(profiles(name, now, fit, features(now, fit), tones))
    else {
      shared.redraw(withIntervals(fit.lag_weights, intervals?.lag_weights, intervals?.lags), undefined, { draw: barsOver(ago(now), "weight", intervals?.drawn), heads: HEADS })
      shared.say([fit.no_intervals ? "" : howSoon(fit.lag_weights, now), bands(fit, intervals?.lag_weights.some(Boolean) && WHISKERS, "Dashed whiskers"), decides(fit)].filter(Boolean).join(" "))
    }
  }
  slider.addEventListener("input", () => {
    isFollowing = Number(slider.value) === fits.length
    show(Number(slider.value) - 1)
  })
  const update = (learned, session, arms) => {
    now = session
    tones = palette(session, arms)
    fits = learned
    slider.max = Math.max(1, fits.length)
    if (isFollowing) slider.value = fits.length
    show(Number(slider.value) - 1)
  }
  return { node, update }
}

// What lies about the values that are drawn: `known` where intervals hold, `drawn` where they are of draws, or why nothing.
function bands({ intervals, no_intervals: why }, known, drawn) {
  if (!known) return `No band yet. ${why ?? ""}`
  return intervals.drawn ? `${drawn}: 95% of posterior draws, widened; whether they hold is not known. ${why}` : known
}

// Which lag profiles decide, and how much better they predict: the words of `lhb session show`.
function decides({ form, forms }) {
  const better = Object.entries(forms ?? {}).filter(([, one]) => one.variance > 0)
    .map(([kind, { excess, variance }]) => [kind, (-excess / Math.sqrt(variance)).toFixed(1)])
  return `Lag profiles: ${[form ?? "shared", ...better.map(([kind, by]) => `${kind} ones predict ${by < 0 ? "" : "+"}${by} standard errors better than shared ones`)].join("; ")}.`
}

function profiles(name, session, fit, labels, tones) {
  const { lag_profiles: rows, intervals } = fit
  const size = i => Math.max(...rows.map(row => Math.abs(row[i])))
  const chosen = labels.map((_, i) => i).sort((a, b) => size(b) - size(a)).slice(0, MOST_FEATURES).sort((a, b) => a - b)
  const names = chosen.map(i => labels[i])
  const bounds = end => intervals?.lag_profiles && chosen.map(i => intervals.lag_profiles.map(row => row[i][end]))
  const heads = ["lag", ...names, ...names.map(one => `${one}, low`), ...names.map(one => `${one}, high`)]
  const left = labels.length - chosen.length
  const card = plotCard("Lag profiles: what each feature pays, and when", `${name} lag profiles`, heads, profileLines(ago(session), "pays", names, chosen.map(i => tones.get(labels[i]) ?? TONES[i % TONES.length]), intervals?.drawn),
    [bands(fit, bounds(0) && "Bands: 95% intervals.", "Pale bands"), left > 0 && `The ${left} features with smaller profiles are left out.`, decides(fit)].filter(Boolean).join(" "))
  queueMicrotask(() => card.redraw([rows.map((_, lag) => lag), ...chosen.map(i => rows.map(row => row[i])), ...(bounds(0) ?? []), ...(bounds(1) ?? [])]))
  return card.node
}
