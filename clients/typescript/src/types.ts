// Names for the types of schema.ts, which openapi-typescript generates from the service's schema.

import type { components, operations } from "./schema.js";

export type Schemas = components["schemas"];

export type Problem = Schemas["ProblemAnswer"];
export type ProblemCode = Problem["code"];

export type SessionBody = Schemas["SessionBody"];
export type SessionPatch = Schemas["SessionPatch"];
export type SessionInfo = Schemas["SessionAnswer"];
export type DecisionBody = Schemas["DecisionOfContexts"];
export type SkipBody = Omit<Schemas["SkippedDecision"], "skip">;
export type Decision = Schemas["DecisionAnswer"];
export type Reward = Schemas["RewardItem"];
export type Accepted = Schemas["AcceptedAnswer"];
export type Estimate = Schemas["EstimateAnswer"] | Schemas["NoEstimateAnswer"];

/** The query parameters of an operation. */
export type Query<Name extends keyof operations> = NonNullable<
  operations[Name]["parameters"]["query"]
>;
