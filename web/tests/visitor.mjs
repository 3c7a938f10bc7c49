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

  /** Waits for the first step, a form or an explanation. */
  async ready() {
    await this.page.locator("form.code, #form, .failure").first().waitFor();
  }

  async leave() {
    assert.deepEqual(this.errors, []);
    await this.context.close();
  }

  press(name) {
    return this.page.getByRole("button", { name, exact: true }).click();
  }

  /** The label of a column that has only a name. */
  label({ name }) {
    const text = name.replaceAll("_", " ");
    return text.charAt(0).toUpperCase() + text.slice(1);
  }

  /** Goes to the step with the values, from any step. */
  async toAbout() {
    const { page } = this;
    const features = page.locator(".features");
    while (!(await features.isVisible())) {
      const forward = page.locator("form.code .btn.go");
      if (await forward.isVisible()) await forward.click();
      else if (await page.locator(".own").isVisible()) await this.press("Back");
      else await page.getByRole("button", { name: /^(Change the wishes|Back)$/ }).first().click();
      await page.locator(".features, .own, form.code").first().waitFor();
    }
  }

  /** Goes from the values to the wishes. */
  async toWishes() {
    if (await this.page.locator(".own").isVisible()) return;
    await this.toAbout();
    await this.press("Continue");
    await this.page.locator(".own").waitFor();
  }

  /** The input or the group for the value of a column. */
  field(column) {
    return this.page.locator(".features .field").filter({ has: this.page.locator(`label:text-is("${this.label(column)}"), legend:text-is("${this.label(column)}")`) });
  }

  /** Enters the value of one column. */
  async value(column, value) {
    const field = this.field(column);
    if (column.words.length === 0) return field.locator("input").fill(column.kind === "timestamp" ? value.replace(" ", "T") : String(value));
    const shown = value === "" ? "not known" : value;
    const select = field.locator("select");
    if ((await select.count()) > 0) return select.selectOption({ label: shown });
    return field.getByRole("radio", { name: shown, exact: true }).check();
  }

  /** Opens the row of a column among the wishes. */
  async row(column) {
    const own = this.page.locator("details.own");
    if (!(await own.evaluate((details) => details.open))) await own.locator(":scope > summary").click();
    const row = own.locator("details.wish").filter({ has: this.page.locator(".what", { hasText: new RegExp(`^${this.label(column)}`) }) });
    if (!(await row.evaluate((details) => details.open))) await row.locator("summary").click();
    await row.getByRole("radio").first().waitFor();
    return row;
  }

  /** Enters the wishes for one column. */
  async wish(column, { wish, low, high, permitted, hard }) {
    const names = { free: "may change", stay: "can’t change", up: "↑ only up", down: "↓ only down", range: "between … and …", permit: "only certain ones" };
    const row = await this.row(column);
    await row.getByRole("radio", { name: names[wish], exact: true }).check();
    if (wish === "range") {
      const ends = row.locator(".ends input");
      await ends.nth(0).fill(String(low));
      await ends.nth(1).fill(String(high));
    }
    if (wish === "permit") for (const word of column.words) await row.getByRole("checkbox", { name: word, exact: true }).setChecked(permitted.includes(word));
    if (wish !== "stay") await row.getByRole("radio", { name: ["easy", "medium", "hard", "very hard"][hard ?? 1], exact: true }).check();
  }

  /** Fills in the values and the wishes. */
  async fill(columns, { profile, wishes = {}, metric = "l2" }) {
    await this.toAbout();
    for (const column of columns) await this.value(column, profile[column.name]);
    await this.toWishes();
    for (const column of columns) if (wishes[column.name]) await this.wish(column, wishes[column.name]);
    await this.more();
    await this.page.getByLabel("How changes count").selectOption(metric);
  }

  async more() {
    const own = this.page.locator("details.own");
    if (!(await own.evaluate((details) => details.open))) await own.locator(":scope > summary").click();
    const details = this.page.locator("details.choices");
    if (!(await details.evaluate((details) => details.open))) await details.locator("summary").click();
  }

  /** Starts a search and waits for its answer or an error. */
  async ask() {
    await this.toWishes();
    await this.press("Ask privately");
    await this.page.locator(".answer, .none, .failure, .alert:not([hidden]), form.code").first().waitFor();
  }

  /** Returns the answer as the page saves it. */
  async saved() {
    const coming = this.page.waitForEvent("download");
    await this.press("Save");
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
