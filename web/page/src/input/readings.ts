// Reads numbers and dates as people write them in English and in German. A text with two readings
// is asked back, not guessed.

export type Language = "en" | "de";

/** What a text means. */
export type Reading = { kind: "empty" } | { kind: "one"; value: string } | { kind: "two"; first: string; second: string } | { kind: "none" };

/** How the texts of a column write numbers, if not as plain numbers. */
export interface NumberNotation {
  prefix: string;
  suffix: string;
  thousands: string | null;
  decimal: string;
}

/** From this span on, a fraction with three decimals is not a plausible value. */
const WIDE = 10_000;
const SPACES = /[\s\u00a0\u202f\u2009'’]/g;
const none: Reading = { kind: "none" };
const one = (value: string): Reading => ({ kind: "one", value });

/** Reads a number. `bounds` are those of its column; `units` are texts that may stand beside it. */
export function readNumber(text: string, language: Language, bounds: [number, number] | null = null, units: string[] = []): Reading {
  const bare = stripped(text, units);
  if (bare === "") return { kind: text.trim() === "" ? "empty" : "none" };
  const [, sign, digits] = bare.match(/^([+-]?)(.*)$/) as [string, string, string];
  const minus = sign === "-" ? "-" : "";
  const spaced = digits.match(/^\d{1,3}(?:[\s\u00a0\u202f\u2009'’]\d{3})+(?=$|[.,])/);
  if (digits.search(SPACES) >= 0 && !spaced) return none;
  const body = digits.replace(SPACES, "");
  if (/^\d+(\.\d+)?e[+-]?\d{1,3}$/i.test(body)) return one(minus + body);
  if (!/^[\d.,]+$/.test(body) || !/\d/.test(body)) return none;
  const marks = body.match(/[.,]/g) ?? [];
  const write = (whole: string, fraction = "") => minus + (whole === "" ? "0" : whole) + (fraction === "" ? "" : `.${fraction}`);
  if (marks.length === 0) return one(write(body));
  const last = marks.at(-1) as string;
  const [whole, fraction] = [body.slice(0, body.lastIndexOf(last)), body.slice(body.lastIndexOf(last) + 1)];
  const isGrouped = (part: string, mark: string) => part.split(mark).every((group, place) => (place === 0 ? /^[1-9]\d{0,2}$/ : /^\d{3}$/).test(group));
  if (new Set(marks).size === 2) {
    const other = last === "." ? "," : ".";
    if (marks.filter((mark) => mark === last).length > 1 || !isGrouped(whole, other)) return none;
    return one(write(whole.replaceAll(other, ""), fraction));
  }
  if (marks.length > 1) return isGrouped(body, last) ? one(write(body.replaceAll(last, ""))) : none;
  if (spaced || !isGrouped(body, last)) return fraction === "" && whole === "" ? none : one(write(whole, fraction));
  // One mark before exactly three digits: it separates thousands or decimals.
  const [thousand, decimal] = [write(body.replace(last, "")), write(whole, fraction)];
  const isNative = last === (language === "de" ? "." : ",");
  const span = bounds ? bounds[1] - bounds[0] : 0;
  const isWithin = bounds !== null && Number(thousand) >= bounds[0] && Number(thousand) <= bounds[1];
  return isNative && span >= WIDE && isWithin ? one(thousand) : { kind: "two", first: thousand, second: decimal };
}

function stripped(text: string, units: string[]): string {
  let bare = text.trim().replace(/^\u2212/, "-");
  for (const unit of [...units, "€", "$", "£", "CHF"].filter((unit) => unit !== "")) {
    if (bare.startsWith(unit)) bare = bare.slice(unit.length).trim();
    if (bare.startsWith(`-${unit}`)) bare = `-${bare.slice(unit.length + 1).trim()}`;
    if (bare.endsWith(unit)) bare = bare.slice(0, -unit.length).trim();
  }
  return bare;
}

/** Reads a date as year-month-day. */
export function readDate(text: string): Reading {
  const bare = text.trim();
  if (bare === "") return { kind: "empty" };
  const iso = bare.match(/^(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ].*)?$/);
  if (iso) return dated(iso[1], iso[2], iso[3]);
  const points = bare.match(/^(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})$/);
  if (points) return dated(points[3], points[2], points[1]);
  const slashes = bare.match(/^(\d{1,2})[/-](\d{1,2})[/-](\d{4})$/);
  if (!slashes) return none;
  const [dayFirst, monthFirst] = [dated(slashes[3], slashes[2], slashes[1]), dated(slashes[3], slashes[1], slashes[2])];
  if (dayFirst.kind !== "one") return monthFirst;
  if (monthFirst.kind !== "one" || monthFirst.value === dayFirst.value) return dayFirst;
  return { kind: "two", first: dayFirst.value, second: monthFirst.value };
}

function dated(year = "", month = "", day = ""): Reading {
  const value = `${year}-${month.padStart(2, "0")}-${day.padStart(2, "0")}`;
  const time = Date.parse(`${value}T00:00:00Z`);
  return Number.isNaN(time) || new Date(time).toISOString().slice(0, 10) !== value ? none : one(value);
}

/** The number that a text of the data means. */
export function dataNumber(value: string | number | null, notation: NumberNotation | null): number | null {
  if (value === null || value === "") return null;
  if (typeof value === "number") return value;
  const plain = Number(value);
  if (Number.isFinite(plain)) return plain;
  if (!notation) return null;
  const negative = /^\(.*\)$|^-|^\D*-/.test(value.trim());
  let bare = value.replaceAll(/[()-]/g, "").replace(notation.prefix, "").replace(notation.suffix, "").trim();
  if (notation.thousands) bare = bare.replaceAll(notation.thousands, "");
  const number = Number(bare.replace(notation.decimal, "."));
  return Number.isFinite(number) && bare !== "" ? (negative ? -number : number) : null;
}
