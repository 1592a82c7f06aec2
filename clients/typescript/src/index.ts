export { Client } from "./client.js";
export { ApiError, type Settings } from "./connection.js";
export { Session } from "./session.js";
export type * from "./types.js";
