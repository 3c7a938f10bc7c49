// Shows an error: what happened, which servers it concerns, and what to do.

import type { IfonlyError } from "../../client/src/data.ts";
import { h } from "./dom.ts";
import type { Texts } from "./texts/en.ts";

export function showFailure(error: IfonlyError, texts: Texts, kept: boolean, ...actions: HTMLElement[]): HTMLElement {
  const known = texts.failure.codes[error.code] ?? texts.failure.codes["other"] ?? "";
  const servers = error.servers.map(({ server, code, message }) => {
    const text = texts.failure.server[code];
    const what = code === "offers" ? `${text} ${message.slice(0, 16)}…` : (text ?? message);
    return h("li", {}, h("b", {}, server), ` ${what}.`);
  });
  return h(
    "section",
    { class: "failure panel", role: "alert", "aria-labelledby": "failure" },
    h("h2", { id: "failure", tabindex: -1 }, texts.failure.heading),
    h("p", {}, known),
    servers.length > 0 && h("ul", {}, servers),
    kept && h("p", {}, texts.failure.kept),
    actions.length > 0 && h("div", { class: "actions" }, actions),
    h("details", {}, h("summary", {}, texts.failure.technical), h("p", {}, error.message)),
  );
}
