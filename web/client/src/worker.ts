// The engine in a worker: whatever it computes, the page stays free. Begins with the message {wasm}, then takes calls by number.

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
const say = (message: FromWorker) => (self as unknown as Worker).postMessage(message);

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
      say({ id, progress });
    say({ id, result: await engine.run(data.call, { signal: controller.signal, onProgress }) });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") say({ id, stopped: true });
    else if (error instanceof IfonlyError) say({ id, problem: { ...error, message: error.message } });
    else say({ id, problem: { message: String(error) } });
  } finally {
    running.delete(id);
  }
});
