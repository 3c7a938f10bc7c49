// A table with all kinds of columns, and the correct results of searches by brute force.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Seeded, succeed } from "./support.mjs";

const day = (number) => new Date(number * 86_400_000).toISOString().slice(0, 10);
const GRADES = ["low", "medium", "high"];
const CITIES = ["Aachen", "Bremen", "Celle", "Dresden", "Essen", "Fulda", "Gera"];

/** The columns: numbers, ordered words, two words, many words, dates, and optional numbers. */
export function table(rows, seed) {
  const random = new Seeded(seed);
  return Array.from({ length: rows }, () => {
    const row = {
      age: 18 + random.below(50),
      income: 12_000 + 500 * random.below(120),
      grade: random.of(GRADES),
      housing: random.of(["rent", "own"]),
      city: random.of(CITIES),
      since: day(16_000 + random.below(150)),
      hours: random.below(12) === 0 ? "" : random.below(60),
    };
    return { ...row, decision: row.income > 20_000 && random.below(4) > 0 ? "yes" : "no" };
  });
}

/** Builds a bundle of the table. Returns the accepted rows. */
export async function build(folder, name, rows, ...extra) {
  const columns = Object.keys(rows[0]);
  const lines = [columns, ...rows.map((row) => columns.map((column) => row[column]))].map((line) => line.join(","));
  const csv = join(folder, `${name}.csv`);
  writeFileSync(csv, `${lines.join("\n")}\n`);
  await succeed("build", csv, "-o", join(folder, name), "--target", "decision", "--accept", "yes", "--missing", "median", ...extra);
  return rows.filter((row) => row.decision === "yes");
}

/** A random profile with random wishes. */
export function question(random, rows, columns) {
  const profile = {};
  const wishes = {};
  for (const column of columns) {
    // Each value comes from another row.
    const value = String(random.of(rows)[column.name]);
    profile[column.name] = value === "" && column.default === null ? column.min : value;
    const other = () => String(random.of(rows)[column.name]) || column.default;
    const kinds = ["free", "free", "free", ...(column.ordered ? ["up", "down"] : []), ...(column.words.length > 0 ? ["permit"] : ["range"]), ...(random.below(2) === 0 ? ["stay", "stay"] : [])];
    const wish = { wish: random.of(kinds), hard: random.of([1, 1, 1, 0, 2, 3]) };
    if (wish.wish === "range") {
      const ends = [other(), other()].sort((a, b) => place(column, a) - place(column, b));
      [wish.low, wish.high] = random.below(3) === 0 ? [ends[0], ""] : ends;
    }
    if (wish.wish === "permit") wish.permitted = column.words.filter((word) => random.below(2) === 0 || word === other());
    if (wish.permitted?.length === 0) wish.permitted = [column.words[0]];
    wishes[column.name] = wish;
  }
  return { profile, wishes, metric: random.of(["l2", "l2", "l1", "count"]) };
}

/** A value as a number; for ordered words the rank. */
export function place(column, value) {
  const filled = value === "" ? column.default : String(value);
  if (column.kind === "ordinal") return column.words.indexOf(filled);
  return column.kind === "date" ? Date.parse(filled) / 86_400_000 : Number(filled);
}

/** All matching rows with their costs. Every level of these columns is one value. */
export function bruteForce(rows, columns, { profile, wishes, metric }) {
  const weights = [0.5, 1, 2, 4];
  const matching = [];
  for (const row of rows) {
    let cost = 0;
    const permitted = columns.every((column) => {
      const { wish, low, high, permitted: set, hard } = wishes[column.name];
      const [mine, theirs] = [profile[column.name], row[column.name]].map((value) => (String(value) === "" ? column.default : String(value)));
      const differs = mine === theirs ? 0 : 1;
      let change = differs;
      if (column.ordered) {
        const [from, to] = [place(column, mine), place(column, theirs)];
        const ends = column.words.length > 0 ? [0, column.words.length - 1] : [place(column, column.min), place(column, column.max)];
        const share = Math.abs(to - from) / (ends[1] - ends[0]);
        change = { l2: share * share, l1: share, count: differs }[metric];
        if ((wish === "up" && to < from) || (wish === "down" && to > from)) return false;
        if (wish === "range" && (to < place(column, low || column.min) || to > place(column, high || column.max))) return false;
      }
      cost += change * (wish === "stay" ? 1 : weights[hard]);
      return !(wish === "stay" && differs) && !(wish === "permit" && !set.includes(theirs));
    });
    if (permitted) matching.push({ row, cost });
  }
  return matching.sort((a, b) => a.cost - b.cost);
}

/** The wishes as data for the npm package. */
export function asData({ wishes, metric }) {
  const weights = [0.5, 1, 2, 4];
  const data = { metric, immutable: [], only_up: [], only_down: [], ranges: {}, permits: {}, weights: {} };
  for (const [name, { wish, low, high, permitted, hard }] of Object.entries(wishes)) {
    if (wish === "stay") data.immutable.push(name);
    if (wish === "up") data.only_up.push(name);
    if (wish === "down") data.only_down.push(name);
    if (wish === "range") data.ranges[name] = [low || null, high || null];
    if (wish === "permit") data.permits[name] = permitted;
    if (wish !== "stay" && hard !== 1) data.weights[name] = weights[hard];
  }
  return data;
}

/** The wishes as flags of `ifonly ask`. */
export function asFlags(asked) {
  const data = asData(asked);
  return [
    "--metric", data.metric,
    ...data.immutable.flatMap((name) => ["--immutable", name]),
    ...data.only_up.flatMap((name) => ["--only-up", name]),
    ...data.only_down.flatMap((name) => ["--only-down", name]),
    ...Object.entries(data.ranges).flatMap(([name, [low, high]]) => ["--range", `${name}=${low ?? ""}..${high ?? ""}`]),
    ...Object.entries(data.permits).flatMap(([name, values]) => ["--permit", `${name}=${values.join(",")}`]),
    ...Object.entries(data.weights).flatMap(([name, weight]) => ["--weight", `${name}=${weight}`]),
  ];
}
