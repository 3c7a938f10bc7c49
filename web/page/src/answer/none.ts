// Nobody qualifies: the wishes, the strictest first, each with a button that loosens it.

import type { Column, SentMessage } from "../../../client/src/data.ts";
import { h } from "../dom.ts";
import { bounds, read, type Draft } from "../draft.ts";
import type { Format } from "../format.ts";
import { button, head } from "../steps/frame.ts";
import { wishes, type NamedWish } from "../steps/wish_texts.ts";
import { number } from "../words.ts";
import { colophon, letterhead, next, notes, type Outcome } from "./outcome.ts";
import { privacy } from "./private.ts";

/** How much of a column's range a loosened wish gives back, on each side. */
const GIVE = 0.06;

export interface NoneParts extends Outcome {
  seen: SentMessage[];
  draft: Draft;
}

interface Loosening {
  text: string;
  apply(): void;
}

export async function showNone(parts: NoneParts): Promise<HTMLElement[]> {
  const { texts, draft, deployment } = parts;
  const { columns } = deployment.offer;
  const list = wishes({ columns, draft, texts, format: parts.format, words: parts.words }).filter(({ kind }) => kind !== "hard");
  list.sort((a, b) => left(parts, a) - left(parts, b) || Number(isSuggested(parts, a)) - Number(isSuggested(parts, b)));
  const item = (wish: NamedWish) => {
    const suggested = isSuggested(parts, wish) && h("span", { class: "soft small" }, ` ${texts.none.suggested}`);
    const { text, apply } = loosen(parts, wish);
    const press = button(text, () => {
      apply();
      press.replaceWith(h("span", { class: "soft", role: "status", tabindex: -1 }, texts.none.loosened));
    }, "slim");
    return h("li", {}, h("span", {}, wish.text, suggested), press);
  };
  const said = notes(parts, []);
  return [
    head(texts.none.heading, list.length > 0 ? texts.none.lede : texts.none.noWishes, true),
    ...letterhead(parts),
    ...(list.length > 0
      ? [h("section", { class: "panel none", "aria-labelledby": "which" }, h("h2", { id: "which" }, texts.none.which), h("ul", { class: "relax" }, list.map(item)))]
      : []),
    ...(said ? [said] : []),
    next(parts),
    await privacy(parts.answer, parts.seen, deployment, texts, parts.format),
    colophon(parts),
  ];
}

function isSuggested({ draft }: NoneParts, { column, kind }: NamedWish): boolean {
  return column !== null && kind === "change" && column.suggest_immutable && draft.entry(column).wish === "stay";
}

const numeric = (text: string, column: Column, format: Format) => {
  const reading = read(text, column, format.language);
  return reading.kind === "one" ? number(column, reading.value) : null;
};

/** The share of a column's values that a wish leaves. */
function left({ deployment, draft, format }: NoneParts, { column }: NamedWish): number {
  if (!column) return Number(draft.maxChanges) / Math.max(1, deployment.offer.columns.length);
  const entry = draft.entry(column);
  const count = Math.max(1, column.words.length);
  if (entry.wish === "permit") return entry.permitted.size / count;
  if (entry.wish === "stay") return column.words.length > 0 ? 1 / count : 0;
  const ends = bounds(column);
  const own = column.words.length > 0 ? column.words.indexOf(entry.value) / Math.max(1, count - 1) : place(numeric(entry.value, column, format), ends);
  if (entry.wish === "up") return 1 - own;
  if (entry.wish === "down") return own;
  const [low, high] = [entry.low, entry.high].map((text) => numeric(text, column, format)) as [number | null, number | null];
  return (high === null ? 1 : place(high, ends)) - (low === null ? 0 : place(low, ends));
}

function place(value: number | null, ends: [number, number] | null): number {
  return value === null || !ends ? 0.5 : Math.min(1, Math.max(0, (value - ends[0]) / (ends[1] - ends[0] || 1)));
}

function loosen(parts: NoneParts, { column }: NamedWish): Loosening {
  const { texts, draft, format, words, deployment } = parts;
  if (!column) {
    const most = Number(draft.maxChanges) + 1;
    if (most > deployment.offer.columns.length) return { text: texts.none.anyNumber, apply: () => (draft.maxChanges = "") };
    return { text: texts.none.limit(most), apply: () => (draft.maxChanges = String(most)) };
  }
  const entry = draft.entry(column);
  const free = { text: texts.none.free, apply: () => (entry.wish = "free") };
  const ends = bounds(column);
  if (!ends || column.kind !== "number" || (entry.wish !== "stay" && entry.wish !== "range")) return free;
  const own = numeric(entry.value, column, format);
  const [low, high] = entry.wish === "stay" ? [own, own] : [entry.low, entry.high].map((text) => numeric(text, column, format));
  const give = rounded(GIVE * (ends[1] - ends[0]));
  const [from, to] = [low == null ? null : Math.max(ends[0], low - give), high == null ? null : Math.min(ends[1], high + give)];
  if ((from === null || from === ends[0]) && (to === null || to === ends[1])) return free;
  const [first, last] = [from ?? ends[0], to ?? ends[1]].map((value) => words.value(column, Number(value.toPrecision(12))));
  const shown = format.withUnit(texts.none.plain(first ?? "", last ?? ""), null);
  const apply = () => Object.assign(entry, { wish: "range", low: from === null ? "" : format.input(from, ends), high: to === null ? "" : format.input(to, ends) });
  return { text: entry.wish === "stay" ? texts.none.let(shown) : texts.none.widen(shown), apply };
}

/** The number of the form 1, 2 or 5 × 10ⁿ that is not above this. */
function rounded(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([5, 2, 1].find((factor) => factor * power <= value * 1.001) ?? 1) * power;
}
