// What docs/web.md says in figures: how soon the page can be used, how fast it asks beside the native client, whether it stays responsive.
//
//   cargo build --release -p ifonly && IFONLY=target/release/ifonly node web/tests/measure.mjs [ROWS…] [sealed]
//
// Ratios of one run: both clients ask the same servers in turn, and medians are compared. A native search is a whole process, a page's is
// from the button to the answer, so both meet the servers, ask, decode and fetch the record.

import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { promisify } from "node:util";
import { build, table } from "./people.mjs";
import { demo, desk, fine, finish, hosted, IFONLY, serve } from "./support.mjs";
import { Visitor } from "./visitor.mjs";

const median = (numbers) => numbers.sort((a, b) => a - b)[numbers.length >> 1];
const folder = desk();
const rounds = Number(process.env.ROUNDS ?? 7);
const wanted = process.argv.slice(2);

/** Servers of a table with so many accepted people, and a page for them. */
async function scans(rows) {
  const name = `people-${rows}`;
  const people = table(rows, 1).map((row) => ({ ...row, decision: "yes" }));
  await build(folder, name, people);
  const running = [await serve(folder, name, 1), await serve(folder, name, 2)];
  const servers = running.map(({ url }) => url);
  const { decision, ...profile } = people[5];
  return { servers, address: await hosted(folder, servers), profile: { ...profile, hours: 3, age: 70 }, stop: () => Promise.all(running.map(({ stop }) => stop())) };
}

async function sealed(rows) {
  const { page, servers, stop } = await demo("--rows", String(rows), "--scheme", "sealed");
  return { servers, address: `${page}/`, profile: (await (await fetch(`${page}/config.json`)).json()).example, stop };
}

async function measure(name, { servers, address, profile, stop }) {
  const { connect } = await import("../client/dist/index.js");
  const connection = await connect(servers);
  const { columns } = await connection.inspect();
  connection.close();
  const visitor = await Visitor.to("about:blank");
  const { page } = visitor;
  await page.addInitScript(() => {
    globalThis.long = [];
    const note = (list) => globalThis.long.push(...list.getEntries().map((entry) => entry.duration));
    new PerformanceObserver(note).observe({ type: "longtask", buffered: true });
    // When the form is there, seen from inside.
    new MutationObserver((_, observer) => {
      if (!document.querySelector("#form .features")) return;
      globalThis.usable = performance.now();
      observer.disconnect();
    }).observe(document, { childList: true, subtree: true });
  });
  await page.goto(address);
  await visitor.ready();
  const usable = await page.evaluate(() => globalThis.usable);
  const path = join(folder, "profile.json");
  writeFileSync(path, JSON.stringify(profile));
  for (const column of columns) await visitor.value(column, String(profile[column.name]));
  await page.evaluate(() => (globalThis.long.length = 0));
  const [native, browser] = [[], []];
  for (let round = 0; round < rounds; round++) {
    const began = performance.now();
    await promisify(execFile)(IFONLY, ["ask", "--json", "--profile", path, ...servers.flatMap((url) => ["--server", url])]);
    native.push(performance.now() - began);
    // Measured inside the page, so that the driver's own way to the browser does not count.
    const took = await page.evaluate(async () => {
      const result = document.getElementById("result");
      const began = performance.now();
      const shown = new Promise((done) => {
        const observer = new MutationObserver(() => {
          if (!result.querySelector(".answer, .trouble")) return;
          observer.disconnect();
          done(result.querySelector(".answer") ? performance.now() - began : NaN);
        });
        observer.observe(result, { childList: true });
      });
      document.querySelector("#form button[type=submit]").click();
      return shown;
    });
    browser.push(took);
  }
  const long = await page.evaluate(() => globalThis.long);
  const [theirs, ours] = [median(native), median(browser)];
  const tasks = `${long.length} long tasks on the main thread${long.length > 0 ? `, the longest ${Math.max(...long).toFixed(0)} ms` : ""}`;
  console.log(`${name}: form there after ${usable.toFixed(0)} ms; native ${theirs.toFixed(0)} ms, page ${ours.toFixed(0)} ms, ratio ${(ours / theirs).toFixed(2)}; ${tasks}`);
  await visitor.leave();
  await stop();
}

await fine("keygen", "-o", join(folder, "root.key"));
const sizes = wanted.filter((word) => word !== "sealed").map(Number);
for (const rows of sizes.length > 0 || wanted.includes("sealed") ? sizes : [100_000, 1_000_000]) await measure(`gated-tables, ${rows} rows`, await scans(rows));
if (wanted.includes("sealed") || wanted.length === 0) await measure("sealed, 100000 rows", await sealed(100_000));
await finish();
