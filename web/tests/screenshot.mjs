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
  const { page: origin } = await demo("--rows", "3000", "--seed", "4", "--page-dir", built);
  const { page } = await browse({ viewport: { width: WIDTH, height: 760 }, colorScheme: "light" });
  await page.goto(`${origin}/`);
  await page.getByRole("button", { name: "As the institution suggests" }).click();
  await page.getByRole("button", { name: "Fill in an example" }).click();
  await page.getByRole("button", { name: "Ask privately" }).click();
  const answer = page.locator(".answer");
  await answer.waitFor();
  // From the top of the answer to the end of its third change.
  await page.evaluate(() => scrollTo(0, 0));
  const { y: top } = await answer.boundingBox();
  const third = await page.locator(".changes > li").nth(2).boundingBox();
  const clip = { x: 0, y: top - 16, width: WIDTH, height: third.y + third.height - top + 16 };
  await page.screenshot({ path, clip, fullPage: true, animations: "disabled" });
  const { size } = statSync(path);
  console.log(`${path}: ${size} bytes`);
  if (size > LIMIT) throw new Error(`the screenshot is larger than ${LIMIT} bytes`);
} finally {
  await finish();
}
