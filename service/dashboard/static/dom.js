// Elements, numbers and words.

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value)
    else if (value === true) node.setAttribute(name, "")
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value)
  }
  node.append(...children.filter(child => child !== null && child !== undefined))
  return node
}

const ROUNDING = 1e-12 // of nothing

export const number = (value, digits = 3) =>
  value === null || value === undefined ? "–"
    : Math.abs(value) < ROUNDING ? "0"
    : Number.isInteger(value) ? (value + 0).toLocaleString("en") // -0 is 0
      : Number(value.toPrecision(digits)).toString()

export function duration(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]
  const [size, unit] = units.find(([size]) => seconds >= size) || [0.001, "ms"]
  return `${number(seconds / size, 2)} ${unit}`
}

export const time = text => (text ? new Date(text).toLocaleString() : "–")

export function announce(text) {
  document.getElementById("announce").textContent = text
}

// What a page shows while it waits, and where there is nothing to show.
export const loading = words => make("div", { class: "notice", role: "status", "aria-busy": "true" },
  make("span", { class: "bones", "aria-hidden": "true" }), make("p", { class: "soft" }, words))

export const notice = (heading, ...more) => make("div", { class: "notice" }, make("h1", {}, heading), ...more)

// The names of the columns of a session's contexts, and of products that a fit counts; a column without a name has its number.
export function features(session, fit) {
  const own = Array.from({ length: session.dim }, (_, i) => session.features?.[i] ?? String(i))
  return [...own, ...(fit?.products ?? []).map(pair => pair.map(i => own[i]).join(" x "))]
}

// A table; columns are [heading, row => content, isNumber].
export function table(caption, columns, rows) {
  const head = columns.map(([heading, , isNumber]) =>
    make("th", { scope: "col", class: isNumber ? "number" : null }, heading))
  const body = rows.map(row => make("tr", {}, ...columns.map(([, content, isNumber]) =>
    make("td", { class: isNumber ? "number" : null }, content(row) ?? ""))))
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", { class: "hidden" }, caption),
      make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body)))
}

// What decides now, in words and with a tone.
export function state(session, alarm = null) {
  if (session.archived) return ["archived", ""]
  if (session.guard === "tripped") return ["guard tripped: control plays", "bad"]
  if (alarm) return ["alarm: predicted badly of late", "bad"]
  if (session.n_rounds === 0) return ["no round yet", ""]
  const decides = {
    in_use: ["decides by what it learned", "good"],
    in_doubt: ["decides by what it learned, which is in doubt: see what was found", "bad"],
    learning: ["decides by its best guess: nothing stands out from the noise yet", ""],
    exploring: ["exploring", ""],
    none: ["learns nothing", ""],
  }[session.deciding] || [session.deciding, ""]
  return session.fit_due ? [`${decides[0]}; a fit is due`, decides[1]] : decides
}

export const badge = ([words, tone]) => make("span", { class: `state ${tone}` }, words)
