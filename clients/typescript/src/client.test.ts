// Against a live server at LHB_URL; `npm test` starts one.

import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";

import { ApiError, Client, type Estimate, type Session } from "./index.js";

const url = process.env["LHB_URL"] ?? "http://127.0.0.1:8080";
const contexts = [
  [0.3, -0.1],
  [0.2, 0.9],
];
const client = new Client({ url });
const made: Session[] = [];

async function create(settings: Parameters<Client["createSession"]>[0]): Promise<Session> {
  const session = await client.createSession(settings);
  made.push(session);
  return session;
}

async function listed<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}

async function refusal(call: Promise<unknown>): Promise<ApiError> {
  const error = await call.then(() => null, (error: unknown) => error);
  assert.ok(error instanceof ApiError, String(error));
  return error;
}

test("a loop of decisions and rewards", async () => {
  const session = await create({ algorithm: "uniform", dim: 2, horizon: 5 });
  const first = await session.decide({ contexts, arm_ids: ["a", "b"] });
  assert.equal(first.round, 1);
  assert.equal(first.arm_id, ["a", "b"][first.arm as number]);
  assert.deepEqual(await session.reward({ round: 1, value: 0.5 }), { accepted: 1, repeated: 0 });
  const second = await session.decide({ contexts, rewards: [{ event_id: first.event_id, value: 0.5 }] });
  assert.equal((await session.skip()).arm, null);
  await session.rewards([{ first_round: second.round, last_round: 3, value: 1.5 }]);
  const log = await listed(session.rounds({ limit: 2 })); // two pages
  assert.deepEqual(log.map((one) => one.reward), [0.5, null, null]);
  const span = { first_round: 2, last_round: 3, value: 1.5, covariates: null };
  assert.deepEqual(log[1]?.spans, [span]);
  assert.equal((await session.read()).n_rounds, 3);
  assert.equal(session.info.n_rounds, 3);
  await session.delete();
  assert.equal((await refusal(session.read())).code, "unknown_session");
});

test("what was learned from a history", async () => {
  const session = await create({ dim: 2, horizon: 4, refit: "blocking" });
  const angles = Array.from({ length: 200 }, (_, i) => i * i);
  const shown = angles.map((angle) => [Math.cos(angle), Math.sin(angle)]);
  const rewards = shown.map((_, i) => (i < 2 ? null : (shown[i - 2]?.[0] as number)));
  const history = await session.history({ contexts: shown, rewards });
  assert.deepEqual(history, { first_round: 1, last_round: 200, rewards: 198 });
  await session.decide({ contexts }); // waits for the fit
  const found: Estimate = await session.estimate();
  assert.ok("theta" in found);
  const weights = found.lag_weights as number[];
  assert.equal(weights.indexOf(Math.max(...weights)), 2);
  assert.equal((await session.rank({ contexts })).ranking[0], 0);
  const fits = await listed(session.estimates());
  assert.deepEqual(fits.filter((fit) => fit.in_use).map((fit) => fit.number), [found.number]);
});

test("a session is found or made", async () => {
  const asked = { name: "from / node", dim: 2, horizon: 5 };
  const both = await Promise.all([client.getOrCreate(asked), client.getOrCreate(asked)]);
  made.push(both[0]);
  const other = await client.getOrCreate({ ...asked, dim: 3 });
  assert.deepEqual([both[1].id, other.id], [both[0].id, both[0].id]);
  assert.equal((await client.session("from / node")).id, both[0].id);
  assert.equal((await listed(client.sessions({ name: "from / node" }))).length, 1);
});

test("settings of a session, and what of them changes", async () => {
  const options = { covariates: ["rain"], levels: true, zero_start: false };
  const hourly = await create({ dim: 2, horizon: 5, clock: { slot_seconds: 3600 } });
  assert.equal(hourly.info.clock?.slot_seconds, 3600);
  const levelled = await create({ dim: 2, horizon: 5, options });
  assert.deepEqual(levelled.info.options, options);
  const kept = await create({ dim: 2, horizon: 5, keep_rounds: 50_000 });
  const now = await kept.change({ keep_rounds: null, keep_days: 30 });
  assert.deepEqual([now.keep_rounds, now.keep_days, now.dropped_to], [null, 30, 0]);
  assert.equal(kept.info.keep_days, 30);
  assert.equal((await levelled.change({ keep_days: 30 })).keep_days, 30);
  assert.equal((await hourly.change({ keep_days: 30 })).keep_days, 30);
  const refused = await refusal(levelled.change({ guard: "armed" }));
  assert.deepEqual([refused.code, refused.field], ["bad_option", "guard"]);
});

test("a refusal has its code and field", async () => {
  const session = await create({ dim: 2, horizon: 5 });
  const { round } = await session.decide({ contexts });
  await session.reward({ round, value: 0.5 });
  const conflict = await refusal(session.reward({ round, value: 0.6 }));
  assert.deepEqual([conflict.status, conflict.code, conflict.field], [409, "reward_conflict", "value"]);
  await assert.rejects(session.history({ contexts, rewards: [NaN, 1] }), RangeError);
});

test("what goes beyond the loop", async () => {
  const session = await create({ algorithm: "uniform", dim: 2, horizon: 5 });
  const first = await session.decide({ contexts });
  const second = await session.decide({ contexts });
  await session.reward({ round: 1, value: 0.5 });
  assert.deepEqual(await session.correct({ round: 1, value: 0.7 }), { accepted: 1, repeated: 0 });
  assert.equal((await session.void(second.event_id)).round, 2);
  const log = await listed(session.rounds());
  assert.deepEqual(log.map((one) => [one.reward, one.void]), [[0.7, false], [null, true]]);
  assert.equal((await session.series({ bins: 1 })).items[0]?.n_measured, 1);
  assert.equal((await session.shadow()).n_rounds, 0);
  assert.equal((await session.lift({ effect: 0.1 })).lift, null);
  assert.equal((await session.creditByFeature({ rounds: 10 })).reason, "No estimate is in use.");
  assert.equal((await session.trajectory("")).everybody, null);
  const copy = await session.copy({ horizon: 4 });
  made.push(copy);
  assert.deepEqual([copy.info.n_rounds, copy.info.horizon], [2, 4]);
  assert.equal((await refusal(session.askFit())).code, "fits_by_epochs");
  assert.ok((await client.algorithms()).some((one) => one.name === "anytime"));
  assert.equal(first.round, 1);
});

// leads to the service, and loses every other answer to a write
let writes = 0;
const losing = createServer(async (request, response) => {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const { method = "GET", headers } = request;
  const init: RequestInit = { method, headers: { "content-type": headers["content-type"] ?? "" } };
  if (parts.length > 0) init.body = Buffer.concat(parts);
  const answer = await fetch(url + request.url, init);
  const text = await answer.text();
  if (method !== "GET" && writes++ % 2 === 0) request.socket.destroy();
  else response.writeHead(answer.status).end(text);
});

function listening(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

test("a step of a path is nobody's name", async () => {
  const session = await create({ dim: 2, horizon: 4 });
  await session.decide({ contexts });
  await assert.rejects(session.eraseTrajectory("."), RangeError); // that of the empty key
  await assert.rejects(session.eraseTrajectory(".."), RangeError); // the session
  assert.equal((await session.read()).n_rounds, 1);
});

test("lost answers lose and double nothing", async () => {
  const lossy = new Client({ url: listening(losing) });
  const session = await lossy.createSession({ dim: 2, horizon: 5, reward_mode: "sum" });
  for (let round = 1; round <= 3; round++) {
    const rewards = round === 1 ? [] : [{ round: round - 1, value: 1 }];
    assert.equal((await session.decide({ contexts, rewards })).round, round);
    await session.reward({ round, value: 0.5 });
  }
  const items = await lossy.batch([{ session_id: session.id, decision: { contexts } }]);
  assert.equal(items[0]?.decision?.round, 4);
  const log = await listed(session.rounds());
  assert.deepEqual(log.map((one) => one.reward), [1.5, 1.5, 0.5, null]);
  await session.delete();
});

// a service that is too busy for the first requests, and one that stays so
const statuses: number[] = [];
const busy = createServer((_, response) => {
  const status = statuses.shift() ?? 503;
  response.writeHead(status, { "retry-after": "0" });
  response.end(status === 200 ? '{"items": [], "next": null}' : '{"code": "overloaded", "detail": "busy"}');
});
after(async () => {
  await Promise.allSettled(made.map((session) => session.delete())); // some are deleted already
});
for (const server of [busy, losing]) {
  before(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)));
  after(() => server.close());
}

test("a refusal that passes is asked again, one that stays is said", async () => {
  const patient = new Client({ url: listening(busy), retries: 2 });
  statuses.push(503, 429, 200);
  assert.deepEqual(await listed(patient.sessions()), []);
  const refused = await refusal(patient.session("any"));
  assert.deepEqual([refused.status, refused.code], [503, "overloaded"]);
  statuses.push(422, 200);
  assert.equal((await refusal(patient.session("any"))).status, 422);
  assert.equal(statuses.length, 1); // it was not asked again
});
