// Formats numbers, dates and sizes for a language.

import type { Column, LocalizedText, Value } from "../../client/src/data.ts";
import { dataNumber, readNumber, type Language } from "./input/readings.ts";

const CURRENCY = /^[€$£¥]|^CHF\b/;

export class Format {
  readonly language: Language;
  readonly #locale: string;
  readonly #number: Intl.NumberFormat;
  readonly #short: Intl.NumberFormat;
  readonly #percent: Intl.NumberFormat;

  constructor(language: Language) {
    this.language = language;
    // Use the browser's variant of the language, unless it writes numbers in another way: what the
    // page shows must have the reading that the page gives to input.
    const own = navigator.language.startsWith(language) ? navigator.language : language;
    const same = new Intl.NumberFormat(own).format(12345.5) === new Intl.NumberFormat(language).format(12345.5);
    this.#locale = same ? own : language === "en" ? "en-GB" : "de-DE";
    this.#number = new Intl.NumberFormat(this.#locale, { maximumFractionDigits: 12 });
    this.#short = new Intl.NumberFormat(this.#locale, { maximumSignificantDigits: 3 });
    this.#percent = new Intl.NumberFormat(this.#locale, { style: "percent", maximumFractionDigits: 1 });
  }

  number(number: number) {
    return this.#number.format(Number(number.toPrecision(12)));
  }

  /** A number with three significant digits. */
  short(number: number) {
    return this.#short.format(number);
  }

  /** A text of the institution in the language of the page, else in English, else the first. */
  local(text: LocalizedText): string {
    return typeof text === "string" ? text : (text[this.language] ?? text["en"] ?? Object.values(text)[0] ?? "");
  }

  percent(share: number) {
    return this.#percent.format(share);
  }

  bytes(count: number) {
    if (count < 1000) return `${count} B`;
    return count < 1e6 ? `${this.short(count / 1e3)} kB` : `${this.short(count / 1e6)} MB`;
  }

  date(date: Date) {
    return new Intl.DateTimeFormat(this.#locale, { dateStyle: "long" }).format(date);
  }

  /** A number or date of a column as people write it, without its unit. */
  value(value: Value, column: Column | undefined): string {
    if (typeof value === "number") return this.number(value);
    if (column?.kind === "date" && /^\d{4}-\d\d-\d\d$/.test(value)) {
      return new Intl.DateTimeFormat(this.#locale, { dateStyle: "medium", timeZone: "UTC" }).format(new Date(`${value}T00:00:00Z`));
    }
    if (column?.kind === "timestamp" && /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/.test(value)) {
      const style = { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" } as const;
      return new Intl.DateTimeFormat(this.#locale, style).format(new Date(`${value.replace(" ", "T")}Z`));
    }
    const number = column?.kind === "number" ? dataNumber(value, column.notation) : null;
    return number === null ? value : this.number(number);
  }

  /** A text with its unit. A currency stands before the number in English, after it in German. */
  withUnit(text: string, unit: string | null): string {
    if (!unit || text === "") return text;
    if (!CURRENCY.test(unit)) return unit === "%" && this.language === "en" ? `${text}%` : `${text}\u00a0${unit}`;
    const [symbol = "", ...rest] = unit.split(" ");
    const after = rest.length > 0 ? ` ${rest.join(" ")}` : "";
    return this.language === "en" ? `${symbol}${text}${after}` : `${text}\u00a0${symbol}${after}`;
  }

  /** The part of a unit that a difference needs: a currency, a percent sign or one short word. */
  shortUnit(unit: string | null): string | null {
    if (!unit) return null;
    const [first = "", ...rest] = unit.split(" ");
    return CURRENCY.test(first) || rest.length === 0 ? first : null;
  }

  /** A date as input: as people write it in German, and year first in English. */
  dateInput(date: string): string {
    const [year, month, day] = date.split("-");
    return this.language === "de" && day ? `${day}.${month}.${year}` : date;
  }

  /** A number as input that this page reads back as the same number. */
  input(number: number, bounds: [number, number] | null = null): string {
    const grouped = this.number(number);
    const reading = readNumber(grouped, this.language, bounds);
    if (reading.kind === "one" && Number(reading.value) === number) return grouped;
    const text = Math.abs(number) >= 1e-6 && Math.abs(number) < 1e15 ? number.toFixed(12).replace(/\.?0+$/, "") : String(number);
    // With exactly three decimals, the mark could also separate thousands.
    const clear = /^-?[1-9]\d{0,2}\.\d{3}$/.test(text) ? `${text}0` : text;
    return this.language === "de" ? clear.replace(".", ",") : clear;
  }
}
