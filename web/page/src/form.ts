// The form: the user's value and wishes for every column. It writes all input into the draft.

import type { Column, Connection, Inspection, Metric } from "../../client/src/index.ts";
import { IfonlyError } from "../../client/src/data.ts";
import { h, unique } from "./dom.ts";
import { plain, type Draft, type Entry, type Wish } from "./draft.ts";
import type { Format } from "./format.ts";
import type { Texts } from "./texts/en.ts";

/** Maximum number of radio buttons; longer lists become a select element. */
const PILLS = 6;

interface Field {
  column: Column;
  root: HTMLElement;
  error: HTMLElement;
  focus(): void;
  invalid(wrong: boolean): void;
}

export interface FormParts {
  offer: Inspection;
  connection: () => Connection | null;
  draft: Draft;
  texts: Texts;
  format: Format;
  servers: string[];
  ask(): void;
}

export class Form {
  readonly root: HTMLFormElement;
  readonly button: HTMLButtonElement;
  readonly #parts: FormParts;
  readonly #fields = new Map<string, Field>();
  readonly #summary: HTMLElement;
  readonly #maxChanges: HTMLInputElement;
  readonly #more: HTMLDetailsElement;

  constructor(parts: FormParts) {
    this.#parts = parts;
    const { offer, texts } = parts;
    this.#summary = h("p", { class: "summary", role: "alert", hidden: true });
    this.button = h("button", { type: "submit", class: "primary" }, texts.form.button);
    this.#maxChanges = this.#number(parts.draft.maxChanges, (text) => (parts.draft.maxChanges = text), { min: 0, max: offer.columns.length });
    this.#more = this.#choices();
    this.root = h(
      "form",
      {
        id: "form",
        autocomplete: "off",
        novalidate: true,
        submit: (event) => {
          event.preventDefault();
          parts.ask();
        },
      },
      h("h2", {}, texts.form.heading),
      h("p", { class: "hint" }, texts.form.required),
      h("div", { class: "features" }, offer.columns.map((column) => this.#feature(column))),
      this.#more,
      this.#summary,
      h("div", { class: "go" }, this.button, h("p", { class: "hint" }, texts.progress.same)),
    );
  }

  /** Whether all input is valid. Shows errors beside their fields. Sends nothing. */
  async valid(): Promise<boolean> {
    const { offer, draft, texts, format } = this.#parts;
    const connection = this.#parts.connection();
    if (!connection) return false;
    const wrong = new Map<string, string>();
    const faults = await Promise.all(offer.columns.map((column) => this.#fault(column, draft.entry(column), connection)));
    offer.columns.forEach(({ name }, place) => faults[place] && wrong.set(name, faults[place]));
    let general = "";
    if (wrong.size === 0) {
      try {
        await connection.check(draft.profile(offer, format.language), draft.wishes(offer, format.language));
      } catch (error) {
        if (!(error instanceof IfonlyError)) throw error;
        // Unreachable servers are not an input error; the search reports them.
        if (error.kind !== "input") return true;
        const names = error.features.filter((name) => this.#fields.has(name));
        for (const name of names) wrong.set(name, this.#message(error));
        if (names.length === 0) general = `${texts.failure.codes[error.code] ?? texts.failure.codes["input"]} ${error.message}`;
      }
    }
    this.#show(wrong, general);
    return wrong.size === 0 && general === "";
  }

  busy(busy: boolean) {
    this.button.disabled = busy;
    this.root.setAttribute("aria-busy", String(busy));
  }

  /** Opens the section with more choices, which has the token fields. */
  openMore() {
    this.#more.open = true;
  }

  #message(error: IfonlyError): string {
    const { texts } = this.#parts;
    if (/no level lies wholly/.test(error.message)) return `${texts.errors.rangeEmpty} ${error.message}`;
    return `${texts.failure.codes[error.code] ?? ""} ${error.message}`;
  }

  #show(wrong: Map<string, string>, general: string) {
    const { texts } = this.#parts;
    let first: Field | undefined;
    for (const [name, field] of this.#fields) {
      const message = wrong.get(name) ?? "";
      field.error.textContent = message;
      field.invalid(message !== "");
      if (message !== "") first ??= field;
    }
    const count = wrong.size;
    const text = general || (count > 0 ? texts.errors.summary(count) : "");
    this.#summary.hidden = text === "";
    this.#summary.textContent = text === "" ? "" : `${text} ${texts.errors.nothingSent}`;
    first?.focus();
  }

  async #fault(column: Column, entry: Entry, connection: Connection): Promise<string> {
    const { texts, format } = this.#parts;
    const value = plain(entry.value, column, format.language);
    if (value === "" && column.default === null) return texts.errors.needed;
    if (!(await this.#reads(column, value, connection))) return this.#what(column);
    if (entry.wish === "permit" && entry.permitted.size === 0) return texts.errors.noPermitted;
    if (entry.wish === "range") {
      for (const end of [entry.low, entry.high]) {
        const text = plain(end, column, format.language);
        if (text !== "" && !(await this.#reads(column, text, connection))) return this.#what(column);
      }
    }
    return "";
  }

  async #reads(column: Column, text: string, connection: Connection): Promise<boolean> {
    try {
      await connection.understand(column.name, text);
      return true;
    } catch (error) {
      if (error instanceof IfonlyError && error.kind === "input") return false;
      throw error;
    }
  }

  #what(column: Column): string {
    const { texts, format } = this.#parts;
    if (column.kind === "number") {
      return texts.errors.notNumber(format.value(column.min ?? "", column), format.value(column.max ?? "", column));
    }
    return column.kind === "date" || column.kind === "timestamp" ? texts.errors.notDate : texts.errors.notPermitted;
  }

  #feature(column: Column): HTMLElement {
    const { draft, texts, format } = this.#parts;
    const entry = draft.entry(column);
    const [hint, counts, fault] = [unique("hint"), unique("counts"), unique("fault")];
    const error = h("p", { id: fault, class: "fault" });
    const counted = h("p", { id: counts, class: "counts", "aria-live": "polite" });
    const described = `${hint} ${counts} ${fault}`;
    const unit = column.unit ? ` (${column.unit})` : "";
    const understand = () => this.#understand(column, entry, counted);
    const value = this.#value(column, entry, `${texts.form.yours}: ${column.name}${unit}`, described, () => {
      error.textContent = "";
      value.invalid(false);
      understand();
    });
    const bounds = column.min !== null && column.max !== null && texts.form.between(format.value(column.min, column, false), format.value(column.max, column, false));
    const root = h(
      "fieldset",
      { class: "feature" },
      h("legend", {}, column.name, column.unit && h("span", { class: "unit" }, ` ${column.unit}`)),
      column.description && h("p", { class: "description" }, column.description),
      h(
        "div",
        { class: "halves" },
        h(
          "div",
          { class: "half" },
          value.root,
          h(
            "p",
            { id: hint, class: "hint" },
            bounds || null,
            column.default !== null ? `${bounds ? ". " : ""}${texts.form.missingCounts(format.value(column.default, column))}` : null,
          ),
          counted,
          error,
        ),
        h("div", { class: "half" }, this.#wish(column, entry, fault), this.#hardness(column, entry)),
      ),
    );
    this.#fields.set(column.name, { column, root, error, focus: value.focus, invalid: value.invalid });
    if (entry.value !== "") understand();
    return root;
  }

  /** Shows how a value counts, if that differs from the input. */
  async #understand(column: Column, entry: Entry, where: HTMLElement) {
    const { texts, format } = this.#parts;
    const typed = plain(entry.value, column, format.language);
    where.textContent = "";
    if (typed === "" || column.kind === "category" || column.kind === "ordinal") return;
    try {
      const { level, clamped } = (await this.#parts.connection()?.understand(column.name, typed)) ?? {};
      if (entry.value.trim() !== "" && level && level !== typed) {
        const shown = format.value(level, column, false);
        where.textContent = clamped ? texts.form.beyond(shown) : texts.form.counts(shown);
      }
    } catch {
      // The form shows errors when it is submitted, not while the user types.
    }
  }

  #value(column: Column, entry: Entry, label: string, described: string, changed: () => void) {
    const { texts } = this.#parts;
    if (column.words.length === 0) return this.#typed(column, entry, label, described, changed);
    const words = column.default === null ? column.words : [...column.words, ""];
    const named = (word: string) => (word === "" ? texts.form.missing : word);
    if (words.length > PILLS) {
      const id = unique("value");
      const select = h(
        "select",
        { id, "aria-label": label, "aria-describedby": described, autocomplete: "off", change: () => ((entry.value = select.value), changed()) },
        column.default === null && h("option", { value: "" }, texts.form.pick),
        words.map((word) => h("option", { value: word }, named(word))),
      );
      select.value = entry.value;
      const root = h("div", {}, h("label", { for: id }, texts.form.yours), select);
      return { root, focus: () => select.focus(), invalid: (wrong: boolean) => select.setAttribute("aria-invalid", String(wrong)) };
    }
    const name = unique("choice");
    const radios = words.map((word) =>
      h("input", {
        type: "radio",
        name,
        value: word,
        id: unique("radio"),
        autocomplete: "off",
        change: () => ((entry.value = word), changed()),
      }),
    );
    // An empty text is a choice only if a value may be missing.
    const chosen = radios.find((radio) => radio.value === entry.value);
    if (chosen) chosen.checked = true;
    const group = h(
      "div",
      { role: "radiogroup", "aria-label": label, "aria-describedby": described, class: column.kind === "ordinal" ? "pills steps" : "pills" },
      radios.map((radio) => h("span", { class: radio.value === "" ? "pill unknown" : "pill" }, radio, h("label", { for: radio.id }, named(radio.value)))),
    );
    const root = h("div", {}, h("span", { class: "label", "aria-hidden": "true" }, texts.form.yours), group);
    return {
      root,
      focus: () => (chosen ?? radios[0])?.focus(),
      invalid: (wrong: boolean) => group.setAttribute("aria-invalid", String(wrong)),
    };
  }

  #typed(column: Column, entry: Entry, label: string, described: string, changed: () => void) {
    const input = this.#input(column, entry.value, label, described, (text) => {
      entry.value = text;
      changed();
    });
    const root = h("div", {}, h("label", { for: input.id }, this.#parts.texts.form.yours), input);
    return { root, focus: () => input.focus(), invalid: (wrong: boolean) => input.setAttribute("aria-invalid", String(wrong)) };
  }

  /** Creates an input for a number or a date of a column. */
  #input(column: Column, value: string, label: string, described: string, write: (text: string) => void): HTMLInputElement {
    const type = { date: "date", timestamp: "datetime-local" }[column.kind as string] ?? "text";
    const input = h("input", {
      id: unique("input"),
      type,
      "aria-label": label,
      "aria-describedby": described,
      autocomplete: "off",
      inputmode: type === "text" ? "decimal" : null,
      step: column.kind === "timestamp" ? 1 : null,
      spellcheck: "false",
      input: () => write(input.value),
    });
    input.value = column.kind === "timestamp" ? value.replace(" ", "T") : value;
    return input;
  }

  #wish(column: Column, entry: Entry, described: string): HTMLElement {
    const { texts } = this.#parts;
    const id = unique("wish");
    const directions: Wish[] = column.ordered ? ["up", "down"] : [];
    const sets: Wish[] = column.words.length > 0 ? ["permit"] : ["range"];
    const all: Wish[] = ["free", "stay", ...directions, ...sets];
    const more = h("div", { class: "more" });
    const select = h(
      "select",
      {
        id,
        autocomplete: "off",
        "aria-label": `${texts.form.wish}: ${column.name}`,
        change: () => {
          entry.wish = select.value as Wish;
          show();
        },
      },
      all.map((wish) => h("option", { value: wish }, texts.form.wishes[wish])),
    );
    const show = () => {
      const ends = (["low", "high"] as const).map((end) => {
        const label = `${column.name}, ${texts.form[end]}`;
        const input = this.#input(column, entry[end], label, described, (text) => (entry[end] = text));
        input.placeholder = texts.form.openEnd;
        return h("div", {}, h("label", { for: input.id }, texts.form[end]), input);
      });
      const boxes = column.words.map((word) => {
        const box = h("input", {
          type: "checkbox",
          id: unique("box"),
          autocomplete: "off",
          change: () => (box.checked ? entry.permitted.add(word) : entry.permitted.delete(word)),
        });
        box.checked = entry.permitted.has(word);
        return h("span", { class: "pill" }, box, h("label", { for: box.id }, word));
      });
      const label = `${texts.form.permitted}: ${column.name}`;
      more.replaceChildren(
        ...(entry.wish === "range" ? [h("div", { class: "ends" }, ends)] : []),
        ...(entry.wish === "permit" ? [h("div", { role: "group", "aria-label": label, class: "pills" }, boxes)] : []),
      );
    };
    select.value = entry.wish;
    show();
    return h(
      "div",
      {},
      h("label", { for: id }, texts.form.wish),
      select,
      column.suggest_immutable && h("p", { class: "hint" }, texts.form.suggested),
      more,
    );
  }

  #hardness(column: Column, entry: Entry): HTMLElement {
    const { texts } = this.#parts;
    const id = unique("hard");
    const output = h("output", { for: id });
    const show = () => {
      const word = texts.form.hardness[entry.hard] ?? "";
      output.textContent = word;
      range.setAttribute("aria-valuetext", word);
    };
    const range = h("input", {
      id,
      type: "range",
      min: 0,
      max: 4,
      step: 1,
      autocomplete: "off",
      "aria-label": `${texts.form.hard} ${column.name}`,
      input: () => {
        entry.hard = Number(range.value);
        show();
      },
    });
    range.value = String(entry.hard);
    show();
    return h("div", { class: "hard" }, h("label", { for: id }, texts.form.hard), h("div", { class: "slide" }, range, output));
  }

  #number(value: string, write: (text: string) => void, bounds: { min: number; max: number }) {
    const input = h("input", { id: unique("number"), type: "number", step: 1, ...bounds, autocomplete: "off", input: () => write(input.value) });
    input.value = value;
    return input;
  }

  #choices(): HTMLDetailsElement {
    const { draft, offer, texts, servers } = this.#parts;
    const [metric, scheme, learns] = [unique("metric"), unique("scheme"), unique("learns")];
    const metrics = (["l2", "l1", "mad", "count"] as Metric[]).filter((name) => name !== "mad" || offer.columns.every((column) => column.deviation));
    const metricSelect = h(
      "select",
      { id: metric, autocomplete: "off", change: () => (draft.metric = metricSelect.value as Metric) },
      metrics.map((name) => h("option", { value: name }, texts.form.metrics[name])),
    );
    metricSelect.value = draft.metric;
    const hint = h("p", { class: "hint", id: learns });
    const update = () => {
      const chosen = offer.schemes.find((other) => other.name === (draft.scheme || offer.default_scheme));
      hint.textContent = `${texts.form.public} ${chosen ? texts.form.learns(chosen.learns) : ""}`;
    };
    const schemeSelect = h(
      "select",
      {
        id: scheme,
        autocomplete: "off",
        "aria-describedby": learns,
        change: () => {
          draft.scheme = schemeSelect.value;
          update();
        },
      },
      offer.schemes.map((other) => h("option", { value: other.name }, other.name)),
    );
    schemeSelect.value = draft.scheme || offer.default_scheme;
    update();
    const top = this.#number(draft.top, (text) => (draft.top = text), { min: 1, max: offer.top_limit });
    const tokens = servers.map((server) => {
      const input = h("input", {
        id: unique("token"),
        type: "password",
        autocomplete: "off",
        input: () => draft.tokens.set(server, input.value),
      });
      input.value = draft.tokens.get(server) ?? "";
      return h("div", {}, h("label", { for: input.id }, texts.form.token(server)), input);
    });
    const details: HTMLDetailsElement = h(
      "details",
      { class: "choices", open: draft.more, toggle: () => (draft.more = details.open) },
      h("summary", {}, texts.form.more),
      h(
        "div",
        { class: "grid" },
        h("div", {}, h("label", { for: metric }, texts.form.metric), metricSelect),
        h("div", {}, h("label", { for: this.#maxChanges.id }, texts.form.maxChanges), this.#maxChanges),
        h("div", {}, h("label", { for: top.id }, texts.form.top), top, h("p", { class: "hint" }, texts.form.public)),
        h("div", {}, h("label", { for: scheme }, texts.form.scheme), schemeSelect, hint),
        tokens,
        h("p", { class: "hint" }, texts.form.tokenHint),
      ),
    );
    return details;
  }
}
