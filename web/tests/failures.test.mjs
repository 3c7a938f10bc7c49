// Failures are explained and lose no input; and the isolation of the page holds.

import assert from "node:assert/strict";
import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { build, question, table } from "./people.mjs";
import { finish, host, hosted, makeFolder, ROOT, Seeded, serve, startProxy, succeed } from "./support.mjs";
import { Visitor } from "./visitor.mjs";

let folder, accepted, columns, first, second, proxies, address;

before(async () => {
  folder = makeFolder();
  await succeed("keygen", "-o", join(folder, "root.key"));
  await succeed("keygen", "-o", join(folder, "other.key"));
  accepted = await build(folder, "people", table(300, 1));
  await build(folder, "renewed", table(320, 2), "--name", "people");
  [first, second] = [await serve(folder, "people", 1), await serve(folder, "people", 2)];
  proxies = [await startProxy(first.url), await startProxy(second.url)];
  address = await hosted(folder, proxies.map(({ url }) => url));
  const { connect } = await import("../client/dist/index.js");
  const connection = await connect([first.url, second.url]);
  ({ columns } = await connection.inspect());
  connection.close();
});
beforeEach(() => {
  proxies[0].forwardTo(first.url);
  proxies[1].forwardTo(second.url);
});
after(finish);

const column = (name) => columns.find((column) => column.name === name);

/** Opens the page and fills in the values, up to the wishes. */
async function filled(at = address) {
  const visitor = await Visitor.to(at);
  await visitor.ready();
  const asked = question(new Seeded(2), accepted, columns);
  await visitor.fill(columns, { profile: asked.profile });
  return { visitor, profile: asked.profile };
}

async function kept(visitor, profile) {
  await visitor.toAbout();
  assert.equal(await visitor.field(column("income")).locator("input").inputValue(), String(profile.income), "the form keeps its content");
}

test("errors are shown at their fields, and nothing is sent", async () => {
  const { visitor, profile } = await filled();
  const { page } = visitor;
  const addresses = proxies.map(({ url }) => url);
  await visitor.sent(addresses);
  await visitor.toAbout();
  const income = visitor.field(column("income"));
  await income.locator("input").fill("much");
  await visitor.value(column("age"), "");
  await visitor.press("Continue");
  assert.match(await visitor.text(".alert:not([hidden])"), /2 entries need a look[\s\S]*Age[\s\S]*Income[\s\S]*Nothing was sent/);
  assert.match(await income.locator(".fault").innerText(), /Write a number, such as [\d,]+/);
  assert.match(await visitor.field(column("age")).locator(".fault").innerText(), /needed/);
  assert.equal(await income.locator("input").getAttribute("aria-invalid"), "true");
  assert.equal(await page.evaluate(() => document.activeElement.name), "age", "the first invalid field has the focus");
  assert.deepEqual(await visitor.accessibilityProblems(), []);
  // A number that can be read in two ways is asked back, with a button for each.
  await income.locator("input").fill("30.500");
  await visitor.value(column("age"), profile.age);
  await visitor.press("Continue");
  assert.match(await income.locator(".fault").innerText(), /30\.500 can mean two things/);
  await income.getByRole("button", { name: "30,500", exact: true }).click();
  assert.equal(await income.locator("input").inputValue(), "30,500");
  await visitor.toWishes();
  await visitor.wish(column("income"), { wish: "range", low: "60000", high: "50000" });
  await visitor.press("Ask privately");
  assert.match(await page.locator(".wish .fault:not([hidden])").innerText(), /No value lies between/);
  assert.deepEqual(await visitor.sent(addresses), []);
  await visitor.leave();
});

test("nobody qualifies: an answer with the strictest wish first, and a wish can be loosened", async () => {
  const { visitor, profile } = await filled();
  for (const column of columns) await visitor.wish(column, { wish: "stay" });
  await visitor.wish(column("income"), { wish: "range", low: "13000", high: "" });
  await visitor.ask();
  assert.match(await visitor.text("main"), /Nobody who fits all your wishes was accepted[\s\S]*an answer too[\s\S]*Age can’t change[\s\S]*What now/);
  assert.equal(await visitor.page.getByRole("button", { name: /again/i }).count(), 0, "no button asks again at once");
  const items = visitor.page.locator(".relax li");
  assert.match(await items.first().innerText(), /can’t change/);
  assert.match(await items.last().innerText(), /Income [\d,]+ or more/, "the loosest wish stands last");
  assert.deepEqual(await visitor.accessibilityProblems(), []);
  if (process.env.SHOTS) await visitor.page.screenshot({ path: join(process.env.SHOTS, "none.png"), fullPage: true });
  await items.filter({ hasText: "Age" }).getByRole("button", { name: /^Let it be \d+ to \d+$/ }).click();
  await visitor.press("Change the wishes");
  assert.match(await visitor.text(".chips"), /Age between \d+ and \d+/);
  await kept(visitor, profile);
  await visitor.leave();
});

test("an operator that is away at the start is named before the form is filled in", async () => {
  proxies[1].forwardTo(null);
  const visitor = await Visitor.to(address);
  await visitor.page.locator(".failure").waitFor();
  assert.match(await visitor.text("h1"), /One operator cannot be reached just now/);
  const row = (url) => visitor.page.locator(".status li", { hasText: new URL(url).host }).innerText();
  assert.match(await row(proxies[1].url), /does not answer/);
  assert.match(await row(proxies[0].url), /is there/);
  assert.equal(await visitor.page.locator(".features").count(), 0);
  if (process.env.SHOTS) await visitor.page.screenshot({ path: join(process.env.SHOTS, "away.png"), fullPage: true });
  proxies[1].forwardTo(second.url);
  await visitor.press("Look again now");
  await visitor.page.locator("form.code").waitFor();
  await visitor.leave();
});

test("an operator that fails before a search is named, no input is lost, and the next search works", async () => {
  const { visitor, profile } = await filled();
  proxies[1].forwardTo(null);
  await visitor.ask();
  const text = await visitor.text("main");
  assert.match(text, /One operator cannot be reached[\s\S]*Not enough servers/);
  assert.ok(text.includes(new URL(proxies[1].url).host), text);
  await kept(visitor, profile);
  proxies[1].forwardTo(second.url);
  await visitor.ask();
  await visitor.page.locator(".answer").waitFor();
  await visitor.leave();
});

test("if both operators are away, looking again works without a reload of the page", async () => {
  proxies.forEach((proxy) => proxy.forwardTo(null));
  const visitor = await Visitor.to(address);
  await visitor.page.locator(".failure").waitFor();
  assert.match(await visitor.text("main"), /The operators cannot be reached[\s\S]*None of the servers could be reached/);
  assert.deepEqual(await visitor.accessibilityProblems(), []);
  proxies[0].forwardTo(first.url);
  proxies[1].forwardTo(second.url);
  await visitor.press("Look again now");
  await visitor.page.locator("form.code").waitFor();
  await visitor.leave();
});

test("servers with different manifests receive no query", async () => {
  const other = await serve(folder, "renewed", 2);
  const at = await hosted(folder, [first.url, other.url]);
  const visitor = await Visitor.to(at);
  await visitor.page.locator(".failure").waitFor();
  assert.match(await visitor.text("main"), /nothing was sent[\s\S]*different manifests/);
  await visitor.leave();
});

test("servers with different keys receive no query", async () => {
  const other = await serve(folder, "people", 2, { key: "other.key" });
  const visitor = await Visitor.to(await hosted(folder, [first.url, other.url]));
  await visitor.page.locator(".failure").waitFor();
  assert.match(await visitor.text("main"), /nothing was sent[\s\S]*different keys/);
  await visitor.page.locator("main details summary").click();
  assert.match(await visitor.text("main"), new RegExp(`${other.url} has ([0-9a-f]{4}-){7}[0-9a-f]{4}`));
  if (process.env.SHOTS) await visitor.page.screenshot({ path: join(process.env.SHOTS, "keys.png"), fullPage: true });
  await visitor.leave();
});

test("servers with different data give no answer rather than a wrong one", async () => {
  // The same rows in another order: the manifests are equal.
  const fixed = ["--name", "people", "--bundle-id", "5a".repeat(16), "--signing-key", join(folder, "signing.key")];
  await succeed("keygen", "--signing-key", "-o", join(folder, "signing.key"));
  await build(folder, "ordered", table(300, 1), ...fixed);
  await build(folder, "reversed", table(300, 1).reverse(), ...fixed);
  const [one, other] = [await serve(folder, "ordered", 1), await serve(folder, "reversed", 2)];
  const at = await hosted(folder, [one.url, other.url]);
  const { visitor, profile } = await filled(at);
  await visitor.ask();
  assert.match(await visitor.text("main"), /No answer is shown[\s\S]*do not ask again today/);
  assert.equal(await visitor.page.locator(".answer").count(), 0);
  assert.doesNotMatch(await visitor.text("main"), /try again/i);
  assert.equal(await visitor.page.getByRole("button", { name: /again/ }).count(), 0, "a second try would tell a cheat something");
  assert.deepEqual(await visitor.accessibilityProblems(), []);
  if (process.env.SHOTS) await visitor.page.screenshot({ path: join(process.env.SHOTS, "contradiction.png"), fullPage: true });
  await visitor.press("Back to the start");
  await kept(visitor, profile);
  await visitor.leave();
});

test("a reload of the servers is reported, and the form keeps its content", async () => {
  const { visitor, profile } = await filled();
  const renewed = [await serve(folder, "renewed", 1), await serve(folder, "renewed", 2)];
  renewed.forEach(({ url }, place) => proxies[place].forwardTo(url));
  await visitor.ask();
  assert.match(await visitor.text(".failure"), /updated their data/);
  await kept(visitor, profile);
  await visitor.ask();
  await visitor.page.locator(".answer").waitFor();
  await visitor.leave();
});

test("a pin that does not match is refused", async () => {
  const at = await hosted(folder, [first.url, second.url], "--threshold", "2");
  const visitor = await Visitor.to(at);
  await visitor.page.locator(".failure").waitFor();
  assert.match(await visitor.text(".failure"), /do not match the pinned values/);
  await visitor.leave();
});

test("the page asks for a code if an operator requires one, and finds a wrong one itself", async () => {
  const printed = await succeed("keygen", "--token", "office");
  const [token] = printed.match(/\b[0-9a-f]{64}\b/);
  const entry = printed.slice(printed.indexOf("[[tokens]]"));
  const guarded = await serve(folder, "people", 2, { tokens: `${entry}\n` });
  const at = await hosted(folder, [guarded.url]);
  const visitor = await Visitor.to(at);
  const { page } = visitor;
  const code = page.getByLabel(`Enter your code for ${new URL(guarded.url).host}`);
  await code.waitFor();
  await visitor.sent([guarded.url]);
  await code.fill(token.replace(/.$/, "o"));
  await visitor.press("Begin");
  assert.match(await visitor.text(".code"), /it has the sign o[\s\S]*Nothing was sent/);
  await code.fill(token.slice(3));
  await visitor.press("Begin");
  assert.match(await visitor.text(".code"), /it has 61 of 64 signs/);
  assert.deepEqual(await visitor.accessibilityProblems(), []);
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, "code.png"), fullPage: true });
  assert.deepEqual(await visitor.sent([guarded.url]), []);
  await code.fill(token.split("").reverse().join(""));
  await visitor.press("Begin");
  await page.getByText("does not know the code").waitFor();
  await code.fill(` ${token.toUpperCase()} `);
  await visitor.press("Begin");
  await page.locator(".features").waitFor();
  await visitor.leave();
});

test("stopping ends the search, and the next one works", async () => {
  const { visitor, profile } = await filled();
  // A server that accepts connections and never answers leaves time to press the button.
  const silent = createServer(() => {}).unref();
  await new Promise((done) => silent.listen(0, "127.0.0.1", done));
  proxies[1].forwardTo(`http://127.0.0.1:${silent.address().port}`);
  await visitor.press("Ask privately");
  await visitor.press("Stop");
  await visitor.page.getByText("Stopped.").waitFor();
  await kept(visitor, profile);
  proxies[1].forwardTo(second.url);
  await visitor.ask();
  await visitor.page.locator(".answer").waitFor();
  await visitor.leave();
});

test("the browser lets the page and its worker connect only to the operators", async () => {
  const { visitor } = await filled();
  const elsewhere = await host(folder);
  const attempt = async (where) => where.evaluate(async (urls) => Promise.all(urls.map((url) => fetch(url, { mode: "no-cors" }).then(() => "went", () => "refused"))), [elsewhere, address, `${address}config.json`]);
  assert.deepEqual(await attempt(visitor.page), ["refused", "refused", "refused"]);
  const [worker] = visitor.page.workers();
  assert.deepEqual(await attempt(worker), ["refused", "refused", "refused"]);
  const allowed = await worker.evaluate((url) => fetch(`${url}/v1/manifest`).then((response) => response.status), proxies[0].url);
  assert.equal(allowed, 200);
  await visitor.leave();
});

test("a changed script or engine does not run", async () => {
  for (const stem of ["page", "texts-en", "ifonly"]) {
    const ending = stem === "ifonly" ? "wasm" : "js";
    const site = join(folder, `bent-${stem}`);
    await succeed("page", "build", site, ...proxies.flatMap(({ url }) => ["--server", url]));
    const name = readdirSync(site).find((name) => name.startsWith(`${stem}-`) && name.endsWith(`.${ending}`));
    const bytes = readFileSync(join(site, name));
    writeFileSync(join(site, name), Buffer.concat([bytes, Buffer.from(ending === "js" ? "\n" : [0, 1, 0])]));
    const visitor = await Visitor.to(await host(site));
    if (ending === "wasm") {
      await visitor.page.locator(".failure").waitFor();
      assert.match(await visitor.text("main"), /This browser could not run the search/);
    } else {
      await visitor.page.waitForLoadState("networkidle");
      assert.equal(await visitor.page.locator("#app").innerText(), stem === "page" ? "" : "This page could not be loaded. Diese Seite konnte nicht geladen werden.");
    }
    await visitor.leave();
  }
});

test("without configuration the page asks for servers or takes them from its address", async () => {
  const plain = await host(join(ROOT, "web/page/dist"));
  const visitor = await Visitor.to(plain);
  await visitor.page.getByLabel("Which operators hold the decisions?").fill(`${first.url}\n${second.url}`);
  await visitor.page.getByRole("button", { name: "Connect", exact: true }).click();
  await visitor.page.locator(".who").waitFor();
  await visitor.page.goto(`${plain}?server=${first.url}&server=${second.url}&lang=de`);
  await visitor.page.locator(".who").waitFor();
  assert.match(await visitor.text(".who h2"), /Wer mitwirkt/);
  await visitor.leave();
});

test("a link replaces neither the servers nor the pins of the host", async () => {
  // One operator spreads a link to the genuine page with two addresses of its own.
  const attacker = [await startProxy(first.url), await startProxy(second.url)];
  const link = `?${attacker.map(({ url }) => `server=${encodeURIComponent(url)}`).join("&")}`;
  const visitor = await Visitor.to(address + link);
  await visitor.page.locator(".who").waitFor();
  await visitor.page.locator(".who summary").click();
  const shown = await visitor.text(".who");
  for (const { url } of attacker) assert.ok(!shown.includes(url), shown);
  for (const { url } of proxies) assert.ok(shown.includes(url), shown);
  await visitor.leave();
  // Without configured servers, a link with two servers of one host is refused before any request.
  const bare = await Visitor.to(`${await host(join(ROOT, "web/page/dist"))}?server=https://a.invalid/one&server=https://a.invalid/two`);
  await bare.page.locator(".failure").waitFor();
  assert.match(await bare.text(".failure"), /same host, a\.invalid/);
  assert.deepEqual(bare.traffic.filter((request) => new URL(request.url()).hostname === "a.invalid"), []);
  await bare.leave();
  // The browser reads these texts as one host too.
  const disguised = await Visitor.to(`${await host(join(ROOT, "web/page/dist"))}?server=https://a.invalid&server=${encodeURIComponent("https://a.invalid\\@b.invalid")}`);
  await disguised.page.locator(".failure").waitFor();
  assert.match(await disguised.text(".failure"), /same host, a\.invalid/);
  await disguised.leave();
  // Where operators have paths, the policy allows no other path of the same origin.
  const paths = await Visitor.to(await hosted(folder, proxies.map(({ url }) => `${url}/ifonly`)));
  await paths.page.locator(".failure, .who").first().waitFor();
  const isBlocked = (url) =>
    paths.page.evaluate(
      (target) =>
        new Promise((done) => {
          document.addEventListener("securitypolicyviolation", () => done(true), { once: true });
          fetch(target, { mode: "no-cors" }).then(() => done(false), () => setTimeout(() => done(false), 2000));
        }),
      url,
    );
  assert.equal(await isBlocked(`${proxies[0].url}/ifonly/v1/manifest`), false);
  assert.equal(await isBlocked(`${proxies[0].url}/other/v1/manifest`), true);
  await paths.leave();
  // Pins apply to servers from the address too.
  const site = join(folder, "pins-only");
  cpSync(join(ROOT, "web/page/dist"), site, { recursive: true });
  const config = join(site, "config.json");
  writeFileSync(config, JSON.stringify({ servers: [], pins: { threshold: 2 } }));
  const pinned = await Visitor.to((await host(site)) + link);
  await pinned.page.locator(".failure").waitFor();
  assert.match(await pinned.text(".failure"), /do not match the pinned values/);
  await pinned.leave();
  // A configuration that cannot be read has unknown pins, so the page connects to nothing.
  writeFileSync(config, "{");
  const unread = await Visitor.to((await host(site)) + link);
  await unread.page.locator(".failure, .who").first().waitFor();
  assert.equal(await unread.page.locator(".who").count(), 0);
  await unread.leave();
});
