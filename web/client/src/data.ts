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
}

/** A server's address, and a token if the operator requires one. */
export interface Server {
  url: string;
  token?: string | null;
}

/** A user's values by column name. Omitted or null values are missing. */
export type Profile = Record<string, string | number | boolean | null>;

export type Value = string | number;
export type Metric = "l2" | "l1" | "mad" | "count";

/** A user's wishes. All are optional. */
export interface Wishes {
  /** Features that must not change. */
  immutable?: string[];
  /** If not empty, only these features may change. */
  features_to_vary?: string[];
  /** Whether features that the institution marks as hard to change must not change. */
  suggested_immutable?: boolean;
  /** Weight of a change of a feature: 0.01 to 1000. */
  weights?: Record<string, number>;
  /** Weights of an increase and of a decrease. */
  asymmetric?: Record<string, [up: number, down: number]>;
  /** Metric of single features, instead of `metric`. */
  prices?: Record<string, Metric>;
  /** Cost of each target value, instead of a metric. */
  costs?: Record<string, [Value, number][]>;
  /** Permitted range of a feature, inclusive; null leaves a bound open. */
  ranges?: Record<string, [Value | null, Value | null]>;
  /** Permitted values of a feature. */
  permits?: Record<string, Value[]>;
  /** Features that must not fall. */
  only_up?: string[];
  /** Features that must not rise. */
  only_down?: string[];
  /** Metric of all features. */
  metric?: Metric;
  /** Maximum number of features that change. Fewer changes are preferred. */
  max_changes?: number | null;
  /** Number of nearest records to fetch; visible to the servers. */
  top?: number;
  /** The scheme to use; visible to the servers. The default is the manifest's. */
  scheme?: string | null;
}

/** A difference between the user and a record. */
export interface Change {
  feature: string;
  yours: Value;
  theirs: Value;
  /** Whether both values have the same level. */
  same_level: boolean;
  /** Contribution to the cost; null if costs count levels. */
  contribution: number | null;
}

/** One of the nearest accepted records. */
export interface Explanation {
  cost: number;
  record: Record<string, Value>;
  changes: Change[];
}

/** The output of `ifonly ask --json`. */
export interface Answer {
  found: boolean;
  cost: number | null;
  record: Record<string, Value> | null;
  changes: Change[];
  /** All records, nearest first, if more than one was requested. */
  nearest?: Explanation[];
  scheme: string;
  servers: number;
  bytes_up: number;
  bytes_down: number;
  /** Number of matching rows; null if the scheme does not reveal it. */
  matching_rows: number | null;
  dataset: { name: string; version: string };
  /** Indices of servers whose wrong answers were corrected. */
  lying_servers: number[];
  /** Servers that failed but were tolerated, with the reason. */
  server_failures: string[];
  wishes: string[];
  notes: string[];
}

export type Kind = "number" | "date" | "timestamp" | "ordinal" | "category";

/** A column of the data, as a form needs it. */
export interface Column {
  name: string;
  kind: Kind;
  unit: string | null;
  description: string | null;
  /** Replaces a missing value; null if a value is required. */
  default: string | null;
  suggest_immutable: boolean;
  /** Whether it has directions and ranges. */
  ordered: boolean;
  /** Whether the metric `mad` is possible. */
  deviation: boolean;
  min: string | null;
  max: string | null;
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
  /** Servers that could not be reached, with the reason. */
  server_failures: string[];
}

/** How a value is interpreted. */
export interface InterpretedValue {
  missing: boolean;
  clamped: boolean;
  level: string | null;
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

/** Why one server gave no answer. */
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
  readonly features: string[];
  readonly servers: ServerFailure[];

  constructor(problem: Partial<IfonlyError> & { message: string }) {
    super(problem.message);
    this.name = "IfonlyError";
    this.kind = problem.kind ?? "machine";
    this.code = problem.code ?? "other";
    this.features = problem.features ?? [];
    this.servers = problem.servers ?? [];
  }
}
