// The WebAssembly engine behind a small interface, to run it in this thread or in a worker.

import init, { connect, type WasmClient } from "../wasm/ifonly.js";
import { IfonlyError, type Progress } from "./data.ts";

/** A call of the engine: a method of a client, or `connect`. */
export interface Call {
  method: "connect" | "inspect" | "manifest" | "understand" | "check" | "ask" | "seen" | "free";
  client?: number;
  args: string[];
}

export interface Options {
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: Progress) => void) | undefined;
}

/** Runs calls. Results are JSON texts; the result of `connect` is the number of a client. */
export interface Engine {
  run(call: Call, options?: Options): Promise<string>;
  close(): void;
}

/** The exception of a call that was stopped. */
export const stopped = () => new DOMException("the search was stopped", "AbortError");

/** The engine in this thread. */
export class Direct implements Engine {
  readonly #ready: Promise<unknown>;
  readonly #clients = new Map<number, WasmClient>();
  #last = 0;

  constructor(wasm: BufferSource | WebAssembly.Module | Promise<BufferSource>) {
    this.#ready = Promise.resolve(wasm).then((wasm) => init({ module_or_path: wasm }));
    // The first call reports an error.
    this.#ready.catch(() => {});
  }

  async run(call: Call, options: Options = {}): Promise<string> {
    await this.#ready;
    if (options.signal?.aborted) throw stopped();
    const stop = new Promise<void>((resolve) => {
      options.signal?.addEventListener("abort", () => resolve(), { once: true });
    });
    try {
      return await this.#dispatch(call, stop, options.onProgress);
    } catch (error) {
      if (error === "") throw stopped();
      if (typeof error === "string") throw new IfonlyError(JSON.parse(error));
      throw new IfonlyError({ kind: "machine", code: "machine", message: String(error) });
    }
  }

  async #dispatch({ method, client, args }: Call, stop: Promise<void>, onProgress?: (progress: Progress) => void) {
    const [first = "", second = ""] = args;
    if (method === "connect") {
      const connected = await connect(first, stop);
      this.#clients.set(++this.#last, connected);
      return String(this.#last);
    }
    const own = this.#clients.get(client ?? 0);
    if (!own) throw new Error("the connection is closed");
    switch (method) {
      case "inspect":
        return own.inspect();
      case "manifest":
        return own.manifest();
      case "understand":
        return own.understand(first, second);
      case "check":
        return own.check(first, second);
      case "seen":
        return own.seen();
      case "ask": {
        const report = (server: string, step: number, received: number, of: number) =>
          onProgress?.({ server, step, received, of });
        return await own.ask(first, second, report, stop);
      }
      case "free":
        this.#clients.delete(client ?? 0);
        own.free();
        return "";
    }
  }

  close() {
    for (const client of this.#clients.values()) client.free();
    this.#clients.clear();
  }
}
