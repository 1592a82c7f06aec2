// `npm test`: install if need be, start a server of this checkout (or use LHB_URL), generate, build, test.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const root = join(import.meta.dirname ?? ".", "..", "..");
const python = process.env.LHB_PYTHON ?? join(root, ".venv", "bin", "python");

function run(command) {
  const [program, ...args] = command.split(" ");
  const { status } = spawnSync(program, args, { stdio: "inherit" });
  if (status !== 0) throw new Error(`${command} failed`);
}

async function serving(folder) {
  if (!existsSync(python)) throw new Error(`no server to test: there is no ${python}. Run make serve in the checkout once, or set LHB_URL to a server`);
  const env = { ...process.env, LHB_DATABASE_URL: `sqlite:///${folder}/lhb.db` };
  const args = ["-m", "clients.cli.main", "serve", "--port", "0"];
  const server = spawn(python, args, { cwd: root, env, stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface(server.stdout)) {
    if (line.startsWith("listening on ")) process.env.LHB_URL = line.split(" ").pop();
    if (process.env.LHB_URL) return server;
  }
  throw new Error("the server did not start");
}

const folder = mkdtempSync(join(tmpdir(), "lhb-"));
let server;
try {
  server = process.env.LHB_URL ? undefined : await serving(folder);
  if (!existsSync("node_modules")) run("npm install --no-package-lock --ignore-scripts --no-audit --no-fund");
  for (const command of ["npm run generate", "npm run build", "node --test dist/client.test.js"]) run(command);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  server?.kill();
  if (server && server.exitCode === null) await new Promise((ended) => server.once("exit", ended));
  rmSync(folder, { recursive: true });
}
