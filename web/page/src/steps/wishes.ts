// The third step: what may change. Closed, it shows the wishes in force; open, a row per column.

import type { Column, Connection, Metric } from "../../../client/src/index.ts";
import { IfonlyError } from "../../../client/src/data.ts";
import type { Deployment } from "../deployment.ts";
import { h, unique } from "../dom.ts";
import { MAX_WAYS, read, type Draft, type Wish } from "../draft.ts";
import type { Format } from "../format.ts";
import { translate } from "../translate.ts";
import type { Texts } from "../texts/en.ts";
import type { Words } from "../words.ts";
import { typed } from "./field.ts";
import { button, head, lock } from "./frame.ts";
import { shortWish, wishes } from "./wish_texts.ts";

export interface WishesParts {
  deployment: Deployment;
  draft: Draft;
  texts: Texts;
  format: Format;
  words: Words;
  connection: () => Connection | null;
  back(): void;
  ask(): void;
}

interface Row {
  root: HTMLDetailsElement;
  fault: HTMLElement;
  update(): void;
}

export class WishesStep {
  readonly root: HTMLElement[];
  readonly button: HTMLButtonElement;
  readonly #parts: WishesParts;
  readonly #columns: Column[];
  readonly #rows = new Map<string, Row>();
  readonly #list = h("div", {});
  readonly #summary = h("section", { class: "panel alert", role: "alert", hidden: true });
  readonly #title = h("h2", { id: "wishes-title", tabindex: -1 });
  readonly #chips = h("ul", { class: "chips" });
  readonly #suggest: HTMLInputElement;
  readonly #own: HTMLDetailsElement;

  constructor(parts: WishesParts) {
    this.#parts = parts;
    const { texts, deployment, draft } = parts;
    this.#columns = deployment.offer.columns;
    const institution = deployment.institutionDative(texts);
    const hasSuggestions = this.#columns.some((column) => column.suggest_immutable);
    this.button = h("button", { type: "submit", class: "btn go" }, texts.actions.ask);
    this.#suggest = h("input", { type: "checkbox", role: "switch", change: () => (draft.suggest(this.#columns, this.#suggest.checked), this.#draw()) });
    this.#own = h("details", { class: "own" }, h("summary", {}, texts.wishes.own), this.#list, this.#choices());
    this.#draw();
    const submit = (event: Event) => {
      event.preventDefault();
      void this.#submit();
    };
    this.root = [
      head(texts.wishes.heading, texts.wishes.lede),
      h(
        "form",
        { id: "form", class: "two tight", autocomplete: "off", novalidate: true, submit },
        this.#summary,
        h(
          "section",
          { class: "panel", "aria-labelledby": "wishes-title" },
          this.#title,
          this.#chips,
          hasSuggestions && h("label", { class: "switch" }, this.#suggest, h("span", {}, texts.wishes.keep(institution), " ", h("span", { class: "soft small" }, texts.wishes.keepHelp))),
          this.#own,
        ),
        h("div", { class: "btns" }, this.button, button(texts.actions.back, parts.back, "quiet")),
        lock(texts.wishes.lock(deployment.count(texts)), texts.wishes.lockMore),
      ),
    ];
  }

  open() {
    this.#own.open = true;
  }

  /** Shows an error of the engine at the wishes that it concerns. */
  complain(error: IfonlyError) {
    const { texts, words, deployment } = this.#parts;
    const message = translate(error, texts, (name) => words.labelOf(name, deployment.offer));
    const rows = error.features.flatMap((name) => this.#rows.get(name) ?? []);
    this.#complain(rows.length > 0 ? rows.map((row) => [row, message]) : [[null, message]]);
  }

  #complain(faults: [Row | null, string][]) {
    const { texts } = this.#parts;
    for (const row of this.#rows.values()) {
      row.fault.textContent = "";
      row.fault.hidden = true;
    }
    this.#summary.hidden = faults.length === 0;
    if (faults.length === 0) return;
    const general = faults.filter(([row]) => row === null).map(([, message]) => h("p", {}, message));
    this.#summary.replaceChildren(h("h2", {}, texts.errors.summary(faults.length)), ...general, h("p", { class: "small soft" }, texts.errors.nothingSent));
    for (const [row, message] of faults) {
      if (!row) continue;
      row.fault.textContent = message;
      row.fault.hidden = false;
      row.root.open = true;
    }
    this.#own.open = true;
    const [first] = faults[0] ?? [];
    (first?.root.querySelector("summary") ?? this.#title).focus();
  }

  async #submit() {
    const { draft, texts, format, connection, deployment } = this.#parts;
    const faults: [Row | null, string][] = [];
    for (const column of this.#columns) {
      const entry = draft.entry(column);
      const row = this.#rows.get(column.name) ?? null;
      if (entry.wish === "permit" && entry.permitted.size === 0) faults.push([row, texts.errors.noPermitted]);
      if (entry.wish !== "range") continue;
      const readings = [entry.low, entry.high].map((text) => ({ text, reading: read(text, column, format.language) }));
      const unclear = readings.find(({ reading }) => reading.kind === "none" || reading.kind === "two");
      if (unclear?.reading.kind === "two") {
        const { first, second } = unclear.reading;
        faults.push([row, `${texts.errors.twoReadings(unclear.text)} ${[first, second].map((value) => (column.kind === "number" ? format.input(Number(value)) : format.value(value, column))).join(" / ")}`]);
      } else if (unclear) faults.push([row, column.kind === "number" ? texts.errors.notNumber(format.value(column.max ?? "0", column)) : texts.errors.notDate]);
    }
    this.#complain(faults);
    if (faults.length > 0) return;
    try {
      await connection()?.check(draft.profile(deployment.offer, format.language), draft.wishes(deployment.offer, format.language));
    } catch (error) {
      if (!(error instanceof IfonlyError)) throw error;
      // Unreachable servers are no input error; the search reports them.
      if (error.kind === "input") return this.complain(error);
    }
    this.#parts.ask();
  }

  /** Draws all wishes from the draft. */
  #draw() {
    this.#rows.clear();
    const { texts, draft } = this.#parts;
    for (const column of this.#columns) this.#rows.set(column.name, this.#row(column));
    const few = () => {
      draft.maxChanges = String(this.#columns.length);
      this.#draw();
      this.#title.focus();
    };
    const reset = () => {
      draft.resetWishes(this.#columns);
      this.#draw();
      this.#title.focus();
    };
    const buttons = h("div", { class: "btns fold" }, button(texts.wishes.few, few, "slim"), button(texts.wishes.reset, reset, "slim quiet"));
    this.#list.replaceChildren(...[...this.#rows.values()].map(({ root }) => root), buttons);
    this.#update();
  }

  /** Shows the wishes in force above the rows. */
  #update() {
    const { texts, deployment, draft, format, words } = this.#parts;
    const list = wishes({ columns: this.#columns, draft, texts, format, words });
    const isSuggested = list.length > 0 && list.every(({ column, kind }) => column?.suggest_immutable && kind === "change" && draft.entry(column).wish === "stay");
    this.#title.textContent = list.length === 0 ? texts.wishes.none : isSuggested ? texts.wishes.suggested(list.length, deployment.institutionDative(texts)) : texts.wishes.some(list.length);
    const remove = (release: () => void) => () => {
      release();
      this.#draw();
      this.#title.focus();
    };
    this.#chips.replaceChildren(...list.map(({ text, release }) => h("li", { class: "chip" }, text, h("button", { type: "button", "aria-label": texts.wishes.remove(text), click: remove(release) }, "×"))));
    this.#chips.hidden = list.length === 0;
    this.#suggest.checked = draft.keepsSuggestions(this.#columns);
    for (const row of this.#rows.values()) row.update();
  }

  #row(column: Column): Row {
    const { draft, texts, format, words } = this.#parts;
    const entry = draft.entry(column);
    const label = words.label(column);
    const chip = h("span", { class: "chip" });
    const fault = h("p", { class: "fault", id: unique("fault"), hidden: true });
    const reading = read(entry.value, column, format.language);
    const own = reading.kind === "one" ? words.full(column, column.kind === "number" ? Number(reading.value) : reading.value) : texts.about.unknown;
    const update = () => {
      const isWished = draft.isWished(column);
      chip.textContent = shortWish({ columns: this.#columns, draft, texts, format, words }, column);
      chip.classList.toggle("plain", !isWished);
    };
    const body = h("div", { class: "body" });
    const root: HTMLDetailsElement = h("details", { class: "wish", name: "wish", toggle: () => root.open && body.childElementCount === 0 && this.#fill(column, body, fault) }, h("summary", {}, h("span", { class: "what" }, label, h("small", {}, own)), chip), body);
    return { root, fault, update };
  }

  /** The choices of a row; they are made when it is opened for the first time. */
  #fill(column: Column, body: HTMLElement, fault: HTMLElement) {
    const { draft, texts } = this.#parts;
    const entry = draft.entry(column);
    const all: Wish[] = ["free", "stay", ...(column.ordered ? (["up", "down"] as Wish[]) : []), column.words.length > 0 ? "permit" : "range"];
    const more = h("div", {});
    const show = () => more.replaceChildren(...(entry.wish === "range" ? [this.#ends(column, fault)] : entry.wish === "permit" ? [this.#boxes(column)] : []));
    const change = (wish: Wish) => {
      entry.wish = wish;
      fault.hidden = true;
      show();
      hard.hidden = wish === "stay";
      this.#update();
    };
    const hard = pills(texts.wishes.hard, texts.wishes.hardness.map((text, place): [string, string] => [String(place), text]), String(entry.hard), (place) => {
      entry.hard = Number(place);
      this.#update();
    });
    show();
    hard.hidden = entry.wish === "stay";
    body.replaceChildren(pills(texts.wishes.what, all.map((wish): [Wish, string] => [wish, texts.wishes.kinds[wish]]), entry.wish, (wish) => change(wish as Wish)), more, fault, hard);
  }

  #ends(column: Column, fault: HTMLElement): HTMLElement {
    const { draft, texts, words } = this.#parts;
    const entry = draft.entry(column);
    const unit = words.unit(column);
    return h(
      "div",
      { class: "ends" },
      (["low", "high"] as const).map((end) => {
        const id = unique("end");
        const input = typed(column, entry[end], { id, autocomplete: "off", "aria-describedby": fault.id }, (text) => {
          entry[end] = text;
          this.#update();
        });
        input.placeholder = texts.wishes.open;
        return h("div", { class: "field" }, h("label", { for: id }, texts.wishes[end], h("span", { class: "hidden" }, `, ${words.label(column)}`)), h("div", { class: "box" }, input, unit && h("span", { class: "unit" }, unit)));
      }),
    );
  }

  #boxes(column: Column): HTMLElement {
    const { draft, texts, words } = this.#parts;
    const entry = draft.entry(column);
    const boxes = column.words.map((word) => {
      const box = h("input", {
        type: "checkbox",
        autocomplete: "off",
        change: () => {
          box.checked ? entry.permitted.add(word) : entry.permitted.delete(word);
          this.#update();
        },
      });
      box.checked = entry.permitted.has(word);
      return h("label", { class: "pill" }, box, h("span", {}, words.word(column, word)));
    });
    return h("fieldset", {}, h("legend", {}, texts.wishes.permitted), h("div", { class: "pills" }, boxes));
  }

  /** Choices that few need, and those that the operators see. */
  #choices(): HTMLElement {
    const { draft, deployment, texts } = this.#parts;
    const { offer } = deployment;
    const metrics = (["l2", "l1", "mad", "count"] as Metric[]).filter((name) => name !== "mad" || offer.columns.every((column) => column.deviation));
    const select = (options: [string, string][], value: string, write: (value: string) => void, help: HTMLElement | null = null) => {
      const element = h("select", { id: unique("select"), autocomplete: "off", "aria-describedby": help?.id, change: () => write(element.value) }, options.map(([name, text]) => h("option", { value: name }, text)));
      element.value = value;
      return element;
    };
    const number = (value: string, least: number, most: number, write: (value: string) => void, help: HTMLElement | null = null) => {
      const element = h("input", { id: unique("number"), type: "number", min: least, max: most, step: 1, autocomplete: "off", "aria-describedby": help?.id, input: () => write(element.value) });
      element.value = value;
      return element;
    };
    const field = (text: string, control: HTMLElement, help: HTMLElement | null = null) => h("div", { class: "field" }, h("label", { for: control.id }, text), h("div", { class: "box" }, control), help);
    const [seen, learns] = [h("p", { class: "help", id: unique("help") }, texts.wishes.public), h("p", { class: "help", id: unique("help") })];
    const explain = () => {
      learns.textContent = `${texts.wishes.public} ${texts.wishes.learns(deployment.scheme(draft.scheme)?.learns ?? "")}`;
    };
    explain();
    const most = number(draft.maxChanges, 0, offer.columns.length, (value) => {
      draft.maxChanges = value;
      this.#update();
    });
    const scheme = select(offer.schemes.map(({ name }): [string, string] => [name, name]), draft.scheme || offer.default_scheme, (name) => {
      draft.scheme = name;
      explain();
    }, learns);
    return h(
      "details",
      { class: "choices fold" },
      h("summary", {}, texts.wishes.more),
      h(
        "div",
        { class: "fields" },
        field(texts.wishes.metric, select(metrics.map((name): [string, string] => [name, texts.wishes.metrics[name]]), draft.metric, (name) => (draft.metric = name as Metric))),
        field(texts.wishes.maxChanges, most),
        field(texts.wishes.ways, number(draft.ways, 1, MAX_WAYS, (value) => (draft.ways = value), seen), seen),
        field(texts.wishes.scheme, scheme, learns),
      ),
    );
  }
}

/** Radio buttons as pills. */
export function pills(legend: string, options: [string, string][], value: string, write: (value: string) => void): HTMLFieldSetElement {
  const name = unique("pills");
  const option = ([own, text]: [string, string]) => {
    const radio = h("input", { type: "radio", name, value: own, autocomplete: "off", change: () => write(own) });
    radio.checked = own === value;
    return h("label", { class: "pill" }, radio, h("span", {}, text));
  };
  return h("fieldset", {}, h("legend", {}, legend), h("div", { class: "pills" }, options.map(option)));
}
