// The user's input so far. It stays in memory, also when the form is drawn again.

import type { Column, Inspection, Metric, Profile, Value, Wishes } from "../../client/src/data.ts";

export type Wish = "free" | "stay" | "up" | "down" | "range" | "permit";

export interface Entry {
  value: string;
  wish: Wish;
  low: string;
  high: string;
  permitted: Set<string>;
  /** 0 to 4. */
  hard: number;
}

/** Weights of the five steps of difficulty. */
export const WEIGHTS = [0.25, 0.5, 1, 2, 4] as const;

export class Draft {
  entries = new Map<string, Entry>();
  metric: Metric = "l2";
  maxChanges = "";
  top = "1";
  scheme = "";
  tokens = new Map<string, string>();
  /** Whether the section with more choices is open. */
  more = false;

  entry(column: Column): Entry {
    let entry = this.entries.get(column.name);
    if (!entry) {
      entry = { value: "", wish: "free", low: "", high: "", permitted: new Set(), hard: 2 };
      this.entries.set(column.name, entry);
    }
    return entry;
  }

  /** Resets all wishes. */
  resetWishes(columns: Column[]) {
    for (const column of columns) {
      Object.assign(this.entry(column), { wish: "free", low: "", high: "", permitted: new Set(), hard: 2 });
    }
    this.maxChanges = "";
    this.metric = "l2";
  }

  profile(offer: Inspection, language: string): Profile {
    return Object.fromEntries(offer.columns.map((column) => [column.name, plain(this.entry(column).value, column, language)]));
  }

  wishes(offer: Inspection, language: string): Wishes {
    const wishes: Required<Pick<Wishes, "immutable" | "only_up" | "only_down" | "ranges" | "permits" | "weights">> & Wishes = {
      immutable: [],
      only_up: [],
      only_down: [],
      ranges: {},
      permits: {},
      weights: {},
      metric: this.metric,
      top: Number(this.top),
    };
    for (const column of offer.columns) {
      const entry = this.entry(column);
      const end = (text: string): Value | null => plain(text, column, language) || null;
      if (entry.wish === "stay") wishes.immutable.push(column.name);
      if (entry.wish === "up") wishes.only_up.push(column.name);
      if (entry.wish === "down") wishes.only_down.push(column.name);
      if (entry.wish === "range") wishes.ranges[column.name] = [end(entry.low), end(entry.high)];
      if (entry.wish === "permit") wishes.permits[column.name] = column.words.filter((word) => entry.permitted.has(word));
      if (entry.wish !== "stay" && entry.hard !== 2) wishes.weights[column.name] = WEIGHTS[entry.hard] ?? 1;
    }
    if (this.maxChanges !== "") wishes.max_changes = Number(this.maxChanges);
    if (this.scheme !== "" && this.scheme !== offer.default_scheme) wishes.scheme = this.scheme;
    return wishes;
  }
}

/** Converts a German decimal comma, so that the schema reads the number. Keeps other texts. */
export function plain(text: string, column: Column, language: string): string {
  const trimmed = text.trim();
  if (language === "de" && column.kind === "number" && /^[+-]?\d+,\d+$/.test(trimmed)) return trimmed.replace(",", ".");
  return trimmed;
}
