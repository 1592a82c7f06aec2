import { randomUUID } from "node:crypto";

import { ApiError, Connection, type Settings } from "./connection.js";
import { pathOf, Session, withEventId } from "./session.js";
import type { Query, Schemas, SessionBody, SessionInfo } from "./types.js";

/** A connection to one service. */
export class Client {
  readonly #connection: Connection;

  constructor(settings: Settings = {}) {
    this.#connection = new Connection(settings);
  }

  /** Create a session, or find the one that has this name and these settings. */
  async createSession(body: SessionBody): Promise<Session> {
    const named = { ...body, name: body.name ?? `session-${randomUUID()}` };
    return this.#session(await this.#connection.call<SessionInfo>("POST", "/v1/sessions", named));
  }

  /** An existing session, by its id or its name. */
  async session(session: string): Promise<Session> {
    return this.#session(await this.#connection.call<SessionInfo>("GET", pathOf(session)));
  }

  /** The session of this name, whatever its settings; it is created if there is none. */
  async getOrCreate(body: SessionBody & { name: string }): Promise<Session> {
    try {
      return await this.session(body.name);
    } catch (error) {
      if (!(error instanceof ApiError && error.code === "unknown_session")) throw error;
    }
    try {
      return await this.createSession(body);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 409)) throw error;
      return await this.session(body.name); // another program has just made it
    }
  }

  /** All sessions, in order of creation. */
  async *sessions(query: Query<"get_sessions"> = {}): AsyncGenerator<Session, void, undefined> {
    for await (const info of this.#connection.list<SessionInfo>("/v1/sessions", query)) {
      yield this.#session(info);
    }
  }

  /** The algorithms, each with the schema of its options. */
  async algorithms(): Promise<Schemas["AlgorithmAnswer"][]> {
    const page: Schemas["AlgorithmPage"] = await this.#connection.call("GET", "/v1/algorithms");
    return page.items;
  }

  /** Decisions and rewards of many sessions in one transaction; each item has its own answer. */
  async batch(items: Schemas["BatchItem"][]): Promise<Schemas["ItemAnswer"][]> {
    const asked = items.map((item) =>
      "decision" in item ? { ...item, decision: withEventId(item.decision) } : item,
    );
    const body = { items: asked };
    return (await this.#connection.call<Schemas["BatchAnswer"]>("POST", "/v1/batch", body)).items;
  }

  /** Have a URL told of events, by default of all; the answer alone has the secret. */
  async createWebhook(body: Schemas["WebhookBody"]): Promise<Schemas["NewWebhookAnswer"]> {
    return await this.#connection.call("POST", "/v1/webhooks", body);
  }

  /** The webhooks, with what waits for each and why its last attempt failed. */
  async webhooks(): Promise<Schemas["WebhookAnswer"][]> {
    const page: Schemas["WebhookPage"] = await this.#connection.call("GET", "/v1/webhooks");
    return page.items;
  }

  /** Send a webhook a message of the type "test". */
  async tryWebhook(id: string): Promise<void> {
    await this.#connection.call("POST", `/v1/webhooks/${encodeURIComponent(id)}/test`);
  }

  /** Remove a webhook, with the messages that wait for it. */
  async removeWebhook(id: string): Promise<void> {
    await this.#connection.call("DELETE", `/v1/webhooks/${encodeURIComponent(id)}`);
  }

  #session(info: SessionInfo): Session {
    return new Session(this.#connection, info);
  }
}
