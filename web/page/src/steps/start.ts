// The first step: what this is, the codes if the operators require them, and who learns what.

import type { Deployment } from "../deployment.ts";
import { hostOf } from "../deployment.ts";
import { h, svg, unique } from "../dom.ts";
import type { Draft } from "../draft.ts";
import type { Format } from "../format.ts";
import type { Texts } from "../texts/en.ts";
import { button, drawing, lock, QUESTION, tile, TICK } from "./frame.ts";

const PERSON = "M6 38v-4a14 11 0 0 1 28 0v4z";
const HOUSE = "M3 9.5 12 4l9 5.5M4.5 20h15M6 10v10M10 10v10M14 10v10M18 10v10M3 9.5h18";
const LENGTH = 64;

/** Why a code cannot be right; empty if it can. */
export function codeFault(code: string, texts: Texts): string {
  const bare = code.replaceAll(/[\s-]/g, "");
  if (bare === "") return texts.start.codeMissing;
  const wrong = bare.match(/[^0-9a-f]/i);
  if (wrong) return texts.start.codeSign(wrong[0]);
  return bare.length === LENGTH ? "" : texts.start.codeLength(bare.length);
}

export interface StartParts {
  texts: Texts;
  format: Format;
  draft: Draft;
  /** Null until the operators' manifest is known. */
  deployment: Deployment | null;
  /** The servers that require a code. */
  guarded: string[];
  /** Whether codes were refused. */
  isRefused: boolean;
  begin(): void;
  fillExample: (() => void) | null;
}

export function start(parts: StartParts): HTMLElement[] {
  const { texts, deployment, guarded } = parts;
  const heading = h("div", { class: "head" }, h("h1", { class: "voice big", tabindex: -1 }, texts.start.heading), h("p", { class: "lede" }, texts.start.lede));
  const left = h("div", { class: "two tight" }, heading, deployment || guarded.length > 0 ? form(parts) : h("p", { role: "status", class: "panel" }, texts.start.connecting), lock(texts.start.lock, ""));
  return [h("div", { class: "two hero" }, left, deployment && figure(deployment, texts)), ...(deployment ? [parties(parts, deployment)] : [])];
}

function form(parts: StartParts): HTMLElement {
  const { texts, draft, guarded } = parts;
  const fields = guarded.map((server) => {
    const [id, help, fault] = [unique("code"), unique("help"), unique("fault")];
    const problem = h("p", { class: "fault", id: fault, role: "alert" });
    const input = h("input", { id, autocomplete: "off", autocapitalize: "off", spellcheck: "false", "aria-describedby": `${fault} ${help}`, input: () => show("") });
    input.value = draft.tokens.get(server) ?? "";
    const root = h("div", { class: "field" }, h("label", { for: id }, texts.start.code(hostOf(server))), h("div", { class: "box" }, input), problem, h("p", { class: "help", id: help }, texts.start.codeHelp));
    const show = (message: string) => {
      problem.textContent = message;
      problem.hidden = message === "";
      root.classList.toggle("bad", message !== "");
      input.setAttribute("aria-invalid", String(message !== ""));
    };
    show(parts.isRefused && input.value !== "" ? texts.start.codeRefused : "");
    const check = () => {
      const message = codeFault(input.value, texts);
      show(message);
      if (message === "") draft.tokens.set(server, input.value.replaceAll(/[\s-]/g, "").toLowerCase());
      return message === "";
    };
    return { root, check, input };
  });
  const local = h("p", { class: "small soft", hidden: true }, texts.start.codeLocal);
  const submit = (event: Event) => {
    event.preventDefault();
    const wrong = fields.filter(({ check }) => !check());
    local.hidden = wrong.length === 0;
    wrong[0]?.input.focus();
    if (wrong.length === 0) parts.begin();
  };
  const example = parts.fillExample && button(texts.start.example, parts.fillExample, "quiet");
  return h(
    "form",
    { class: "panel code", autocomplete: "off", novalidate: true, submit },
    fields.map(({ root }) => root),
    local,
    h("div", { class: "btns" }, h("button", { type: "submit", class: "btn go" }, texts.actions.begin), example),
  );
}

/** How the question is cut into parts. */
function figure(deployment: Deployment, texts: Texts): HTMLElement {
  const id = unique("caption");
  const names = deployment.names(texts);
  const noise = () => tile(crypto.getRandomValues(new Uint8Array(18)));
  const lane = (name: string) => h("li", {}, noise(), h("span", { class: "name" }, svg("svg", { class: "house", viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: HOUSE })), name), noise());
  const person = () => svg("svg", { class: "person", viewBox: "0 0 40 40", "aria-hidden": "true" }, svg("circle", { cx: 20, cy: 12, r: 7 }), svg("path", { d: PERSON }));
  const end = (look: string, picture: string, strong: string, text: string) => h("div", { class: look }, person(), drawing(picture), h("span", {}, h("b", {}, strong), text));
  return h(
    "figure",
    { class: "split", "aria-labelledby": id },
    end("end", QUESTION, texts.start.question, texts.start.questionStays),
    wire(names.length, false),
    h("ul", { class: "lanes" }, names.map(lane)),
    wire(names.length, true),
    end("end yes", TICK, texts.start.answer, texts.start.answerWhole),
    h("figcaption", { id, class: "cap" }, texts.start.caption(deployment.count(texts), deployment.isTalking(""))),
  );
}

/** Lines from the middle to every lane, or back. */
function wire(lanes: number, isBack: boolean): SVGElement {
  const places = Array.from({ length: lanes }, (_, lane) => Math.round((300 * (lane + 0.5)) / lanes));
  const path = places.map((x) => (isBack ? `M${x} 2C${x} 28 150 14 150 38` : `M150 2C150 26 ${x} 12 ${x} 38`)).join("");
  return svg("svg", { class: "wire", viewBox: "0 0 300 40", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("path", { "vector-effect": "non-scaling-stroke", d: path }));
}

function parties({ texts, format }: StartParts, deployment: Deployment): HTMLElement {
  const { offer, host } = deployment;
  const id = unique("who");
  const party = (names: string[], role: string, facts: [string, string][]) =>
    h(
      "div",
      {},
      h("dt", {}, names.flatMap((name, place) => (place > 0 ? [h("br"), name] : [name])), h("small", {}, role)),
      facts.map(([title, text]) => h("dd", {}, h("b", {}, title), text)),
    );
  const { start } = texts;
  const gives = deployment.isGrouped ? start.givesGroups : start.givesCases;
  const institution = texts.capital(deployment.institution(texts));
  return h(
    "section",
    { class: "panel who", "aria-labelledby": id },
    h("h2", { id }, start.who),
    h(
      "dl",
      { class: "parties" },
      party([institution], start.decided, [[start.gives, gives(format.number(offer.rows), offer.dataset.name, offer.dataset.version)], [start.learnsHere, start.nothing]]),
      party(deployment.names(texts), start.operators(deployment.count(texts)), [
        [start.do, deployment.isTalking("") ? start.computesTogether : start.computes],
        [start.learn, `${start.learnTime} ${start.threshold(offer.threshold, deployment.operators.length)}`],
      ]),
      party([host ?? start.host], start.hosts, [[start.does, start.hostDoes], [start.learns, start.hostLearns]]),
    ),
    h(
      "details",
      {},
      h("summary", {}, texts.actions.details),
      h("ul", { class: "small soft" }, deployment.operators.map(({ server, name }) => h("li", {}, name === hostOf(server) ? server : `${name}: ${server}`))),
      h("p", { class: "small soft" }, `${start.digest}: `, h("code", { class: "bytes" }, offer.digest)),
      h("p", { class: "small soft" }, offer.signer ? `${start.signed}: ` : start.unsigned, offer.signer && h("code", { class: "bytes" }, offer.signer)),
    ),
  );
}

/** A form for the addresses of the servers, if the configuration has none. */
export function addresses(texts: Texts, connect: (servers: string[]) => void): HTMLElement[] {
  const [id, hint] = [unique("servers"), unique("hint")];
  const area = h("textarea", { id, rows: 3, autocomplete: "off", spellcheck: "false", "aria-describedby": hint, placeholder: "https://" });
  const submit = (event: Event) => {
    event.preventDefault();
    const servers = area.value.split(/\s+/).filter((line) => line !== "");
    if (servers.length > 0) connect(servers);
  };
  return [
    h("div", { class: "head" }, h("h1", { class: "voice big", tabindex: -1 }, texts.start.heading), h("p", { class: "lede" }, texts.start.lede)),
    h(
      "form",
      { id: "form", class: "panel", submit },
      h("div", { class: "field" }, h("label", { for: id }, texts.start.askServers), h("div", { class: "box" }, area), h("p", { class: "help", id: hint }, texts.start.askServersHint)),
      h("div", { class: "btns" }, h("button", { type: "submit", class: "btn go" }, texts.start.connect)),
    ),
  ];
}
