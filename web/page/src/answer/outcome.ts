// What every outcome shows, found or not: the letterhead, the notes, what to do now, and the last
// line. It is the same for all outcomes, because what the user does next must not depend on them.

import type { Answer } from "../../../client/src/data.ts";
import type { Deployment } from "../deployment.ts";
import { h, save } from "../dom.ts";
import type { Format } from "../format.ts";
import { build, button } from "../steps/frame.ts";
import type { Texts } from "../texts/en.ts";
import { reason, translate } from "../translate.ts";
import type { Words } from "../words.ts";

export interface Outcome {
  answer: Answer;
  deployment: Deployment;
  texts: Texts;
  format: Format;
  words: Words;
  /** Goes back to the wishes. */
  change(): void;
}

/** The head of the printed letter. */
export function letterhead({ deployment, texts, format }: Outcome): HTMLElement[] {
  const { name, version } = deployment.offer.dataset;
  return [
    h("div", { class: "paper letterhead" }, h("b", {}, texts.answer.letter), h("span", {}, format.date(new Date()))),
    h("p", { class: "paper small soft" }, texts.answer.asked(name, version)),
  ];
}

/** Notes of the servers and of the engine after these; null if there are none. */
export function notes({ answer, deployment, texts, words }: Outcome, first: string[]): HTMLElement | null {
  const label = (name: string) => words.labelOf(name, deployment.offer);
  const list = [
    ...first,
    ...answer.lying_servers.map(texts.answer.lyingOperator),
    ...answer.server_failures.map((failure) => `${failure.server} ${reason(failure, texts)}.`),
    // What the record stands for is said elsewhere.
    ...answer.notes.filter(({ code }) => code !== "stands-for").map((note) => translate(note, texts, label)),
  ];
  if (list.length === 0) return null;
  return h("div", { class: "kept" }, h("h3", {}, texts.answer.notes), h("ul", { class: "notes" }, list.map((note) => h("li", { class: "note" }, note))));
}

/** What to do now. */
export function next({ answer, texts, change }: Outcome): HTMLElement {
  const print = () => {
    for (const fold of document.querySelectorAll<HTMLDetailsElement>("details.fold")) fold.open = true;
    window.print();
  };
  const store = () => save("ifonly-answer.json", `${JSON.stringify(answer, null, 2)}\n`);
  return h(
    "section",
    { class: "screen stack head", "aria-labelledby": "next" },
    h("h2", { id: "next" }, texts.answer.next),
    h("p", { class: "small soft" }, texts.answer.nextHelp),
    h("div", { class: "btns" }, button(texts.answer.print, print, "go"), button(texts.answer.save, store), button(texts.answer.change, change)),
  );
}

/** The last line of the letter. */
export function colophon({ deployment, texts }: Outcome): HTMLElement {
  const host = deployment.host ? ` ${texts.answer.hosted(deployment.host)}` : "";
  return h("p", { class: "paper small soft" }, `${texts.answer.computed(texts.and(deployment.names(texts)))}${host} ${build(texts)}`);
}
