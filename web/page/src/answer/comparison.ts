// What differs between the user and one accepted case: which differences count, which are
// practically none, and what is the same.

import type { Column, Explanation, Value } from "../../../client/src/data.ts";
import type { Difference, Words } from "../words.ts";

/** A difference below this share of the range may be practically none. */
const SMALL = 0.02;
/** And below this share of the whole cost. */
const CHEAP = 0.05;

export interface Comparison {
  explanation: Explanation;
  /** What differs: the largest first, words last. */
  differences: Difference[];
  /** What is practically the same. */
  near: Difference[];
  /** What is the same: columns with the value. */
  same: { column: Column; value: Value }[];
}

export function compare(explanation: Explanation, columns: Column[], words: Words): Comparison {
  const [differences, near, same] = [[] as Difference[], [] as Difference[], [] as Comparison["same"]];
  const whole = explanation.changes.reduce((sum, change) => sum + (change.contribution ?? 0), 0);
  for (const column of columns) {
    const change = explanation.changes.find(({ feature }) => feature === column.name);
    if (!change) {
      same.push({ column, value: explanation.record[column.name] ?? "" });
      continue;
    }
    const difference = words.difference(column, change.yours, change.theirs);
    const isCheap = change.contribution === null || whole === 0 || change.contribution < CHEAP * whole;
    const isSmall = difference.by !== null && column.words.length === 0 && Math.abs(difference.share) < SMALL && isCheap;
    const isTolerated = "within_tolerance" in change && change.within_tolerance === true;
    (change.same_level || isTolerated || isSmall ? near : differences).push(difference);
  }
  const size = ({ by, share }: Difference) => (by === null ? -1 : Math.abs(share));
  const order = (list: Difference[]) => list.sort((a, b) => size(b) - size(a));
  order(differences);
  order(near);
  const [largest] = near;
  // The largest difference is always shown.
  if (differences.length === 0 && largest) differences.push(...near.splice(0, 1));
  return { explanation, differences, near, same };
}

/** The distance of a case: where costs are squared, its root. */
export function distance({ cost }: Explanation, isSquared: boolean): number {
  return isSquared ? Math.sqrt(Math.max(0, cost)) : cost;
}
