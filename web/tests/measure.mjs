// What docs/web.md says in figures: how soon the page can be used, how fast it asks beside the native client, whether it stays responsive.
//
//   cargo build --release -p ifonly && IFONLY=target/release/ifonly node web/tests/measure.mjs [ROWS…]
//
// Ratios of one run: both clients ask the same servers in turn, and the medians are compared. A native search is a whole process, a
// page's is from the button to the answer, so both meet the servers, ask, decode and fetch the record.

import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { promisify } from "node:util";
import { demo, desk, finish, IFONLY } from "./support.mjs";
import { Visitor } from "./visitor.mjs";

const median = (numbers) => numbers.sort((a, b) => a - b)[numbers.length >> 1];
const folder = desk();
const rounds = Number(process.env.ROUNDS ?? 7);
const wanted = process.argv.slice(2);

async function measure(rows, scheme) {
  const { page: origin, servers, stop } = await demo("--rows", String(rows), "--scheme", scheme);
  const visitor = await Visitor.to("about:blank");
  const { page } = visitor;
  await page.addInitScript(() => {
    globalThis.long = [];
    new PerformanceObserver((list) => globalThis.long.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "longtask", buffered: true });
  });
  await page.goto(`${origin}/`);
  await visitor.ready();
  const usable = await page.evaluate(() => performance.now());
  const profile = (await (await fetch(`${origin}/config.json`)).json()).example;
  const path = join(folder, "profile.json");
  writeFileSync(path, JSON.stringify(profile));
  await page.getByRole("button", { name: "Fill in an example" }).click();
  await page.evaluate(() => (globalThis.long.length = 0));
  const [native, browser] = [[], []];
  for (let round = 0; round < rounds; round++) {
    let began = performance.now();
    await promisify(execFile)(IFONLY, ["ask", "--json", "--profile", path, ...servers.flatMap((url) => ["--server", url])]);
    native.push(performance.now() - began);
    // Measured inside the page, so that the driver's own way to the browser does not count.
    const took = await page.evaluate(async () => {
      const began = performance.now();
      const shown = new Promise((done) => {
        const result = document.getElementById("result");
        const observer = new MutationObserver(() => {
          if (result.querySelector(".answer")) {
            observer.disconnect();
            done(performance.now() - began);
          }
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
  console.log(
    `${scheme}, ${rows} rows: form usable ${usable.toFixed(0)} ms after the navigation began; native ${theirs.toFixed(0)} ms, page ${ours.toFixed(0)} ms, ratio ${(ours / theirs).toFixed(2)}; ` +
      `${long.length} long tasks on the main thread${long.length > 0 ? `, the longest ${Math.max(...long).toFixed(0)} ms` : ""}`,
  );
  await visitor.leave();
  await stop();
}

for (const rows of wanted.length > 0 ? wanted.map(Number) : [100_000, 1_000_000]) await measure(rows, "gated-tables");
await measure(100_000, "sealed");
await finish();
