// Messages of the engine in the language of the page. The engine gives codes with arguments.

import type { Argument, Level, Message, ServerFailure } from "../../client/src/data.ts";
import type { Arguments, Texts } from "./texts/en.ts";

/** Arguments that name columns. */
const COLUMNS = ["feature", "features"];

/**
 * A message in the language of the page; in English if the code has no text. Columns are named as
 * `label` says.
 */
export function translate(message: Message, texts: Texts, label: (name: string) => string = (name) => name): string {
  const known: Record<string, (a: Arguments) => string> = texts.messages;
  const named = (name: string, value: Argument): Argument => {
    if (!COLUMNS.includes(name)) return value;
    return Array.isArray(value) ? value.map((one) => (typeof one === "string" ? label(one) : one)) : typeof value === "string" ? label(value) : value;
  };
  const values = Object.entries(message.arguments).map(([name, value]) => [name, written(named(name, value), texts)]);
  return known[message.code]?.(Object.fromEntries(values) as Arguments) ?? message.message;
}

/** Why a server gave no answer, as the end of a sentence about the server. */
export function reason({ code, message }: ServerFailure, texts: Texts): string {
  const known: Record<string, string> = texts.failure.server;
  return known[code] ?? message;
}

/** A level in the language of the page. */
export function level(level: Level, texts: Texts): string {
  if (typeof level === "string") return level;
  if ("above" in level) return texts.levels.above(level.above, level.high);
  const { low, high } = level;
  if (low === null) return high === null ? texts.levels.any : texts.levels.below(high);
  return high === null ? texts.levels.from(low) : texts.levels.between(low, high);
}

function written(value: Argument, texts: Texts): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  return Array.isArray(value) ? value.map((one) => written(one, texts)).join(", ") : level(value, texts);
}
