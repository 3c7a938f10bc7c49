// What went wrong: an operator is away, or the operators contradict each other.

import type { IfonlyError } from "../../client/src/data.ts";
import type { Deployment, Operator } from "./deployment.ts";
import { hostOf } from "./deployment.ts";
import { h } from "./dom.ts";
import type { Format } from "./format.ts";
import { build, button, head } from "./steps/frame.ts";
import type { Texts } from "./texts/en.ts";
import { reason, translate } from "./translate.ts";

const bare = (url: string) => url.replace(/\/+$/, "");

/** The technical details of an error, with what each server said. */
function details(error: IfonlyError, texts: Texts): HTMLElement {
  const failed = error.servers.map((failure) => h("li", {}, h("b", {}, failure.server), ` ${reason(failure, texts)}.`));
  const different = error.manifests.map(([server, digest]) => h("li", {}, h("b", {}, server), ` ${texts.failure.serves(digest.slice(0, 16))}.`));
  return h("details", {}, h("summary", {}, texts.actions.details), h("ul", { class: "small soft" }, failed, different), h("p", { class: "small soft" }, error.message, ` (${error.code})`));
}

export interface AwayParts {
  texts: Texts;
  format: Format;
  deployment: Deployment | null;
  servers: string[];
  error: IfonlyError | null;
  /** Whether a search failed; otherwise the form is not open yet. */
  isAsked: boolean;
  looked: Date;
  again(): void;
  back: (() => void) | null;
}

/** Operators that cannot be reached. */
export function away({ texts, deployment, servers, error, isAsked, looked, again, back, format }: AwayParts): HTMLElement[] {
  const failures = error?.servers ?? deployment?.offer.server_failures ?? [];
  const known: Operator[] = deployment?.operators ?? servers.map((server) => ({ server, name: hostOf(server), isAway: false }));
  const states = known.map((operator) => ({ ...operator, isAway: failures.some(({ server }) => bare(server) === bare(operator.server)) }));
  const count = states.filter(({ isAway }) => isAway).length;
  const heading = count === 0 || count === states.length ? texts.away.all : texts.away.heading(count);
  const list = states.map(({ name, isAway }) => h("li", {}, h("b", {}, name), h("span", { class: isAway ? "no" : "ok" }, isAway ? texts.away.absent : texts.away.there)));
  const time = new Intl.DateTimeFormat(format.language, { timeStyle: "short" }).format(looked);
  const told = failures.map((failure) => h("p", { class: "small soft" }, `${failure.server} ${reason(failure, texts)}.`));
  return [
    head(heading, isAsked ? texts.away.ledeAsked : texts.away.lede(texts.count(deployment?.needed ?? servers.length))),
    h(
      "section",
      { class: "panel calm failure", "aria-labelledby": "operators" },
      h("h2", { id: "operators" }, texts.away.operators),
      error && h("p", {}, translate(error, texts)),
      h("ul", { class: "status" }, list),
      !isAsked && h("p", { class: "small soft", role: "status" }, texts.away.looks(time)),
    ),
    h("div", { class: "btns" }, button(isAsked ? texts.away.askAgain : texts.away.look, again, "go"), back && button(texts.actions.back, back, "quiet")),
    h("p", {}, texts.away.lasts(deployment?.host ?? deployment?.institution(texts) ?? texts.institution)),
    error ? details(error, texts) : h("details", {}, h("summary", {}, texts.actions.details), told),
  ];
}

export interface ContradictionParts {
  texts: Texts;
  deployment: Deployment | null;
  error: IfonlyError;
  /** Whether a question was sent. Then no text and no button asks to try again. */
  isAsked: boolean;
  restart: () => void;
  again: (() => void) | null;
}

/** The operators contradict each other, or are not those that the page expects. */
export function contradiction({ texts, deployment, error, isAsked, restart, again }: ContradictionParts): HTMLElement[] {
  const own = texts.contradiction;
  const institution = deployment?.institution(texts) ?? texts.institution;
  const number = [new Date().toISOString().slice(0, 10), deployment?.offer.dataset.version, deployment?.offer.digest.slice(0, 8), error.code].filter((part) => part).join(", ");
  if (!isAsked) {
    return [
      head(own.refused, own.refusedLede),
      h("section", { class: "panel calm failure" }, h("p", {}, translate(error, texts)), h("p", {}, own.give(institution))),
      ...(again ? [h("div", { class: "btns" }, button(texts.away.look, again, "go"))] : []),
      details(error, texts),
    ];
  }
  return [
    head(own.heading, own.lede),
    h(
      "section",
      { class: "panel calm failure", "aria-labelledby": "wait" },
      h("h2", { id: "wait" }, own.wait),
      h("p", {}, own.why),
      h("ol", { class: "do" }, [own.note(number), own.give(deployment?.host ?? institution), own.mended].map((text) => h("li", {}, text))),
      h("p", { class: "paper small soft" }, build(texts)),
    ),
    h("div", { class: "btns" }, button(own.print, () => window.print(), "go"), button(own.back, restart, "quiet")),
    h("p", { class: "small soft" }, own.kept),
    details(error, texts),
  ];
}

/** Anything else: what happened, and a way back. */
export function broken(error: IfonlyError, texts: Texts, again: () => void, isKept: boolean): HTMLElement[] {
  return [
    head(texts.failure.heading, null),
    h("section", { class: "panel calm failure" }, h("p", {}, translate(error, texts)), isKept && h("p", {}, texts.failure.kept), h("div", { class: "btns" }, button(isKept ? texts.actions.back : texts.away.look, again, "go"))),
    details(error, texts),
  ];
}
