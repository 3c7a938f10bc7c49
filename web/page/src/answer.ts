// Shows the answer: a sentence and a drawing per change, unchanged values, the number of matching
// rows, and the messages that each server received.

import type { Answer, Change, Column, Connection, Explanation, Inspection, Metric, SentMessage } from "../../client/src/index.ts";
import { h, save } from "./dom.ts";
import type { Format } from "./format.ts";
import { picture } from "./picture.ts";
import type { Texts } from "./texts/en.ts";

export interface AnswerParts {
  answer: Answer;
  asked: number;
  metric: Metric;
  offer: Inspection;
  connection: Connection;
  seen: SentMessage[];
  texts: Texts;
  format: Format;
}

export async function showAnswer(parts: AnswerParts): Promise<HTMLElement> {
  const { answer, offer, texts, format, asked } = parts;
  const found: Explanation[] = answer.nearest ?? (answer.found ? [{ cost: answer.cost ?? 0, record: answer.record ?? {}, changes: answer.changes }] : []);
  const [first] = found;
  const same = first !== undefined && first.changes.length === 0;
  const heading = !first ? texts.answer.headingNone : same && found.length === 1 ? texts.answer.headingSame : texts.answer.heading;
  const cards = await Promise.all(found.map((explanation, place) => card(parts, explanation, found.length > 1 ? place + 1 : 0)));
  const all = format.number(offer.rows);
  const notes = [...answer.lying_servers.map(texts.answer.lyingServer), ...answer.server_failures, ...answer.notes];
  return h(
    "section",
    { class: "answer panel", "aria-labelledby": "answer" },
    h("h2", { id: "answer", tabindex: -1 }, heading),
    !first && none(parts),
    h("div", { class: "cards" }, cards),
    first && h("p", { class: "hint" }, offer.signer === null ? texts.answer.realUnsigned : texts.answer.real),
    h("p", {}, answer.matching_rows === null ? texts.answer.hidden(all) : texts.answer.matching(format.number(answer.matching_rows), all)),
    found.length > 0 && found.length < asked && h("p", {}, texts.answer.fewer(found.length, asked)),
    notes.length > 0 && h("div", { class: "notes" }, h("h3", {}, texts.answer.notes), h("ul", {}, notes.map((note) => h("li", {}, note)))),
    h("p", { class: "hint" }, texts.answer.traffic(format.bytes(answer.bytes_up), format.bytes(answer.bytes_down), answer.scheme, answer.servers)),
    h(
      "div",
      { class: "actions" },
      h("button", { type: "button", click: () => window.print() }, texts.answer.print),
      h("button", { type: "button", click: () => save("ifonly-answer.json", `${JSON.stringify(answer, null, 2)}\n`) }, texts.answer.save),
    ),
    seenBy(parts),
  );
}

function none({ answer, texts }: AnswerParts): HTMLElement {
  return h(
    "div",
    {},
    h("p", {}, texts.answer.noneText(answer.dataset.name)),
    answer.wishes.length > 0 && h("p", {}, texts.answer.noneWishes),
    answer.wishes.length > 0 && h("ul", {}, answer.wishes.map((wish) => h("li", {}, wish))),
    answer.wishes.length > 0 && h("p", {}, texts.answer.noneDo),
  );
}

async function card(parts: AnswerParts, explanation: Explanation, place: number): Promise<HTMLElement> {
  const { offer, texts, format, answer } = parts;
  const changed = new Set(explanation.changes.map((change) => change.feature));
  const stayed = offer.columns.filter((column) => !changed.has(column.name));
  const whole = explanation.changes.reduce((sum, change) => sum + (change.contribution ?? 0), 0);
  const changes = await Promise.all(explanation.changes.map((change) => changeItem(parts, change, whole)));
  const inValues = offer.schemes.find((scheme) => scheme.name === answer.scheme)?.in_values ?? true;
  const cost = format.short(explanation.cost);
  return h(
    "article",
    { class: "card" },
    place > 0 && h("h3", {}, texts.answer.number(place)),
    changes.length > 0 && h("p", { class: "legend", "aria-hidden": "true" }, h("span", { class: "you" }, texts.answer.you), h("span", { class: "them" }, texts.answer.them)),
    changes.length === 0 ? h("p", {}, texts.answer.same) : h("ul", { class: "changes" }, changes),
    h("p", { class: "cost" }, !inValues ? texts.answer.costLevels(cost) : parts.metric === "count" ? texts.answer.costCount(cost) : texts.answer.cost(cost)),
    h(
      "details",
      { class: "stayed", open: place === 0 },
      h("summary", {}, texts.answer.stayed),
      stayed.length === 0
        ? h("p", {}, texts.answer.nothingStayed)
        : h("dl", {}, stayed.map((column) => h("div", {}, h("dt", {}, column.name), h("dd", {}, format.value(explanation.record[column.name] ?? "", column))))),
    ),
  );
}

async function changeItem(parts: AnswerParts, change: Change, whole: number): Promise<HTMLElement> {
  const { offer, texts, format } = parts;
  const column = offer.columns.find((column) => column.name === change.feature);
  const yours = format.value(change.yours, column);
  const theirs = format.value(change.theirs, column);
  const [begin, feature, at, target, rest] = texts.answer.change(change.feature, theirs, format.value(change.yours, column, false));
  const share = change.contribution !== null && whole > 0 ? texts.answer.part(format.percent(change.contribution / whole)) : "";
  const small = change.same_level ? texts.answer.sameLevel : share;
  return h(
    "li",
    {},
    h("p", { class: "sentence" }, begin ?? "", h("b", {}, feature ?? ""), at ?? "", h("b", {}, target ?? ""), `${rest ?? ""}${difference(change, column, texts, format)}`),
    column && (await pictureOf(parts, column, change, texts.answer.picture(change.feature, yours, theirs))),
    small !== "" && h("p", { class: "hint" }, small),
  );
}

/** The size of the change, for numbers and dates. */
function difference(change: Change, column: Column | undefined, texts: Texts, format: Format): string {
  if (typeof change.yours === "number" && typeof change.theirs === "number") {
    const by = Number((change.theirs - change.yours).toPrecision(12));
    return by > 0 ? texts.answer.more(format.number(by)) : by < 0 ? texts.answer.less(format.number(-by)) : "";
  }
  if (column?.kind === "date") {
    const days = Math.round((Date.parse(String(change.theirs)) - Date.parse(String(change.yours))) / 86_400_000);
    if (days > 0) return texts.answer.later(format.number(days));
    if (days < 0) return texts.answer.earlier(format.number(-days));
  }
  return "";
}

async function pictureOf({ connection, format, texts }: AnswerParts, column: Column, change: Change, label: string): Promise<HTMLElement | null> {
  if (column.kind === "category") {
    return h(
      "p",
      { class: "words", role: "img", "aria-label": label },
      h("span", { class: "word you" }, h("small", {}, texts.answer.you), String(change.yours)),
      h("span", { class: "to" }, "→"),
      h("span", { class: "word them" }, h("small", {}, texts.answer.them), String(change.theirs)),
    );
  }
  const [yours, theirs] = await Promise.all([change.yours, change.theirs].map((value) => connection.understand(column.name, String(value)).catch(() => null)));
  if (yours?.place == null || theirs?.place == null) return null;
  const ends = column.words.length > 0 ? [column.words[0], column.words.at(-1)] : [column.min, column.max];
  const [min, max] = ends.map((end) => format.value(end ?? "", column, false));
  return picture({ label, min: min ?? "", max: max ?? "", yours: yours.place, theirs: theirs.place, steps: column.words.length || null });
}

function seenBy({ seen, offer, texts, format }: AnswerParts): HTMLElement {
  const numbers = [...new Set(seen.map((sent) => sent.server))].sort((a, b) => a - b);
  const of = (number: number) => seen.filter((sent) => sent.server === number);
  const name = (number: number) => offer.operators.find((operator) => operator.index === number)?.name ?? "";
  return h(
    "details",
    { class: "seen" },
    h("summary", {}, texts.seen.heading),
    h("p", {}, texts.seen.text),
    h("p", { class: "warn" }, texts.seen.warn),
    numbers.map((number) =>
      h(
        "div",
        { class: "server" },
        h("h3", {}, texts.seen.server(number, name(number))),
        h("p", { class: "hint" }, of(number)[0]?.address ?? ""),
        of(number).map((sent, place) =>
          h(
            "div",
            {},
            h("p", {}, texts.seen.message(place + 1, format.bytes(sent.bytes), format.bytes(sent.payload))),
            h("p", { class: "hint" }, texts.seen.begins),
            h("code", { class: "bytes" }, sent.begins),
            h("p", { class: "hint" }, texts.seen.ones(format.percent(sent.ones / Math.max(1, 8 * sent.payload)))),
          ),
        ),
      ),
    ),
  );
}
