// The WebAssembly half behind one small interface, so that it can run here or in a worker.

import init, { connect, Session } from "../wasm/ifonly.js";
import { IfonlyError, type Progress } from "./data.ts";

/** A call of the engine: a method of a session, or `connect`. */
export interface Call {
  method: "connect" | "inspect" | "manifest" | "understand" | "check" | "ask" | "seen" | "free";
  session?: number;
  args: string[];
}

export interface Options {
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: Progress) => void) | undefined;
}

/** Runs calls. Results are JSON texts, except for `connect`, which gives a session's number as text. */
export interface Engine {
  run(call: Call, options?: Options): Promise<string>;
  close(): void;
}

/** Thrown for a call that was stopped. */
export const stopped = () => new DOMException("the search was stopped", "AbortError");

/** The engine in this thread. */
export class Direct implements Engine {
  readonly #ready: Promise<unknown>;
  readonly #sessions = new Map<number, Session>();
  #last = 0;

  constructor(wasm: BufferSource | WebAssembly.Module | Promise<BufferSource>) {
    this.#ready = Promise.resolve(wasm).then((wasm) => init({ module_or_path: wasm }));
    // Whoever calls first hears of it.
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

  async #dispatch({ method, session, args }: Call, stop: Promise<void>, onProgress?: (progress: Progress) => void) {
    const [first = "", second = ""] = args;
    if (method === "connect") {
      const met = await connect(first, stop);
      this.#sessions.set(++this.#last, met);
      return String(this.#last);
    }
    const own = this.#sessions.get(session ?? 0);
    if (!own) throw new Error("the connection was closed");
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
        const told = (server: string, step: number, received: number, of: number) =>
          onProgress?.({ server, step, received, of });
        return await own.ask(first, second, told, stop);
      }
      case "free":
        this.#sessions.delete(session ?? 0);
        own.free();
        return "";
    }
  }

  close() {
    for (const session of this.#sessions.values()) session.free();
    this.#sessions.clear();
  }
}
