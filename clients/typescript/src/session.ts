import { randomUUID } from "node:crypto";

import { type Connection, queryOf } from "./connection.js";
import type {
  Accepted,
  Decision,
  DecisionBody,
  Estimate,
  Query,
  Reward,
  Schemas,
  SessionInfo,
  SessionPatch,
  SkipBody,
} from "./types.js";

type Items<Item> = AsyncGenerator<Item, void, undefined>;

/** One durable agent on the service. */
export class Session {
  readonly #connection: Connection;
  #info: SessionInfo;

  constructor(connection: Connection, info: SessionInfo) {
    this.#connection = connection;
    this.#info = info;
  }

  get id(): string {
    return this.#info.id;
  }

  /** The session as last read. */
  get info(): SessionInfo {
    return this.#info;
  }

  /** Read the session as it is now; `info` keeps it. */
  async read(): Promise<SessionInfo> {
    this.#info = await this.#connection.call("GET", pathOf(this.id));
    return this.#info;
  }

  /** Choose one of the contexts. Without an `event_id` the client makes one. */
  decide(body: DecisionBody): Promise<Decision> {
    return this.#decision(body);
  }

  /** Record a round without action. */
  skip(body: SkipBody = {}): Promise<Decision> {
    return this.#decision({ ...body, skip: true });
  }

  /** Store one reward. In sum mode, the client makes a `reward_id` where none is given. */
  reward(reward: Reward): Promise<Accepted> {
    return this.#post("rewards", this.#withRewardId(reward));
  }

  /** Store several rewards, all or nothing. */
  rewards(rewards: Reward[]): Promise<Accepted> {
    return this.#post("rewards", { rewards: rewards.map((one) => this.#withRewardId(one)) });
  }

  /** Replace a value that the service has: by `replaces`, a reward's id, or by its rounds. */
  correct(reward: Reward): Promise<Accepted> {
    const correction = reward.replaces ? reward : { ...reward, correct: true };
    return this.#post("rewards", { ...correction, reward_id: reward.reward_id ?? randomUUID() });
  }

  /** Say that a decision was never shown. This cannot be undone. */
  void(eventId: string, trajectory = ""): Promise<Schemas["VoidAnswer"]> {
    const query = new URLSearchParams({ trajectory });
    return this.#post(`decisions/${inPath(eventId)}/void?${query}`);
  }

  /** Have a fit of all rounds so far begun now. */
  askFit(): Promise<Schemas["AskedFitAnswer"]> {
    return this.#post("fits");
  }

  /** Append logged rounds, to start warm. */
  history(body: Schemas["HistoryBody"]): Promise<Schemas["HistoryAnswer"]> {
    return this.#post("history", { ...body, import_id: body.import_id ?? randomUUID() });
  }

  /** Score contexts without making a decision. */
  rank(body: Schemas["RankBody"]): Promise<Schemas["RankAnswer"]> {
    return this.#post("rank", body);
  }

  /** The estimate in use, or why there is none: `"theta" in estimate` tells which. */
  estimate(): Promise<Estimate> {
    return this.#get("estimate");
  }

  /** The last rounds in bins: mean reward, and what the estimate in use expected. */
  series(query: Query<"get_series"> = {}): Promise<Schemas["SeriesAnswer"]> {
    return this.#get("series", query);
  }

  /** What each feature earned at once, and later, in the session's last decisions. */
  creditByFeature(query: Query<"get_earnings"> = {}): Promise<Schemas["CreditByFeatureAnswer"]> {
    return this.#get("credit/features", query);
  }

  /** How often each arm was chosen in the session's last decisions, and what it earned. */
  creditByArm(query: Query<"get_arms"> = {}): Promise<Schemas["CreditByArmAnswer"]> {
    return this.#get("credit/arms", query);
  }

  /** What the agent earns beside its control group, a round. */
  lift(query: Query<"get_lift"> = {}): Promise<Schemas["LiftAnswer"]> {
    return this.#get("lift", query);
  }

  /** How the agent's choices agree with those that its caller played. */
  shadow(): Promise<Schemas["ShadowAnswer"]> {
    return this.#get("shadow");
  }

  /** The fits, oldest first. */
  estimates(query: Query<"get_estimates"> = {}): Items<Schemas["FitAnswer"]> {
    return this.#list("estimates", query);
  }

  /** The schedule: what was fitted, what is due and why, what is next. */
  epochs(query: Query<"get_epochs"> = {}): Items<Schemas["EpochAnswer"]> {
    return this.#list("epochs", query);
  }

  trajectories(query: Query<"get_trajectories"> = {}): Items<Schemas["TrajectoryAnswer"]> {
    return this.#list("trajectories", query);
  }

  /** What is known of one trajectory: its own theta and level, beside everybody's. */
  trajectory(key: string): Promise<Schemas["OneTrajectoryAnswer"]> {
    return this.#get(`trajectories/${inPath(key)}`);
  }

  /** A trajectory's log: one item a round, oldest first. */
  rounds(query: Query<"get_rounds"> = {}): Items<Schemas["RoundAnswer"]> {
    return this.#list("rounds", query);
  }

  /** Past decisions: what each has earned, and is still expected to earn. */
  credit(query: Query<"get_credit"> = {}): Items<Schemas["CreditAnswer"]> {
    return this.#list("credit", query);
  }

  /** Change the name, mode, options or retention, or archive the session; `info` keeps the answer. */
  async change(changes: SessionPatch): Promise<SessionInfo> {
    this.#info = await this.#connection.call("PATCH", pathOf(this.id), changes);
    return this.#info;
  }

  /** A session with the same rounds and rewards, and other settings; with a name, only one. */
  async copy(body: Schemas["SessionCopy"] = {}): Promise<Session> {
    return new Session(this.#connection, await this.#post("copy", body));
  }

  /** Delete the session and all its data. */
  async delete(): Promise<void> {
    await this.#connection.call("DELETE", pathOf(this.id));
  }

  /** Erase all rounds and rewards of a trajectory. Erasing it again does nothing. */
  async eraseTrajectory(key: string): Promise<void> {
    const path = `${pathOf(this.id)}/trajectories/${inPath(key)}`;
    await this.#connection.call("DELETE", path);
  }

  /** Erase what a category is called, like `user=bob`; its column stays. */
  async eraseFeature(name: string): Promise<void> {
    await this.#connection.call("DELETE", `${pathOf(this.id)}/features/${inPath(name)}`);
  }

  #decision(body: Schemas["DecisionBody"]): Promise<Decision> {
    const rewards = body.rewards?.map((reward) => this.#withRewardId(reward));
    return this.#post("decisions", withEventId(rewards ? { ...body, rewards } : body));
  }

  #get<Answer>(resource: string, query: object = {}): Promise<Answer> {
    return this.#connection.call("GET", `${pathOf(this.id)}/${resource}?${queryOf(query)}`);
  }

  #post<Answer>(resource: string, body?: unknown): Promise<Answer> {
    return this.#connection.call("POST", `${pathOf(this.id)}/${resource}`, body);
  }

  #list<Item>(resource: string, query: object): Items<Item> {
    return this.#connection.list(`${pathOf(this.id)}/${resource}`, query);
  }

  #withRewardId(reward: Reward): Reward {
    if (this.#info.reward_mode === "single") return reward;
    return { ...reward, reward_id: reward.reward_id ?? randomUUID() };
  }
}

export function pathOf(session: string): string {
  return `/v1/sessions/${inPath(session)}`;
}

/** A name as one part of a path. A URL takes out "." and "..", also encoded, and nothing is called so. */
function inPath(name: string): string {
  if (name === "." || name === "..") throw new RangeError(`nothing is called ${name}`);
  return encodeURIComponent(name);
}

/** With an idempotency key, a retry gets the first answer. */
export function withEventId<Body extends { event_id?: string | null }>(body: Body): Body {
  return { ...body, event_id: body.event_id ?? randomUUID() };
}
