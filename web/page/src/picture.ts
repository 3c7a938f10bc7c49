// Draws a change on the scale of its feature, from the user's value to the value of the record.

import { h, svg } from "./dom.ts";

export interface Scale {
  label: string;
  min: string;
  max: string;
  /** From 0 to 1. */
  yours: number;
  theirs: number;
  /** Number of steps, for words with an order. */
  steps: number | null;
}

const [LEFT, WIDTH, MIDDLE] = [12, 296, 18];

export function picture({ label, min, max, yours, theirs, steps }: Scale): HTMLElement {
  const x = (place: number) => Math.round((LEFT + place * WIDTH) * 10) / 10;
  const ticks = steps !== null && steps <= 12 ? Array.from({ length: steps }, (_, step) => step / (steps - 1)) : [0, 1];
  const [from, to] = [x(yours), x(theirs)];
  const side = Math.sign(to - from);
  // The tip touches the dot of the record.
  const tip = to - side * 7;
  const arrow = `M${tip - side * 8} ${MIDDLE - 6}L${tip} ${MIDDLE}L${tip - side * 8} ${MIDDLE + 6}`;
  return h(
    "figure",
    { class: "scale" },
    svg(
      "svg",
      { viewBox: `0 0 ${WIDTH + 2 * LEFT} 36`, role: "img", "aria-label": label },
      svg("path", { class: "line", d: `M${LEFT} ${MIDDLE}H${LEFT + WIDTH}` }),
      ...ticks.map((place) => svg("path", { class: "tick", d: `M${x(place)} ${MIDDLE - 5}V${MIDDLE + 5}` })),
      Math.abs(to - from) > 1 && svg("path", { class: "way", d: `M${from} ${MIDDLE}H${to}` }),
      Math.abs(to - from) > 26 && svg("path", { class: "arrow", d: arrow }),
      svg("circle", { class: "you", cx: from, cy: MIDDLE, r: 6 }),
      svg("circle", { class: "them", cx: to, cy: MIDDLE, r: 6 }),
    ),
    h("figcaption", { "aria-hidden": "true" }, h("span", {}, min), h("span", {}, max)),
  );
}
