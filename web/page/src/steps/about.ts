// The second step: the user's values, in sections, typed, pasted or opened from a file.

import type { Column, Connection } from "../../../client/src/index.ts";
import type { Deployment } from "../deployment.ts";
import { h, save, unique } from "../dom.ts";
import { read, type Draft } from "../draft.ts";
import type { Format } from "../format.ts";
import { readPasted } from "../input/paste.ts";
import type { Texts } from "../texts/en.ts";
import type { Words } from "../words.ts";
import { Field } from "./field.ts";
import { button, head, lock } from "./frame.ts";

/** From this number of columns on, fields are compact. */
const MANY = 13;

export interface AboutParts {
  deployment: Deployment;
  draft: Draft;
  texts: Texts;
  format: Format;
  words: Words;
  connection: () => Connection | null;
  back(): void;
  goOn(): void;
}

export class About {
  readonly root: HTMLElement[];
  readonly #parts: AboutParts;
  readonly #columns: Column[];
  readonly #fields = new Map<string, Field>();
  readonly #summary = h("section", { class: "panel alert", role: "alert", hidden: true });
  readonly #groups = h("div", { class: "panel groups features" });
  readonly #status = h("span", { class: "small soft", role: "status" });
  readonly #isCompact: boolean;

  constructor(parts: AboutParts) {
    this.#parts = parts;
    const { texts, deployment } = parts;
    this.#columns = deployment.offer.columns;
    this.#isCompact = this.#columns.length >= MANY;
    this.#draw();
    const submit = (event: Event) => {
      event.preventDefault();
      void this.#submit();
    };
    this.root = [
      head(texts.about.heading, texts.about.lede(deployment.institutionDative(texts))),
      h(
        "form",
        { id: "form", class: `two tight${this.#isCompact ? " compact" : ""}`, autocomplete: "off", novalidate: true, submit },
        this.#summary,
        this.#isCompact && this.#paste(),
        this.#groups,
        !this.#isCompact && this.#paste(),
        h("div", { class: "btns" }, h("button", { type: "submit", class: "btn go" }, texts.actions.goOn), button(texts.actions.back, parts.back, "quiet")),
        lock(texts.about.lock, texts.about.lockMore(deployment.count(texts))),
      ),
    ];
  }

  /** Draws the fields from the draft. */
  #draw() {
    const { draft, texts, format, words, connection } = this.#parts;
    const sections = new Map<string, Column[]>();
    for (const column of this.#columns) sections.set(words.section(column), [...(sections.get(words.section(column)) ?? []), column]);
    this.#fields.clear();
    const groups = [...sections].map(([name, columns]) => {
      const done = h("small", {});
      const count = () => {
        const filled = columns.filter((column) => draft.entry(column).value.trim() !== "" || column.default !== null).length;
        done.textContent = texts.about.done(filled, columns.length);
      };
      const fields = columns.map((column) => {
        const field = new Field({ column, entry: draft.entry(column), texts, format, words, connection, isCompact: this.#isCompact, changed: count });
        this.#fields.set(column.name, field);
        return field.root;
      });
      count();
      const body = h("div", { class: "fields" }, fields);
      return name === "" ? body : h("section", { class: "group" }, h("h2", {}, name, this.#isCompact && done), body);
    });
    this.#groups.replaceChildren(...groups);
  }

  async #submit() {
    const fields = [...this.#fields.values()];
    const right = await Promise.all(fields.map((field) => field.check(true)));
    const wrong = fields.filter((_, place) => !right[place]);
    this.#complain(wrong);
    if (wrong.length === 0) this.#parts.goOn();
  }

  #complain(wrong: Field[]) {
    const { texts } = this.#parts;
    this.#summary.hidden = wrong.length === 0;
    if (wrong.length === 0) return;
    this.#summary.replaceChildren(h("h2", {}, texts.errors.summary(wrong.length)), h("ul", {}, wrong.map((field) => h("li", {}, this.#link(field)))), h("p", { class: "small soft" }, texts.errors.nothingSent));
    wrong[0]?.focus();
  }

  #link(field: Field): HTMLElement {
    return h("button", { type: "button", class: "link", click: () => field.focus() }, this.#parts.words.label(field.column));
  }

  #paste(): HTMLElement {
    const { texts, format, draft, deployment } = this.#parts;
    const id = unique("paste");
    const area = h("textarea", { id, rows: 3, autocomplete: "off", spellcheck: "false" });
    const file = h("input", { type: "file", class: "hidden", accept: ".csv,.json,.txt,.tsv,text/csv,application/json,text/plain", tabindex: -1, "aria-hidden": "true" });
    file.addEventListener("change", async () => {
      const [chosen] = file.files ?? [];
      if (!chosen) return;
      area.value = chosen.size > 1_000_000 ? "" : await chosen.text();
      await fill();
      file.value = "";
    });
    const fill = async () => {
      const { words } = this.#parts;
      const pasted = readPasted(area.value, this.#columns, words, format);
      if (!pasted || pasted.values.size === 0) {
        this.#status.textContent = texts.about.readNone;
        return;
      }
      for (const [name, value] of pasted.values) {
        const column = this.#columns.find((column) => column.name === name);
        if (!column) continue;
        const reading = read(value, column, format.language);
        // A word that is not among the choices is not chosen.
        draft.entry(column).value = reading.kind === "one" && column.kind !== "number" ? (column.kind === "date" ? format.dateInput(reading.value) : reading.value) : column.words.length > 0 ? "" : value;
      }
      this.#draw();
      const right = await Promise.all([...pasted.values.keys()].map(async (name) => (await this.#fields.get(name)?.check(true)) ?? true));
      const look = [...pasted.values.keys()].filter((_, place) => !right[place]).flatMap((name) => this.#fields.get(name) ?? []);
      const links = look.flatMap((field, place) => [place > 0 ? ", " : " ", this.#link(field)]);
      const parts = [texts.about.read(pasted.values.size), pasted.isMore ? texts.about.readMore : "", pasted.unknown.length > 0 ? texts.about.readUnknown(pasted.unknown.slice(0, 5).join(", ")) : "", look.length > 0 ? texts.about.readLook(look.length) : ""];
      this.#status.replaceChildren(parts.filter((part) => part !== "").join(" "), ...links);
    };
    const keep = () => save("ifonly-profile.json", `${JSON.stringify(draft.profile(deployment.offer, format.language), null, 2)}\n`);
    const body = [
      h("div", { class: "field" }, h("label", { for: id }, texts.about.pasteLabel), h("div", { class: "box" }, area), h("p", { class: "help" }, texts.about.pasteHelp)),
      h(
        "div",
        { class: "btns" },
        button(texts.about.fill, () => void fill(), "slim"),
        button(texts.about.open, () => file.click(), "slim"),
        button(texts.about.keep, keep, "slim quiet"),
        file,
      ),
      this.#status,
    ];
    return h("details", { class: "paste", open: this.#isCompact }, h("summary", {}, texts.about.paste), h("div", { class: "panel" }, body));
  }
}
