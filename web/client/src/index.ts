// The client for JavaScript: connect to the servers, inspect their manifest, search.
//
// In a browser the engine runs in a Web Worker, in Node in this thread. Profiles stay in memory.

import type { Answer, Inspection, InterpretedValue, Message, Pins, Profile, Progress, SentMessage, Server, Wishes } from "./data.ts";
import { Direct, type Engine } from "./engine.ts";
import { Remote } from "./remote.ts";

export * from "./data.ts";
export type { Engine } from "./engine.ts";

export interface ConnectOptions {
  signal?: AbortSignal;
  /** An engine for several connections. By default each connection starts its own. */
  engine?: Engine;
}

export interface AskOptions {
  /** Cancels the search. The servers see the cancellation. */
  signal?: AbortSignal;
  onProgress?: (progress: Progress) => void;
}

export interface EngineOptions {
  /** The bytes of ifonly.wasm. The default is the file beside this module. */
  wasm?: BufferSource | Promise<BufferSource>;
  /** A worker that runs worker.js. The default is the file beside this module. */
  worker?: Worker;
}

/** Starts an engine: in a worker if workers exist, else in this thread. */
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

/** Connects to the servers, in any order, and compares their manifests. Sends no user data. */
export async function connect(
  servers: (string | Server)[],
  pins: Pins = {},
  options: ConnectOptions = {},
): Promise<Connection> {
  const engine = options.engine ?? start();
  const request = { servers: servers.map((server) => (typeof server === "string" ? { url: server } : server)), pins };
  try {
    const args = [JSON.stringify(request)];
    const client = Number(await engine.run({ method: "connect", args }, { signal: options.signal }));
    return new Connection(engine, client, !options.engine);
  } catch (error) {
    if (!options.engine) engine.close();
    throw error;
  }
}

/** A connection to all servers of one deployment, with matching manifests. */
export class Connection {
  readonly #engine: Engine;
  readonly #client: number;
  readonly #owned: boolean;

  /** Call `connect` instead. */
  constructor(engine: Engine, client: number, owned: boolean) {
    this.#engine = engine;
    this.#client = client;
    this.#owned = owned;
  }

  /** Returns what the servers offer: columns, schemes, operators. */
  async inspect(): Promise<Inspection> {
    return JSON.parse(await this.#run("inspect"));
  }

  /** Returns the manifest exactly as it was served. */
  manifest(): Promise<string> {
    return this.#run("manifest");
  }

  /** Returns how a value is interpreted; throws if it is invalid. Sends nothing. */
  async understand(column: string, value: string): Promise<InterpretedValue> {
    return JSON.parse(await this.#run("understand", [column, value]));
  }

  /** Checks a search and returns notes for the user; throws if it is invalid. Sends nothing. */
  async check(profile: Profile, wishes: Wishes = {}): Promise<Message[]> {
    return JSON.parse(await this.#run("check", [JSON.stringify(profile), JSON.stringify(wishes)]));
  }

  /**
   * Finds the nearest accepted records. The traffic depends only on the manifest, the scheme and
   * the number of records. If the profile or the wishes are invalid, a dummy query runs before the
   * error is thrown.
   */
  async ask(profile: Profile, wishes: Wishes = {}, options: AskOptions = {}): Promise<Answer> {
    return JSON.parse(await this.#run("ask", [JSON.stringify(profile), JSON.stringify(wishes)], options));
  }

  /** Returns the messages of the last search. Those of two servers together reveal the query. */
  async seen(): Promise<SentMessage[]> {
    return JSON.parse(await this.#run("seen"));
  }

  /** Closes the connection, and the worker if it was started for it. */
  close() {
    if (this.#owned) this.#engine.close();
    else this.#run("free").catch(() => {});
  }

  #run(method: "inspect" | "manifest" | "understand" | "check" | "ask" | "seen" | "free", args: string[] = [], options = {}) {
    return this.#engine.run({ method, client: this.#client, args }, options);
  }
}

