// Somebody in front of the page: fills in the form as a person would, by its labels, and reads what comes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { browse } from "./support.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export class Visitor {
  /** Everything that the browser sent, in order. */
  traffic = [];
  faults = [];

  static async to(address, options) {
    const visitor = new Visitor();
    Object.assign(visitor, await browse(options));
    visitor.address = new URL(address);
    visitor.context.on("request", (request) => visitor.traffic.push(request));
    visitor.page.on("pageerror", (error) => visitor.faults.push(String(error)));
    await visitor.page.goto(address);
    return visitor;
  }

  async ready() {
    await this.page.locator("#form .features, .trouble").first().waitFor();
  }

  async leave() {
    assert.deepEqual(this.faults, []);
    await this.context.close();
  }

  /** Writes one column's value. */
  async value(column, value) {
    const label = `Your value: ${column.name}${column.unit ? ` (${column.unit})` : ""}`;
    if (column.words.length === 0) return this.page.getByLabel(label, { exact: true }).fill(column.kind === "timestamp" ? value.replace(" ", "T") : value);
    const group = this.page.getByRole("radiogroup", { name: label, exact: true });
    const shown = value === "" ? "not known" : value;
    if ((await group.count()) > 0) return group.getByLabel(shown, { exact: true }).check();
    return this.page.getByLabel(label, { exact: true }).selectOption({ label: shown });
  }

  /** Says what may happen to one column. */
  async wish(column, { wish, low, high, permitted, hard }) {
    await this.page.getByLabel(`What may happen to it: ${column.name}`, { exact: true }).selectOption(wish);
    if (wish === "range") {
      await this.page.getByLabel(`${column.name}, from`, { exact: true }).fill(low);
      await this.page.getByLabel(`${column.name}, to`, { exact: true }).fill(high);
    }
    if (wish === "permit") {
      const group = this.page.getByRole("group", { name: `Permitted values: ${column.name}`, exact: true });
      for (const word of column.words) await group.getByLabel(word, { exact: true }).setChecked(permitted.includes(word));
    }
    await this.page.getByLabel(`How hard is a change for me? ${column.name}`, { exact: true }).fill(String(hard ?? 2));
  }

  async fill(columns, { profile, wishes = {}, metric = "l2" }) {
    for (const column of columns) {
      await this.value(column, profile[column.name]);
      if (wishes[column.name]) await this.wish(column, wishes[column.name]);
    }
    await this.more();
    await this.page.getByLabel("How changes are compared").selectOption(metric);
  }

  async more() {
    const details = this.page.locator("details.choices");
    if (!(await details.evaluate((details) => details.open))) await details.locator("summary").click();
  }

  /** Presses the button and waits for an answer or for words about why there is none. */
  async ask() {
    const button = this.page.getByRole("button", { name: "Ask privately" });
    await button.click();
    // It cannot be pressed again until all is over.
    await button.and(this.page.locator(":enabled")).waitFor();
    await this.page.locator(".answer, .trouble, .summary:not([hidden])").first().waitFor();
  }

  /** The answer as the page saves it. */
  async saved() {
    const coming = this.page.waitForEvent("download");
    await this.page.getByRole("button", { name: "Save as JSON" }).click();
    return JSON.parse(readFileSync(await (await coming).path(), "utf8"));
  }

  text(selector) {
    return this.page.locator(selector).first().innerText();
  }

  /** What servers were sent since the last look, in the order in which it left. */
  async sent(servers) {
    const own = this.traffic.splice(0).filter((request) => servers.some((server) => request.url().startsWith(server)));
    return Promise.all(
      own.map(async (request) => {
        const { pathname, origin } = new URL(request.url());
        await request.response();
        const { requestBodySize, responseBodySize } = await request.sizes();
        return [servers.indexOf(origin), request.method(), pathname, requestBodySize, responseBodySize];
      }),
    );
  }

  /** What axe finds. */
  async faultsOfAccess() {
    await this.page.evaluate(axe);
    const { violations } = await this.page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" | ")}`);
  }

  /** Whatever a browser could keep of a visit. */
  kept() {
    return this.page.evaluate(async () => ({
      local: localStorage.length,
      session: sessionStorage.length,
      databases: (await indexedDB.databases()).length,
      caches: (await caches.keys()).length,
      cookies: document.cookie,
      workers: (await navigator.serviceWorker?.getRegistrations())?.length ?? 0,
      history: history.length,
      state: history.state,
      address: location.href,
    }));
  }
}
