// The ways side by side in one table.

import { h, svg } from "../dom.ts";
import type { Texts } from "../texts/en.ts";
import type { Words } from "../words.ts";
import { distance, type Comparison } from "./comparison.ts";

export interface Beside {
  root: HTMLElement;
  /** Marks the way that is shown. */
  mark(way: number): void;
}

/** The distance of a way in words. */
export function farness(ways: Comparison[], way: number, isSquared: boolean, texts: Texts): string {
  const [first, own] = [ways[0], ways[way]];
  if (way === 0 || !first || !own) return texts.answer.first;
  const nearest = distance(first.explanation, isSquared);
  return nearest > 0 ? texts.answer.distances(distance(own.explanation, isSquared) / nearest) : texts.answer.far;
}

export function beside(ways: Comparison[], names: string[], isSquared: boolean, words: Words, texts: Texts): Beside {
  const { answer } = texts;
  const columns = [...new Set(ways.flatMap(({ differences }) => differences.map(({ column }) => column)))];
  const farthest = Math.max(...ways.map(({ explanation }) => distance(explanation, isSquared))) || 1;
  const cell = (way: Comparison, name: string) => {
    const difference = way.differences.find(({ column }) => column.name === name);
    if (!difference) return h("td", { class: "eq" }, way.near.some(({ column }) => column.name === name) ? answer.almost : answer.equal);
    const { column, theirs, by } = difference;
    const isWord = by === null || column.words.length > 0;
    return h("td", {}, h("b", {}, isWord ? "" : by > 0 ? "▲ " : "▼ ", words.value(column, theirs)), !isWord && h("small", {}, words.amount(difference)));
  };
  const yours = (name: string) => {
    for (const { differences, near, same } of ways) {
      const other = [...differences, ...near].find(({ column }) => column.name === name);
      if (other) return words.value(other.column, other.yours);
      const equal = same.find(({ column }) => column.name === name);
      if (equal) return words.value(equal.column, equal.value);
    }
    return "";
  };
  const bar = (way: Comparison) => {
    const width = Math.round((84 * distance(way.explanation, isSquared)) / farthest);
    return svg("svg", { class: "far", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { width: 100, height: 8, rx: 4 }), svg("rect", { class: "on", width, height: 8, rx: 4 }));
  };
  const rows = columns.map((column) => h("tr", {}, h("th", { scope: "row" }, words.label(column), " ", h("small", {}, `(${answer.youHave(yours(column.name))})`)), ways.map((way) => cell(way, column.name))));
  const far = h("tr", {}, h("th", { scope: "row" }, answer.distance), ways.map((way, place) => h("td", {}, farness(ways, place, isSquared, texts), bar(way))));
  const people =
    ways.some(({ explanation: { group } }) => group) &&
    h("tr", {}, h("th", { scope: "row" }, answer.standsFor), ways.map(({ explanation: { group } }) => h("td", {}, group && answer.people(String(group.at_least), String(group.at_most)))));
  const table = h(
    "table",
    { class: ways.length === 2 ? "side two-ways" : "side" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, h("span", { class: "hidden" }, answer.what)), names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows, far, people),
  );
  const root = h("section", { class: "panel beside", "aria-labelledby": "beside" }, h("h2", { id: "beside" }, answer.beside(texts.count(ways.length))), table);
  const mark = (way: number) => {
    for (const line of table.rows) [...line.cells].forEach((cell, place) => cell.classList.toggle("now", place === way + 1));
  };
  return { root, mark };
}
