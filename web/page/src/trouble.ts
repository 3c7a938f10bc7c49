// What went wrong, in plain words: what happened, who, and what to do.

import type { IfonlyError } from "../../client/src/data.ts";
import { h } from "./dom.ts";
import type { Texts } from "./texts/en.ts";

export function showTrouble(error: IfonlyError, texts: Texts, kept: boolean, ...actions: HTMLElement[]): HTMLElement {
  const known = texts.trouble.codes[error.code] ?? texts.trouble.codes["other"] ?? "";
  const servers = error.servers.map(({ server, code, message }) => {
    const said = texts.trouble.server[code];
    const what = code === "offers" ? `${said} ${message.slice(0, 16)}…` : (said ?? message);
    return h("li", {}, h("b", {}, server), ` ${what}.`);
  });
  return h(
    "section",
    { class: "trouble panel", role: "alert", "aria-labelledby": "trouble" },
    h("h2", { id: "trouble", tabindex: -1 }, texts.trouble.heading),
    h("p", {}, known),
    servers.length > 0 && h("ul", {}, servers),
    kept && h("p", {}, texts.trouble.kept),
    actions.length > 0 && h("div", { class: "actions" }, actions),
    h("details", {}, h("summary", {}, texts.trouble.technical), h("p", {}, error.message)),
  );
}
