// Failures are explained and lose no input; and the isolation of the page holds.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
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

/** Opens the page and fills in the form. */
async function filled(at = address) {
  const visitor = await Visitor.to(at);
  await visitor.ready();
  const asked = question(new Seeded(2), accepted, columns);
  await visitor.fill(columns, { profile: asked.profile });
  return { visitor, profile: asked.profile };
}

const kept = async (visitor, profile) => assert.equal(await visitor.page.getByLabel("Your value: income", { exact: true }).inputValue(), profile.income, "the form keeps its content");

test("errors are shown at their fields, and nothing is sent", async () => {
  const { visitor, profile } = await filled();
  const { page } = visitor;
  await visitor.sent(proxies.map(({ url }) => url));
  const income = page.getByLabel("Your value: income", { exact: true });
  await income.fill("much");
  await visitor.value(columns.find(({ name }) => name === "age"), "");
  await visitor.ask();
  assert.match(await visitor.text(".summary"), /2 entries need your attention. Nothing was sent/);
  assert.match(await page.locator(".feature", { hasText: "income" }).locator(".fault").innerText(), /not a number\. Enter a number from 12,000 to/);
  assert.match(await page.locator(".feature", { hasText: "age" }).first().locator(".fault").innerText(), /value is required/);
  assert.equal(await income.getAttribute("aria-invalid"), "true");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Your value: age", "the first invalid field has the focus");
  await income.fill(profile.income);
  await visitor.value(columns.find(({ name }) => name === "age"), profile.age);
  await visitor.wish(columns.find(({ name }) => name === "income"), { wish: "range", low: "60000", high: "50000" });
  await visitor.ask();
  assert.match(await page.locator(".feature", { hasText: "income" }).locator(".fault").innerText(), /No value lies between/);
  assert.deepEqual(await visitor.sent(proxies.map(({ url }) => url)), []);
  await visitor.leave();
});

test("no match: a result with the wishes, and the form keeps its content", async () => {
  const { visitor, profile } = await filled();
  for (const column of columns) await visitor.wish(column, { wish: "stay" });
  await visitor.ask();
  assert.match(await visitor.text(".answer"), /No match[\s\S]*a result, not an error[\s\S]*age stays as it is/);
  await kept(visitor, profile);
  await visitor.leave();
});

test("a server that is unreachable at the start is named", async () => {
  proxies[1].forwardTo(null);
  const visitor = await Visitor.to(address);
  await visitor.page.locator(".failure, .who").first().waitFor();
  // One server is enough for the manifest, so there is a form; a search needs both.
  assert.match(await visitor.page.locator(".servers li", { hasText: proxies[1].url }).innerText(), /could not be reached/);
  assert.match(await visitor.page.locator(".servers li", { hasText: proxies[0].url }).innerText(), /✓? ?connected/);
  await visitor.leave();
});

test("a server that fails before a search is named, no input is lost, and the next search works", async () => {
  const { visitor, profile } = await filled();
  proxies[1].forwardTo(null);
  await visitor.ask();
  const text = await visitor.text(".failure");
  assert.match(text, /Not enough servers/);
  assert.ok(text.includes(proxies[1].url) && /cannot be reached/.test(text), text);
  await kept(visitor, profile);
  proxies[1].forwardTo(second.url);
  await visitor.ask();
  await visitor.page.locator(".answer").waitFor();
  await visitor.leave();
});

test("if both servers are unreachable, trying again works without a reload of the page", async () => {
  proxies.forEach((proxy) => proxy.forwardTo(null));
  const visitor = await Visitor.to(address);
  await visitor.ready();
  assert.match(await visitor.text(".failure"), /None of the servers could be reached/);
  assert.deepEqual(await visitor.accessibilityProblems(), []);
  proxies[0].forwardTo(first.url);
  proxies[1].forwardTo(second.url);
  await visitor.page.getByRole("button", { name: "Try again" }).click();
  await visitor.page.locator("#form .features").waitFor();
  await visitor.leave();
});

test("servers with different manifests receive no query", async () => {
  const other = await serve(folder, "renewed", 2);
  const at = await hosted(folder, [first.url, other.url]);
  const visitor = await Visitor.to(at);
  await visitor.ready();
  assert.match(await visitor.text(".failure"), /different manifests[\s\S]*no query was sent/);
  await visitor.leave();
});

test("servers with different keys give no answer rather than a wrong one", async () => {
  const other = await serve(folder, "people", 2, { key: "other.key" });
  const at = await hosted(folder, [first.url, other.url]);
  const { visitor, profile } = await filled(at);
  await visitor.ask();
  assert.match(await visitor.text(".failure"), /contradict each other[\s\S]*No answer is shown/);
  assert.equal(await visitor.page.locator(".answer").count(), 0);
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
  await visitor.ready();
  assert.match(await visitor.text(".failure"), /do not match the pinned values/);
  await visitor.leave();
});

test("the page asks for a token if a server requires one", async () => {
  const printed = await succeed("keygen", "--token", "office");
  const [token] = printed.match(/\b[0-9a-f]{64}\b/);
  const entry = printed.slice(printed.indexOf("[[tokens]]"));
  const guarded = await serve(folder, "people", 2, { tokens: `${entry}\n` });
  const at = await hosted(folder, [guarded.url]);
  const visitor = await Visitor.to(at);
  await visitor.ready();
  assert.match(await visitor.text(".failure"), /requires a token/);
  await visitor.page.getByLabel(`Token for ${guarded.url}`).fill(token);
  await visitor.page.getByRole("button", { name: "Try again" }).click();
  await visitor.page.locator("#form .features").waitFor();
  await visitor.leave();
});

test("stopping ends the search, and the next one works", async () => {
  const { visitor, profile } = await filled();
  // A server that accepts connections and never answers leaves time to press the button.
  const silent = createServer(() => {}).unref();
  await new Promise((done) => silent.listen(0, "127.0.0.1", done));
  proxies[1].forwardTo(`http://127.0.0.1:${silent.address().port}`);
  await visitor.page.getByRole("button", { name: "Ask privately" }).click();
  await visitor.page.getByRole("button", { name: "Stop" }).click();
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
  for (const ending of ["js", "wasm"]) {
    const site = join(folder, `bent-${ending}`);
    await succeed("page", "build", site, ...proxies.flatMap(({ url }) => ["--server", url]));
    const name = readdirSync(site).find((name) => name.endsWith(`.${ending}`));
    const bytes = readFileSync(join(site, name));
    writeFileSync(join(site, name), Buffer.concat([bytes, Buffer.from(ending === "js" ? "\n" : [0, 1, 0])]));
    const visitor = await Visitor.to(await host(site));
    if (ending === "wasm") {
      await visitor.ready();
      assert.match(await visitor.text(".failure"), /This browser could not run the search/);
    } else {
      await visitor.page.waitForLoadState("networkidle");
      assert.equal(await visitor.page.locator("#app").innerHTML(), "");
    }
    await visitor.leave();
  }
});

test("without configuration the page asks for servers or takes them from its address", async () => {
  const plain = await host(join(ROOT, "web/page/dist"));
  const visitor = await Visitor.to(plain);
  await visitor.page.getByLabel(/one address per line/).fill(`${first.url}\n${second.url}`);
  await visitor.page.getByRole("button", { name: "Connect", exact: true }).click();
  await visitor.page.locator("#form .features").waitFor();
  await visitor.page.goto(`${plain}?server=${first.url}&server=${second.url}&lang=de`);
  await visitor.page.locator("#form .features").waitFor();
  assert.match(await visitor.text(".who h2"), /Die Server/);
  await visitor.leave();
});
