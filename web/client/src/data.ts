// Types of input and output. The command line and the Python package use the same names.

/** Values that the manifest must have. If one does not match, no query is sent. */
export interface Pins {
  /** Least number of servers that may collude and learn nothing. */
  threshold?: number | null;
  /** The manifest's digest, as 64 hexadecimal digits. */
  manifest?: string | null;
  /** The public key that signs the records, as 64 hexadecimal digits. */
  signer?: string | null;
  /** The operators in the order of their indices: a name, or `NAME=ADDRESS`. */
  operators?: string[] | null;
  /**
   * For trials: allows two servers with the same host. One operator then gets two shares. Scripts
   * cannot see certificates, so only the host is compared.
   */
  allow_same_host?: boolean;
}

/** A server's address, and a token if the operator requires one. */
export interface Server {
  url: string;
  token?: string | null;
}

/** A user's values by column name. Omitted or null values are missing. */
export type Profile = Record<string, string | number | boolean | null>;

export type Value = string | number;
export type WaysBy = "feature" | "set";
export type Metric = "l2" | "l1" | "mad" | "count";

/** A user's wishes. All are optional. */
export interface Wishes {
  /** Features that must not change. */
  immutable?: string[];
  /** The only features that may change; default: all. */
  features_to_vary?: string[];
  /** Also keep the features that the institution marks as hard to change. */
  suggested_immutable?: boolean;
  /** Factor for the cost of a feature, from 0.01 to 1000; default 1. */
  weights?: Record<string, number>;
  /** One factor for rising and one for falling values of a feature. */
  asymmetric?: Record<string, [up: number, down: number]>;
  /** Metric of one feature, if it differs from the metric of the others. */
  metrics?: Record<string, Metric>;
  /** Cost of each target value, per feature; replaces the metric. */
  costs?: Record<string, [Value, number][]>;
  /** Permitted range of a feature, inclusive; a missing bound is open. */
  ranges?: Record<string, [Value | null, Value | null]>;
  /** Permitted values of a feature. */
  permits?: Record<string, Value[]>;
  /** Features whose value must not fall. */
  only_up?: string[];
  /** Features whose value must not rise. */
  only_down?: string[];
  /** Cost metric: l2 (default), l1, mad or count. */
  metric?: Metric;
  /** Return only rows that change at most this many features; prefer fewer changes. */
  max_changes?: number | null;
  /** Differences that count as unchanged; default: half a per cent. */
  tolerance?: Record<string, Value>;
  /** Number of nearest rows to fetch (visible to the servers). */
  top?: number;
  /** Number of different ways, one search each (visible to the servers). */
  ways?: number;
  /** What a further way holds: feature, the costliest of the way before, or set, all it changed. */
  ways_by?: WaysBy;
  /** Scheme to use; default: that of the manifest (visible to the servers). */
  scheme?: string | null;
}

/** A level: one value, or a range of values; null means an open end. */
export type Level = string | { low: string | null; high: string | null } | { above: string; high: string };

/** An argument of a message. */
export type Argument = null | number | Level | Argument[];

/** A message for the user: a code with arguments, for translation, and the text in English. */
export interface Message {
  code: string;
  arguments: Record<string, Argument>;
  message: string;
}

/** A difference between the user and a record. */
export interface Change {
  feature: string;
  yours: Value;
  theirs: Value;
  /** Whether both values have the same level. */
  same_level: boolean;
  /** Whether the difference counts as unchanged. */
  within_tolerance: boolean;
  /** Contribution to the cost; null if costs count levels. */
  contribution: number | null;
}

/** One of the nearest accepted records. */
export interface Explanation {
  cost: number;
  /** The answer in one English sentence. */
  sentence: string;
  record: Record<string, Value>;
  /** What the record stands for; absent if it is one person's original row. */
  group?: Group;
  changes: Change[];
  /** Features that this way holds, in addition to the wishes. */
  held?: string[];
}

/** The group of accepted people that a record stands for. */
export interface Group {
  at_least: number;
  at_most: number;
  /** Accepted people among all near the record, in percent; null if the data has no others. */
  accepted_percent: number | null;
}

/** How accepted people were grouped. */
export interface GroupTerms {
  method: string;
  k: number;
  keep: string[];
  sensitive: string[];
  l: number;
  left_out: number;
}

/** The output of `ifonly ask --json`. */
export interface Answer {
  found: boolean;
  cost: number | null;
  /** The answer in one English sentence. */
  sentence: string | null;
  record: Record<string, Value> | null;
  group?: Group;
  changes: Change[];
  /** All records, nearest first, if more than one was requested. */
  nearest?: Explanation[];
  /** The different ways that were found, if more than one was requested. */
  ways?: Explanation[];
  scheme: string;
  servers: number;
  bytes_up: number;
  bytes_down: number;
  /** Number of matching rows; null if the scheme does not reveal it. */
  matching_rows: number | null;
  dataset: Dataset;
  /** Indices of servers whose wrong answers were corrected. */
  lying_servers: number[];
  /** Servers that failed but were tolerated, with the reason. */
  server_failures: ServerFailure[];
  /** The wishes that decided which rows match. */
  wishes: Message[];
  notes: Message[];
}

/** A text for users: the same in all languages, or one per language tag. */
export type LocalizedText = string | Record<string, string>;

/** Phrases for a change of a number, such as "{n} more income a year". */
export interface Phrases {
  more?: LocalizedText;
  less?: LocalizedText;
  /** For a value that is higher by 1. */
  one_more?: LocalizedText;
  one_less?: LocalizedText;
}

export type Kind = "number" | "date" | "timestamp" | "ordinal" | "category";

/** The dataset of a manifest. */
export interface Dataset {
  name: string;
  version: string;
  /** The accept condition in words. */
  accepted?: string;
  /** How a found case is described: "was accepted". */
  outcome?: LocalizedText;
  /** Columns that the build excluded by itself. */
  excluded?: string[];
  groups?: GroupTerms;
}

/** A column of the data, as a form needs it. */
export interface Column {
  name: string;
  kind: Kind;
  unit: LocalizedText | null;
  description: LocalizedText | null;
  /** The name for users, if it differs from `name`. */
  label: LocalizedText | null;
  /** The section of the form. */
  section: LocalizedText | null;
  /** Phrases for a higher and a lower value, with `{n}` for the difference. */
  phrases: Phrases;
  /** The labels of words. */
  word_labels: Record<string, LocalizedText>;
  /** Replaces a missing value; null if a value is required. */
  default: string | null;
  suggest_immutable: boolean;
  /** Whether it has directions and ranges. */
  ordered: boolean;
  /** Whether the metric `mad` is possible. */
  deviation: boolean;
  min: string | null;
  max: string | null;
  /** How the data writes its numbers, if not as plain numbers. */
  notation: { prefix: string; suffix: string; thousands: string | null; decimal: string } | null;
  words: string[];
}

/** An offered scheme. */
export interface Scheme {
  name: string;
  /** What the user learns besides the record. */
  learns: string;
  servers: number;
  phases: number;
  /** Whether every record is fetched in a separate step. */
  fetches: boolean;
  top_limit: number;
  /** Whether costs are in values; otherwise they count levels. */
  in_values: boolean;
  /** Whether directions, ranges and permitted values are possible. */
  any_wish: boolean;
}

/** What the servers offer. */
export interface Inspection {
  dataset: Dataset;
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
  /** Servers that could not be reached, with the reason. */
  server_failures: ServerFailure[];
}

/** How a value is interpreted. */
export interface InterpretedValue {
  missing: boolean;
  clamped: boolean;
  level: Level | null;
  /** Position between the bounds, from 0 to 1. */
  place: number | null;
}

/** Progress of one server. */
export interface Progress {
  server: string;
  /** Counted from 1. */
  step: number;
  received: number;
  of: number;
}

/** One message as its server received it. The messages of two servers together reveal the query. */
export interface SentMessage {
  server: number;
  address: string;
  path: string;
  bytes: number;
  payload: number;
  /** First bytes of the share, in hexadecimal digits. */
  begins: string;
  /** Number of one bits in the share. */
  ones: number;
}

/** Why one server gave no answer. The English text continues a sentence about the server. */
export interface ServerFailure {
  server: string;
  code: string;
  message: string;
}

/** An error, with its cause. */
export class IfonlyError extends Error {
  /**
   * `input`: the profile, the wishes or an address; `servers`: unreachable servers; `integrity`:
   * the servers contradict each other; `machine`: this machine.
   */
  readonly kind: "input" | "servers" | "integrity" | "machine";
  readonly code: string;
  readonly arguments: Record<string, Argument>;
  readonly features: string[];
  readonly servers: ServerFailure[];
  /** If the servers serve different manifests: each server and the digest of its manifest. */
  readonly manifests: [server: string, digest: string][];

  constructor(problem: Partial<IfonlyError> & { message: string }) {
    super(problem.message);
    this.name = "IfonlyError";
    this.kind = problem.kind ?? "machine";
    this.code = problem.code ?? "other";
    this.arguments = problem.arguments ?? {};
    this.features = problem.features ?? [];
    this.servers = problem.servers ?? [];
    this.manifests = problem.manifests ?? [];
  }
}
