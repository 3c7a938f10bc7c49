// The answer: its sentence, the comparison picture, the ways side by side, how sure it is, what to
// do now, and how it stayed private. Printed, it is a letter.

import type { Answer, Explanation, Metric, SentMessage } from "../../../client/src/data.ts";
import { h, unique } from "../dom.ts";
import { bounds } from "../draft.ts";
import type { Texts } from "../texts/en.ts";
import type { Words } from "../words.ts";
import { beside, farness } from "./beside.ts";
import { compare, type Comparison } from "./comparison.ts";
import { colophon, letterhead, next, notes as notesOf, type Outcome } from "./outcome.ts";
import { legend, picture } from "./picture.ts";
import { figures } from "./people.ts";
import { privacy } from "./private.ts";

/** The most phrases of the answer's sentence. */
const PHRASES = 3;

export interface AnswerParts extends Outcome {
  /** The number of ways that were asked for. */
  asked: number;
  metric: Metric;
  /** The wishes in words. */
  wishes: string[];
  seen: SentMessage[];
}

/** Whether a server may be lying, so that another case may be nearer. */
const isDoubtful = (answer: Answer) => answer.notes.some(({ code }) => code === "may-not-be-nearest");

/** The cases of an answer, nearest first. */
export function found(answer: Answer): Explanation[] {
  return answer.ways ?? answer.nearest ?? (answer.found ? [{ cost: answer.cost ?? 0, sentence: answer.sentence ?? "", record: answer.record ?? {}, changes: answer.changes, ...(answer.group && { group: answer.group }) }] : []);
}

export async function showAnswer(parts: AnswerParts): Promise<HTMLElement[]> {
  const { answer, deployment, texts, words } = parts;
  const ways = found(answer).map((explanation) => compare(explanation, deployment.offer.columns, words));
  const isSquared = parts.metric === "l2" || deployment.scheme(answer.scheme)?.in_values === false;
  const names = wayNames(ways, words);
  const table = ways.length > 1 ? beside(ways, names, isSquared, words, texts) : null;
  const top = h("div", { class: "head" });
  const shown = h("div", { class: "two tight" });
  const means = h("ul", { class: "marks" });
  const stands = h("div", { class: "sure" });
  const show = (way: number) => {
    const comparison = ways[way];
    if (!comparison) return;
    top.replaceChildren(...sentence(parts, comparison, way === 0 ? (isDoubtful(answer) ? texts.answer.doubtful : texts.answer.nearest) : texts.answer.other(way, farness(ways, way, isSquared, texts))));
    shown.replaceChildren(...different(parts, comparison));
    means.replaceChildren(...meaning(parts, way));
    stands.replaceChildren(...standing(parts, comparison));
    table?.mark(way);
  };
  show(0);
  const isSame = ways[0]?.explanation.changes.length === 0;
  return [
    h(
      "div",
      { class: "two answer" },
      top,
      !isSame &&
        h(
          "section",
          { class: "panel", "aria-labelledby": "different" },
          ways.length > 1 && tabs(texts, names, show),
          h("div", { class: "between" }, h("h2", { id: "different" }, texts.answer.different), legend(texts)),
          shown,
        ),
    ),
    ...(table ? [table.root] : []),
    sure(parts, stands, means, ways.length, isSame),
    next(parts),
    await privacy(answer, parts.seen, deployment, texts, parts.format),
    colophon(parts),
  ];
}

/** Short names of the ways; those that begin alike get the second difference too. */
function wayNames(ways: Comparison[], words: Words): string[] {
  const name = (way: Comparison, count: number) => way.differences.slice(0, count).map((difference) => words.way(difference)).join(", ");
  return ways.map((way, place) => {
    const isTaken = ways.some((other, index) => index !== place && name(other, 1) === name(way, 1));
    return name(way, isTaken ? 2 : 1) || `${place + 1}`;
  });
}

function tabs(texts: Texts, names: string[], show: (way: number) => void): HTMLElement {
  const group = unique("way");
  const tab = (name: string, place: number) => {
    const radio = h("input", { type: "radio", name: group, autocomplete: "off", change: () => show(place) });
    radio.checked = place === 0;
    return h("label", { class: "pill" }, radio, h("span", {}, name, place === 0 && h("small", {}, texts.answer.first)));
  };
  return h("fieldset", { class: "tabs" }, h("legend", { class: "small soft" }, texts.answer.waysCount(texts.count(names.length))), names.map(tab));
}

function sentence(parts: AnswerParts, comparison: Comparison, kicker: string): HTMLElement[] {
  const { answer, deployment, texts, words } = parts;
  const { offer, isGrouped } = deployment;
  const paper = letterhead(parts);
  if (answer.found && comparison.explanation.changes.length === 0) {
    return [...paper, h("h1", { class: "voice", tabindex: -1 }, isGrouped ? texts.answer.sameGroup : texts.answer.same), h("p", { class: "lede" }, texts.answer.sameLede(deployment.institution(texts)))];
  }
  const phrases = comparison.differences.slice(0, PHRASES).map((difference) => words.phrase(difference));
  const smaller = comparison.differences.length - phrases.length;
  const list = texts.answer.sentence(phrases, smaller, isGrouped, words.outcome(offer.dataset, isGrouped));
  const heading = h("h1", { class: "voice", tabindex: -1 }, list.map((part) => (typeof part === "string" ? part : h("b", {}, part.phrase))));
  const rest = comparison.near.length > 0 ? texts.answer.restNear : texts.answer.restSame;
  return [...paper, h("p", { class: "soft" }, kicker), heading, ...(smaller === 0 ? [h("p", { class: "lede" }, rest)] : [])];
}

function different({ texts, format, words }: AnswerParts, { differences, near, same }: Comparison): HTMLElement[] {
  const pair = (name: string, value: string) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  const scaled = differences.find(({ column, by }) => by !== null && column.words.length === 0 && bounds(column));
  const range = scaled && texts.answer.caption(words.label(scaled.column), words.value(scaled.column, scaled.column.min ?? ""), words.value(scaled.column, scaled.column.max ?? ""));
  const list = [
    picture(differences, words, texts, format),
    near.length > 0 &&
      h(
        "details",
        { class: "fold" },
        h("summary", {}, texts.answer.near(near.length)),
        h("p", { class: "small soft" }, texts.answer.nearHelp),
        h("dl", { class: "pairs" }, near.map(({ column, yours, theirs }) => pair(words.label(column), `${words.value(column, yours)} → ${words.value(column, theirs)}`))),
      ),
    same.length > 0 && h("div", { class: "fold" }, h("h3", {}, texts.answer.exact), h("dl", { class: "pairs" }, same.map(({ column, value }) => pair(words.label(column), words.value(column, value))))),
    range && h("p", { class: "small soft" }, range),
  ];
  return list.filter((item): item is HTMLElement => item instanceof HTMLElement);
}

function meaning({ answer, deployment, texts, format }: AnswerParts, way: number): HTMLElement[] {
  const { offer, isGrouped } = deployment;
  const [institution, rows] = [deployment.institution(texts), format.number(offer.rows)];
  const list = [
    isGrouped ? texts.answer.meansGroup(institution) : texts.answer.meansPerson(institution),
    ...(isDoubtful(answer) ? [] : [way === 0 ? texts.answer.meansNearest(rows) : texts.answer.meansOther(rows)]),
    ...(answer.matching_rows === null ? [] : [texts.answer.matching(format.number(answer.matching_rows), rows)]),
  ];
  return list.map((text) => h("li", {}, text));
}

/** What the case stands for: one person, or a group of accepted people. */
function standing({ deployment, texts, format }: AnswerParts, { explanation: { group } }: Comparison): (SVGElement | HTMLElement)[] {
  const signed = deployment.offer.signer === null ? texts.answer.unsigned : texts.answer.signed(deployment.institutionDative(texts));
  if (!group) return [h("p", {}, h("b", {}, texts.answer.oneRecord), ` ${signed}`)];
  const people = texts.answer.people(format.number(group.at_least), format.number(group.at_most));
  const near = group.accepted_percent === null ? "" : ` ${texts.answer.nearAccepted(group.accepted_percent)}`;
  return [figures(group, texts), h("p", {}, h("b", {}, texts.answer.group(people)), ` ${texts.answer.groupMore}${near} ${signed}`)];
}

function sure(parts: AnswerParts, stands: HTMLElement, means: HTMLElement, count: number, isSame: boolean): HTMLElement {
  const { asked, deployment, texts } = parts;
  const institution = deployment.institution(texts);
  const fewer = count > 0 && count < asked && !isSame ? [texts.answer.fewer(String(count), String(asked))] : [];
  const notes = notesOf(parts, fewer);
  return h(
    "section",
    { class: "panel", "aria-labelledby": "sure" },
    h("h2", { id: "sure" }, texts.answer.sure),
    stands,
    h(
      "div",
      { class: "two tight half" },
      h("div", { class: "marks" }, h("h3", {}, texts.answer.means), means),
      h("div", { class: "marks" }, h("h3", {}, texts.answer.meansNot), h("ul", { class: "marks not" }, [texts.answer.not1(institution), texts.answer.not2, texts.answer.not3].map((text) => h("li", {}, text)))),
    ),
    parts.wishes.length > 0 && h("div", { class: "kept" }, h("p", { class: "small soft" }, texts.answer.keeps), h("ul", { class: "chips" }, parts.wishes.map((wish) => h("li", { class: "chip" }, wish)))),
    notes,
  );
}
