// Formats numbers, dates and sizes for a language.

import type { Column, Value } from "../../client/src/data.ts";

export class Format {
  readonly language: string;
  readonly #locale: string;
  readonly #number: Intl.NumberFormat;
  readonly #short: Intl.NumberFormat;
  readonly #percent: Intl.NumberFormat;

  constructor(language: string) {
    this.language = language;
    // Use the browser's variant of the language, such as British English.
    this.#locale = navigator.language.startsWith(language) ? navigator.language : language;
    this.#number = new Intl.NumberFormat(this.#locale, { maximumFractionDigits: 12 });
    this.#short = new Intl.NumberFormat(this.#locale, { maximumSignificantDigits: 3 });
    this.#percent = new Intl.NumberFormat(this.#locale, { style: "percent", maximumFractionDigits: 1 });
  }

  number(number: number) {
    return this.#number.format(number);
  }

  /** A number with three significant digits. */
  short(number: number) {
    return this.#short.format(number);
  }

  percent(share: number) {
    return this.#percent.format(share);
  }

  bytes(count: number) {
    if (count < 1000) return `${count} B`;
    return count < 1e6 ? `${this.short(count / 1e3)} kB` : `${this.short(count / 1e6)} MB`;
  }

  /** A value of a column, with its unit if it has one. */
  value(value: Value, column: Column | undefined, unit = true): string {
    const text = typeof value === "number" ? this.number(value) : this.#text(value, column);
    return unit && column?.unit && text !== "" ? `${text} ${column.unit}` : text;
  }

  #text(text: string, column: Column | undefined) {
    if (column?.kind === "date" && /^\d{4}-\d\d-\d\d$/.test(text)) {
      return new Intl.DateTimeFormat(this.#locale, { dateStyle: "medium", timeZone: "UTC" }).format(new Date(`${text}T00:00:00Z`));
    }
    if (column?.kind === "timestamp" && /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/.test(text)) {
      const style = { dateStyle: "medium", timeStyle: "medium", timeZone: "UTC" } as const;
      return new Intl.DateTimeFormat(this.#locale, style).format(new Date(`${text.replace(" ", "T")}Z`));
    }
    if (column?.kind === "number" && text !== "" && Number.isFinite(Number(text))) return this.number(Number(text));
    return text;
  }
}
