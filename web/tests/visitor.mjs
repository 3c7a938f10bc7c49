// A simulated user: fills in the form by its labels and reads the page.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { browse } from "./support.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export class Visitor {
  /** All requests of the browser, in order. */
  traffic = [];
  errors = [];

  static async to(address, options) {
    const visitor = new Visitor();
    Object.assign(visitor, await browse(options));
    visitor.address = new URL(address);
    visitor.context.on("request", (request) => visitor.traffic.push(request));
    visitor.page.on("pageerror", (error) => visitor.errors.push(String(error)));
    await visitor.page.goto(address);
    return visitor;
  }

  async ready() {
    await this.page.locator("#form .features, .failure").first().waitFor();
  }

  async leave() {
    assert.deepEqual(this.errors, []);
    await this.context.close();
  }

  /** Enters the value of one column. */
  async value(column, value) {
    const label = `Your value: ${column.name}${column.unit ? ` (${column.unit})` : ""}`;
    if (column.words.length === 0) return this.page.getByLabel(label, { exact: true }).fill(column.kind === "timestamp" ? value.replace(" ", "T") : value);
    const group = this.page.getByRole("radiogroup", { name: label, exact: true });
    const shown = value === "" ? "not known" : value;
    if ((await group.count()) > 0) return group.getByLabel(shown, { exact: true }).check();
    return this.page.getByLabel(label, { exact: true }).selectOption({ label: shown });
  }

  /** Enters the wishes for one column. */
  async wish(column, { wish, low, high, permitted, hard }) {
    await this.page.getByLabel(`Permitted change: ${column.name}`, { exact: true }).selectOption(wish);
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
    await this.page.getByLabel("Metric of changes").selectOption(metric);
  }

  async more() {
    const details = this.page.locator("details.choices");
    if (!(await details.evaluate((details) => details.open))) await details.locator("summary").click();
  }

  /** Starts a search and waits for its answer or an error. */
  async ask() {
    const button = this.page.getByRole("button", { name: "Ask privately" });
    await button.click();
    // The button is disabled during the search.
    await button.and(this.page.locator(":enabled")).waitFor();
    await this.page.locator(".answer, .failure, .summary:not([hidden])").first().waitFor();
  }

  /** Returns the answer as the page saves it. */
  async saved() {
    const coming = this.page.waitForEvent("download");
    await this.page.getByRole("button", { name: "Save as JSON" }).click();
    return JSON.parse(readFileSync(await (await coming).path(), "utf8"));
  }

  text(selector) {
    return this.page.locator(selector).first().innerText();
  }

  /** Returns the requests to the servers since the last call, in order. */
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

  /** Returns the accessibility problems that axe finds. */
  async accessibilityProblems() {
    await this.page.evaluate(axe);
    const { violations } = await this.page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" | ")}`);
  }

  /** Returns everything that the browser could store about a visit. */
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
