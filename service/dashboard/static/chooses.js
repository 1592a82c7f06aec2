// What it chooses: shares of arms over time, and what it would choose now.

import { make } from "./dom.js"
import { palette } from "./palette.js"
import { plotCard, stack } from "./plots.js"
import { armName, areNamed } from "./worth.js"
import { several } from "./units.js"
import { xName, xsOf } from "./came.js"

const MOST = 7 // arms told apart

export function choosesCard(name) {
  const now = make("p"), plot = plotCard("Shares of arms over time", `${name} shares`, [], null)
  const node = make("div", {}, now, plot.node)
  const update = (session, arms, { by, dates }) => {
    plot.node.hidden = arms.bins.length === 0 || !areNamed(arms)
    now.textContent = wouldChoose(session, arms)
    if (plot.node.hidden) return
    const place = { by, dates }, chosen = Map.groupBy(arms.items.filter(item => item.n > 0), armName)
    const shown = [...chosen].slice(0, MOST), added = (items, i) => items.reduce((sum, item) => sum + item.shares[i], 0)
    const rows = shown.map(([, items]) => arms.bins.map((_, i) => added(items, i)))
    const others = arms.bins.map((_, i) => Math.max(0, 1 - rows.reduce((sum, row) => sum + row[i], 0)))
    const hasOthers = others.some(share => share > 1e-9)
    const tones = palette(session, arms)
    const looks = shown.map(([label]) => ({ label, color: tones.get(label), isStrong: true }))
    if (hasOthers) {
      looks.push({ label: "others", color: "--line", isStrong: true })
      rows.push(others)
    }
    plot.redraw([xsOf(place, arms.bins), ...rows], undefined, { draw: stack(xName(place, { unit: session.each }), "share", looks, [0, 1]), heads: ["at", ...looks.map(look => look.label)] })
    plot.say(`Of ${several(arms.last_round - arms.first_round + 1, session.each)}.${session.holdout ? " Those that control plays are among them." : ""}`)
  }
  return { node, update }
}

function wouldChoose(session, arms) {
  if (arms.items.length === 0) return "It has chosen nothing yet."
  if (session.deciding === "exploring") return "It explores: arms take turns until a fit finds what makes a choice good."
  if (session.deciding === "none") return "It learns nothing, and chooses by its own rule."
  if (arms.reason) return "What it would choose now is told when it is known what choices pay."
  if (!areNamed(arms)) return "What it chooses now depends on the contexts it is offered: the one with the largest worth by the features above."
  const best = arms.items.reduce((one, other) => (other.one.in_all > one.one.in_all ? other : one))
  const choice = `Offered all of these arms, it would choose ${armName(best)} now`
  return arms.items.every(item => item.is_fixed) ? `${choice}.` : `${choice}, if each came with its usual context.`
}
