// While a search runs: what each operator does.

import type { Progress, Scheme } from "../../../client/src/data.ts";
import type { Deployment } from "../deployment.ts";
import { h } from "../dom.ts";
import type { Format } from "../format.ts";
import type { Texts } from "../texts/en.ts";
import { button, head, tile } from "./frame.ts";

const STEPS = ["meet", "compare", "fetch"] as const;

interface Cell {
  root: HTMLElement;
  bar: HTMLProgressElement;
  text: HTMLElement;
}

export class Working {
  readonly root: HTMLElement[];
  readonly #cells = new Map<string, Cell[]>();
  readonly #lede: HTMLElement;
  readonly #texts: Texts;
  readonly #compare: string;
  /** Steps of one search, and all steps. */
  readonly #phases: number;
  readonly #fetches: number;
  readonly #searches: number;

  constructor(deployment: Deployment, scheme: Scheme, searches: number, fetches: number, texts: Texts, format: Format, stop: () => void) {
    this.#texts = texts;
    this.#phases = scheme.phases;
    this.#fetches = scheme.fetches ? fetches : 0;
    this.#searches = searches;
    this.#compare = texts.working.compare(format.number(deployment.offer.rows));
    const heading = head(texts.working.heading, texts.working.connecting);
    this.#lede = heading.querySelector(".lede") as HTMLElement;
    this.#lede.setAttribute("role", "status");
    const rows = deployment.operators.map(({ server, name }) => {
      const cells = STEPS.slice(0, this.#fetches > 0 ? 3 : 2).map((step): Cell => {
        const title = texts.working.steps[step];
        const bar = h("progress", { max: 1, value: 0, "aria-label": `${name}, ${title}` });
        const text = h("span", {}, `${title}: ${texts.working.waiting}`);
        return { bar, text, root: h("li", {}, bar, text) };
      });
      this.#cells.set(server.replace(/\/+$/, ""), cells);
      return h("li", {}, noise(), h("b", {}, name), h("ol", {}, cells.map(({ root }) => root)));
    });
    this.root = [
      heading,
      h(
        "section",
        { class: "panel running", "aria-label": texts.working.progress },
        h("ul", { class: "run" }, rows),
        h("div", { class: "btns" }, button(texts.actions.stop, stop, "slim"), h("span", { class: "small soft" }, texts.working.stopHelp)),
      ),
    ];
  }

  update({ server, step, received, of }: Progress) {
    const cells = this.#cells.get(server.replace(/\/+$/, ""));
    if (!cells) return;
    const length = this.#phases + this.#fetches;
    const [search, place] = [Math.floor((step - 1) / length), (step - 1) % length];
    const isFetch = place >= this.#phases;
    const now = of > 0 ? received / of : 0;
    this.#set(cells[0], 0, 1);
    const compared = search * this.#phases + (isFetch ? this.#phases : place + now);
    this.#set(cells[1], 1, compared / (this.#phases * this.#searches));
    const fetched = search * this.#fetches + (isFetch ? place - this.#phases + now : 0);
    if (this.#fetches > 0) this.#set(cells[2], 2, fetched / (this.#fetches * this.#searches));
    this.#lede.textContent = isFetch ? this.#texts.working.fetch : this.#compare;
  }

  #set(cell: Cell | undefined, step: number, share: number) {
    const name = STEPS[step];
    if (!cell || !name) return;
    const { working } = this.#texts;
    const done = share >= 0.9999;
    cell.bar.value = Math.min(1, share);
    cell.root.classList.toggle("done", done);
    cell.text.textContent = `${working.steps[name]}: ${done ? working.done : share === 0 ? working.waiting : `${Math.floor(100 * share)}\u00a0%`}`;
  }
}

const noise = (): SVGElement => tile(crypto.getRandomValues(new Uint8Array(18)));
