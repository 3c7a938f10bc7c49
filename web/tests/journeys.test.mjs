// Whole searches through the page in Chromium: with a table of all kinds of columns, with the
// bundle of the demo, and with a sealed search.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { asFlags, bruteForce, build, question, table } from "./people.mjs";
import { demo, finish, hosted, ifonly, makeFolder, Seeded, serve, succeed } from "./support.mjs";
import { Visitor } from "./visitor.mjs";

const QUESTIONS = Number(process.env.QUESTIONS ?? 40);
let folder, accepted, servers, address, columns;

async function ask(servers, profile, flags) {
  const path = join(folder, "profile.json");
  writeFileSync(path, JSON.stringify(profile));
  const { code, stdout } = await ifonly("ask", "--json", "--profile", path, ...servers.flatMap((url) => ["--server", url]), ...flags);
  assert.ok([0, 3].includes(code), stdout);
  return JSON.parse(stdout);
}

before(async () => {
  folder = makeFolder();
  await succeed("keygen", "-o", join(folder, "root.key"));
  accepted = await build(folder, "people", table(700, 1), "--no-shuffle");
  servers = [(await serve(folder, "people", 1)).url, (await serve(folder, "people", 2)).url];
  address = await hosted(folder, servers, "--threshold", "1");
  const { connect } = await import("../client/dist/index.js");
  const connection = await connect(servers);
  ({ columns } = await connection.inspect());
  connection.close();
});
after(finish);

test("the form has an input for every kind of column", async () => {
  const visitor = await Visitor.to(address);
  await visitor.ready();
  const kind = (name) => visitor.page.getByLabel(`Your value: ${name}`, { exact: true }).getAttribute("type");
  assert.deepEqual([await kind("age"), await kind("since")], ["text", "date"]);
  assert.equal(await visitor.page.getByRole("radiogroup", { name: "Your value: grade" }).getByRole("radio").count(), 3);
  assert.equal(await visitor.page.getByLabel("Your value: city").locator("option").count(), 8);
  const hours = visitor.page.locator(".feature", { hasText: "hours" });
  assert.match(await hours.innerText(), /If it is not known, \d+ is used/);
  assert.match(await visitor.text(".who"), /accepted people in “people”/);
  await visitor.leave();
});

test(`${QUESTIONS} random searches give the answers of the command line and of brute force`, async () => {
  const visitor = await Visitor.to(address);
  await visitor.ready();
  const random = new Seeded(process.env.IFONLY_SEED ?? 17);
  const shapes = new Set();
  let found = 0;
  for (let turn = 0; turn < QUESTIONS; turn++) {
    const asked = question(random, accepted, columns);
    await visitor.fill(columns, asked);
    await visitor.sent(servers);
    await visitor.ask();
    const context = `search ${turn}: ${JSON.stringify(asked)}`;
    assert.equal(await visitor.page.locator(".answer").count(), 1, `${context}\n${await visitor.text("#result, .summary")}`);
    const answer = await visitor.saved();
    assert.deepEqual(answer, await ask(servers, asked.profile, asFlags(asked)), context);
    const right = bruteForce(accepted, columns, asked);
    assert.equal(answer.matching_rows, right.length, context);
    assert.equal(answer.found, right.length > 0, context);
    if (answer.found) {
      found += 1;
      // Costs are rounded to whole numbers, so rows that differ by less than a thousandth may swap.
      assert.ok(answer.cost <= right[0].cost * 1.001 + 1e-9, `${context}\n${answer.cost} instead of ${right[0].cost}`);
      const heading = answer.changes.length > 0 ? /If only you had/ : /exactly your values/;
      assert.match(await visitor.text(".answer h2"), heading);
      assert.equal(await visitor.page.locator(".changes > li").count(), answer.changes.length);
    } else {
      assert.match(await visitor.text(".answer"), /No match/);
    }
    // Every search makes the same requests in number, order and size. The browser sends OPTIONS
    // requests when its cached permission has expired, which does not depend on the search.
    const sent = (await visitor.sent(servers)).filter(([, method]) => method !== "OPTIONS");
    for (const server of [0, 1]) shapes.add(`${server} ${JSON.stringify(sent.filter(([number]) => number === server))}`);
  }
  assert.equal(shapes.size, 2, [...shapes].join("\n"));
  assert.ok([...shapes].every((shape) => shape.includes("/v1/answer") && shape.includes("/v1/record")), [...shapes].join("\n"));
  assert.ok(found > QUESTIONS / 4 && found < QUESTIONS, `${found} of ${QUESTIONS} found a record`);
  const kept = await visitor.kept();
  const nothing = { local: 0, session: 0, databases: 0, caches: 0, cookies: "", workers: 0, state: null };
  assert.deepEqual({ ...kept, history: undefined, address: undefined }, { ...nothing, history: undefined, address: undefined });
  assert.equal(kept.address, address);
  assert.deepEqual(await visitor.context.storageState(), { cookies: [], origins: [] });
  await visitor.leave();
});

test("the demo's page: the example, several results, messages of each server, German", async () => {
  const { page: origin, servers } = await demo("--rows", "3000", "--seed", "4");
  const visitor = await Visitor.to(`${origin}/`);
  await visitor.ready();
  const { page } = visitor;
  await page.getByRole("button", { name: "As the institution suggests" }).click();
  await page.getByRole("button", { name: "Fill in an example" }).click();
  assert.equal(await page.getByLabel("Permitted change: age").inputValue(), "stay");
  const income = await page.getByLabel("Your value: income (euros a year)").inputValue();
  await visitor.more();
  await page.getByLabel("Number of results").fill("3");
  await visitor.ask();
  const answer = await visitor.saved();
  const profile = (await (await fetch(`${origin}/config.json`)).json()).example;
  assert.equal(profile.income, income);
  const native = await ask(servers, profile, ["--immutable", "age", "--top", "3"]);
  // The demo shuffles rows for every search, so records at the same distance may swap.
  assert.deepEqual(answer.nearest.map(({ cost }) => cost), native.nearest.map(({ cost }) => cost));
  assert.deepEqual({ ...answer, nearest: 0, record: 0, changes: 0 }, { ...native, nearest: 0, record: 0, changes: 0 });
  assert.equal(answer.nearest.length, 3);
  assert.equal(await page.locator(".card").count(), 3);
  assert.match(await visitor.text(".answer"), /match your wishes: [\d,]+ of 3,000/);
  const change = answer.nearest[0].changes[0];
  assert.ok((await visitor.text(".changes")).includes(change.feature));
  assert.ok((await page.locator(".scale svg").count()) > 0);
  assert.match(await page.locator(".scale svg").first().getAttribute("aria-label"), /from .* to /);
  await page.getByText("What did each server see?").click();
  const seen = await page.locator(".seen .bytes").allInnerTexts();
  // One message per step to each of the two servers; the messages to a server all differ.
  assert.equal(seen.length, 2 * (1 + 3));
  assert.equal(new Set(seen.slice(0, 4)).size, 4);
  assert.ok(!JSON.stringify(answer).includes(seen[0].slice(0, 16)), "shares are not saved");
  await page.getByLabel("Language / Sprache").selectOption("de");
  // The answer is translated before the page.
  await page.locator('html[lang="de"]').waitFor({ state: "attached" });
  assert.match(await visitor.text(".answer h2"), /Wenn Sie nur/);
  assert.equal(await page.getByLabel("Ihr Wert: income (euros a year)").inputValue(), income, "the form keeps its content");
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.locator(".seen").isVisible(), false, "shares are not printed");
  assert.equal(await page.locator(".cards").isVisible(), true);
  await visitor.leave();
});

test("a sealed search from the page gives the command line's answer", async () => {
  const { page: origin, servers } = await demo("--rows", "1000", "--scheme", "sealed");
  assert.equal(servers.length, 3);
  const visitor = await Visitor.to(`${origin}/`);
  await visitor.ready();
  await visitor.page.getByRole("button", { name: "Fill in an example" }).click();
  const profile = (await (await fetch(`${origin}/config.json`)).json()).example;
  await visitor.ask();
  assert.deepEqual(await visitor.saved(), await ask(servers, profile, []));
  assert.match(await visitor.text(".answer"), /does not reveal how many people match/);
  await visitor.leave();
});

test("axe finds no problem: light and dark, phone and desktop, before and after a search", async () => {
  for (const colorScheme of ["light", "dark"]) {
    for (const viewport of [{ width: 320, height: 640 }, { width: 1280, height: 900 }]) {
      const visitor = await Visitor.to(address, { colorScheme, viewport, reducedMotion: "reduce" });
      await visitor.ready();
      await visitor.fill(columns, question(new Seeded(2), accepted, columns));
      for (const column of columns) await visitor.wish(column, { wish: column.words.length > 0 ? "permit" : "range", low: "", high: "", permitted: column.words });
      assert.deepEqual(await visitor.accessibilityProblems(), []);
      const wide = () => visitor.page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      assert.equal(await wide(), false, "nothing overflows the page");
      await visitor.ask();
      await visitor.page.getByText("What did each server see?").click();
      assert.deepEqual(await visitor.accessibilityProblems(), []);
      assert.equal(await wide(), false, "nothing overflows the page");
      if (process.env.SHOTS) await visitor.page.screenshot({ path: join(process.env.SHOTS, `${colorScheme}-${viewport.width}.png`), fullPage: true });
      await visitor.leave();
    }
  }
});

test("the page works with the keyboard alone", async () => {
  const visitor = await Visitor.to(address);
  await visitor.ready();
  const { page } = visitor;
  const { profile } = question(new Seeded(2), accepted, columns);
  await visitor.fill(columns, { profile });
  await page.getByLabel("Your value: age", { exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.locator(".answer").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), "answer", "the answer's heading has the focus");
  await page.keyboard.press("Tab");
  assert.ok(await page.evaluate(() => document.activeElement !== document.body));
  await visitor.leave();
});
