// The user's input so far. It stays in memory, also when a step is drawn again.

import type { Column, Inspection, Metric, Profile, Value, Wishes } from "../../client/src/data.ts";
import { readDate, readNumber, dataNumber, type Language, type Reading } from "./input/readings.ts";
import type { Format } from "./format.ts";

export type Wish = "free" | "stay" | "up" | "down" | "range" | "permit";

export interface Entry {
  value: string;
  wish: Wish;
  low: string;
  high: string;
  permitted: Set<string>;
  /** An index of `WEIGHTS`. */
  hard: number;
}

/** Weights of the four steps of difficulty. */
export const WEIGHTS = [0.5, 1, 2, 4] as const;
const MEDIUM = 1;
/** The most ways that a search may ask for. */
export const MAX_WAYS = 5;
const free = () => ({ wish: "free" as Wish, low: "", high: "", permitted: new Set<string>(), hard: MEDIUM });

export class Draft {
  entries = new Map<string, Entry>();
  metric: Metric = "l2";
  maxChanges = "";
  /** The number of different ways; the servers see it. */
  ways = "3";
  scheme = "";
  tokens = new Map<string, string>();

  entry(column: Column): Entry {
    let entry = this.entries.get(column.name);
    if (!entry) {
      entry = { value: "", ...free(), wish: column.suggest_immutable ? "stay" : "free" };
      this.entries.set(column.name, entry);
    }
    return entry;
  }

  /** The number of ways that a search asks for. */
  searches(offer: Inspection): number {
    const scheme = offer.schemes.find(({ name }) => name === (this.scheme || offer.default_scheme));
    // Further ways keep columns as they are, which not every scheme can do.
    return scheme?.any_wish ? Math.max(1, Math.min(Math.floor(Number(this.ways)) || 1, MAX_WAYS)) : 1;
  }

  isWished(column: Column): boolean {
    const { wish, hard } = this.entry(column);
    return wish !== "free" || hard !== MEDIUM;
  }

  release(column: Column) {
    Object.assign(this.entry(column), free());
  }

  /** Whether all suggestions of the institution are in force. */
  keepsSuggestions(columns: Column[]): boolean {
    return columns.every((column) => !column.suggest_immutable || this.entry(column).wish === "stay");
  }

  /** Puts the suggestions in force, or takes them back. */
  suggest(columns: Column[], on: boolean) {
    for (const column of columns.filter((column) => column.suggest_immutable)) this.entry(column).wish = on ? "stay" : "free";
  }

  /** Back to the suggestions alone. */
  resetWishes(columns: Column[]) {
    for (const column of columns) this.release(column);
    this.suggest(columns, true);
    this.maxChanges = "";
    this.metric = "l2";
  }

  /** Writes numbers and dates in another language, so that no text changes its meaning. */
  translate(offer: Inspection, from: Language, to: Format) {
    for (const column of offer.columns.filter(({ kind }) => kind === "number" || kind === "date")) {
      const entry = this.entry(column);
      for (const key of ["value", "low", "high"] as const) {
        const reading = read(entry[key], column, from);
        if (reading.kind === "one") entry[key] = column.kind === "date" ? to.dateInput(reading.value) : to.input(Number(reading.value), bounds(column));
      }
    }
  }

  profile(offer: Inspection, language: Language): Profile {
    return Object.fromEntries(offer.columns.map((column) => [column.name, meant(this.entry(column).value, column, language)]));
  }

  wishes(offer: Inspection, language: Language): Wishes {
    const wishes: Required<Pick<Wishes, "immutable" | "only_up" | "only_down" | "ranges" | "permits" | "weights">> & Wishes = {
      immutable: [],
      only_up: [],
      only_down: [],
      ranges: {},
      permits: {},
      weights: {},
      metric: this.metric,
      ways: this.searches(offer),
    };
    for (const column of offer.columns) {
      const entry = this.entry(column);
      const end = (text: string): Value | null => (text.trim() === "" ? null : (meant(text, column, language) ?? null));
      if (entry.wish === "stay") wishes.immutable.push(column.name);
      if (entry.wish === "up") wishes.only_up.push(column.name);
      if (entry.wish === "down") wishes.only_down.push(column.name);
      if (entry.wish === "range") wishes.ranges[column.name] = [end(entry.low), end(entry.high)];
      if (entry.wish === "permit") wishes.permits[column.name] = column.words.filter((word) => entry.permitted.has(word));
      if (entry.wish !== "stay" && entry.hard !== MEDIUM) wishes.weights[column.name] = WEIGHTS[entry.hard] ?? 1;
    }
    if (this.maxChanges !== "") wishes.max_changes = Number(this.maxChanges);
    if (this.scheme !== "" && this.scheme !== offer.default_scheme) wishes.scheme = this.scheme;
    return wishes;
  }
}

/** The bounds of a column as numbers; null if it has none. */
export function bounds(column: Column): [number, number] | null {
  const number = (text: string | null) => (column.kind === "number" ? dataNumber(text, column.notation) : text === null ? null : Date.parse(text.replace(" ", "T")) / 86_400_000);
  const [min, max] = [number(column.min), number(column.max)];
  return min === null || max === null || Number.isNaN(min) || Number.isNaN(max) ? null : [min, max];
}

/** What the user's text for a column means. */
export function read(text: string, column: Column, language: Language): Reading {
  if (text.trim() === "") return { kind: "empty" };
  if (column.kind === "number") {
    const { prefix = "", suffix = "" } = column.notation ?? {};
    const units = typeof column.unit === "string" ? [column.unit] : Object.values(column.unit ?? {});
    return readNumber(text, language, bounds(column), [...units, prefix.trim(), suffix.trim()]);
  }
  if (column.kind === "date") return readDate(text);
  if (column.kind === "timestamp") return { kind: "one", value: text.trim().replace("T", " ") };
  return column.words.includes(text) ? { kind: "one", value: text } : { kind: "none" };
}

/** The value that is sent: a number as a number, so that its notation does not matter. */
function meant(text: string, column: Column, language: Language): Value | null {
  const reading = read(text, column, language);
  if (reading.kind !== "one") return reading.kind === "empty" ? "" : text;
  return column.kind === "number" ? Number(reading.value) : reading.value;
}
