// Helpers: a temporary folder, real servers, a host for the page and a browser. No port is fixed
// and no time is assumed. Random numbers come from a seed.

import { execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect as dial, createServer as listen } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

export const ROOT = resolve(import.meta.dirname, "../..");
export const IFONLY = process.env.IFONLY ?? join(ROOT, "target/debug/ifonly");
const exec = promisify(execFile);
const cleanups = [];

/** Stops everything that was started, the last first. */
export async function finish() {
  while (cleanups.length > 0) await cleanups.pop()();
}

/** Creates a temporary folder. */
export function makeFolder() {
  const folder = mkdtempSync(join(tmpdir(), "ifonly-page-"));
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Runs a command and returns its exit code and output. */
export async function ifonly(...args) {
  try {
    const { stdout } = await exec(IFONLY, args, { maxBuffer: 64 << 20 });
    return { code: 0, stdout };
  } catch (error) {
    if (typeof error.code !== "number") throw error;
    return { code: error.code, stdout: error.stdout, stderr: error.stderr };
  }
}

/** Runs a command that must succeed, and returns its output. */
export async function succeed(...args) {
  const { code, stdout, stderr } = await ifonly(...args);
  if (code !== 0) throw new Error(`ifonly ${args.join(" ")}: ${stderr}`);
  return stdout;
}

/** Starts a process that prints one line and then runs on. */
async function daemon(args) {
  const child = spawn(IFONLY, args, { stdio: ["ignore", "pipe", "pipe"] });
  let errors = "";
  child.stderr.on("data", (data) => (errors += data));
  const ended = new Promise((done) => child.once("exit", done));
  const stop = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  cleanups.push(stop);
  for await (const line of createInterface({ input: child.stdout })) {
    child.stdout.resume();
    return { line, stop };
  }
  throw new Error(`ifonly ${args.join(" ")} ended: ${errors}`);
}

/** Starts one server of a bundle that allows every origin. */
export async function serve(folder, bundle, index, { key = "root.key", tokens = "" } = {}) {
  const path = (name) => JSON.stringify(join(folder, name));
  const config = join(folder, `server-${index}-${Math.abs(hash(bundle + key + tokens))}.toml`);
  writeFileSync(config, `bundle = ${path(bundle)}\nindex = ${index}\nkeys = [${path(key)}]\nlisten = "127.0.0.1:0"\n[cors]\norigins = ["*"]\n${tokens}`);
  const { line, stop } = await daemon(["serve", "--config", config, "--log", "error"]);
  return { url: line.replace("listening on ", ""), stop };
}

const hash = (text) => [...text].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) | 0, 7);

/** Starts `ifonly demo --page`. */
export async function demo(...args) {
  const { line, stop } = await daemon(["demo", "--page", "--json", ...args]);
  return { ...JSON.parse(line), stop };
}

/** Starts a TCP proxy whose target can be changed; without a target it closes connections. */
export async function startProxy(url) {
  const open = new Set();
  const state = { target: url };
  const server = listen((socket) => {
    if (!state.target) return socket.destroy();
    const { hostname, port } = new URL(state.target);
    const inner = dial(Number(port), hostname);
    for (const [one, other] of [[socket, inner], [inner, socket]]) {
      open.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroy());
    }
    socket.pipe(inner).pipe(socket);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const cut = () => open.forEach((socket) => socket.destroy());
  cleanups.push(() => {
    cut();
    return new Promise((done) => server.close(done));
  });
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    forwardTo(target) {
      state.target = target;
      cut();
    },
  };
}

/** Starts a host of static files. */
export async function host(folder) {
  const kinds = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml", json: "application/json", wasm: "application/wasm" };
  const server = createServer((request, response) => {
    const name = new URL(request.url, "http://x").pathname.slice(1) || "index.html";
    try {
      const bytes = readFileSync(join(folder, name.replaceAll("/", "")));
      response.writeHead(200, { "content-type": kinds[name.split(".").at(-1)] ?? "text/plain" }).end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  cleanups.push(() => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  });
  return `http://127.0.0.1:${server.address().port}/`;
}

/** Builds the page for these servers and starts a host for it. */
export async function hosted(folder, servers, ...extra) {
  const site = join(folder, `site-${Math.abs(hash(servers.join() + extra.join()))}`);
  await succeed("page", "build", site, ...servers.flatMap((url) => ["--server", url]), ...extra);
  return host(site);
}

let launched;
/** Opens a new browser profile in Chromium. */
export async function browse(options = {}) {
  if (!launched) {
    const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
    launched = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
    cleanups.push(() => launched.close());
  }
  const context = await launched.newContext({ locale: "en-GB", ...options });
  context.setDefaultTimeout(60_000);
  return { context, page: await context.newPage() };
}

/** Random numbers from a seed. */
export class Seeded {
  #state;
  constructor(seed) {
    this.#state = BigInt(seed);
  }
  below(n) {
    this.#state = (this.#state * 6364136223846793005n + 1442695040888963407n) & ((1n << 64n) - 1n);
    return Number((this.#state >> 33n) % BigInt(n));
  }
  of(list) {
    return list[this.below(list.length)];
  }
}
