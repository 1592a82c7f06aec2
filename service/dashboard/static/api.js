// The API: one place that adds the key, understands problems, pages and server-sent events.

const KEY = "lhb-key"

export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.detail || `The server answered ${status}.`)
    this.status = status
    this.code = problem.code
  }
}

export const hasKey = () => sessionStorage.getItem(KEY) !== null
export const keepKey = key => sessionStorage.setItem(KEY, key)
export const forgetKey = () => sessionStorage.removeItem(KEY)

function headers() {
  const key = sessionStorage.getItem(KEY)
  return key === null ? {} : { authorization: `Bearer ${key}` }
}

async function ask(path, options = {}) {
  let answer
  try {
    answer = await fetch(path, { headers: headers(), ...options })
  } catch (error) {
    if (error.name === "AbortError") throw error
    throw new Refusal(0, { detail: "The server does not answer." })
  }
  if (answer.ok) return answer
  let problem = {}
  try {
    problem = await answer.json()
  } catch { /* not from this service */ }
  throw new Refusal(answer.status, problem)
}

export async function get(path, parameters = {}, signal) {
  const query = new URLSearchParams(parameters).toString()
  return (await ask(query ? `${path}?${query}` : path, { signal })).json()
}

export async function post(path, body, signal) {
  const sent = { method: "POST", body: JSON.stringify(body), headers: { ...headers(), "content-type": "application/json" }, signal }
  return (await ask(path, sent)).json()
}

// All items of a listing, page by page.
export async function all(path, parameters = {}, signal) {
  const items = []
  for (let cursor = null; ;) {
    const page = await get(path, { limit: 1000, ...parameters, ...(cursor === null ? {} : { cursor }) }, signal)
    items.push(...page.items)
    if (page.next === null) return items
    cursor = page.next
  }
}

// Calls `onData` with the data of every event until `signal` aborts; connects again by itself.
export async function watch(path, onData, onState, signal) {
  while (!signal.aborted) {
    try {
      const answer = await ask(path, { signal })
      onState("live")
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
      for (let text = ""; ;) {
        const { value, done } = await reader.read()
        if (done) break
        const events = (text + value).split("\n\n")
        text = events.pop()
        for (const event of events) onData(JSON.parse(event.replace(/^data: /, "")))
      }
    } catch (error) {
      if (signal.aborted) return
      onState(error.status === 0 ? "The server does not answer; trying again." : error.message)
      if (error.status === 404 || error.status === 401) return
      await new Promise(resolve => setTimeout(resolve, 2000))
    }
  }
}
