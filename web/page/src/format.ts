// Numbers, dates and sizes as people of a language read them.

import type { Column, Value } from "../../client/src/data.ts";

export class Format {
  readonly language: string;
  readonly #number: Intl.NumberFormat;
  readonly #short: Intl.NumberFormat;
  readonly #percent: Intl.NumberFormat;

  constructor(language: string) {
    this.language = language;
    this.#number = new Intl.NumberFormat(language, { maximumFractionDigits: 12 });
    this.#short = new Intl.NumberFormat(language, { maximumSignificantDigits: 3 });
    this.#percent = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 });
  }

  number(number: number) {
    return this.#number.format(number);
  }

  /** Three digits. */
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
      return new Intl.DateTimeFormat(this.language, { dateStyle: "medium", timeZone: "UTC" }).format(new Date(`${text}T00:00:00Z`));
    }
    if (column?.kind === "timestamp" && /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/.test(text)) {
      const style = { dateStyle: "medium", timeStyle: "medium", timeZone: "UTC" } as const;
      return new Intl.DateTimeFormat(this.language, style).format(new Date(`${text.replace(" ", "T")}Z`));
    }
    if (column?.kind === "number" && text !== "" && Number.isFinite(Number(text))) return this.number(Number(text));
    return text;
  }
}
