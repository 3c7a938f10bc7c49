// Shows the progress of a search for every server and every step.

import type { Inspection, Progress, Scheme } from "../../client/src/data.ts";
import { h } from "./dom.ts";
import type { Texts } from "./texts/en.ts";

export class Running {
  readonly root: HTMLElement;
  readonly #cells = new Map<string, { bar: HTMLProgressElement; text: HTMLElement }[]>();
  readonly #live: HTMLElement;
  readonly #names: string[];
  readonly #texts: Texts;
  #step = 0;

  constructor(offer: Inspection, scheme: Scheme, top: number, servers: string[], texts: Texts, stop: () => void) {
    this.#texts = texts;
    this.#names = names(scheme, top, texts);
    this.#live = h("p", { role: "status", class: "live" }, texts.progress.connecting);
    const rows = servers.map((server) => {
      const operator = offer.operators.find((other) => other.url !== null && other.url.replace(/\/$/, "") === server.replace(/\/$/, ""));
      const cells = this.#names.map((name) => {
        const bar = h("progress", { max: 1, value: 0, "aria-label": `${server}, ${name}` });
        return { bar, text: h("span", {}, texts.progress.waiting) };
      });
      this.#cells.set(server.replace(/\/+$/, ""), cells);
      return h("tr", {}, h("th", { scope: "row" }, operator?.name ?? server), cells.map(({ bar, text }) => h("td", {}, bar, text)));
    });
    this.root = h(
      "section",
      { class: "running panel", "aria-labelledby": "running" },
      h("h2", { id: "running", tabindex: -1 }, texts.progress.heading),
      this.#live,
      h(
        "div",
        { class: "wide", role: "region", tabindex: 0, "aria-label": texts.progress.heading },
        h(
          "table",
          {},
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, texts.progress.server), this.#names.map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", {}, rows),
        ),
      ),
      h("button", { type: "button", click: stop }, texts.form.stop),
    );
  }

  update({ server, step, received, of }: Progress) {
    const cell = this.#cells.get(server)?.[step - 1];
    if (!cell) return;
    const done = received >= of;
    cell.bar.value = of > 0 ? received / of : 0;
    cell.text.textContent = done ? this.#texts.progress.done : received === 0 ? this.#texts.progress.sent : `${Math.floor((100 * received) / of)} %`;
    if (step > this.#step) {
      this.#step = step;
      this.#live.textContent = this.#texts.progress.step(this.#names[step - 1] ?? "");
    }
  }
}

/** The names of the steps of a search. */
function names(scheme: Scheme, top: number, texts: Texts): string[] {
  if (!scheme.fetches) return [texts.progress.sealed];
  const phases = Array.from({ length: scheme.phases }, (_, phase) => texts.progress.phase(phase + 1, scheme.phases));
  const records = Array.from({ length: top }, (_, record) => texts.progress.record(record + 1, top));
  return [...phases, ...records];
}
