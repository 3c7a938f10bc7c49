// What is true of this deployment: its operators, who they are, and what they could learn. The
// texts of the page follow it.

import type { Inspection, Scheme } from "../../client/src/data.ts";
import type { Config } from "./config.ts";
import type { Texts } from "./texts/en.ts";

const bare = (url: string) => url.replace(/\/+$/, "");

export interface Operator {
  server: string;
  name: string;
  isAway: boolean;
}

export class Deployment {
  readonly offer: Inspection;
  readonly operators: Operator[];
  readonly host: string | null;
  readonly #institution: string | null;

  constructor(offer: Inspection, config: Config) {
    this.offer = offer;
    this.host = config.host;
    this.#institution = config.institution;
    // A manifest without addresses does not say which operator has which server.
    this.operators = config.servers.map((server) => ({
      server,
      name: offer.operators.find(({ url }) => url !== null && bare(url) === bare(server))?.name ?? hostOf(server),
      isAway: offer.server_failures.some((failure) => bare(failure.server) === bare(server)),
    }));
  }

  scheme(name: string): Scheme | undefined {
    return this.offer.schemes.find((scheme) => scheme.name === (name || this.offer.default_scheme));
  }

  /** Whether the operators send each other messages during a search. */
  isTalking(scheme: string): boolean {
    return this.scheme(scheme)?.fetches === false;
  }

  /** The number of operators that must answer. */
  get needed(): number {
    return Math.max(1, (this.scheme("")?.servers ?? 1) - this.offer.silent);
  }

  get isOpen(): boolean {
    return this.operators.filter(({ isAway }) => !isAway).length >= Math.min(this.needed, this.operators.length);
  }

  /** The operators' names; without addresses in the manifest, in the order of their indices. */
  names(texts: Texts): string[] {
    const { operators } = this.offer;
    const isPlaced = operators.some(({ url }) => url !== null);
    return isPlaced || operators.length !== this.operators.length
      ? this.operators.map(({ name }) => name)
      : operators.map(({ name, index }) => name || texts.seen.operator(index));
  }

  /** Whether a case stands for several accepted people. */
  get isGrouped(): boolean {
    return this.offer.dataset.groups !== undefined;
  }

  /** The number of operators as a word. */
  count(texts: Texts): string {
    return texts.count(this.operators.length);
  }

  institution(texts: Texts): string {
    return this.#institution ?? texts.institution;
  }

  /** The institution in the dative, where a language has it. */
  institutionDative(texts: Texts): string {
    return this.#institution ?? texts.institutionDative;
  }
}

/** The host of an address, for operators without a name. */
export function hostOf(server: string): string {
  try {
    return new URL(server).host;
  } catch {
    return server;
  }
}
