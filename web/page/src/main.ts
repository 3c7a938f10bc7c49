// The page: reads the configuration, connects to the servers, shows the form, searches and shows
// the answer. All state is in memory.

import { connect, start, type Connection, type Engine, type Inspection, type Server } from "../../client/src/index.ts";
import { IfonlyError } from "../../client/src/data.ts";
import { showAnswer } from "./answer.ts";
import { readConfig, restrictConnections, type Config } from "./config.ts";
import { h, unique } from "./dom.ts";
import { Draft } from "./draft.ts";
import { showFailure } from "./failure.ts";
import { Form } from "./form.ts";
import { Format } from "./format.ts";
import { Running } from "./progress.ts";
import { de } from "./texts/de.ts";
import { en, type Texts } from "./texts/en.ts";

declare const WASM: { name: string; integrity: string };
declare const WORKER: string;
declare const VERSION: string;

const LANGUAGES: Record<string, Texts> = { en, de };

class Page {
  readonly #app = document.getElementById("app") as HTMLElement;
  readonly #draft = new Draft();
  readonly #result = h("div", { id: "result" });
  readonly #live = h("p", { class: "hidden", role: "status" });
  readonly #wasm: Promise<ArrayBuffer>;
  #language = pick();
  #config: Config = { servers: [], pins: {}, example: null };
  #engine: Engine | undefined;
  #connection: Connection | null = null;
  #offer: Inspection | null = null;
  #form: Form | null = null;
  #failure: IfonlyError | null = null;
  #again: (() => Promise<HTMLElement>) | null = null;
  #configured = false;

  constructor() {
    // The hash is part of this script, so that a check of the script also covers the engine.
    this.#wasm = fetch(WASM.name, { integrity: WASM.integrity }).then((response) => response.arrayBuffer());
    this.#wasm.catch(() => {});
  }

  get #texts(): Texts {
    return LANGUAGES[this.#language] ?? en;
  }

  async begin() {
    this.#render();
    this.#config = await readConfig();
    this.#configured = true;
    if (this.#config.servers.length > 0) await this.#prepare();
    this.#render();
  }

  /** Restricts connections, then starts the engine under that policy and connects. */
  async #prepare() {
    try {
      const wasm = await this.#wasm;
      if (!restrictConnections(this.#config.servers)) throw new IfonlyError({ kind: "input", code: "url", message: this.#config.servers.join(", ") });
      // A worker from a blob inherits this page's policy; a worker from a URL would have its own.
      const worker = new Worker(URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" })));
      this.#engine = start({ worker, wasm });
    } catch (error) {
      this.#failure = asError(error);
      return;
    }
    await this.#connect();
  }

  async #connect() {
    this.#failure = null;
    try {
      const connection = await this.#connected();
      this.#connection?.close();
      this.#connection = connection;
      this.#offer = await connection.inspect();
    } catch (error) {
      this.#failure = asError(error);
    }
  }

  #connected(signal?: AbortSignal): Promise<Connection> {
    const servers: Server[] = this.#config.servers.map((url) => ({ url, token: this.#draft.tokens.get(url) || null }));
    return connect(servers, this.#config.pins, { ...(this.#engine && { engine: this.#engine }), ...(signal && { signal }) });
  }

  #render() {
    const texts = this.#texts;
    document.documentElement.lang = this.#language;
    document.title = texts.title;
    const main = h("main", { id: "main", tabindex: -1 }, this.#main());
    this.#app.replaceChildren(h("a", { class: "skip", href: "#main" }, texts.skip), this.#header(), main, this.#live, this.#footer());
  }

  #main(): (HTMLElement | null)[] {
    const texts = this.#texts;
    if (this.#offer) {
      this.#form = new Form({
        offer: this.#offer,
        connection: () => this.#connection,
        draft: this.#draft,
        texts,
        format: new Format(this.#language),
        servers: this.#config.servers,
        ask: () => void this.#ask(),
      });
      return [this.#who(this.#offer), this.#presets(this.#offer), this.#form.root, this.#result];
    }
    if (this.#failure) {
      const retry = h("button", { type: "button", class: "primary", click: () => void this.#retry() }, texts.boot.retry);
      const tokens = this.#failure.servers.some(({ code }) => code === "unauthorized") ? this.#tokens() : null;
      return [showFailure(this.#failure, texts, false, ...(tokens ? [tokens] : []), retry)];
    }
    if (this.#config.servers.length === 0 && this.#configured) return [this.#servers()];
    return [h("p", { role: "status", class: "panel" }, texts.boot.connecting)];
  }

  async #retry() {
    this.#failure = null;
    this.#render();
    if (this.#engine) await this.#connect();
    else await this.#prepare();
    this.#render();
    document.querySelector<HTMLElement>("main h2")?.focus();
  }

  #tokens(): HTMLElement {
    const texts = this.#texts;
    const inputs = this.#config.servers.map((server) => {
      const input = h("input", { id: unique("token"), type: "password", autocomplete: "off", input: () => this.#draft.tokens.set(server, input.value) });
      input.value = this.#draft.tokens.get(server) ?? "";
      return h("div", {}, h("label", { for: input.id }, texts.form.token(server)), input);
    });
    return h("div", { class: "grid" }, inputs, h("p", { class: "hint" }, texts.form.tokenHint));
  }

  /** A form for the addresses of the servers, if the configuration has none. */
  #servers(): HTMLElement {
    const texts = this.#texts;
    const [id, hint] = [unique("servers"), unique("hint")];
    const area = h("textarea", { id, rows: 3, autocomplete: "off", spellcheck: "false", "aria-describedby": hint, placeholder: "https://" });
    const submit = async (event: Event) => {
      event.preventDefault();
      this.#config.servers = area.value.split(/\s+/).filter((line) => line !== "");
      if (this.#config.servers.length === 0) return;
      this.#render();
      await this.#prepare();
      this.#render();
    };
    return h(
      "form",
      { id: "form", class: "panel", submit: (event) => void submit(event) },
      h("h2", {}, texts.boot.askServers),
      h("label", { for: id, id: hint }, texts.boot.askServersHint),
      area,
      h("div", { class: "go" }, h("button", { type: "submit", class: "primary" }, texts.boot.connect)),
    );
  }

  #header(): HTMLElement {
    const texts = this.#texts;
    const id = unique("language");
    const select = h(
      "select",
      {
        id,
        change: () => {
          this.#language = select.value;
          void this.#translate();
        },
      },
      Object.entries(LANGUAGES).map(([name, { language }]) => h("option", { value: name, lang: name }, language)),
    );
    select.value = this.#language;
    return h(
      "header",
      {},
      h("div", { class: "bar" }, h("h1", {}, texts.title), h("div", {}, h("label", { class: "hidden", for: id }, "Language / Sprache"), select)),
      h("p", { class: "lead" }, texts.lead),
      h("p", { class: "promise" }, texts.promise),
    );
  }

  /** Draws the page and the answer in another language. */
  async #translate() {
    if (this.#again) this.#result.replaceChildren(await this.#again());
    this.#render();
    document.querySelector<HTMLSelectElement>("header select")?.focus();
  }

  #who(offer: Inspection): HTMLElement {
    const texts = this.#texts;
    const format = new Format(this.#language);
    const operatorOf = (server: string) => offer.operators.find((other) => other.url?.replace(/\/+$/, "") === server.replace(/\/+$/, ""));
    const unplaced = this.#config.servers.some((server) => !operatorOf(server));
    const isUnreachable = (url: string) => offer.server_failures.some((failure) => failure.startsWith(`${url.replace(/\/+$/, "")} `));
    return h(
      "section",
      { class: "who panel", "aria-labelledby": "who" },
      h("h2", { id: "who" }, texts.offer.heading),
      h("p", {}, h("b", {}, texts.offer.people(format.number(offer.rows), offer.dataset.name)), `, ${texts.offer.version(offer.dataset.version)}`),
      h(
        "ul",
        { class: "servers" },
        this.#config.servers.map((server) => {
          const operator = operatorOf(server);
          const state = isUnreachable(server) ? texts.offer.unreachable : texts.offer.connected;
          return h("li", { class: isUnreachable(server) ? "unreachable" : "connected" }, h("span", {}, operator ? `${operator.name}, ` : "", server), h("span", { class: "state" }, state));
        }),
      ),
      unplaced && h("p", { class: "hint" }, texts.offer.operators(offer.operators.map(({ name }) => name).join(", "))),
      h("p", { class: "hint" }, texts.offer.together(offer.threshold, this.#config.servers.length)),
      h(
        "details",
        {},
        h("summary", {}, texts.offer.details),
        h("p", { class: "hint" }, `${texts.offer.digest}: `, h("code", {}, offer.digest)),
        h("p", { class: "hint" }, offer.signer ? `${texts.offer.signed}: ` : texts.offer.unsigned, offer.signer && h("code", {}, offer.signer)),
      ),
    );
  }

  #presets(offer: Inspection): HTMLElement {
    const texts = this.#texts;
    const suggested = offer.columns.filter((column) => column.suggest_immutable);
    const apply = (name: string, change: () => void) => () => {
      this.#draft.resetWishes(offer.columns);
      change();
      this.#refresh(texts.presets.done(name));
    };
    const preset = (name: string, change: () => void, hint = "") =>
      h("button", { type: "button", class: "preset", click: apply(name, change) }, h("b", {}, name), hint && h("small", {}, hint));
    const names = suggested.map((column) => column.name).join(", ");
    const example = this.#config.example;
    const fill = () => {
      for (const column of offer.columns) this.#draft.entry(column).value = String(example?.[column.name] ?? "");
      this.#refresh(texts.presets.example);
    };
    const clear = () => {
      for (const column of offer.columns) this.#draft.entry(column).value = "";
      this.#draft.resetWishes(offer.columns);
      this.#refresh(texts.presets.clear);
    };
    return h(
      "section",
      { class: "presets", "aria-labelledby": "presets" },
      h("h2", { id: "presets" }, texts.presets.heading),
      h("p", { class: "hint" }, texts.presets.hint),
      h(
        "div",
        { class: "row" },
        preset(texts.presets.anything, () => {}),
        suggested.length > 0 && preset(texts.presets.suggested, () => suggested.forEach((column) => (this.#draft.entry(column).wish = "stay")), texts.presets.suggestedNames(names)),
        preset(texts.presets.few, () => (this.#draft.maxChanges = String(offer.columns.length))),
      ),
      h(
        "div",
        { class: "row small" },
        example && h("button", { type: "button", click: fill }, texts.presets.example),
        h("button", { type: "button", click: clear }, texts.presets.clear),
      ),
    );
  }

  /** Draws the form again from the draft, and keeps the focus. */
  #refresh(status: string) {
    const old = document.activeElement;
    const place = old ? [...document.querySelectorAll(".presets button")].indexOf(old) : -1;
    this.#render();
    if (place >= 0) document.querySelectorAll<HTMLElement>(".presets button")[place]?.focus();
    this.#live.textContent = status;
  }

  #show(element: HTMLElement) {
    this.#result.replaceChildren(element);
    const heading = element.querySelector<HTMLElement>("h2");
    heading?.focus({ preventScroll: true });
    element.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }

  async #ask() {
    const [offer, form] = [this.#offer, this.#form];
    if (!offer || !form || form.button.disabled) return;
    this.#again = null;
    this.#result.replaceChildren();
    form.busy(true);
    const controller = new AbortController();
    try {
      if (!(await form.valid())) return;
      const scheme = offer.schemes.find(({ name }) => name === (this.#draft.scheme || offer.default_scheme));
      if (!scheme) return;
      const asked = Number(this.#draft.top);
      const running = new Running(offer, scheme, asked, this.#config.servers, this.#texts, () => controller.abort());
      this.#show(running.root);
      // The servers may have reloaded since the form was drawn. Every search connects again, so
      // this reveals nothing.
      const connection = await this.#connected(controller.signal);
      this.#connection?.close();
      this.#connection = connection;
      const now = await connection.inspect();
      if (now.digest !== offer.digest) {
        this.#offer = now;
        this.#render();
        throw new IfonlyError({ kind: "servers", code: "changed", message: now.digest });
      }
      const [profile, wishes] = [this.#draft.profile(offer, this.#language), this.#draft.wishes(offer, this.#language)];
      const answer = await connection.ask(profile, wishes, { signal: controller.signal, onProgress: (progress) => running.update(progress) });
      const seen = await connection.seen();
      const metric = wishes.metric ?? "l2";
      this.#again = () => showAnswer({ answer, asked, metric, offer, connection, seen, texts: this.#texts, format: new Format(this.#language) });
      this.#show(await this.#again());
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") {
        this.#show(h("section", { class: "panel" }, h("h2", { tabindex: -1 }, this.#texts.progress.stopped), h("p", {}, this.#texts.form.again)));
      } else {
        const failure = asError(error);
        if (failure.servers.some(({ code }) => code === "unauthorized" || code === "budget-exhausted")) this.#form?.openMore();
        this.#again = async () => showFailure(failure, this.#texts, true);
        this.#show(await this.#again());
      }
    } finally {
      this.#form?.busy(false);
      form.busy(false);
    }
  }

  #footer(): HTMLElement {
    const texts = this.#texts;
    const build = document.querySelector<HTMLMetaElement>('meta[name="build"]')?.content ?? "";
    return h(
      "footer",
      {},
      h("p", {}, texts.footer.memory),
      h("p", {}, texts.footer.trust),
      h("details", {}, h("summary", {}, texts.footer.compareHeading), h("p", {}, texts.footer.compare)),
      h("p", {}, texts.footer.build(VERSION, build)),
    );
  }
}

function asError(error: unknown): IfonlyError {
  return error instanceof IfonlyError ? error : new IfonlyError({ kind: "machine", code: "machine", message: String(error) });
}

/** The language of `?lang=de`, or else of the browser. */
function pick(): string {
  const asked = new URLSearchParams(location.search).get("lang") ?? navigator.language;
  const short = asked.slice(0, 2).toLowerCase();
  return short in LANGUAGES ? short : "en";
}

await new Page().begin();
