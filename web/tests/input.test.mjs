// How the page reads numbers, dates and pasted values in English and German.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { build } from "esbuild";
import { ROOT } from "./support.mjs";

Object.defineProperty(globalThis, "navigator", { value: { language: "en-GB" }, configurable: true });
const source = (name) => JSON.stringify(join(ROOT, "web/page/src", name));
const contents = `
  export * from ${source("input/readings.ts")}; export * from ${source("input/paste.ts")}; export { Format } from ${source("format.ts")};
  export { Words } from ${source("words.ts")}; export { Draft, read } from ${source("draft.ts")};
  export { en } from ${source("texts/en.ts")}; export { de } from ${source("texts/de.ts")}; export { codeFault } from ${source("steps/start.ts")};`;
const { outputFiles } = await build({ stdin: { contents, resolveDir: ROOT, loader: "ts" }, bundle: true, format: "esm", write: false, platform: "neutral", define: { VERSION: '"0"' } });
const page = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
const { readNumber, readDate, dataNumber, readPasted, Format, Words, Draft, read } = page;

const shown = (reading) => ({ empty: "", none: null, one: reading.value, two: `${reading.first} or ${reading.second}` })[reading.kind];

test("numbers in both notations, and both languages", () => {
  const wide = [0, 120_000];
  const rows = [
    // text, in English, in German, for a column from 0 to 120,000
    ["30500", "30500", "30500"],
    ["30,500", "30500", "30500 or 30.500"],
    ["30.500", "30500 or 30.500", "30500"],
    ["30,5", "30.5", "30.5"],
    ["30.5", "30.5", "30.5"],
    ["30.50", "30.50", "30.50"],
    ["1.234,56", "1234.56", "1234.56"],
    ["1,234.56", "1234.56", "1234.56"],
    ["1.234.567", "1234567", "1234567"],
    ["1,234,567", "1234567", "1234567"],
    ["1234.567", "1234.567", "1234.567"],
    ["0.500", "0.500", "0.500"],
    ["0,500", "0.500", "0.500"],
    [",5", "0.5", "0.5"],
    ["30 500", "30500", "30500"],
    ["30\u202f500,25", "30500.25", "30500.25"],
    ["30’500", "30500", "30500"],
    ["€30,500.00", "30500.00", "30500.00"],
    ["30.500,00 €", "30500.00", "30500.00"],
    ["−5", "-5", "-5"],
    ["+5", "5", "5"],
    ["1e5", "1e5", "1e5"],
    ["", "", ""],
    ["  ", "", ""],
    ["12 34", null, null],
    ["1,23,456", null, null],
    ["1.2.3", null, null],
    ["0.7l19", null, null],
    ["much", null, null],
    ["-", null, null],
    ["€", null, null],
    [".", null, null],
  ];
  for (const [text, english, german] of rows) {
    assert.equal(shown(readNumber(text, "en", wide)), english, `${text} in English`);
    assert.equal(shown(readNumber(text, "de", wide)), german, `${text} in German`);
  }
  // In a narrow column three decimals are plausible, so both languages ask back.
  for (const language of ["en", "de"]) {
    assert.equal(shown(readNumber("1.500", language, [0, 80])), "1500 or 1.500");
    assert.equal(shown(readNumber("1,500", language, [0, 80])), "1500 or 1.500");
    assert.equal(shown(readNumber("1,500", language, null)), "1500 or 1.500");
  }
  assert.equal(shown(readNumber("70 kg", "en", [0, 200], ["kg"])), "70");
});

test("a number that the page writes is read back as the same number", () => {
  for (const language of ["en", "de"]) {
    const format = new Format(language);
    for (const bounds of [null, [0, 10], [0, 120_000], [-1e6, 1e9]]) {
      for (const number of [0, 1, -3, 12.5, 0.125, 1.125, 30.5, 999, 1000, 1234.567, 30500, 1234567.25, -88100, 0.00012]) {
        const text = format.input(number, bounds);
        const reading = readNumber(text, language, bounds);
        assert.equal(Number(reading.value), number, `${number} as ${text} in ${language}`);
      }
    }
  }
  assert.equal(new Format("en").input(30500, [0, 120_000]), "30,500");
  assert.equal(new Format("de").input(30500, [0, 120_000]), "30.500");
});

test("dates in both notations; day and month that could be swapped are asked back", () => {
  const rows = [
    ["2026-11-16", "2026-11-16"],
    ["2026-1-6", "2026-01-06"],
    ["16.11.2026", "2026-11-16"],
    ["6. 1. 2026", "2026-01-06"],
    ["16/11/2026", "2026-11-16"],
    ["11/16/2026", "2026-11-16"],
    ["03/04/2026", "2026-04-03 or 2026-03-04"],
    ["04/04/2026", "2026-04-04"],
    ["30.02.2026", null],
    ["2026-02-30", null],
    ["soon", null],
    ["", ""],
  ];
  for (const [text, expected] of rows) assert.equal(shown(readDate(text)), expected, text);
});

test("values of the data are read in the notation of the data", () => {
  const money = { prefix: "$", suffix: "", thousands: ",", decimal: "." };
  assert.equal(dataNumber("$47,289.50", money), 47289.5);
  assert.equal(dataNumber("-$5", money), -5);
  assert.equal(dataNumber("($1,000)", money), -1000);
  assert.equal(dataNumber("1.234,5€", { prefix: "", suffix: "€", thousands: ".", decimal: "," }), 1234.5);
  assert.equal(dataNumber("12.5", null), 12.5);
  assert.equal(dataNumber("own", null), null);
});

const column = (name, extra = {}) => ({ name, kind: "number", unit: null, description: null, default: null, suggest_immutable: false, ordered: true, deviation: false, min: "0", max: "120000", notation: null, words: [], ...extra });
const COLUMNS = [column("age", { max: "80" }), column("income", { unit: "€" }), column("late_payments", { max: "10" }), column("housing", { kind: "category", min: null, max: null, words: ["rent", "own"] }), column("since", { kind: "date", min: "1990-01-01", max: "2026-01-01" })];

test("rows, lines and profiles are read, by name or by place", () => {
  const expected = { age: "41", income: "30500", late_payments: "2", housing: "own", since: "2020-05-06" };
  const texts = [
    "age,income,late_payments,housing,since\n41,30500,2,own,2020-05-06\n50,1,1,rent,2020-05-06\n",
    "Late payments;Age;INCOME;Housing;Since;Other\r\n2;41;30500;own;6.5.2020;x\r\n",
    "41\t30500\t2\town\t2020-05-06",
    "41\n30500\n2\nown\n2020-05-06",
    "age: 41\nIncome: 30500\nlate payments: 2\nhousing: own\nsince: 2020-05-06",
    '{"age": 41, "income": 30500, "late_payments": 2, "housing": "own", "since": "2020-05-06"}',
    '[{"age": 41, "income": 30500, "late_payments": 2, "housing": "own", "since": "2020-05-06"}]',
    '"age","income","late_payments","housing","since"\n"41","30500","2","own","2020-05-06"',
  ];
  for (const language of ["en", "de"]) {
    const format = new Format(language);
    for (const text of texts) {
      const pasted = readPasted(text, COLUMNS, new Words(page[language], format), format);
      const values = Object.fromEntries(COLUMNS.map((column) => [column.name, shown(read(pasted.values.get(column.name) ?? "", column, language))]));
      assert.deepEqual(values, expected, `${language}: ${text}`);
    }
  }
  const format = new Format("de");
  const words = new Words(page.de, format);
  // Between commas a point is a decimal point; between semicolons German numbers stand.
  assert.equal(shown(read(readPasted("1.500,30500,2,own", COLUMNS, words, format).values.get("age"), COLUMNS[0], "de")), "1.5");
  assert.equal(shown(read(readPasted("1,5;30.500;2;own", COLUMNS, words, format).values.get("income"), COLUMNS[1], "de")), "30500");
  assert.equal(shown(read(readPasted("1.500;30.500;2;own", COLUMNS, words, format).values.get("age"), COLUMNS[0], "de")), "1500 or 1.500");
  assert.deepEqual(readPasted("age;x\n41;7", COLUMNS, words, format)?.unknown ?? ["x"], ["x"]);
  for (const text of ["", "   ", "{", "[]"]) assert.equal(readPasted(text, COLUMNS, words, format)?.values.size ?? 0, 0, text);
});

test("a change of the language keeps what a number means", () => {
  const offer = { columns: COLUMNS, schemes: [], default_scheme: "" };
  const draft = new Draft();
  Object.assign(draft.entry(COLUMNS[0]), { value: "30.5" });
  Object.assign(draft.entry(COLUMNS[1]), { value: "30,500", wish: "range", low: "1,000", high: "60,000" });
  const before = [draft.profile(offer, "en"), draft.wishes(offer, "en")];
  assert.equal(before[0].income, 30500);
  draft.translate(offer, "en", new Format("de"));
  assert.equal(draft.entry(COLUMNS[0]).value, "30,5");
  assert.deepEqual([draft.profile(offer, "de"), draft.wishes(offer, "de")], before);
});

test("a mistyped code is found in the browser", () => {
  assert.equal(page.codeFault("ab".repeat(32), page.en), "");
  assert.equal(page.codeFault(` ${"AB".repeat(16)}-${"ab".repeat(16)}\n`, page.en), "");
  assert.match(page.codeFault("ab".repeat(31), page.en), /62 of 64/);
  assert.match(page.codeFault(`O${"ab".repeat(31)}a`, page.de), /Zeichen O/);
  assert.match(page.codeFault("", page.en), /needed/);
});
