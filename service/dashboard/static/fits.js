// The latest fits, and those to come: when each is due, and why.

import { make, number, table, time } from "./dom.js"
import { inWords } from "./units.js"

export const LAST_FITS = 8
const STATUS = { ok: "new estimate", zero: "no new estimate", insufficient_data: "too few data", waiting_for_rewards: "waits for rewards" }

export function fitTable(epochs, session) {
  const last = epochs.slice(-LAST_FITS).reverse()
  if (last.length === 0) return make("p", { class: "soft" }, "No fit yet, and none is due.")
  return table("Fits, newest first", [
    ["epoch", row => number(row.epoch), true], ["status", row => STATUS[row.status] || row.status],
    [`due after ${session.unit} of the session`, row => number(row.window.due), true], ["why", row => inWords(row.reason || row.due_reason || "", session)],
    ["at", row => (row.at || row.due_at ? time(row.at || row.due_at) : "to come")],
  ], last)
}
