// The comparison picture: one row per difference on one axis. The user is at the same place in
// every row, and an arrow goes to the accepted case. Places are in per cent and texts in rem, so
// that a narrow picture has no smaller text.

import { h, svg } from "../dom.ts";
import { bounds } from "../draft.ts";
import type { Format } from "../format.ts";
import type { Texts } from "../texts/en.ts";
import { number, type Difference, type Words } from "../words.ts";

/** Widths that places in pixels refer to: of a usual row, and of one on a phone. */
const [WIDE, NARROW] = [560, 270];
const LINE = 42;
/** The length of an arrow between words, which have no distance, in parts of the longest. */
const WORDS = 0.6;

interface Axis {
  /** The place of the user, from 0 to 1. */
  you: number;
  /** The width of the picture as a share of a column's range. */
  width: number;
}

type Part = SVGElement | false | null;

export function picture(differences: Difference[], words: Words, texts: Texts, format: Format): HTMLElement {
  const longest = Math.max(0, ...differences.map(({ by, share }) => (by === null ? 0 : Math.abs(share)))) || 1;
  const shares = differences.map((difference) => (difference.by === null ? WORDS * longest : difference.share));
  const rise = Math.max(0.4 * longest, ...shares);
  const fall = Math.max(0.4 * longest, ...shares.map((share) => -share));
  const pad = 0.13 * (rise + fall);
  const axis = { you: (fall + pad) / (rise + fall + 2 * pad), width: rise + fall + 2 * pad };
  const rows = differences.map((difference, place) => row(difference, shares[place] ?? 0, axis, words, texts, format));
  return h("ul", { class: "cmp" }, header(axis, texts), rows);
}

const percent = (place: number) => `${Math.round(place * 10_000) / 100}%`;

function header({ you }: Axis, texts: Texts): HTMLElement {
  const text = (x: string, anchor: string, name: string, content: string) => svg("text", { class: name, x, y: 15, "text-anchor": anchor }, content);
  return h(
    "li",
    { class: "row axis", "aria-hidden": "true" },
    svg(
      "svg",
      {},
      text(percent(you), "middle", "ax now", texts.answer.now),
      svg("line", { class: "guide", x1: percent(you), x2: percent(you), y1: 21, y2: "100%" }),
      text("0", "start", "ax", texts.answer.axisLess),
      text("100%", "end", "ax", texts.answer.axisMore),
    ),
  );
}

function row(difference: Difference, share: number, axis: Axis, words: Words, texts: Texts, format: Format): HTMLElement {
  const { column, yours, theirs, by } = difference;
  const isScale = by !== null && column.words.length === 0;
  const unit = words.unit(column);
  // Dots keep their distance, and an arrow head needs a longer one.
  const real = share / axis.width;
  const shift = Math.sign(real || 1) * Math.max(Math.abs(real), 0.06);
  const to = Math.min(0.98, Math.max(0.02, axis.you + shift));
  const side = Math.sign(shift);
  const tip = side > 0 ? "M-21 -6L-14 0L-21 6" : "M21 -6L14 0L21 6";
  const texts2 = [words.value(column, yours), words.value(column, theirs)] as [string, string];
  const parts: Part[] = [
    svg("line", { class: "guide", x1: percent(axis.you), x2: percent(axis.you), y1: 0, y2: "100%" }),
    ...(isScale ? scale(difference, axis, [axis.you, to], format) : []),
    svg("line", { class: isScale || column.kind === "ordinal" ? "shaft" : "shaft words", x1: percent(axis.you), x2: percent(to), y1: LINE, y2: LINE }),
    svg("circle", { class: "you", cx: percent(axis.you), cy: LINE, r: 7 }),
    svg(
      "svg",
      { x: percent(to), y: LINE, overflow: "visible" },
      Math.abs(shift) >= 0.1 && svg("path", { class: "tip", d: tip }),
      svg("circle", { class: "them", r: 10 }),
      svg("path", { class: "mark", d: "M-4.5 0-1.2 3.4 4.5-3.4" }),
    ),
    ...labels(texts2, axis.you, to, isScale),
  ];
  return h(
    "li",
    { class: "row" },
    h("span", { class: "what" }, words.label(column), isScale && unit && h("small", {}, unit)),
    svg("svg", { role: "img", "aria-label": texts.answer.picture(words.label(column), words.full(column, yours), words.full(column, theirs)) }, ...parts),
    h("span", { class: "diff" }, words.amount(difference)),
  );
}

/** The line on which values exist, with ticks at round numbers. */
function scale({ column, yours }: Difference, axis: Axis, dots: [number, number], format: Format): Part[] {
  const ends = bounds(column);
  const own = number(column, yours);
  if (!ends || own === null) return [];
  const [min, max] = ends;
  const place = (value: number) => axis.you + (value - own) / (max - min) / axis.width;
  const [from, to] = [Math.max(0, place(min)), Math.min(1, place(max))];
  const cap = (at: number, isEnd: boolean): Part => isEnd && svg("line", { class: "cap2", x1: percent(at), x2: percent(at), y1: LINE - 7, y2: LINE + 7 });
  const parts: Part[] = [svg("line", { class: "base", x1: percent(from), x2: percent(to), y1: LINE, y2: LINE }), cap(from, place(min) >= 0), cap(to, place(max) <= 1)];
  // Dates have no round numbers of days.
  if (column.kind !== "number") return parts;
  const pixel = (max - min) * (axis.width / WIDE);
  const isWhole = [min, max, own].every(Number.isInteger);
  const step = round(80 * pixel, isWhole);
  const first = Math.ceil((own + (from - axis.you) * (max - min) * axis.width) / step);
  for (let count = first; parts.length < 60; count++) {
    const value = Number((count * step).toPrecision(12));
    const at = place(value);
    if (at > to + 1e-9) break;
    const minor = Math.abs(count % 2) === 1 ? " minor" : "";
    parts.push(svg("line", { class: `tick${minor}`, x1: percent(at), x2: percent(at), y1: LINE, y2: LINE + 6 }));
    const isFree = dots.every((dot) => Math.abs(dot - at) * (minor ? WIDE : NARROW + 100) > 34) && at > 0.03 && at < 0.97;
    if (isFree) parts.push(svg("text", { class: `t${minor}`, x: percent(at), y: LINE + 21, "text-anchor": "middle" }, format.number(value)));
  }
  return parts;
}

/** The smallest of 1, 2 and 5 × 10ⁿ that is at least this. */
function round(least: number, isWhole: boolean): number {
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * 0.999) ?? 10 * power;
  return isWhole ? Math.max(1, step) : step;
}

/** Both values above the line; turned outwards or on two lines where they would meet. */
function labels([yours, theirs]: [string, string], you: number, to: number, isScale: boolean): Part[] {
  const width = (text: string) => 9.5 * text.length;
  const side = Math.sign(to - you);
  const short = (text: string) => (text.length > 26 ? `${text.slice(0, 25)}…` : text);
  const label = (text: string, at: number, anchor: string, name: string | null, y: number, dx = 0) => svg("text", { class: name, x: percent(at), dx, y, "text-anchor": anchor }, short(text));
  const isMeeting = Math.abs(to - you) * NARROW < (width(yours) + width(theirs)) / 2 + 10;
  const overflow = (text: string, at: number) => width(text) / 2 > Math.min(at, 1 - at) * NARROW + 16;
  if (!isMeeting && !overflow(yours, you) && !overflow(theirs, to)) return [label(yours, you, "middle", null, 22), label(theirs, to, "middle", "theirs", 22)];
  const room = (at: number, isRight: boolean) => (isRight ? 1 - at : at) * NARROW + 20;
  if (isScale || (width(yours) < room(you, side < 0) && width(theirs) < room(to, side > 0))) {
    const [outward, inward] = side > 0 ? ["start", "end"] : ["end", "start"];
    return [label(yours, you, inward as string, null, 22, 2 * side), label(theirs, to, outward as string, "theirs", 22, -4 * side)];
  }
  // Long words stand above and below the line.
  const anchor = (at: number) => (at > 0.5 ? "end" : "start");
  const dx = (at: number) => (at > 0.5 ? 10 : -10);
  return [label(yours, you, anchor(you), null, 22, dx(you)), label(theirs, to, anchor(to), "theirs", LINE + 27, dx(to))];
}

/** What the dots mean. */
export function legend(texts: Texts): HTMLElement {
  const icon = (...parts: SVGElement[]) => svg("svg", { viewBox: "-12 -12 24 24", "aria-hidden": "true" }, ...parts);
  return h(
    "p",
    { class: "key cmp-key" },
    h("span", {}, icon(svg("circle", { class: "you", r: 8.5 })), texts.answer.you),
    h("span", {}, icon(svg("circle", { class: "them", r: 11 }), svg("path", { class: "mark", d: "M-5 0-1.4 3.8 5-3.8" })), texts.answer.accepted),
  );
}
