// Takes the screenshot of the README: the demo, its example filled in, and the answer.
//
//   web/build && cargo build -p ifonly && node web/tests/screenshot.mjs docs/figures/page.png
//
// Needs Chromium, as the tests of the page do.

import { statSync } from "node:fs";
import { join } from "node:path";
import { browse, demo, finish, ROOT } from "./support.mjs";

const LIMIT = 150_000;
const WIDTH = 800;
const [path = "docs/figures/page.png"] = process.argv.slice(2);

try {
  const built = join(ROOT, "web/page/dist");
  const { page: origin } = await demo("--seed", "2", "--page-dir", built);
  const { page } = await browse({ viewport: { width: WIDTH, height: 760 }, colorScheme: "light" });
  await page.goto(`${origin}/`);
  for (const name of ["Fill in an example", "Continue", "Ask privately"]) await page.getByRole("button", { name, exact: true }).click();
  const answer = page.locator(".answer");
  await answer.waitFor();
  // The sentence and the comparison picture.
  await page.evaluate(() => scrollTo(0, 0));
  const { y, height } = await answer.boundingBox();
  await page.screenshot({ path, clip: { x: 0, y: y - 16, width: WIDTH, height: height + 32 }, fullPage: true, animations: "disabled" });
  const { size } = statSync(path);
  console.log(`${path}: ${size} bytes`);
  if (size > LIMIT) throw new Error(`the screenshot is larger than ${LIMIT} bytes`);
} finally {
  await finish();
}
