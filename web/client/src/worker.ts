// Runs the engine in a worker, so that the page stays responsive. The first message is {wasm};
// numbered calls follow.

import { IfonlyError } from "./data.ts";
import { Direct, type Call } from "./engine.ts";

export type ToWorker = { wasm: BufferSource } | { id: number; call: Call } | { id: number; stop: true };
export type FromWorker =
  | { id: number; result: string }
  | { id: number; progress: { server: string; step: number; received: number; of: number } }
  | { id: number; stopped: true }
  | { id: number; problem: object };

let engine: Direct | undefined;
const running = new Map<number, AbortController>();
const send = (message: FromWorker) => (self as unknown as Worker).postMessage(message);

self.addEventListener("message", async ({ data }: MessageEvent<ToWorker>) => {
  if ("wasm" in data) {
    engine = new Direct(data.wasm);
    return;
  }
  const { id } = data;
  if ("stop" in data) {
    running.get(id)?.abort();
    return;
  }
  const controller = new AbortController();
  running.set(id, controller);
  try {
    if (!engine) throw new Error("the engine was not started");
    const onProgress = (progress: { server: string; step: number; received: number; of: number }) =>
      send({ id, progress });
    send({ id, result: await engine.run(data.call, { signal: controller.signal, onProgress }) });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") send({ id, stopped: true });
    else if (error instanceof IfonlyError) send({ id, problem: { ...error, message: error.message } });
    else send({ id, problem: { message: String(error) } });
  } finally {
    running.delete(id);
  }
});
