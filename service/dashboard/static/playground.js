// A small world to play with: choose what pays and how noisy it is, watch regret grow and lags appear.

import { get, post } from "./api.js"
import { announce, loading, make, notice, number } from "./dom.js"
import { lines, plotCard } from "./plots.js"

const PRESETS = {
  "at once": "1", "two rounds later": "0, 0, 1", "three lags apart": "0, 0.5, 0, 0, 0.3, 0, 0, 0.2",
  "fading": "0.4, 0.25, 0.16, 0.1, 0.06, 0.03", "a week later": "0, 0, 0, 0, 0, 0, 0, 1",
}
const FRAMES = 60
const FRAME_MS = 70

export async function showPlayground(main, signal) {
  main.replaceChildren(loading("Opening the playground …"))
  const { is_open: isOpen, limits } = await get("/dashboard/playground", {}, signal)
  if (!isOpen) {
    main.replaceChildren(notice("The playground is closed.",
      make("p", {}, "It simulates small worlds on the server. Who runs the server opens it with LHB_PLAYGROUND=true."),
      make("p", {}, make("a", { href: "#/" }, "All sessions"))))
    return
  }
  const field = (id, label, value, attributes) => [make("label", { for: id }, label), make("input", { id, value, required: true, ...attributes })]
  const whole = (most, least = 1) => ({ type: "number", min: least, max: most, step: 1 })
  const presets = make("select", { id: "preset", onchange: () => { form.elements.weights.value = PRESETS[presets.value] } },
    ...Object.keys(PRESETS).map(name => make("option", { selected: name === "three lags apart" }, name)))
  const button = make("button", {}, "Play")
  const words = make("p", { class: "soft", role: "status" })
  const form = make("form", { class: "card world", onsubmit: event => {
    event.preventDefault()
    run()
  } }, make("label", { for: "preset" }, "When a choice pays"), presets,
  ...field("weights", `Lag weights, from now to ${limits.lags - 1} rounds ago`, PRESETS["three lags apart"], { type: "text", autocomplete: "off" }),
  ...field("noise", "Noise of a reward (standard deviation)", 0.2, { type: "number", min: 0, max: limits.noise, step: "any" }),
  ...field("arms", "Arms of a round", 5, whole(limits.arms, 2)), ...field("dim", "Features of an arm", 3, whole(limits.dim)),
  ...field("rounds", "Rounds", 600, whole(limits.rounds, 20)), ...field("seed", "Seed of the world", 1, whole(2 ** 31, 0)),
  button, words)
  const looks = [{ label: "the agent", color: "--one" }, { label: "choosing by chance", color: "--two", dash: [6, 4] }]
  const regret = plotCard("Regret: what the best choices would have earned more", "playground regret", ["round", "agent", "uniform"], lines("round", "sum", looks))
  const truth = [{ label: "learned", color: "--one" }, { label: "true", color: "--two", dash: [6, 4] }]
  const lags = plotCard("Lag weights", "playground lag weights", ["lag", "learned", "true"], lines("rounds ago", "weight", truth))
  const theta = plotCard("Theta", "playground theta", ["feature", "learned", "true"], lines("feature", "value", truth.map(look => ({ ...look, dots: true, hollow: look.label === "true" }))))
  main.replaceChildren(make("h1", {}, "Playground"),
    make("p", { class: "soft" }, "The server's own engine plays a simulated world. Arms have random features; what you choose here is what the agent has to find out."),
    make("div", { class: "grid" }, form, regret.node, lags.node, theta.node))
  let played = 0

  async function run() {
    const turn = ++played
    const value = name => Number(form.elements[name].value)
    const weights = form.elements.weights.value.split(/[\s,;]+/).filter(Boolean).map(Number)
    if (weights.length === 0 || weights.some(Number.isNaN)) {
      words.textContent = "Lag weights are numbers with commas between them."
      return
    }
    button.disabled = true
    words.textContent = "The engine plays …"
    try {
      const asked = { lag_weights: weights, noise: value("noise"), arms: value("arms"), dim: value("dim"), rounds: value("rounds"), seed: value("seed") }
      const found = await post("/dashboard/playground", asked, signal)
      button.disabled = false
      await unfold(found, weights, () => turn === played && !signal.aborted)
    } catch (error) {
      if (error.name !== "AbortError") words.textContent = error.message
    }
    button.disabled = false
  }

  // Shows the play from its first round to its last; at once where motion is not wanted.
  async function unfold(found, weights, goesOn) {
    const n = found.round.length
    const frames = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1 : FRAMES
    let drawn = null
    for (let frame = 1; frame <= frames && goesOn(); frame++) {
      const shown = Math.max(2, Math.round((n * frame) / frames)), now = found.round[shown - 1]
      regret.redraw([found.round, ...["agent", "uniform"].map(name => found[name].map((one, i) => (i < shown ? one : null)))])
      const fit = found.fits.findLast(one => one.round <= now) ?? null
      if (fit !== drawn || frame === 1) {
        lags.redraw([weights.map((_, i) => i), weights.map((_, i) => fit?.lag_weights[i] ?? null), weights])
        theta.redraw([found.theta.map((_, i) => i), fit?.theta ?? found.theta.map(() => null), found.theta], found.theta.map((_, i) => String(i)))
        lags.say(fit ? `As learned after round ${number(fit.round)}.` : "Nothing learned yet.")
      }
      drawn = fit
      words.textContent = `Round ${number(now)} of ${number(found.round[n - 1])}.`
      if (frame < frames) await new Promise(resolve => setTimeout(resolve, FRAME_MS))
    }
    if (!goesOn()) return
    const [agent, uniform] = [found.agent.at(-1), found.uniform.at(-1)]
    words.textContent = `After ${number(found.round[n - 1])} rounds the agent's regret is ${number(agent)}; by chance it is ${number(uniform)}.`
    announce(words.textContent)
  }
}
