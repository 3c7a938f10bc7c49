// A figure per accepted person of a group: filled for those that the case stands for at least.

import type { Group } from "../../../client/src/data.ts";
import { svg } from "../dom.ts";
import type { Texts } from "../texts/en.ts";

/** Figures in a row, and the most figures that are drawn. */
const [ROW, MOST] = [10, 50];

export function figures({ at_least, at_most }: Group, texts: Texts): SVGElement {
  const drawn = Math.min(at_most, MOST);
  const figure = (_: unknown, place: number) =>
    svg(
      "g",
      { class: place < at_least ? null : "maybe", transform: `translate(${6 + 14 * (place % ROW)} ${7 + 24 * Math.floor(place / ROW)})` },
      svg("circle", { r: 3.2, "stroke-width": 1 }),
      svg("path", { d: "M-4.6 12.5v-3a4.6 4.6 0 0 1 9.2 0v3z", "stroke-width": 1 }),
    );
  const height = 24 * Math.ceil(drawn / ROW) - 2;
  return svg("svg", { viewBox: `0 0 ${14 * ROW - 2} ${height}`, role: "img", "aria-label": texts.answer.figures(at_least, at_most) }, ...Array.from({ length: drawn }, figure));
}
