// How the institution names its columns, values and the outcome, in the language of the page.
// Without names from the institution, they derive from the names in the data.

import type { Column, Dataset, Inspection, Value } from "../../client/src/data.ts";
import { bounds } from "./draft.ts";
import type { Format } from "./format.ts";
import { dataNumber } from "./input/readings.ts";
import type { Texts } from "./texts/en.ts";

/** A difference between the user and an accepted case, in one column. */
export interface Difference {
  column: Column;
  /** Theirs minus yours as a share of the column's range; 0 if there is no distance. */
  share: number;
  /** Theirs minus yours: a number, days, or ranks; null for words. */
  by: number | null;
  yours: Value;
  theirs: Value;
}

export class Words {
  readonly #texts: Texts;
  readonly #format: Format;

  constructor(texts: Texts, format: Format) {
    this.#texts = texts;
    this.#format = format;
  }

  label(column: Column): string {
    if (column.label) return this.#format.local(column.label);
    const text = column.name.replaceAll("_", " ").trim();
    return text.charAt(0).toUpperCase() + text.slice(1);
  }

  /** The label of a column by its name; the name itself if there is no such column. */
  labelOf(name: string, offer: Inspection | null): string {
    const column = offer?.columns.find((column) => column.name === name);
    return column ? this.label(column) : name;
  }

  unit(column: Column): string | null {
    if (column.unit) return this.#format.local(column.unit);
    return column.notation ? `${column.notation.prefix}${column.notation.suffix}`.trim() || null : null;
  }

  help(column: Column): string | null {
    return column.description && this.#format.local(column.description);
  }

  /** The section of the form; empty if the institution names none. */
  section({ section }: Column): string {
    return section ? this.#format.local(section) : "";
  }

  /** The text of one of the words of a column. */
  word(column: Column, word: string): string {
    const label = column.word_labels?.[word];
    return label ? this.#format.local(label) : word;
  }

  /** A value as people write it, without its unit. */
  value(column: Column, value: Value): string {
    if (value === "") return this.#texts.about.unknown;
    return column.words.length > 0 ? this.word(column, String(value)) : this.#format.value(value, column);
  }

  /** A value with its unit. */
  full(column: Column, value: Value): string {
    return value === "" ? this.value(column, value) : this.#format.withUnit(this.value(column, value), this.unit(column));
  }

  /** The end of the sentence of an answer, such as "was accepted". */
  outcome({ outcome }: Dataset, isGroup: boolean): string {
    if (outcome) return this.#format.local(outcome);
    return isGroup ? this.#texts.answer.wereAccepted : this.#texts.answer.wasAccepted;
  }

  difference(column: Column, yours: Value, theirs: Value): Difference {
    const none = { column, share: 0, by: null, yours, theirs };
    if (column.kind === "ordinal") {
      const [from, to] = [yours, theirs].map((value) => column.words.indexOf(String(value))) as [number, number];
      return from < 0 || to < 0 ? none : { ...none, by: to - from, share: (to - from) / Math.max(1, column.words.length - 1) };
    }
    const ends = bounds(column);
    const [from, to] = [yours, theirs].map((value) => number(column, value)) as [number | null, number | null];
    if (!ends || from === null || to === null) return none;
    const by = Number((to - from).toPrecision(12));
    return { ...none, by, share: by / (ends[1] - ends[0] || 1) };
  }

  /** A difference as the end of a row: "€14,100 more", "own, not rent". */
  amount({ column, by, yours, theirs }: Difference): string {
    const { answer } = this.#texts;
    if (by === null || column.kind === "ordinal") return answer.not(this.value(column, theirs), this.value(column, yours));
    if (column.kind === "date" || column.kind === "timestamp") {
      const days = this.#format.number(Math.abs(Math.round(by * 10) / 10));
      return by > 0 ? answer.later(days) : answer.earlier(days);
    }
    const text = this.#format.withUnit(this.#format.number(Math.abs(by)), this.#format.shortUnit(this.unit(column)));
    return by > 0 ? answer.more(text) : answer.less(text);
  }

  /** A difference as part of the answer's sentence. */
  phrase({ column, by, yours, theirs }: Difference): string {
    const { more, less, one_more, one_less } = column.phrases ?? {};
    const phrase = by === null || column.kind !== "number" ? undefined : by > 0 ? ((by === 1 && one_more) || more) : ((by === -1 && one_less) || less);
    if (phrase) return this.#format.local(phrase).replaceAll("{n}", this.#format.number(Math.abs(by ?? 0)));
    const unit = column.words.length > 0 || theirs === "" ? null : this.#format.shortUnit(this.unit(column));
    return this.#texts.answer.instead(this.label(column), this.#format.withUnit(this.value(column, theirs), unit), this.value(column, yours));
  }

  /** A difference as the short name of a way. */
  way({ column, by, theirs }: Difference): string {
    if (by === null || column.kind === "ordinal") return `${this.label(column)}: ${this.value(column, theirs)}`;
    return `${this.label(column)} ${by > 0 ? "↑" : "↓"}`;
  }
}

/** A value as a number; dates as days. */
export function number(column: Column, value: Value): number | null {
  if (column.kind === "number") return dataNumber(value, column.notation);
  if (column.kind !== "date" && column.kind !== "timestamp") return null;
  const time = Date.parse(String(value).replace(" ", "T"));
  return Number.isNaN(time) ? null : time / 86_400_000;
}
