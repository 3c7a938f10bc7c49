// Asking from JavaScript: connect to the servers, see what they offer, ask.
//
// In a browser everything runs in a Web Worker; in Node, in this thread. No profile is kept anywhere but in memory.

import type { Answer, Inspection, Pins, Profile, Progress, Sent, Server, Understood, Wishes } from "./data.ts";
import { Direct, type Engine } from "./engine.ts";
import { Remote } from "./remote.ts";

export * from "./data.ts";
export type { Engine } from "./engine.ts";

export interface ConnectOptions {
  signal?: AbortSignal;
  /** The engine to use, for several connections; by default each starts its own. */
  engine?: Engine;
}

export interface AskOptions {
  /** Stops the search. Servers see that somebody stopped. */
  signal?: AbortSignal;
  onProgress?: (progress: Progress) => void;
}

export interface EngineOptions {
  /** The bytes of ifonly.wasm; by default those beside this module. */
  wasm?: BufferSource | Promise<BufferSource>;
  /** A worker that runs worker.js; by default the one beside this module. */
  worker?: Worker;
}

/** Starts an engine: in a worker where there are workers, in this thread elsewhere. */
export function start(options: EngineOptions = {}): Engine {
  const wasm = options.wasm ?? load();
  if (options.worker) return new Remote(options.worker, wasm);
  if (typeof Worker === "undefined") return new Direct(wasm);
  return new Remote(new Worker(new URL("./worker.js", import.meta.url), { type: "module" }), wasm);
}

async function load(): Promise<BufferSource> {
  const url = new URL("./ifonly.wasm", import.meta.url);
  if (url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    return new Uint8Array(await readFile(url));
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`ifonly.wasm: ${response.status}`);
  return await response.arrayBuffer();
}

/** Meets the servers, given in any order, and compares what they offer. Nothing about a person is sent. */
export async function connect(
  servers: (string | Server)[],
  pins: Pins = {},
  options: ConnectOptions = {},
): Promise<Connection> {
  const engine = options.engine ?? start();
  const meeting = { servers: servers.map((server) => (typeof server === "string" ? { url: server } : server)), pins };
  try {
    const args = [JSON.stringify(meeting)];
    const session = Number(await engine.run({ method: "connect", args }, { signal: options.signal }));
    return new Connection(engine, session, !options.engine);
  } catch (error) {
    if (!options.engine) engine.close();
    throw error;
  }
}

/** Servers that agree about what they offer. */
export class Connection {
  readonly #engine: Engine;
  readonly #session: number;
  readonly #owned: boolean;

  /** Use `connect`. */
  constructor(engine: Engine, session: number, owned: boolean) {
    this.#engine = engine;
    this.#session = session;
    this.#owned = owned;
  }

  /** What the servers offer: columns, schemes, operators. */
  async inspect(): Promise<Inspection> {
    return JSON.parse(await this.#run("inspect"));
  }

  /** The manifest, byte by byte as it was served. */
  manifest(): Promise<string> {
    return this.#run("manifest");
  }

  /** How a value is understood; throws where it is none. Nothing is sent. */
  async understand(column: string, value: string): Promise<Understood> {
    return JSON.parse(await this.#run("understand", [column, value]));
  }

  /** Whether a question can be; what the person should know about it. Nothing is sent. */
  async check(profile: Profile, wishes: Wishes = {}): Promise<string[]> {
    return JSON.parse(await this.#run("check", [JSON.stringify(profile), JSON.stringify(wishes)]));
  }

  /**
   * Asks for the nearest accepted people. What is sent depends on the manifest, the scheme and the number of records alone; after a
   * mistake in the profile or the wishes a search follows that looks for nothing, and then the error.
   */
  async ask(profile: Profile, wishes: Wishes = {}, options: AskOptions = {}): Promise<Answer> {
    return JSON.parse(await this.#run("ask", [JSON.stringify(profile), JSON.stringify(wishes)], options));
  }

  /** What each server was sent in the last search. Whoever sees two servers' parts can read the question. */
  async seen(): Promise<Sent[]> {
    return JSON.parse(await this.#run("seen"));
  }

  /** Lets go of the servers, and of the worker if it was started for them. */
  close() {
    if (this.#owned) this.#engine.close();
    else this.#run("free").catch(() => {});
  }

  #run(method: "inspect" | "manifest" | "understand" | "check" | "ask" | "seen" | "free", args: string[] = [], options = {}) {
    return this.#engine.run({ method, session: this.#session, args }, options);
  }
}

