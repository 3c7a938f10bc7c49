// What can go wrong, in plain words, with nothing lost; and what the page may not do.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { build, question, table } from "./people.mjs";
import { desk, door, fine, finish, host, hosted, ROOT, Seeded, serve } from "./support.mjs";
import { Visitor } from "./visitor.mjs";

let folder, accepted, columns, first, second, doors, address;

before(async () => {
  folder = desk();
  await fine("keygen", "-o", join(folder, "root.key"));
  await fine("keygen", "-o", join(folder, "other.key"));
  accepted = await build(folder, "people", table(300, 1));
  await build(folder, "renewed", table(320, 2), "--name", "people");
  [first, second] = [await serve(folder, "people", 1), await serve(folder, "people", 2)];
  doors = [await door(first.url), await door(second.url)];
  address = await hosted(folder, doors.map(({ url }) => url));
  const { connect } = await import("../client/dist/index.js");
  const connection = await connect([first.url, second.url]);
  ({ columns } = await connection.inspect());
  connection.close();
});
beforeEach(() => {
  doors[0].leadsTo(first.url);
  doors[1].leadsTo(second.url);
});
after(finish);

/** Somebody who has filled in the form. */
async function filled(at = address) {
  const visitor = await Visitor.to(at);
  await visitor.ready();
  const asked = question(new Seeded(2), accepted, columns);
  await visitor.fill(columns, { profile: asked.profile });
  return { visitor, profile: asked.profile };
}

const kept = async (visitor, profile) => assert.equal(await visitor.page.getByLabel("Your value: income", { exact: true }).inputValue(), profile.income, "the form keeps its content");

test("mistakes are shown where they are, and nothing is sent", async () => {
  const { visitor, profile } = await filled();
  const { page } = visitor;
  await visitor.sent(doors.map(({ url }) => url));
  const income = page.getByLabel("Your value: income", { exact: true });
  await income.fill("much");
  await visitor.value(columns.find(({ name }) => name === "age"), "");
  await visitor.ask();
  assert.match(await visitor.text(".summary"), /2 entries need your attention. Nothing was sent/);
  assert.match(await page.locator(".feature", { hasText: "income" }).locator(".fault").innerText(), /not a number; it takes 12,000 to/);
  assert.match(await page.locator(".feature", { hasText: "age" }).first().locator(".fault").innerText(), /value is needed/);
  assert.equal(await income.getAttribute("aria-invalid"), "true");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Your value: age", "the first has the focus");
  await income.fill(profile.income);
  await visitor.value(columns.find(({ name }) => name === "age"), profile.age);
  await visitor.wish(columns.find(({ name }) => name === "income"), { wish: "range", low: "60000", high: "50000" });
  await visitor.ask();
  assert.match(await page.locator(".feature", { hasText: "income" }).locator(".fault").innerText(), /No value lies between/);
  assert.deepEqual(await visitor.sent(doors.map(({ url }) => url)), []);
  await visitor.leave();
});

test("nobody qualifies: an answer, with the wishes, and the form as it was", async () => {
  const { visitor, profile } = await filled();
  for (const column of columns) await visitor.wish(column, { wish: "stay" });
  await visitor.ask();
  assert.match(await visitor.text(".answer"), /Nobody qualifies[\s\S]*an answer, not a fault[\s\S]*age stays as it is/);
  await kept(visitor, profile);
  await visitor.leave();
});

test("a server that is away at the start is named", async () => {
  doors[1].leadsTo(null);
  const visitor = await Visitor.to(address);
  await visitor.page.locator(".trouble, .who").first().waitFor();
  // One server alone says what all of them would offer, so there is a form; asking needs both.
  assert.match(await visitor.page.locator(".servers li", { hasText: doors[1].url }).innerText(), /could not be met/);
  assert.match(await visitor.page.locator(".servers li", { hasText: doors[0].url }).innerText(), /✓? ?met/);
  await visitor.leave();
});

test("a server that goes away before the question: words, nothing lost, and the next question works", async () => {
  const { visitor, profile } = await filled();
  doors[1].leadsTo(null);
  await visitor.ask();
  const said = await visitor.text(".trouble");
  assert.match(said, /Not enough servers/);
  assert.ok(said.includes(doors[1].url) && /cannot be reached/.test(said), said);
  await kept(visitor, profile);
  doors[1].leadsTo(second.url);
  await visitor.ask();
  await visitor.page.locator(".answer").waitFor();
  await visitor.leave();
});

test("both servers away: words, and trying again works without a new page", async () => {
  doors.forEach((door) => door.leadsTo(null));
  const visitor = await Visitor.to(address);
  await visitor.ready();
  assert.match(await visitor.text(".trouble"), /None of the servers could be reached/);
  assert.deepEqual(await visitor.faultsOfAccess(), []);
  doors[0].leadsTo(first.url);
  doors[1].leadsTo(second.url);
  await visitor.page.getByRole("button", { name: "Try again" }).click();
  await visitor.page.locator("#form .features").waitFor();
  await visitor.leave();
});

test("servers that contradict each other about what they offer are asked nothing", async () => {
  const other = await serve(folder, "renewed", 2);
  const at = await hosted(folder, [first.url, other.url]);
  const visitor = await Visitor.to(at);
  await visitor.ready();
  assert.match(await visitor.text(".trouble"), /contradict each other[\s\S]*nothing was asked/);
  await visitor.leave();
});

test("servers with different keys give no answer rather than a wrong one", async () => {
  const other = await serve(folder, "people", 2, { key: "other.key" });
  const at = await hosted(folder, [first.url, other.url]);
  const { visitor, profile } = await filled(at);
  await visitor.ask();
  assert.match(await visitor.text(".trouble"), /contradict each other[\s\S]*No answer is shown/);
  assert.equal(await visitor.page.locator(".answer").count(), 0);
  await kept(visitor, profile);
  await visitor.leave();
});

test("servers that renew what they offer while somebody writes: said, and the form is kept", async () => {
  const { visitor, profile } = await filled();
  const renewed = [await serve(folder, "renewed", 1), await serve(folder, "renewed", 2)];
  renewed.forEach(({ url }, place) => doors[place].leadsTo(url));
  await visitor.ask();
  assert.match(await visitor.text(".trouble"), /renewed what they offer/);
  await kept(visitor, profile);
  await visitor.ask();
  await visitor.page.locator(".answer").waitFor();
  await visitor.leave();
});

test("a promise that is not kept is refused", async () => {
  const at = await hosted(folder, [first.url, second.url], "--threshold", "2");
  const visitor = await Visitor.to(at);
  await visitor.ready();
  assert.match(await visitor.text(".trouble"), /something else than was promised/);
  await visitor.leave();
});

test("a token is asked for where a server wants one, and kept in memory", async () => {
  const printed = await fine("keygen", "--token", "office");
  const token = printed.match(/nobody else: (\w+)/)[1];
  const entry = printed.slice(printed.indexOf("[[tokens]]"));
  const guarded = await serve(folder, "people", 2, { tokens: `${entry}\n` });
  const at = await hosted(folder, [guarded.url]);
  const visitor = await Visitor.to(at);
  await visitor.ready();
  assert.match(await visitor.text(".trouble"), /wants a token/);
  await visitor.page.getByLabel(`Token for ${guarded.url}`).fill(token);
  await visitor.page.getByRole("button", { name: "Try again" }).click();
  await visitor.page.locator("#form .features").waitFor();
  await visitor.leave();
});

test("stopping ends the search, and the next one works", async () => {
  const { visitor, profile } = await filled();
  // The door stays open and says nothing, so that there is time to press the button.
  const silent = createServer(() => {}).unref();
  await new Promise((done) => silent.listen(0, "127.0.0.1", done));
  doors[1].leadsTo(`http://127.0.0.1:${silent.address().port}`);
  await visitor.page.getByRole("button", { name: "Ask privately" }).click();
  await visitor.page.getByRole("button", { name: "Stop" }).click();
  await visitor.page.getByText("Stopped.").waitFor();
  await kept(visitor, profile);
  doors[1].leadsTo(second.url);
  await visitor.ask();
  await visitor.page.locator(".answer").waitFor();
  await visitor.leave();
});

test("the browser lets neither the page nor its worker connect to anybody but the operators", async () => {
  const { visitor } = await filled();
  const elsewhere = await host(folder);
  const tries = async (where) => where.evaluate(async (urls) => Promise.all(urls.map((url) => fetch(url, { mode: "no-cors" }).then(() => "went", () => "refused"))), [elsewhere, address, `${address}config.json`]);
  assert.deepEqual(await tries(visitor.page), ["refused", "refused", "refused"]);
  const [worker] = visitor.page.workers();
  assert.deepEqual(await tries(worker), ["refused", "refused", "refused"]);
  const allowed = await worker.evaluate((url) => fetch(`${url}/v1/manifest`).then((response) => response.status), doors[0].url);
  assert.equal(allowed, 200);
  await visitor.leave();
});

test("a changed script or engine does not run", async () => {
  for (const ending of ["js", "wasm"]) {
    const site = join(folder, `bent-${ending}`);
    await fine("page", "build", site, ...doors.flatMap(({ url }) => ["--server", url]));
    const name = readdirSync(site).find((name) => name.endsWith(`.${ending}`));
    const bytes = readFileSync(join(site, name));
    writeFileSync(join(site, name), Buffer.concat([bytes, Buffer.from(ending === "js" ? "\n" : [0, 1, 0])]));
    const visitor = await Visitor.to(await host(site));
    if (ending === "wasm") {
      await visitor.ready();
      assert.match(await visitor.text(".trouble"), /This browser could not do it/);
    } else {
      await visitor.page.waitForLoadState("networkidle");
      assert.equal(await visitor.page.locator("#app").innerHTML(), "");
    }
    await visitor.leave();
  }
});

test("without servers the page asks for them; in its address it takes them", async () => {
  const plain = await host(join(ROOT, "web/page/dist"));
  const visitor = await Visitor.to(plain);
  await visitor.page.getByLabel(/One address per line/).fill(`${first.url}\n${second.url}`);
  await visitor.page.getByRole("button", { name: "Meet them" }).click();
  await visitor.page.locator("#form .features").waitFor();
  await visitor.page.goto(`${plain}?server=${first.url}&server=${second.url}&lang=de`);
  await visitor.page.locator("#form .features").waitFor();
  assert.match(await visitor.text(".who h2"), /Wer gefragt wird/);
  await visitor.leave();
});
