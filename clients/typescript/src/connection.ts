// One call with retries, and the pages of a listing.

import type { Problem, ProblemCode } from "./types.js";

/** A refusal of the service. */
export class ApiError extends Error {
  /** The problem code (docs/problem-codes.md); `http_error` where the answer holds none. */
  readonly code: ProblemCode;
  /** The offending field. */
  readonly field: string | null;

  constructor(
    readonly status: number,
    problem: Partial<Problem>,
  ) {
    const where = problem.field ? ` (${problem.field})` : "";
    super(`${status} ${problem.code ?? "http_error"}${where}: ${problem.detail ?? ""}`);
    this.name = "ApiError";
    this.code = problem.code ?? "http_error";
    this.field = problem.field ?? null;
  }
}

export interface Settings {
  /** Where the service listens. */
  url?: string;
  /** Sent as a bearer token; by default LHB_API_KEY of the environment. */
  apiKey?: string | undefined;
  /** Further attempts after a lost connection or a 429, 502, 503 or 504. */
  retries?: number;
  /** Milliseconds for one attempt; above the service's 30 s wait for a blocking refit. */
  timeout?: number;
}

const RETRY_STATUS = new Set([429, 502, 503, 504]);
const LONGEST_WAIT = 30; // seconds that Retry-After is heeded for

export class Connection {
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #retries: number;
  readonly #timeout: number;

  constructor({ url, apiKey, retries, timeout }: Settings) {
    const key = apiKey ?? process.env["LHB_API_KEY"];
    this.#url = new URL(url ?? "http://127.0.0.1:8080").href.replace(/\/$/, "");
    this.#headers = { "content-type": "application/json" };
    if (key) this.#headers["authorization"] = `Bearer ${key}`;
    this.#retries = retries ?? 5;
    this.#timeout = timeout ?? 45_000;
  }

  /** One call. A retry is safe: every write carries an id that the service knows again. */
  async call<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
    const init: RequestInit = { method, headers: this.#headers };
    if (body !== undefined) init.body = JSON.stringify(body, finite);
    for (let attempt = 0; ; attempt++) {
      const isLast = attempt >= this.#retries;
      let response: Response;
      let text: string;
      try {
        const signal = AbortSignal.timeout(this.#timeout);
        response = await fetch(this.#url + path, { ...init, signal });
        text = await response.text();
      } catch (error) {
        if (isLast) throw error;
        await pause(attempt, null);
        continue;
      }
      if (response.ok) return (text === "" ? undefined : JSON.parse(text)) as Answer;
      if (RETRY_STATUS.has(response.status) && !isLast) {
        await pause(attempt, response.headers.get("retry-after"));
        continue;
      }
      // an attempt whose answer was lost has done it
      if (method === "DELETE" && response.status === 404 && attempt > 0) return undefined as Answer;
      throw new ApiError(response.status, problemOf(text));
    }
  }

  /** Every item of a listing, page by page. */
  async *list<Item>(path: string, query: object): AsyncGenerator<Item, void, undefined> {
    const asked = queryOf(query);
    for (let next: string | null = ""; next !== null; ) {
      const page: { items: Item[]; next: string | null } = await this.call("GET", `${path}?${asked}`);
      yield* page.items;
      next = page.next;
      if (next !== null) asked.set("cursor", next);
    }
  }
}

export function queryOf(query: object): URLSearchParams {
  const said = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  return new URLSearchParams(said.map(([name, value]) => [name, String(value)]));
}

/** JSON.stringify makes null of NaN, and a null reward means something. */
function finite(name: string, value: unknown): unknown {
  if (typeof value !== "number" || Number.isFinite(value)) return value;
  throw new RangeError(`${name}: ${value} is no JSON number`);
}

function problemOf(text: string): Partial<Problem> {
  try {
    return JSON.parse(text) as Partial<Problem>;
  } catch {
    return { detail: text.slice(0, 500) };
  }
}

/** A random delay after what Retry-After says, so that clients do not come back together. */
function pause(attempt: number, retryAfter: string | null): Promise<void> {
  const asked = Math.min(Number(retryAfter) || 0, LONGEST_WAIT) * 1000;
  const delay = asked + Math.random() * Math.min(100 * 2 ** attempt, 5000);
  return new Promise((resolve) => setTimeout(resolve, delay));
}
