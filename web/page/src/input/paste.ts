// Reads values that the user pastes or opens from a file: a JSON profile, a CSV row with or without
// names, or lines such as "name: value". Everything stays in the browser.

import type { Column } from "../../../client/src/data.ts";
import { bounds } from "../draft.ts";
import type { Format } from "../format.ts";
import type { Words } from "../words.ts";

export interface Pasted {
  /** Texts by column name, as this page reads them. */
  values: Map<string, string>;
  /** Names that no column has. */
  unknown: string[];
  /** Whether there were more rows than the first. */
  isMore: boolean;
}

/** The longest text that is read. */
const LIMIT = 1_000_000;

/** Reads pasted values; null if the text has none. */
export function readPasted(text: string, columns: Column[], words: Words, format: Format): Pasted | null {
  const bare = text.replace(/^\ufeff/, "").trim();
  if (bare === "" || bare.length > LIMIT) return null;
  if (/^[[{]/.test(bare)) return fromJson(bare, columns, words, format);
  const [lines, delimiter] = split(bare);
  const named = lines.map((line) => (line.length === 1 ? (line[0] ?? "").match(/^\s*([^:=]+?)\s*[:=]\s*(.*)$/) : null));
  if (named.every((match) => match !== null)) {
    return collect(named.map((match) => [match?.[1] ?? "", match?.[2] ?? ""]), columns, words, format, false);
  }
  const [first = [], second] = lines;
  const known = first.filter((name) => find(name, columns, words)).length;
  const isHeader = known > 0 && known >= first.length / 2;
  // Fields between commas cannot have decimal commas, so their points are decimal points.
  const isPlain = delimiter === ",";
  if (isHeader && second) {
    return { ...collect(first.map((name, place) => [name, second[place] ?? ""]), columns, words, format, isPlain), isMore: lines.length > 2 };
  }
  const fields = lines.every((line) => line.length === 1) ? lines.map(([only = ""]) => only) : first;
  const result = collect(fields.slice(0, columns.length).map((value, place) => [columns[place]?.name ?? "", value]), columns, words, format, isPlain);
  return { ...result, unknown: fields.slice(columns.length), isMore: fields === first && lines.length > 1 };
}

function fromJson(text: string, columns: Column[], words: Words, format: Format): Pasted | null {
  try {
    let found = JSON.parse(text);
    const isMore = Array.isArray(found) && found.length > 1 && typeof found[0] === "object";
    if (Array.isArray(found) && typeof found[0] !== "object") found = Object.fromEntries(found.map((value, place) => [columns[place]?.name ?? `${place + 1}`, value]));
    else if (Array.isArray(found)) found = found[0];
    if (found?.profile && typeof found.profile === "object") found = found.profile;
    const pairs = Object.entries(found ?? {}).map(([name, value]): [string, string] => [name, value === null ? "" : typeof value === "number" ? format.input(value) : String(value)]);
    return { ...collect(pairs, columns, words, format, false), isMore };
  } catch {
    return null;
  }
}

/** The first lines as fields, and the mark between the fields. */
function split(text: string): [string[][], string] {
  const end = text.search(/\r?\n/);
  const first = end < 0 ? text : text.slice(0, end);
  const count = (mark: string) => first.split(mark).length - 1;
  const delimiter = count("\t") > 0 ? "\t" : count(";") > 0 ? ";" : count(",") > 1 || /,\s/.test(first) || (count(",") > 0 && !/^[\s\d.,]+$/.test(text)) ? "," : "";
  const rows: string[][] = [];
  let [row, field, isQuoted] = [[] as string[], "", false];
  const close = () => {
    row.push(field.trim());
    field = "";
  };
  for (let place = 0; place < text.length; place++) {
    const sign = text[place] as string;
    if (isQuoted) {
      if (sign !== '"') field += sign;
      else if (text[place + 1] === '"') field += text[++place];
      else isQuoted = false;
    } else if (sign === '"' && field.trim() === "") isQuoted = true;
    else if (sign === delimiter) close();
    else if (sign === "\n") {
      close();
      if (row.some((field) => field !== "")) rows.push(row);
      row = [];
    } else if (sign !== "\r") field += sign;
  }
  close();
  if (row.some((field) => field !== "")) rows.push(row);
  return [rows, delimiter];
}

const bare = (name: string) => name.toLowerCase().replaceAll(/[\s_-]+/g, " ").trim();

function find(name: string, columns: Column[], words: Words): Column | undefined {
  return columns.find((column) => column.name === name) ?? columns.find((column) => [column.name, words.label(column)].some((own) => bare(own) === bare(name)));
}

function collect(pairs: [string, string][], columns: Column[], words: Words, format: Format, isPlain: boolean): Pasted {
  const [values, unknown] = [new Map<string, string>(), [] as string[]];
  for (const [name, value] of pairs) {
    const column = find(name, columns, words);
    if (!column) {
      unknown.push(name);
      continue;
    }
    if (column.words.length > 0) values.set(column.name, column.words.find((word) => word === value) ?? column.words.find((word) => bare(word) === bare(value) || bare(words.word(column, word)) === bare(value)) ?? value);
    else if (isPlain && column.kind === "number" && value !== "" && Number.isFinite(Number(value))) values.set(column.name, format.input(Number(value), bounds(column)));
    else values.set(column.name, value);
  }
  return { values, unknown, isMore: false };
}
