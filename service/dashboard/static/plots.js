// Plots on uPlot: lines over rounds, bars over lags or features, and their PNG and CSV.

import uPlot from "/dashboard/vendor/uplot.js"

import { make } from "./dom.js"

const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

function axes(x, y) {
  const style = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } }
  return [{ ...style, label: x }, { ...style, label: y, size: 60 }]
}

function options(host, x, y, series, more = {}) {
  return {
    width: Math.max(260, host.clientWidth), height: 240, scales: { x: { time: false } },
    axes: axes(x, y), series: [{ label: x }, ...series], ...more,
  }
}

const bars = uPlot.paths.bars({ size: [0.7, 40] })

// series: [{label, color, dash}]; columns: [xs, ys, ...]
export function lines(x, y, series) {
  return host => columns => new uPlot(options(host, x, y, series.map(one => ({
    label: one.label, stroke: color(one.color), width: 1.6, dash: one.dash, spanGaps: true, points: { show: false },
  }))), columns, host)
}

// Bars with intervals, where there are any: columns are [xs, ys, low, high].
export function barsOver(x, y) {
  return host => columns => {
    const hasBand = columns.length === 4
    const whiskers = { hooks: { draw: [plot => hasBand && drawWhiskers(plot)] } }
    const shown = { label: y, stroke: color("--one"), fill: color("--band"), paths: bars, points: { show: false } }
    const band = hasBand ? [{ label: "from", stroke: "transparent" }, { label: "to", stroke: "transparent" }] : []
    for (const one of band) one.points = { show: false }
    const low = Math.min(0, ...columns.slice(1).flat().filter(Number.isFinite))
    const high = Math.max(0, ...columns.slice(1).flat().filter(Number.isFinite))
    const room = (high - low || 1) * 0.06
    return new uPlot(options(host, x, y, [shown, ...band], {
      ...whiskers,
      scales: { x: { time: false, range: [Math.min(...columns[0]) - 0.6, Math.max(...columns[0]) + 0.6] }, y: { range: [low - (low < 0 ? room : 0), high + room] } },
    }), columns, host)
  }
}

function drawWhiskers(plot) {
  const [xs, , low, high] = plot.data
  plot.ctx.save()
  plot.ctx.strokeStyle = color("--ink")
  plot.ctx.lineWidth = Math.max(1, devicePixelRatio)
  plot.ctx.beginPath()
  xs.forEach((x, i) => {
    if (low[i] === null || high[i] === null) return
    const at = plot.valToPos(x, "x", true)
    plot.ctx.moveTo(at, plot.valToPos(low[i], "y", true))
    plot.ctx.lineTo(at, plot.valToPos(high[i], "y", true))
  })
  plot.ctx.stroke()
  plot.ctx.restore()
}

function save(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name })
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1000)
}

// A titled plot that can be redrawn and saved. `draw` comes from `lines` or `barsOver`.
export function plotCard(title, name, heads, draw, note = "") {
  const host = make("div", { role: "img", "aria-label": title })
  const words = make("p", { class: "soft" }, note)
  let plot = null, shown = null
  const redraw = columns => {
    shown = columns
    plot?.destroy()
    plot = columns[0].length ? draw(host)(columns) : null
  }
  const csv = () => {
    const rows = shown[0].map((_, i) => shown.map(column => column[i] ?? "").join(","))
    save(`${name}.csv`, new Blob([[heads.slice(0, shown.length).join(","), ...rows].join("\n")], { type: "text/csv" }))
  }
  const png = () => plot?.ctx.canvas.toBlob(blob => save(`${name}.png`, blob))
  const again = () => shown && redraw(shown)
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again)
  new ResizeObserver(([entry]) => plot && Math.abs(entry.contentRect.width - plot.width) > 2
    && entry.contentRect.width > 0 && plot.setSize({ width: entry.contentRect.width, height: 240 })).observe(host)
  const tools = make("span", { class: "tools" },
    make("button", { onclick: png, "aria-label": `Save ${title} as PNG` }, "PNG"),
    make("button", { onclick: csv, "aria-label": `Save ${title} as CSV` }, "CSV"))
  return { node: make("section", { class: "card" }, tools, make("h2", {}, title), host, words), redraw, say: text => { words.textContent = text } }
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
