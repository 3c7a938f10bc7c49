// What goes in and comes out, as the command line and the Python package have it too.

/** What a person was promised, and below which they do not ask. */
export interface Pins {
  /** So many servers together still learn nothing; the manifest must say this or more. */
  threshold?: number | null;
  /** The manifest's digest, as 64 hexadecimal digits. */
  manifest?: string | null;
  /** The public key that signs the records, as 64 hexadecimal digits. */
  signer?: string | null;
  /** Who runs the servers, in the order of their numbers: a name, or `NAME=ADDRESS`. */
  operators?: string[] | null;
}

/** A server's address, with the token that its operator gave. */
export interface Server {
  url: string;
  token?: string | null;
}

/** A person's values by column name; what is left out or null is missing. */
export type Profile = Record<string, string | number | boolean | null>;

export type Value = string | number;
export type Pricing = "l2" | "l1" | "mad" | "count";

/** A person's wishes. Everything is optional. */
export interface Wishes {
  /** Features that must stay as they are. */
  immutable?: string[];
  /** Only these features may change, if any are named. */
  features_to_vary?: string[];
  /** Whether what the institution suggests as immutable stays too. */
  suggested?: boolean;
  /** How much a change of a feature counts: 0.01 to 1000. */
  weights?: Record<string, number>;
  /** How much growing and shrinking count, where they differ. */
  asymmetric?: Record<string, [up: number, down: number]>;
  /** How changes of a feature are priced, where it is not the metric of all. */
  prices?: Record<string, Pricing>;
  /** What ending at a value costs, instead of a price. */
  costs?: Record<string, [Value, number][]>;
  /** Where a feature must end, both ends included; either may be null. */
  ranges?: Record<string, [Value | null, Value | null]>;
  /** At which values a feature must end. */
  permits?: Record<string, Value[]>;
  /** Features that may only grow. */
  only_up?: string[];
  /** Features that may only shrink. */
  only_down?: string[];
  /** How changes are priced. */
  metric?: Pricing;
  /** Prefer people who changed few features; those who changed more than this many do not count. */
  few_changes?: number | null;
  /** How many of the nearest to fetch. Servers see it. */
  top?: number;
  /** Which scheme to ask with. Servers see it; the default is the manifest's. */
  scheme?: string | null;
}

/** Where two people differ. */
export interface Change {
  feature: string;
  yours: Value;
  theirs: Value;
  /** Whether the difference lies within one level. */
  same_level: boolean;
  /** What it adds to the cost; null where costs count levels. */
  contribution: number | null;
}

/** One of the nearest accepted people. */
export interface Explanation {
  cost: number;
  record: Record<string, Value>;
  changes: Change[];
}

/** What `ifonly ask --json` prints. */
export interface Answer {
  found: boolean;
  cost: number | null;
  record: Record<string, Value> | null;
  changes: Change[];
  /** All of them, nearest first, where more than one was asked for. */
  nearest?: Explanation[];
  scheme: string;
  servers: number;
  bytes_up: number;
  bytes_down: number;
  /** How many qualify; null where the scheme hides it. */
  qualifying: number | null;
  dataset: { name: string; version: string };
  liars: number[];
  troubles: string[];
  wishes: string[];
  notes: string[];
}

export type Kind = "number" | "date" | "timestamp" | "ordinal" | "category";

/** A column of the data: what a form asks. */
export interface Column {
  name: string;
  kind: Kind;
  unit: string | null;
  description: string | null;
  /** What stands for a missing value; null where there must be one. */
  default: string | null;
  suggest_immutable: boolean;
  /** Whether it has directions and ranges. */
  ordered: boolean;
  /** Whether costs by typical deviation (`mad`) are possible. */
  deviation: boolean;
  min: string | null;
  max: string | null;
  words: string[];
}

/** A scheme on offer. */
export interface Scheme {
  name: string;
  /** What the person learns beside the record. */
  learns: string;
  servers: number;
  phases: number;
  /** Whether every record is fetched in a step of its own. */
  fetches: boolean;
  top_limit: number;
  /** Whether costs are in values; otherwise they count levels. */
  in_values: boolean;
  /** Whether directions, ranges and permitted values can be wished for. */
  any_wish: boolean;
}

/** What the servers offer. */
export interface Inspection {
  dataset: { name: string; version: string };
  digest: string;
  rows: number;
  threshold: number;
  silent: number;
  lying: number;
  signer: string | null;
  top_limit: number;
  operators: { index: number; name: string; url: string | null }[];
  default_scheme: string;
  schemes: Scheme[];
  columns: Column[];
  /** Servers that could not be met, and why. */
  troubles: string[];
}

/** How a value is understood. */
export interface Understood {
  missing: boolean;
  clamped: boolean;
  level: string | null;
  /** Where it lies between the bounds, from 0 to 1. */
  place: number | null;
}

/** How far one server is. */
export interface Progress {
  server: string;
  /** Counted from 1. */
  step: number;
  received: number;
  of: number;
}

/** One message, as its server saw it. The beginnings of two servers' messages together tell about the person. */
export interface Sent {
  server: number;
  address: string;
  path: string;
  bytes: number;
  payload: number;
  /** How the share begins, in hexadecimal digits. */
  begins: string;
  /** How many of the share's bits are ones. */
  ones: number;
}

export interface ServerTrouble {
  server: string;
  code: string;
  message: string;
}

/** What went wrong, and whose fault it is. */
export class IfonlyError extends Error {
  /** `input`: the profile, the wishes or an address; `servers`: out of reach; `integrity`: they contradict each other; `machine`. */
  readonly kind: "input" | "servers" | "integrity" | "machine";
  readonly code: string;
  readonly features: string[];
  readonly servers: ServerTrouble[];

  constructor(problem: Partial<IfonlyError> & { message: string }) {
    super(problem.message);
    this.name = "IfonlyError";
    this.kind = problem.kind ?? "machine";
    this.code = problem.code ?? "other";
    this.features = problem.features ?? [];
    this.servers = problem.servers ?? [];
  }
}
