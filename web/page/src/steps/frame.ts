// The frame of every step: header, the list of steps, footer, icons and small parts.

import { h, svg } from "../dom.ts";
import type { Texts } from "../texts/en.ts";

export type Step = "code" | "about" | "wishes" | "answer";

declare const VERSION: string;

/** The steps, with those before the current one marked as done. */
export function steps(texts: Texts, now: Step, needsCode: boolean): HTMLElement {
  const names: [Step, string][] = [
    ["code", needsCode ? texts.steps.code : texts.steps.start],
    ["about", texts.steps.about],
    ["wishes", texts.steps.wishes],
    ["answer", texts.steps.answer],
  ];
  const place = names.findIndex(([step]) => step === now);
  const item = ([, name]: [Step, string], index: number) => h("li", { class: index < place ? "done" : null, "aria-current": index === place && "step" }, h("span", {}, name));
  return h("nav", { "aria-label": texts.steps.name }, h("ol", { class: "steps" }, names.map(item)));
}

/** The heading of a step, which gets the focus, and the line below it. */
export function head(heading: string, lede: string | null, isVoice = false): HTMLElement {
  return h("div", { class: "head" }, h("h1", { tabindex: -1, class: isVoice ? "voice" : null }, heading), lede && h("p", { class: "lede" }, lede));
}

/** The line that says where the values are. */
export function lock(strong: string, rest: string): HTMLElement {
  const icon = svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("rect", { x: 5, y: 11, width: 14, height: 9, rx: 2 }), svg("path", { d: "M8 11V8a4 4 0 0 1 8 0v3" }));
  return h("p", { class: "lock" }, icon, h("span", {}, h("b", {}, strong), rest && ` ${rest}`));
}

export function button(text: string, click: () => void, look = ""): HTMLButtonElement {
  return h("button", { type: "button", class: `btn ${look}`.trim(), click }, text);
}

export function header(texts: Texts, language: string, languages: [string, string][], host: string | null, choose: (language: string) => void): HTMLElement {
  const mark = svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true", "shape-rendering": "crispEdges" }, svg("path", { d: "M1 1h4v4h-4zM7 1h2v2h-2zM9 3h2v2h-2zM1 7h2v2h-2zM3 9h2v2h-2zM7 7h4v4h-4z" }));
  const choice = ([name, text]: [string, string]) => h("button", { type: "button", lang: name, "aria-pressed": String(name === language), click: () => choose(name) }, text);
  return h(
    "header",
    { class: "top" },
    h("span", { class: "brand" }, mark, texts.title),
    host && h("span", { class: "host" }, texts.hostedBy(host)),
    h("div", { class: "langs", role: "group", "aria-label": "Language / Sprache" }, languages.map(choice)),
  );
}

/** The version and the build of the page. */
export function build(texts: Texts): string {
  return texts.footer.build(VERSION, document.querySelector<HTMLMetaElement>('meta[name="build"]')?.content ?? "");
}

export function footer(texts: Texts): HTMLElement {
  return h(
    "footer",
    { class: "foot" },
    h("p", {}, texts.footer.memory),
    h("details", {}, h("summary", {}, texts.footer.compareHeading), h("p", {}, texts.footer.trust), h("p", {}, texts.footer.compare), h("p", {}, build(texts))),
  );
}

/** A square of 12 by 12 dots from the beginning of a hash. */
export function tile(hash: Uint8Array): SVGElement {
  let path = "";
  for (let dot = 0; dot < 144; dot++) {
    if (((hash[dot >> 3] ?? 0) >> (dot & 7)) & 1) path += `M${dot % 12} ${Math.floor(dot / 12)}h1v1h-1z`;
  }
  return drawing(path);
}

/** A drawn square: a question mark or a tick. */
export const QUESTION = "M4 1h4v1h-4zM3 2h6v1h-6zM2 3h2v1h-2zM8 3h2v1h-2zM8 4h2v1h-2zM7 5h2v1h-2zM6 6h2v1h-2zM5 7h2v1h-2zM5 8h2v1h-2zM5 10h2v1h-2zM5 11h2v1h-2z";
export const TICK = "M10 2h1v1h-1zM9 3h2v1h-2zM8 4h2v1h-2zM7 5h2v1h-2zM1 6h1v1h-1zM6 6h2v1h-2zM1 7h2v1h-2zM5 7h2v1h-2zM2 8h4v1h-4zM3 9h2v1h-2z";

export function drawing(path: string): SVGElement {
  return svg("svg", { class: "tile", viewBox: "0 0 12 12", "shape-rendering": "crispEdges", "aria-hidden": "true" }, svg("path", { d: path }));
}
