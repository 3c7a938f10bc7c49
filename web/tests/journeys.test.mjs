// Whole searches through the page in Chromium: with a table of all kinds of columns, with the
// bundle of the demo, and with a sealed search.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
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

/** The cases of an answer, nearest first. */
const found = (answer) => answer.ways ?? answer.nearest;

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
  assert.match(await visitor.text(".who"), /accepted cases \(“people”/);
  assert.match(await visitor.text(".split figcaption"), /two parts[\s\S]*never talk/);
  await visitor.toAbout();
  const of = (name) => visitor.field(columns.find((column) => column.name === name));
  const kind = (name) => of(name).locator("input").getAttribute("type");
  assert.deepEqual([await kind("age"), await kind("since")], ["text", "text"]);
  await of("since").locator("input").fill("03/04/2014");
  await of("hours").locator("input").focus();
  assert.match(await of("since").innerText(), /can mean two things/);
  await of("since").getByRole("button", { name: "3 Apr 2014" }).click();
  assert.equal(await of("since").locator("input").inputValue(), "2014-04-03");
  assert.equal(await of("grade").getByRole("radio").count(), 3);
  assert.equal(await of("city").locator("option").count(), 8);
  assert.match(await of("hours").innerText(), /Leave it empty if you do not know it; then \d+ is used/);
  await visitor.leave();
});

test(`${QUESTIONS} random searches give the answers of the command line and of brute force`, async () => {
  const visitor = await Visitor.to(address);
  await visitor.ready();
  const random = new Seeded(process.env.IFONLY_SEED ?? 17);
  const shapes = new Set();
  let hits = 0;
  for (let turn = 0; turn < QUESTIONS; turn++) {
    const asked = question(random, accepted, columns);
    await visitor.fill(columns, asked);
    await visitor.sent(servers);
    await visitor.ask();
    const context = `search ${turn}: ${JSON.stringify(asked)}`;
    assert.equal(await visitor.page.locator(".answer, .none").count(), 1, `${context}\n${await visitor.text("#main")}`);
    const answer = await visitor.saved();
    assert.deepEqual(answer, await ask(servers, asked.profile, [...asFlags(asked), "--ways", "3"]), context);
    const right = bruteForce(accepted, columns, asked);
    assert.equal(answer.matching_rows, right.length, context);
    assert.equal(answer.found, right.length > 0, context);
    if (answer.found) {
      hits += 1;
      // Costs are rounded to whole numbers, so rows that differ by less than a thousandth may swap.
      assert.ok(answer.cost <= right[0].cost * 1.001 + 1e-9, `${context}\n${answer.cost} instead of ${right[0].cost}`);
      const heading = answer.changes.length > 0 ? /^Someone like you, with .*, was accepted\.$/ : /^Someone with your values was accepted/;
      assert.match(await visitor.text("h1"), heading);
      const rows = await visitor.page.locator(".cmp .row:not(.axis), .fold .pairs > div").count();
      if (answer.changes.length > 0) assert.equal(rows, columns.length, "every column has a place");
    } else {
      assert.match(await visitor.text("h1"), /Nobody who fits all your wishes was accepted/);
    }
    // Every search makes the same requests in number, order and size. The browser sends OPTIONS
    // requests when its cached permission has expired, which does not depend on the search.
    const sent = (await visitor.sent(servers)).filter(([, method]) => method !== "OPTIONS");
    for (const server of [0, 1]) shapes.add(`${server} ${JSON.stringify(sent.filter(([number]) => number === server))}`);
  }
  assert.equal(shapes.size, 2, [...shapes].join("\n"));
  assert.ok([...shapes].every((shape) => shape.includes("/v1/answer") && shape.includes("/v1/record")), [...shapes].join("\n"));
  assert.ok(hits > QUESTIONS / 4 && hits < QUESTIONS, `${hits} of ${QUESTIONS} found a record`);
  const kept = await visitor.kept();
  const nothing = { local: 0, session: 0, databases: 0, caches: 0, cookies: "", workers: 0, state: null };
  assert.deepEqual({ ...kept, history: undefined, address: undefined }, { ...nothing, history: undefined, address: undefined });
  assert.equal(kept.address, address);
  assert.deepEqual(await visitor.context.storageState(), { cookies: [], origins: [] });
  await visitor.leave();
});

for (const language of ["en", "de"]) {
  test(`a whole journey with the demo: the example, three ways, what was sent, the letter (${language})`, async () => {
    const { page: origin, servers } = await demo("--rows", "3000", "--seed", "4");
    const visitor = await Visitor.to(`${origin}/?lang=${language}`, { viewport: { width: 1280, height: 900 } });
    await visitor.ready();
    const { page } = visitor;
    const before = await visitor.kept();
    const shot = async (name) => process.env.SHOTS && (await page.screenshot({ path: join(process.env.SHOTS, `${language}-${name}.png`), fullPage: true }));
    const text = (english, german) => (language === "de" ? german : english);
    await shot("1-start");
    await visitor.press(text("Fill in an example", "Beispiel einsetzen"));
    const profile = (await (await fetch(`${origin}/config.json`)).json()).example;
    const income = page.locator('.features input[name="income"]');
    assert.equal(await income.inputValue(), Number(profile.income).toLocaleString(text("en-GB", "de-DE")));
    await shot("2-about");
    await visitor.press(text("Continue", "Weiter"));
    assert.match(await visitor.text(".chips"), text(/Age can’t change/, /Age bleibt gleich/));
    await page.locator("details.own > summary").click();
    await shot("3-wishes");
    await visitor.press(text("Ask privately", "Privat fragen"));
    await page.locator(".answer").waitFor();
    await shot("4-answer");
    const coming = page.waitForEvent("download");
    await visitor.press(text("Save", "Speichern"));
    const answer = JSON.parse(readFileSync(await (await coming).path(), "utf8"));
    const native = await ask(servers, profile, ["--immutable", "age", "--ways", "3"]);
    // The demo shuffles rows for every search, so records at the same distance may swap.
    assert.equal(found(answer)[0].cost, found(native)[0].cost);
    assert.ok(found(answer).length > 1, "several ways");
    assert.equal(await page.locator(".tabs input").count(), found(answer).length);
    assert.equal(await page.locator(".side thead th").count(), 1 + found(answer).length);
    // Another way has another sentence, and its column in the table is marked.
    const first = await visitor.text("h1");
    await page.locator(".tabs input").nth(1).check();
    assert.notEqual(await visitor.text("h1"), first);
    assert.equal(await page.locator(".side td.now").first().evaluate((cell) => cell.cellIndex), 2);
    await page.locator(".tabs input").nth(0).check();
    assert.equal(await visitor.text("h1"), first);
    assert.match(await page.locator(".cmp svg[role=img]").first().getAttribute("aria-label"), text(/: you .*, accepted case /, /: Sie .*, angenommener Fall /));
    await page.locator(".seen summary").click();
    const seen = await page.locator(".seen .bytes").allInnerTexts();
    assert.equal(seen.length, 2 * 3 * 2, "two operators, three searches, a message for the costs and one for the record");
    // The two servers' messages for a record may begin alike: only together do they name it.
    assert.equal(new Set(seen.slice(0, seen.length / 2)).size, seen.length / 2, "all messages to a server differ");
    assert.ok(!JSON.stringify(answer).includes(seen[0].slice(0, 16)), "shares are not saved");
    // The letter is one page and the table.
    await page.emulateMedia({ media: "print" });
    assert.equal(await page.locator(".seen").isVisible(), false, "shares are not printed");
    assert.equal(await page.locator(".letterhead").isVisible(), true);
    const pdf = await page.pdf({ preferCSSPageSize: true, ...(process.env.SHOTS && { path: join(process.env.SHOTS, `${language}-letter.pdf`) }) });
    const pages = pdf.toString("latin1").match(/\/Type\s*\/Page\b/g).length;
    assert.ok(pages <= 2, `the letter has ${pages} pages`);
    await page.emulateMedia({ media: "screen" });
    // The other language keeps the answer and the values.
    await page.locator(`.langs [lang=${text("de", "en")}]`).click();
    await page.locator(`html[lang=${text("de", "en")}]`).waitFor({ state: "attached" });
    assert.match(await visitor.text("h1"), text(/^Jemand wie Sie, mit .*, wurde angenommen\.$/s, /^Someone like you, with .*, was accepted\.$/s));
    const kept = await visitor.kept();
    assert.equal(kept.address, `${origin}/?lang=${language}`, "no step is in the address");
    assert.equal(kept.history, before.history, "no step is in the history");
    assert.deepEqual(await visitor.accessibilityProblems(), []);
    await visitor.leave();
  });
}

test("a sealed search from the page gives the command line's answer", async () => {
  const { page: origin, servers } = await demo("--rows", "1000", "--scheme", "sealed");
  assert.equal(servers.length, 3);
  const visitor = await Visitor.to(`${origin}/`);
  await visitor.ready();
  assert.match(await visitor.text(".split figcaption"), /three parts[\s\S]*compute together/);
  assert.doesNotMatch(await visitor.text("main"), /never talk/);
  await visitor.press("Fill in an example");
  const profile = (await (await fetch(`${origin}/config.json`)).json()).example;
  await visitor.ask();
  const native = await ask(servers, profile, ["--immutable", "age", "--ways", "3"]);
  assert.deepEqual(await visitor.saved(), native);
  assert.doesNotMatch(await visitor.text("main"), /accepted cases fit your wishes/);
  await visitor.leave();
});

test("30 columns: compact fields, a pasted row with a mistake, and the demo of one's own bundle", async () => {
  const random = new Seeded(8);
  const rows = Array.from({ length: 90 }, () => {
    const cells = Array.from({ length: 30 }, (_, place) => [`cell_${place + 1}`, (random.below(9000) / 1000 + place).toFixed(3)]);
    return { ...Object.fromEntries(cells), decision: random.below(3) > 0 ? "yes" : "no" };
  });
  await build(folder, "cells", rows);
  const { page: origin } = await demo("--bundle", join(folder, "cells"));
  const visitor = await Visitor.to(`${origin}/`, { viewport: { width: 1280, height: 900 } });
  await visitor.ready();
  await visitor.press("Begin");
  const { page } = visitor;
  await page.locator(".compact").waitFor();
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  assert.ok(height < 1800, `the form is ${height} pixels high`);
  const values = Object.values(rows[0]).slice(0, 30);
  await page.locator(".paste textarea").fill(values.map((value, place) => (place === 6 ? value.replace(/\d$/, "l") : value)).join(", "));
  await visitor.press("Fill in");
  await page.getByText("30 values read. One needs a look:").waitFor();
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, "30-columns.png"), fullPage: true });
  assert.deepEqual(await visitor.accessibilityProblems(), []);
  await page.locator(".paste").getByRole("button", { name: "Cell 7", exact: true }).click();
  assert.equal(await page.evaluate(() => document.activeElement.name), "cell_7");
  await page.locator('input[name="cell_7"]').fill(Number(values[6]).toFixed(4));
  await visitor.ask();
  await page.locator(".answer").waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, "30-columns-answer.png"), fullPage: true });
  await visitor.leave();
});

test("axe finds no problem: light and dark, phone and desktop, before and after a search", async () => {
  for (const colorScheme of ["light", "dark"]) {
    for (const viewport of [{ width: 320, height: 640 }, { width: 1280, height: 900 }]) {
      const visitor = await Visitor.to(address, { colorScheme, viewport, reducedMotion: "reduce" });
      await visitor.ready();
      const check = async (name) => {
        assert.deepEqual(await visitor.accessibilityProblems(), [], name);
        assert.equal(await visitor.page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, `${name}: nothing overflows the page`);
        if (process.env.SHOTS) await visitor.page.screenshot({ path: join(process.env.SHOTS, `${colorScheme}-${viewport.width}-${name}.png`), fullPage: true });
      };
      await check("start");
      const { profile } = question(new Seeded(2), accepted, columns);
      await visitor.toAbout();
      for (const column of columns) await visitor.value(column, profile[column.name]);
      await check("about");
      await visitor.toWishes();
      for (const column of columns) await visitor.wish(column, { wish: column.words.length > 0 ? "permit" : "range", low: "", high: "", permitted: column.words });
      await visitor.more();
      await check("wishes");
      await visitor.ask();
      await visitor.page.locator(".seen summary").click();
      await check("answer");
      await visitor.leave();
    }
  }
});

test("the page works with the keyboard alone", async () => {
  const visitor = await Visitor.to(address);
  await visitor.ready();
  const { page } = visitor;
  const { profile } = question(new Seeded(2), accepted, columns);
  const heading = () => page.evaluate(() => document.activeElement.tagName);
  await page.keyboard.press("Tab");
  await page.locator("form.code .go").focus();
  await page.keyboard.press("Enter");
  await page.locator(".features").waitFor();
  assert.equal(await heading(), "H1", "the heading of a step has the focus");
  for (const column of columns) await visitor.value(column, profile[column.name]);
  await page.locator(".features input").first().focus();
  await page.keyboard.press("Enter");
  await page.locator(".own").waitFor();
  assert.equal(await heading(), "H1");
  await page.locator("#form .btn.go").focus();
  await page.keyboard.press("Enter");
  await page.locator(".answer").waitFor();
  assert.equal(await heading(), "H1");
  await page.keyboard.press("Tab");
  assert.ok(await page.evaluate(() => document.activeElement !== document.body));
  await visitor.leave();
});
