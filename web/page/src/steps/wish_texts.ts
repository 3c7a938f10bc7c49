// The wishes in words, one by one, in the order of the form.

import type { Column } from "../../../client/src/data.ts";
import { read, type Draft } from "../draft.ts";
import type { Format } from "../format.ts";
import type { Texts } from "../texts/en.ts";
import type { Words } from "../words.ts";

/** One wish: its text, and what takes it back. */
export interface NamedWish {
  /** Null for a wish about all columns. */
  column: Column | null;
  kind: "change" | "hard" | "limit";
  text: string;
  release(): void;
}

export interface WishParts {
  columns: Column[];
  draft: Draft;
  texts: Texts;
  format: Format;
  words: Words;
}

/** All wishes in force. */
export function wishes(parts: WishParts): NamedWish[] {
  const { columns, draft, texts } = parts;
  const list: NamedWish[] = [];
  for (const column of columns) {
    const entry = draft.entry(column);
    const label = parts.words.label(column);
    const { chip } = texts.wishes;
    const text = {
      free: "",
      stay: chip.stay(label),
      up: chip.up(label),
      down: chip.down(label),
      // An open range is no wish.
      range: entry.low.trim() + entry.high.trim() === "" ? "" : chip.range(label, range(parts, column)),
      permit: chip.permit(label, permitted(parts, column)),
    }[entry.wish];
    if (text !== "") list.push({ column, kind: "change", text, release: () => (entry.wish = "free") });
    const hardness = texts.wishes.hardness[entry.hard];
    if (entry.hard !== 1 && hardness && entry.wish !== "stay") list.push({ column, kind: "hard", text: chip.hard(label, hardness), release: () => (entry.hard = 1) });
  }
  const most = draft.maxChanges;
  if (most !== "") {
    const text = Number(most) >= columns.length ? texts.wishes.chip.few : texts.wishes.chip.limit(most);
    list.push({ column: null, kind: "limit", text, release: () => (draft.maxChanges = "") });
  }
  return list;
}

/** The wish for a column as the end of its row. */
export function shortWish(parts: WishParts, column: Column): string {
  const entry = parts.draft.entry(column);
  const { short, hardness } = parts.texts.wishes;
  if (entry.wish === "range") return range(parts, column);
  if (entry.wish === "permit") return permitted(parts, column);
  const hard = hardness[entry.hard];
  return entry.wish === "free" && entry.hard !== 1 && hard ? short.hard(hard) : short[entry.wish];
}

export function permitted({ draft, words }: WishParts, column: Column): string {
  return column.words.filter((word) => draft.entry(column).permitted.has(word)).map((word) => words.word(column, word)).join(", ");
}

export function range({ draft, texts, format, words }: WishParts, column: Column): string {
  const entry = draft.entry(column);
  const [low, high] = [entry.low, entry.high].map((text) => {
    const reading = read(text, column, format.language);
    if (reading.kind !== "one") return text.trim();
    return words.full(column, column.kind === "number" ? Number(reading.value) : reading.value);
  });
  return texts.wishes.between(low ?? "", high ?? "");
}
