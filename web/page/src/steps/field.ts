// One field of the form: the label, the input with its unit, help, and what is wrong with it.

import type { Column, Connection } from "../../../client/src/index.ts";
import { IfonlyError } from "../../../client/src/data.ts";
import { h, unique } from "../dom.ts";
import { bounds, read, type Entry } from "../draft.ts";
import type { Format } from "../format.ts";
import { level as levelText, translate } from "../translate.ts";
import type { Texts } from "../texts/en.ts";
import type { Words } from "../words.ts";

/** Maximum number of radio buttons; longer lists become a select element. */
const PILLS = 6;

export interface FieldParts {
  column: Column;
  entry: Entry;
  texts: Texts;
  format: Format;
  words: Words;
  connection: () => Connection | null;
  isCompact: boolean;
  changed(): void;
}

export class Field {
  readonly root: HTMLElement;
  readonly column: Column;
  readonly #parts: FieldParts;
  readonly #fault = h("p", { class: "fault", id: unique("fault"), hidden: true });
  readonly #note = h("p", { class: "help", id: unique("note"), "aria-live": "polite" });
  #controls: HTMLElement[] = [];
  /** The value that was checked last. */
  #checked: string | null = null;

  constructor(parts: FieldParts) {
    this.#parts = parts;
    this.column = parts.column;
    this.root = parts.column.words.length > 0 && parts.column.words.length < PILLS && !parts.isCompact ? this.#pills() : this.#single();
    if (parts.entry.value !== "") void this.check(false);
  }

  focus() {
    const chosen = this.#controls.find((control) => control instanceof HTMLInputElement && control.checked);
    (chosen ?? this.#controls[0])?.focus();
  }

  /** Whether the value is valid. Shows what is wrong; an empty field is wrong only at the end. */
  async check(isEnd: boolean): Promise<boolean> {
    const { column, entry, texts, format, words } = this.#parts;
    this.#note.textContent = "";
    this.#checked = entry.value;
    const reading = read(entry.value, column, format.language);
    if (reading.kind === "empty") return this.#show(isEnd && column.default === null ? [texts.errors.needed] : []);
    if (reading.kind === "two") return this.#show([`${texts.errors.twoReadings(entry.value.trim())} `, this.#offer(reading.first), " ", this.#offer(reading.second)]);
    if (reading.kind === "none") return this.#show([this.#what()]);
    try {
      const connection = this.#parts.connection();
      if (!connection) return this.#show([]);
      const { level, clamped } = await connection.understand(column.name, machineText(reading.value));
      // The date in words shows that day and month were not swapped.
      if (column.kind === "date") this.#note.textContent = format.value(reading.value, column);
      if (level !== null && column.words.length === 0 && clamped) {
        const ends = (end: string | null) => (end === null ? null : words.value(column, end));
        const interval = typeof level === "string" ? level : "above" in level ? { above: ends(level.above) ?? "", high: ends(level.high) ?? "" } : { low: ends(level.low), high: ends(level.high) };
        const shown = typeof interval === "string" ? words.full(column, interval) : levelText(interval, texts);
        this.#note.textContent = texts.about.beyond(shown);
      }
      return this.#show([]);
    } catch (error) {
      if (!(error instanceof IfonlyError) || error.kind !== "input") throw error;
      return this.#show([error.code === "two-readings" ? translate(error, texts) : this.#what()]);
    }
  }

  show(message: string) {
    this.#show(message === "" ? [] : [message]);
  }

  #show(message: (string | HTMLElement)[]): boolean {
    const isRight = message.length === 0;
    this.#fault.replaceChildren(...message);
    this.#fault.hidden = isRight;
    this.root.classList.toggle("bad", !isRight);
    for (const control of this.#controls) control.setAttribute("aria-invalid", String(!isRight));
    return isRight;
  }

  /** A button for one of two readings. */
  #offer(value: string): HTMLElement {
    const { column, entry, format, changed } = this.#parts;
    const isNumber = column.kind === "number";
    const take = () => {
      entry.value = isNumber ? format.input(Number(value), bounds(column)) : format.dateInput(value);
      for (const control of this.#controls) if (control instanceof HTMLInputElement) control.value = entry.value;
      changed();
      void this.check(false);
      this.focus();
    };
    return h("button", { type: "button", class: "btn slim", click: take }, isNumber ? format.number(Number(value)) : format.value(value, column));
  }

  #what(): string {
    const { column, texts, format } = this.#parts;
    if (column.kind === "number") return texts.errors.notNumber(format.value(column.max ?? "0", column));
    return column.kind === "date" || column.kind === "timestamp" ? texts.errors.notDate : texts.errors.notPermitted;
  }

  #help(): [HTMLElement | null, string] {
    const { column, texts, words } = this.#parts;
    const missing = column.default === null ? "" : texts.about.missingCounts(words.full(column, column.default));
    const text = [words.help(column), missing].filter((part) => part).join(". ").replace(/\.\. /, ". ");
    const help = text === "" ? null : h("p", { class: "help", id: unique("help") }, text);
    return [help, [help?.id, this.#note.id, this.#fault.id].filter((id) => id).join(" ")];
  }

  #single(): HTMLElement {
    const { column, entry, texts, words, changed } = this.#parts;
    const id = unique("field");
    const [help, described] = this.#help();
    const unit = words.unit(column);
    const unitId = unique("unit");
    const common = { id, name: column.name, autocomplete: "off", "aria-describedby": `${unit ? `${unitId} ` : ""}${described}` };
    const write = (value: string) => {
      this.#checked = null;
      entry.value = value;
      this.#show([]);
      changed();
    };
    let control: HTMLInputElement | HTMLSelectElement;
    if (column.words.length > 0) {
      const options = [h("option", { value: "" }, column.default === null ? texts.about.choose : texts.about.unknown), ...column.words.map((word) => h("option", { value: word }, words.word(column, word)))];
      control = h("select", { ...common, change: () => write(control.value) }, options);
      control.value = entry.value;
    } else {
      control = typed(column, entry.value, common, write);
      // A second check would replace the buttons of the first while one of them is pressed.
      control.addEventListener("blur", () => entry.value !== this.#checked && void this.check(false));
    }
    this.#controls = [control];
    return h(
      "div",
      { class: "field" },
      h("label", { for: id }, words.label(column)),
      h("div", { class: "box" }, control, unit && h("span", { class: "unit", id: unitId }, unit)),
      help,
      this.#note,
      this.#fault,
    );
  }

  #pills(): HTMLElement {
    const { column, entry, texts, words, changed } = this.#parts;
    const [help, described] = this.#help();
    const name = unique("choice");
    const options = column.default === null ? column.words : [...column.words, ""];
    const radios = options.map((word) => {
      const radio = h("input", { type: "radio", name, value: word, autocomplete: "off", change: () => ((entry.value = word), this.#show([]), changed()) });
      radio.checked = word === entry.value && (word !== "" || column.default !== null);
      return radio;
    });
    this.#controls = radios;
    return h(
      "fieldset",
      { class: "field", "aria-describedby": described },
      h("legend", { class: "label" }, words.label(column)),
      h("div", { class: "pills square" }, radios.map((radio) => h("label", { class: "pill" }, radio, h("span", {}, radio.value === "" ? texts.about.unknown : words.word(column, radio.value))))),
      help,
      this.#note,
      this.#fault,
    );
  }
}

/** An input for a number, a date or a time of a column. */
export function typed(column: Column, value: string, attributes: Record<string, string>, write: (text: string) => void): HTMLInputElement {
  // A date is a text: the browser's own input would show day and month in the order of the
  // browser's language, not of the page's.
  const type = column.kind === "timestamp" ? "datetime-local" : "text";
  const input = h("input", {
    ...attributes,
    type,
    inputmode: column.kind === "number" ? "decimal" : null,
    step: column.kind === "timestamp" ? 1 : null,
    spellcheck: "false",
    input: () => write(input.value),
  });
  input.value = column.kind === "timestamp" ? value.replace(" ", "T") : value;
  return input;
}

/** A number as a text that has one reading in the notation of every column. */
function machineText(value: string): string {
  return /^-?\d{1,3}\.\d{3}$/.test(value) ? `${value}0` : value;
}
