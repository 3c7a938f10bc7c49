// The engine in a worker, reached by messages.

import { IfonlyError } from "./data.ts";
import { stopped, type Call, type Engine, type Options } from "./engine.ts";
import type { FromWorker, ToWorker } from "./worker.ts";

interface Waiting extends Options {
  resolve(result: string): void;
  reject(error: unknown): void;
}

/** An engine in a worker. */
export class Remote implements Engine {
  readonly #worker: Worker;
  readonly #ready: Promise<void>;
  readonly #waiting = new Map<number, Waiting>();
  #last = 0;
  #failure: IfonlyError | undefined;

  constructor(worker: Worker, wasm: BufferSource | Promise<BufferSource>) {
    this.#worker = worker;
    worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => this.#receive(data));
    worker.addEventListener("error", (event) => this.#fail(event.message || "the worker stopped"));
    this.#ready = Promise.resolve(wasm).then(
      (wasm) => this.#send({ wasm }),
      (error) => this.#fail(String(error)),
    );
  }

  run(call: Call, options: Options = {}): Promise<string> {
    if (options.signal?.aborted) return Promise.reject(stopped());
    if (this.#failure) return Promise.reject(this.#failure);
    const id = ++this.#last;
    options.signal?.addEventListener("abort", () => this.#send({ id, stop: true }), { once: true });
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { ...options, resolve, reject });
      this.#ready.then(() => this.#send({ id, call }));
    });
  }

  close() {
    this.#worker.terminate();
    this.#fail("the connection is closed");
  }

  #send(message: ToWorker) {
    this.#worker.postMessage(message);
  }

  #receive(message: FromWorker) {
    const waiting = this.#waiting.get(message.id);
    if (!waiting) return;
    if ("progress" in message) {
      waiting.onProgress?.(message.progress);
      return;
    }
    this.#waiting.delete(message.id);
    if ("result" in message) waiting.resolve(message.result);
    else if ("stopped" in message) waiting.reject(stopped());
    else waiting.reject(new IfonlyError(message.problem as IfonlyError));
  }

  #fail(message: string) {
    this.#failure = new IfonlyError({ kind: "machine", code: "machine", message });
    for (const waiting of this.#waiting.values()) waiting.reject(this.#failure);
    this.#waiting.clear();
  }
}
