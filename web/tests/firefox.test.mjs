// A whole journey in Firefox, driven over WebDriver BiDi. Skipped if Firefox is not installed.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, test } from "node:test";
import puppeteer from "puppeteer-core";
import { demo, finish } from "./support.mjs";

const FIREFOX = process.env.FIREFOX ?? "/usr/bin/firefox-esr";
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
after(finish);

test("a whole journey in Firefox", { skip: !existsSync(FIREFOX) && `${FIREFOX} is not installed` }, async () => {
  const { page: origin } = await demo("--rows", "2000", "--seed", "4");
  const browser = await puppeteer.launch({ browser: "firefox", executablePath: FIREFOX, headless: true, timeout: 120_000, protocolTimeout: 120_000 });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(120_000);
    await page.setViewport({ width: 1280, height: 900 });
    const errors = [];
    page.on("pageerror", (error) => errors.push(String(error)));
    await page.goto(`${origin}/?lang=de`);
    const press = (selector) => page.locator(selector).click();
    const text = (selector) => page.$eval(selector, (element) => element.innerText);
    const shot = async (name) => process.env.SHOTS && (await page.screenshot({ path: join(process.env.SHOTS, `firefox-${name}.png`), fullPage: true }));
    await page.waitForSelector("form.code");
    await shot("1-start");
    await press("form.code .quiet");
    await page.waitForSelector(".features");
    await page.locator('.features input[name="income"]').fill("30.500");
    await press("#form .btn.go");
    await page.waitForSelector(".own");
    await press("details.own > summary");
    const rows = await page.$$("details.wish");
    await rows[2].$eval("summary", (summary) => summary.click());
    await page.waitForFunction(() => document.querySelectorAll("details.wish[open] input").length > 0);
    await shot("2-wishes");
    assert.match(await text("details.wish:nth-of-type(2) .what"), /30\.500/, "a German number");
    await press("#form .btn.go");
    await page.waitForSelector(".answer, .none");
    await shot("3-answer");
    assert.match(await text("h1"), /wurde angenommen|wurden angenommen/);
    assert.ok((await page.$$(".seen .tile")).length >= 3);
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    assert.deepEqual(violations.map(({ id }) => id), []);
    assert.deepEqual(errors, []);
  } finally {
    await browser.close();
  }
});
