// The page: connects to the operators and leads through its steps. Each step is a screen of its
// own. All state is in memory; nothing enters the address or the history.

import { connect, start as startEngine, type Connection, type Engine, type Inspection, type Server } from "../../client/src/index.ts";
import { IfonlyError } from "../../client/src/data.ts";
import { found, showAnswer } from "./answer/answer.ts";
import { showNone } from "./answer/none.ts";
import { NO_CONFIG, readConfig, restrictConnections, type Config } from "./config.ts";
import { Deployment } from "./deployment.ts";
import { h } from "./dom.ts";
import { bounds, Draft } from "./draft.ts";
import { away, broken, contradiction } from "./failure.ts";
import { Format } from "./format.ts";
import type { Language } from "./input/readings.ts";
import { LANGUAGES, load, pick } from "./languages.ts";
import { About } from "./steps/about.ts";
import { footer, header, steps, type Step } from "./steps/frame.ts";
import { addresses, start } from "./steps/start.ts";
import { wishes } from "./steps/wish_texts.ts";
import { WishesStep } from "./steps/wishes.ts";
import { Working } from "./steps/working.ts";
import type { Texts } from "./texts/en.ts";
import { Words } from "./words.ts";

declare const WASM: { name: string; integrity: string };
declare const WORKER: string;

/** The page looks again for operators that were away. */
const LOOK_AGAIN = 60_000;
/** Progress is shown only if a search takes longer. */
const PATIENCE = 300;

/** Makes the content of a screen. It is called again when the language changes. */
type Screen = () => (HTMLElement | null)[] | Promise<(HTMLElement | null)[]>;

class Page {
  readonly #app = document.getElementById("app") as HTMLElement;
  readonly #main = h("main", { id: "main", tabindex: -1 });
  readonly #draft = new Draft();
  readonly #wasm: Promise<ArrayBuffer>;
  #language: Language;
  #texts: Texts;
  #config: Config = NO_CONFIG;
  #isConfigured = false;
  #engine: Engine | undefined;
  #connection: Connection | null = null;
  #offer: Inspection | null = null;
  #guarded: string[] = [];
  #isRefused = false;
  #step: Step = "code";
  #screen: Screen = () => [];
  #timer = 0;
  /** Whether the user has pressed something; before that, the focus stays where it is. */
  #isUsed = false;

  constructor(language: Language, texts: Texts) {
    this.#language = language;
    this.#texts = texts;
    // The hash is part of this script, so that a check of the script also covers the engine.
    this.#wasm = fetch(WASM.name, { integrity: WASM.integrity }).then((response) => response.arrayBuffer());
    this.#wasm.catch(() => {});
    for (const event of ["pointerdown", "keydown"]) addEventListener(event, () => (this.#isUsed = true), { once: true });
  }

  get #format(): Format {
    return new Format(this.#language);
  }

  get #words(): Words {
    return new Words(this.#texts, this.#format);
  }

  get #deployment(): Deployment | null {
    return this.#offer && new Deployment(this.#offer, this.#config);
  }

  async begin() {
    await this.#show("code", () => this.#start());
    try {
      this.#config = await readConfig();
      this.#isConfigured = true;
    } catch (error) {
      await this.#failed(asError(error), () => void this.begin());
      return;
    }
    if (this.#config.servers.length > 0) await this.#prepare();
    else await this.#show("code", () => addresses(this.#texts, (servers) => ((this.#config = { ...this.#config, servers }), void this.#prepare())));
  }

  /** Restricts connections, then starts the engine under that policy and connects. */
  async #prepare() {
    if (!this.#engine) {
      try {
        const wasm = await this.#wasm;
        if (!restrictConnections(this.#config.servers)) throw new IfonlyError({ kind: "input", code: "url", message: this.#config.servers.join(", ") });
        // A worker from a blob inherits this page's policy; a worker from a URL would have its own.
        const worker = new Worker(URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" })));
        this.#engine = startEngine({ worker, wasm });
      } catch (error) {
        await this.#failed(asError(error), () => void this.#prepare());
        return;
      }
    }
    await this.#look();
  }

  /** Connects, and opens the first step if enough operators are there. */
  async #look() {
    clearTimeout(this.#timer);
    try {
      const connection = await this.#connected();
      this.#connection?.close();
      this.#connection = connection;
      this.#offer = await connection.inspect();
    } catch (error) {
      const failure = asError(error);
      const guarded = failure.servers.filter(({ code }) => code === "unauthorized").map(({ server }) => this.#own(server));
      if (guarded.length === 0) return this.#failed(failure, () => void this.#look());
      this.#guard(guarded);
      return this.#show("code", () => this.#start());
    }
    const guarded = this.#offer.server_failures.filter(({ code }) => code === "unauthorized").map(({ server }) => this.#own(server));
    if (guarded.length > 0) {
      this.#guard(guarded);
      return this.#show("code", () => this.#start());
    }
    this.#isRefused = false;
    if (this.#deployment?.isOpen) return this.#draft.tokens.size > 0 && this.#guarded.length > 0 ? this.#about() : this.#show("code", () => this.#start());
    await this.#away(null);
  }

  #guard(servers: string[]) {
    this.#isRefused = servers.some((server) => this.#draft.tokens.has(server));
    this.#guarded = [...new Set([...this.#guarded, ...servers])];
  }

  /** The address of the configuration that an address of the engine means. */
  #own(server: string): string {
    const bare = (url: string) => url.replace(/\/+$/, "");
    return this.#config.servers.find((own) => bare(own) === bare(server)) ?? server;
  }

  #connected(signal?: AbortSignal): Promise<Connection> {
    const servers: Server[] = this.#config.servers.map((url) => ({ url, token: this.#draft.tokens.get(url) || null }));
    return connect(servers, this.#config.pins, { ...(this.#engine && { engine: this.#engine }), ...(signal && { signal }) });
  }

  #start() {
    const { example } = this.#config;
    const fill = () => {
      const format = this.#format;
      for (const column of this.#offer?.columns ?? []) {
        const value = String(example?.[column.name] ?? "");
        const isNumber = column.kind === "number" && value !== "" && Number.isFinite(Number(value));
        this.#draft.entry(column).value = isNumber ? format.input(Number(value), bounds(column)) : column.kind === "date" ? format.dateInput(value) : value;
      }
      void this.#about();
    };
    return start({
      texts: this.#texts,
      format: this.#format,
      draft: this.#draft,
      deployment: this.#deployment,
      guarded: this.#guarded,
      isRefused: this.#isRefused,
      begin: () => void (this.#guarded.length > 0 ? this.#look() : this.#about()),
      fillExample: example && this.#offer && this.#guarded.length === 0 ? fill : null,
    });
  }

  #about() {
    return this.#show("about", () => {
      const deployment = this.#deployment;
      if (!deployment) return [];
      return new About({ ...this.#parts(deployment), back: () => void this.#show("code", () => this.#start()), goOn: () => void this.#wishes() }).root;
    });
  }

  #wishes(error: IfonlyError | null = null) {
    let complaint = error;
    let own: WishesStep | null = null;
    const shown = this.#show("wishes", () => {
      const deployment = this.#deployment;
      if (!deployment) return [];
      own = new WishesStep({ ...this.#parts(deployment), back: () => void this.#about(), ask: () => void this.#ask() });
      return own.root;
    });
    return shown.then(() => {
      if (complaint) own?.complain(complaint);
      complaint = null;
    });
  }

  #parts(deployment: Deployment) {
    return { deployment, draft: this.#draft, texts: this.#texts, format: this.#format, words: this.#words, connection: () => this.#connection };
  }

  async #ask() {
    const deployment = this.#deployment;
    const scheme = deployment?.scheme(this.#draft.scheme);
    const button = document.querySelector<HTMLButtonElement>("#main .btn.go");
    if (!deployment || !scheme || button?.disabled) return;
    if (button) button.disabled = true;
    const controller = new AbortController();
    const [profile, list] = [this.#draft.profile(deployment.offer, this.#language), this.#draft.wishes(deployment.offer, this.#language)];
    const asked = this.#draft.searches(deployment.offer);
    const working = () => new Working(deployment, scheme, asked, 1, this.#texts, this.#format, () => controller.abort());
    let running: Working | null = null;
    const timer = setTimeout(() => {
      void this.#show("answer", () => {
        running = working();
        return running.root;
      });
    }, PATIENCE);
    let isSent = false;
    try {
      // The servers may have reloaded since the form was drawn. Every search connects again, so
      // this reveals nothing.
      const connection = await this.#connected(controller.signal);
      this.#connection?.close();
      this.#connection = connection;
      const now = await connection.inspect();
      if (now.digest !== deployment.offer.digest) {
        this.#offer = now;
        throw new IfonlyError({ kind: "servers", code: "changed", message: now.digest });
      }
      isSent = true;
      const answer = await connection.ask(profile, list, { signal: controller.signal, onProgress: (progress) => running?.update(progress) });
      const seen = await connection.seen();
      clearTimeout(timer);
      await this.#show("answer", () => {
        const parts = this.#parts(deployment);
        const change = () => void this.#wishes();
        const chips = wishes({ ...parts, columns: deployment.offer.columns }).map(({ text }) => text);
        if (found(answer).length === 0) return showNone({ ...parts, answer, seen, change });
        return showAnswer({ ...parts, answer, asked, metric: list.metric ?? "l2", wishes: chips, seen, change });
      });
    } catch (error) {
      clearTimeout(timer);
      if (error instanceof DOMException && error.name === "AbortError") await this.#stopped();
      else await this.#askFailed(asError(error), isSent);
    } finally {
      if (button) button.disabled = false;
    }
  }

  async #stopped() {
    await this.#wishes();
    this.#main.prepend(h("p", { class: "note", role: "status" }, this.#texts.working.stopped));
  }

  async #askFailed(error: IfonlyError, isSent: boolean) {
    const refused = error.servers.filter(({ code }) => code === "unauthorized" || code === "budget-exhausted").map(({ server }) => this.#own(server));
    if (refused.length > 0) {
      this.#guard(refused);
      this.#isRefused = true;
      return this.#show("code", () => this.#start());
    }
    if (error.code === "changed") {
      await this.#about();
      this.#main.prepend(h("p", { class: "note failure", role: "alert" }, this.#texts.messages.changed()));
      return;
    }
    if (error.kind === "input") return this.#wishes(error);
    if (error.kind === "servers") return this.#away(error, true);
    if (error.kind === "machine") return this.#show("answer", () => broken(error, this.#texts, () => void this.#wishes(), true));
    return this.#contradict(error, isSent);
  }

  #contradict(error: IfonlyError, isAsked: boolean) {
    const restart = () => void this.#show("code", () => this.#start());
    const again = error.code === "manifests-differ" ? () => void this.#look() : null;
    return this.#show(isAsked ? "answer" : "code", () => contradiction({ texts: this.#texts, deployment: this.#deployment, error, isAsked, restart, again }));
  }

  #failed(error: IfonlyError, again: () => void) {
    if (error.kind === "servers" && this.#isConfigured) return this.#away(error);
    if (error.kind === "integrity") return this.#contradict(error, false);
    return this.#show("code", () => broken(error, this.#texts, again, false));
  }

  #away(error: IfonlyError | null, isAsked = false) {
    const looked = new Date();
    const again = () => void (isAsked ? this.#ask() : this.#look());
    if (!isAsked) this.#timer = window.setTimeout(again, LOOK_AGAIN);
    const back = isAsked ? () => void this.#wishes() : null;
    return this.#show(isAsked ? "answer" : "code", () =>
      away({ texts: this.#texts, format: this.#format, deployment: this.#deployment, servers: this.#config.servers, error, isAsked, looked, again, back }),
    );
  }

  /** Shows a screen: its heading gets the focus. */
  async #show(step: Step, screen: Screen) {
    this.#step = step;
    this.#screen = screen;
    await this.#render();
    if (!this.#isUsed) return;
    scrollTo(0, 0);
    this.#main.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true });
  }

  async #render() {
    const texts = this.#texts;
    const screen = this.#screen;
    const content = await screen();
    if (screen !== this.#screen) return;
    document.documentElement.lang = this.#language;
    document.title = texts.title;
    const list = this.#step === "code" && !this.#main.querySelector(".calm") && !content.some((element) => element?.matches(".calm")) ? null : steps(texts, this.#step, this.#guarded.length > 0);
    this.#main.replaceChildren(...[list, ...content].filter((element) => element !== null));
    const top = header(texts, this.#language, LANGUAGES, this.#config.host, (language) => void this.#translate(language as Language));
    this.#app.replaceChildren(h("a", { class: "skip", href: "#main" }, texts.skip), h("div", { class: "page" }, top, this.#main, footer(texts)));
  }

  /** Draws the screen in another language. Numbers keep their meaning. */
  async #translate(language: Language) {
    this.#texts = await load(language);
    if (this.#offer) this.#draft.translate(this.#offer, this.#language, new Format(language));
    this.#language = language;
    await this.#render();
    document.querySelector<HTMLElement>('.langs [aria-pressed="true"]')?.focus();
  }
}

function asError(error: unknown): IfonlyError {
  return error instanceof IfonlyError ? error : new IfonlyError({ kind: "machine", code: "machine", message: String(error) });
}

const language = pick();
const texts = await load(language).catch(() => null);
// Without texts, this is all that the page can say.
if (texts) await new Page(language, texts).begin();
else document.getElementById("app")?.append("This page could not be loaded. Diese Seite konnte nicht geladen werden.");
