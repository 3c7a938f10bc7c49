// Measures the figures of docs/records/clients.md: when the page is usable, how long its searches
// take in comparison with the native client, and whether it stays responsive.
//
//   cargo build --release -p ifonly
//   IFONLY=target/release/ifonly node web/tests/measure.mjs [ROWS…] [sealed]
//
// Both clients search the same servers in turn, and the ratio compares their medians. A native
// search is a whole process. A search of the page lasts from the button to the answer. Both
// connect, search, decode and fetch the record.

import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { promisify } from "node:util";
import { build, table } from "./people.mjs";
import { demo, finish, hosted, IFONLY, makeFolder, serve, succeed } from "./support.mjs";
import { Visitor } from "./visitor.mjs";

const median = (numbers) => numbers.sort((a, b) => a - b)[numbers.length >> 1];
const folder = makeFolder();
const rounds = Number(process.env.ROUNDS ?? 7);
const wanted = process.argv.slice(2);

/** Starts servers for a table with this number of accepted rows, and a page for them. */
async function scans(rows) {
  const name = `people-${rows}`;
  const people = table(rows, 1).map((row) => ({ ...row, decision: "yes" }));
  await build(folder, name, people);
  const running = [await serve(folder, name, 1), await serve(folder, name, 2)];
  const servers = running.map(({ url }) => url);
  const { decision: _, ...profile } = people[5];
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
    // The time at which the form appears.
    new MutationObserver((_, observer) => {
      if (!document.querySelector("form.code .go")) return;
      globalThis.usable = performance.now();
      observer.disconnect();
    }).observe(document, { childList: true, subtree: true });
  });
  await page.goto(address);
  await visitor.ready();
  const usable = await page.evaluate(() => globalThis.usable);
  const path = join(folder, "profile.json");
  writeFileSync(path, JSON.stringify(profile));
  await visitor.fill(columns, { profile });
  await page.evaluate(() => (globalThis.long.length = 0));
  const [native, browser] = [[], []];
  for (let round = 0; round < rounds; round++) {
    const began = performance.now();
    await promisify(execFile)(IFONLY, ["ask", "--json", "--profile", path, ...servers.flatMap((url) => ["--server", url])]);
    native.push(performance.now() - began);
    // Measured inside the page, without the delay of the browser driver.
    await visitor.toWishes();
    const took = await page.evaluate(async () => {
      const main = document.getElementById("main");
      const began = performance.now();
      const shown = new Promise((done) => {
        const observer = new MutationObserver(() => {
          if (!main.querySelector(".answer, .none, .failure")) return;
          observer.disconnect();
          done(main.querySelector(".failure") ? NaN : performance.now() - began);
        });
        observer.observe(main, { childList: true });
      });
      document.querySelector("#form button[type=submit]").click();
      return shown;
    });
    browser.push(took);
  }
  const long = await page.evaluate(() => globalThis.long);
  const [theirs, ours] = [median(native), median(browser)];
  const tasks = `${long.length} long tasks on the main thread${long.length > 0 ? `, the longest ${Math.max(...long).toFixed(0)} ms` : ""}`;
  console.log(`${name}: form after ${usable.toFixed(0)} ms; native ${theirs.toFixed(0)} ms, page ${ours.toFixed(0)} ms, ratio ${(ours / theirs).toFixed(2)}; ${tasks}`);
  await visitor.leave();
  await stop();
}

await succeed("keygen", "-o", join(folder, "root.key"));
const sizes = wanted.filter((word) => word !== "sealed").map(Number);
for (const rows of sizes.length > 0 || wanted.includes("sealed") ? sizes : [100_000, 1_000_000]) await measure(`gated-tables, ${rows} rows`, await scans(rows));
if (wanted.includes("sealed") || wanted.length === 0) await measure("sealed, 100000 rows", await sealed(100_000));
await finish();
