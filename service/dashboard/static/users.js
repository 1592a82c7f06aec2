// How users differ in what works for them, by feature, and one user beside everybody.

import { get } from "./api.js"
import { features, make, number } from "./dom.js"
import { barPairs, barsOver, plotCard, WHISKERS, withIntervals } from "./plots.js"
import { amount, inWords, several } from "./units.js"

const MOST_FEATURES = 12 // in one plot: those in which users differ most
const UNIT = "Everybody's theta has length 1."

export function usersCard(name, asked) {
  const spread = plotCard("How users differ in what works for them", `${name} spread`, ["feature", "spread", "low", "high"], barsOver("feature", "spread"))
  const plot = plotCard("What works for this user, and for everybody", `${name} one user`,
    ["feature", "this user", "everybody", "this user, low", "high", "everybody, low", "high"], barPairs("feature", "theta", ["this user", "everybody"]))
  const key = make("input", { id: "one", list: "users", autocomplete: "off", value: asked ?? "" }), words = make("p", { "aria-live": "polite" })
  const form = make("form", { class: "bar" }, make("label", { for: "one" }, "One user beside everybody:"), key, make("button", {}, "Compare"))
  const node = make("div", { hidden: true }, spread.node, form, words, plot.node)
  let shown = asked, again = () => {}
  form.addEventListener("submit", event => {
    event.preventDefault()
    shown = key.value.trim()
    const [page, room, id] = location.hash.split("/")
    history.replaceState(null, "", [page, room, id, encodeURIComponent(shown)].join("/")) // a link to this user
    again()
  })
  const update = async (session, path, signal, estimate) => {
    node.hidden = !estimate?.own && !estimate?.levels
    if (node.hidden) return
    const { own } = estimate, labels = features(session), order = labels.map((_, i) => i)
    const places = (own ? order.sort((a, b) => own.spread[b] - own.spread[a]) : order).slice(0, MOST_FEATURES).sort((a, b) => a - b)
    const names = places.map(i => labels[i])
    spread.node.hidden = !own
    if (own) {
      spread.redraw(withIntervals(places.map(i => own.spread[i]), places.map(i => own.intervals[i])), names)
      spread.say(`${inWords(own.message, session)} ${UNIT} ${WHISKERS}`)
    }
    again = async () => {
      plot.node.hidden = true
      words.textContent = ""
      if (shown === undefined) return
      try {
        const user = await get(`${path}/trajectories/${encodeURIComponent(shown)}`, {}, signal)
        words.textContent = said(user, session)
        plot.node.hidden = !user.own
        if (user.own) plot.redraw(columns(user, places), names)
      } catch (error) {
        if (error.name !== "AbortError") words.textContent = error.message
      }
    }
    await again()
  }
  return { node, update }
}

function columns({ own, everybody }, places) {
  const ends = ({ intervals }) => [0, 1].map(end => places.map(i => intervals?.[i][end] ?? null))
  return [places.map((_, i) => i), ...[own, everybody].map(theta => places.map(i => theta.values[i])), ...ends(own), ...ends(everybody)]
}

function said({ n_rounds, own, level }, session) {
  const parts = [`${several(n_rounds, session.unit)}.`]
  if (level) parts.push(`Level of this user, whatever is chosen: ${amount(level.value, session)} (95% interval ${level.interval.map(end => number(end)).join(" to ")}); the mean of all users is 0.`)
  if (own) parts.push(`Decisions for this user go by its own theta, from all of its rewards so far. ${WHISKERS}`)
  return parts.join(" ")
}
