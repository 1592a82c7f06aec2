// Plots on uPlot: an x is a label, or one with `dates` of its values; lines, bands and stacks over times, rounds or lags, bars over lags or features;
// each is read by pointer or arrow keys, and saved as PNG or CSV.

import uPlot from "/dashboard/vendor/uplot.js"

import { make, number } from "./dom.js"

const HEIGHT = 240
const MOST_LETTERS = 14 // of a label under an axis
const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

// Whole numbers, at most one every `width / room` pixels; `labels` are shown in their place.
function wholeNumbers(labels, room) {
  const text = value => labels?.[value] ?? (Number.isInteger(value) ? String(value) : "")
  const short = value => (text(value).length > MOST_LETTERS ? `${text(value).slice(0, MOST_LETTERS - 1)}…` : text(value))
  return {
    splits: (plot, _, low, high) => {
      const step = Math.max(1, Math.ceil((high - low) / Math.max(2, plot.width / room)))
      const first = Math.ceil(low / step) * step
      return Array.from({ length: Math.max(0, Math.floor((high - first) / step) + 1) }, (_, i) => first + i * step)
    },
    values: (_, splits) => splits.map(short),
  }
}

const DAY = 86400
const clock = (options, at) => new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...options }).format(new Date(1000 * at))

// A time of UTC in words: a date, and the time of day where steps are shorter than a day.
export function dated(at, step = DAY) {
  const day = clock({ day: "numeric", month: "short", year: "numeric" }, at)
  return step >= DAY ? day : `${day}, ${clock({ hour: "2-digit", minute: "2-digit" }, at)} UTC`
}

function onAxis(at, step) {
  if (step >= 28 * DAY) return clock({ month: "short", year: "numeric" }, at)
  return clock(step >= DAY ? { day: "numeric", month: "short" } : { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }, at)
}

export const TIME = "time (UTC)" // the label of an axis of times

function axes(x, y, labels) {
  const style = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } }
  const isLong = labels?.length > 6 && labels.some(label => label.length > 3)
  let below = labels ? { ...wholeNumbers(labels, isLong ? 26 : 40), ...(isLong ? { rotate: -40, size: 84 } : {}) }
    : { values: (_, splits) => splits.map(value => (Number.isInteger(value) ? number(value) : "")) }
  const { dates } = x
  if (dates) below = { space: 90, size: 62, values: (_, splits) => splits.map(value => (dates[value] ? `${number(value)}\n${dates[value]}` : "")) }
  if (x === TIME) below = { space: 90, values: (_, splits, __, ___, step) => splits.map(at => onAxis(at, step)) }
  return [{ ...style, label: x.label ?? x, ...below }, { ...style, label: y, size: 60 }]
}

function options(host, x, y, series, labels, more = {}) {
  const isTime = x === TIME
  return {
    width: Math.max(260, host.clientWidth), height: HEIGHT, legend: { show: false },
    tzDate: at => uPlot.tzDate(new Date(1000 * at), "UTC"),
    axes: axes(x, y, labels), series: [{ label: x.label ?? x, dates: x.dates }, ...series], ...more,
    scales: { ...more.scales, x: { ...more.scales?.x, time: isTime } },
  }
}

// One table of columns for tables [xs, ys], whose xs may differ.
export const joined = tables => uPlot.join(tables)

const bars = uPlot.paths.bars({ size: [0.7, 40] })

// series: [{label, color, dash, dots, hollow}]; columns: [xs, ys, ...]; labels stand for the xs; range is that of y.
export function lines(x, y, series, range) {
  return host => (columns, labels) => new uPlot(options(host, x, y, series.map(one => ({
    label: one.label, stroke: color(one.color), width: one.dots ? 0 : 1.6, dash: one.dash, spanGaps: true,
    points: one.dots ? { show: true, size: one.hollow ? 12 : 7, fill: one.hollow ? "transparent" : color(one.color) } : { show: false },
  })), labels, { scales: {
    x: { time: false, ...(labels && columns[0].length ? { range: [-0.6, labels.length - 0.4] } : {}) }, ...(range ? { y: { range } } : {}),
  } }), columns, host)
}

// A line with a band around it: columns are [xs, ys, low, high].
export function bandOver(x, y) {
  const edge = label => ({ label, stroke: "transparent", points: { show: false } })
  return host => columns => new uPlot(options(host, x, y, [
    { label: y, stroke: color("--one"), width: 1.6, points: { show: columns[0].length < 3 } }, edge("from"), edge("to"),
  ], undefined, { bands: [{ series: [3, 2], fill: color("--band") }] }), columns, host)
}

// Layers on each other, from the lowest, that add up; and a line, where `looks` has one more with
// `isLine`. Columns are [xs, ...layers, line]. The top layer may take away.
export function stack(x, y, looks, range) {
  const layers = looks.filter(look => !look.isLine)
  return host => columns => {
    const parts = columns.slice(1, 1 + layers.length)
    const sums = parts.map((_, n) => columns[0].map((_, i) => (parts[0][i] === null ? null
      : parts.slice(0, n + 1).reduce((sum, part) => sum + part[i], 0))))
    const fill = look => `${color(look.color)}${look.isStrong ? "b0" : "66"}`
    const plot = new uPlot(options(host, x, y, [
      ...layers.map((look, i) => ({
        label: look.label, stroke: color(look.color), width: 1, points: { show: false },
        ...(i ? {} : { fill: fill(look), fillTo: plot => Math.max(0, plot.scales.y.min) }),
      })),
      ...looks.filter(look => look.isLine).map(look => ({ label: look.label, stroke: color(look.color), width: 1.3, points: { show: columns[0].length < 3 } })),
    ], undefined, {
      bands: layers.slice(1).map((look, i) => ({ series: [i + 2, i + 1], fill: fill(look) })), scales: range ? { y: { range } } : {},
    }), [columns[0], ...sums, ...columns.slice(1 + layers.length)], host)
    plot.told = columns
    return plot
  }
}

// A line a feature, each in a band where there are any, paler of draws: columns are [xs, ...values, ...lows, ...highs].
export function profileLines(x, y, names, tones, isDrawn) {
  const n = names.length
  const tone = i => color(tones[i]), isAgain = names.map((_, i) => tones.indexOf(tones[i]) < i)
  return host => columns => {
    const ends = columns.slice(1 + n)
    const shade = plot => ends.length && names.forEach((_, i) => drawBand(plot, columns[0], ends[i], ends[n + i], `${tone(i)}${isDrawn ? "12" : "26"}`))
    const all = columns.slice(1).flat(), room = ((Math.max(0, ...all) - Math.min(0, ...all)) || 1) * 0.05
    return new uPlot(options(host, x, y, names.map((label, i) => ({
      label, stroke: tone(i), width: 1.8, dash: isAgain[i] ? [6, 4] : undefined, points: { show: columns[0].length < 3 },
    })), undefined, {
      hooks: { drawClear: [shade] },
      scales: { x: { time: false }, y: { range: [Math.min(0, ...all) - room, Math.max(0, ...all) + room] } },
    }), columns.slice(0, 1 + n), host)
  }
}

function drawBand(plot, xs, low, high, fill) {
  const at = (x, y) => [plot.valToPos(x, "x", true), plot.valToPos(y, "y", true)]
  plot.ctx.save()
  plot.ctx.fillStyle = fill
  plot.ctx.beginPath()
  for (const [i, x] of xs.entries()) plot.ctx.lineTo(...at(x, high[i]))
  for (const [i, x] of [...xs.entries()].reverse()) plot.ctx.lineTo(...at(x, low[i]))
  plot.ctx.fill()
  plot.ctx.restore()
}

const PAIR = ["--ink", "--one"] // no arm's, and no feature's
export const WHISKERS = "Whiskers: 95% intervals."

// Two bars beside each other, with intervals where there are any: columns are
// [xs, ones, others, low and high of the ones, low and high of the others].
export function barPairs(x, y, names) {
  const size = [0.35, 40]
  return host => (columns, labels) => {
    const ends = columns.slice(3), all = columns.slice(1).flat().filter(Number.isFinite)
    const low = Math.min(0, ...all), high = Math.max(0, ...all), room = (high - low || 1) * 0.06
    const beside = plot => Math.min(size[0] * (plot.valToPos(1, "x", true) - plot.valToPos(0, "x", true)), size[1] * devicePixelRatio) / 2
    const whiskers = plot => ends.length && [-1, 1].forEach((side, i) => drawWhiskers(plot, side * beside(plot), ...ends.slice(2 * i, 2 * i + 2)))
    return new uPlot(options(host, x, y, names.map((label, i) => ({
      label, stroke: color(PAIR[i]), fill: `${color(PAIR[i])}40`, paths: uPlot.paths.bars({ size, align: 2 * i - 1 }), points: { show: false },
    })), labels, {
      hooks: { draw: [whiskers] },
      scales: { x: { time: false, range: [-0.6, columns[0].length - 0.4] }, y: { range: [low - (low < 0 ? room : 0), high + room] } },
    }), columns.slice(0, 3), host)
  }
}

// Bars with intervals, where there are any, dashed if they are of draws: columns are [xs, ys, low, high].
export function barsOver(x, y, isDrawn = false) {
  return host => (columns, labels) => {
    const hasBand = columns.length === 4
    const whiskers = { hooks: { draw: [plot => hasBand && drawWhiskers(plot, 0, ...columns.slice(2), isDrawn)] } }
    const shown = { label: y, stroke: color("--one"), fill: color("--band"), paths: bars, points: { show: false } }
    const band = hasBand ? [{ label: "from", stroke: "transparent" }, { label: "to", stroke: "transparent" }] : []
    for (const one of band) one.points = { show: false }
    const low = Math.min(0, ...columns.slice(1).flat().filter(Number.isFinite))
    const high = Math.max(0, ...columns.slice(1).flat().filter(Number.isFinite))
    const room = (high - low || 1) * 0.06
    return new uPlot(options(host, x, y, [shown, ...band], labels, {
      ...whiskers,
      scales: { x: { time: false, range: [Math.min(...columns[0]) - 0.6, Math.max(...columns[0]) + 0.6] }, y: { range: [low - (low < 0 ? room : 0), high + room] } },
    }), columns, host)
  }
}

function drawWhiskers(plot, beside, low, high, isDrawn = false) {
  plot.ctx.save()
  if (isDrawn) plot.ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio])
  plot.ctx.strokeStyle = color("--ink")
  plot.ctx.lineWidth = Math.max(1, devicePixelRatio)
  plot.ctx.beginPath()
  plot.data[0].forEach((x, i) => {
    if (low[i] === null || high[i] === null) return
    const at = plot.valToPos(x, "x", true) + beside
    const [from, to] = [low[i], high[i]].map(value => plot.valToPos(value, "y", true))
    plot.ctx.moveTo(at, from)
    plot.ctx.lineTo(at, to)
    for (const end of [from, to]) {
      plot.ctx.moveTo(at - 3 * devicePixelRatio, end)
      plot.ctx.lineTo(at + 3 * devicePixelRatio, end)
    }
  })
  plot.ctx.stroke()
  plot.ctx.restore()
}

// An estimate's values with their 95% intervals: columns for `barsOver`. `places` says whose they are.
export function withIntervals(values, intervals, places) {
  const columns = [values.map((_, i) => i), values]
  if (!intervals?.length) return columns
  const low = values.map(() => null), high = values.map(() => null)
  intervals.forEach((interval, i) => {
    if (!interval) return
    const place = places ? places[i] : i
    low[place] = interval[0]
    high[place] = interval[1]
  })
  return [...columns, low, high]
}

function save(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name })
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1000)
}

const cell = value => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value)

// A titled plot that can be redrawn, read and saved. `draw` comes from `lines`, `stack` or another
// one above. Without points there is no plot, and `say` tells why.
export function plotCard(title, name, heads, draw, note = "") {
  const host = make("div", { class: "plot", role: "img", tabindex: "0", "aria-label": `${title}. Left and right read its points.` })
  const words = make("p", { class: "soft" }, note), reading = make("p", { class: "reading", "aria-live": "polite" })
  let plot = null, shown = null, at = 0, isTouched = false
  const redraw = (columns, labels, other) => {
    shown = [columns, labels, other]
    const asked = other ?? { draw, heads }
    plot?.destroy()
    plot = columns[0].length ? asked.draw(host)(columns, labels) : null
    for (const part of [host, reading, tools]) part.hidden = plot === null
    if (plot === null) return
    plot.hooks.setCursor = [() => {
      if (plot.cursor.idx === null || plot.cursor.left < 0) return
      isTouched = true
      read(plot.cursor.idx)
    }]
    at = isTouched ? Math.min(at, columns[0].length - 1) : columns[0].length - 1
    read(at)
  }
  const read = i => {
    at = i
    const [columns, labels] = shown, told = plot.told ?? columns, x = columns[0][i]
    const step = columns[0].length > 1 ? columns[0][1] - columns[0][0] : DAY
    const { label, dates } = plot.series[0], date = dates?.[Math.round(x)]
    const where = label === TIME ? dated(x, step) : labels?.[x] ?? `${label} ${number(x)}${date ? `, ${date}` : ""}`
    const parts = plot.series.slice(1).map((one, n) => [one, told[n + 1]?.[i]]).filter(([, value]) => value !== null && value !== undefined)
    reading.replaceChildren(make("b", {}, `${where}: `), ...parts.flatMap(([one, value], n) => [
      ...(n ? [", "] : []), ...(one.stroke ? [swatch(one)] : []), `${one.label} ${number(value)}`]))
  }
  const swatch = one => {
    const stroke = typeof one.stroke === "function" ? one.stroke(plot) : one.stroke
    const mark = make("span", { class: "swatch", "aria-hidden": "true" })
    mark.style.background = stroke
    mark.hidden = stroke === "transparent"
    return mark
  }
  host.addEventListener("keydown", event => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
    if (!by || plot === null) return
    event.preventDefault()
    const i = Math.max(0, Math.min(shown[0][0].length - 1, at + by))
    isTouched = true
    read(i)
    plot.setCursor({ left: plot.valToPos(shown[0][0][i], "x"), top: 10 }, false)
  })
  const csv = () => {
    const [columns, labels, other] = shown
    const isTime = plot.series[0].label === TIME
    const rows = columns[0].map((x, i) => [cell(isTime ? new Date(1000 * x).toISOString() : labels?.[x] ?? String(x)),
      ...columns.slice(1).map(column => column[i] ?? "")].join(","))
    save(`${name}.csv`, new Blob([[(other ?? { heads }).heads.slice(0, columns.length).map(cell).join(","), ...rows].join("\n")], { type: "text/csv" }))
  }
  const png = () => plot?.ctx.canvas.toBlob(blob => save(`${name}.png`, blob))
  const again = () => shown && redraw(...shown)
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again)
  new ResizeObserver(([entry]) => plot && Math.abs(entry.contentRect.width - plot.width) > 2
    && entry.contentRect.width > 0 && plot.setSize({ width: entry.contentRect.width, height: HEIGHT })).observe(host)
  const tools = make("span", { class: "tools", hidden: true },
    make("button", { onclick: png, "aria-label": `Save ${title} as PNG` }, "PNG"),
    make("button", { onclick: csv, "aria-label": `Save ${title} as CSV` }, "CSV"))
  host.hidden = reading.hidden = true
  const node = make("section", { class: "card" }, tools, make("h3", {}, title), host, reading, words)
  return { node, redraw, say: text => { words.textContent = text } }
}

export function sparkline(canvas, values) {
  const pixels = devicePixelRatio || 1
  canvas.width = canvas.clientWidth * pixels
  canvas.height = canvas.clientHeight * pixels
  const known = values.filter(value => value !== null)
  if (known.length < 2) return
  const low = Math.min(...known), high = Math.max(...known)
  const context = canvas.getContext("2d")
  context.strokeStyle = color("--one")
  context.lineWidth = 1.4 * pixels
  context.beginPath()
  let isDrawing = false
  values.forEach((value, i) => {
    if (value === null) return
    const x = (i / (values.length - 1)) * (canvas.width - 2) + 1
    const y = canvas.height - 2 - ((value - low) / (high - low || 1)) * (canvas.height - 4)
    if (isDrawing) context.lineTo(x, y)
    else context.moveTo(x, y)
    isDrawing = true
  })
  context.stroke()
}
