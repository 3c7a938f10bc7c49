// Makes the npm package and the page from TypeScript and the output of wasm-bindgen. It checks
// types, bundles, names files by their hashes and writes the page's policy. web/build calls it.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { brotliCompressSync, constants } from "node:zlib";
import { build } from "esbuild";

process.chdir(import.meta.dirname);

function tsc(...flags) {
  const result = spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", ...flags], { stdio: "inherit" });
  if (result.status !== 0) process.exit(1);
}

const digest = (algorithm, bytes, form) => createHash(algorithm).update(bytes).digest(form);
const shared = { absWorkingDir: import.meta.dirname, bundle: true, target: "es2022", legalComments: "none", logLevel: "warning", write: false, charset: "utf8" };
const bundled = async (entry, options) =>
  (await build({ ...shared, entryPoints: [entry], ...options })).outputFiles[0].contents;

async function makeClient() {
  rmSync("client/dist", { recursive: true, force: true });
  mkdirSync("client/dist", { recursive: true });
  tsc("-p", "client");
  // Declarations import .ts files; the package contains .js files instead.
  for (const name of readdirSync("client/dist")) {
    const path = `client/dist/${name}`;
    writeFileSync(path, readFileSync(path, "utf8").replaceAll(/(from "\.\/\w+)\.ts"/g, '$1.js"'));
  }
  for (const name of ["index", "worker"]) {
    const code = await bundled(`client/src/${name}.ts`, { format: "esm", external: ["node:*"], platform: "neutral" });
    writeFileSync(`client/dist/${name}.js`, code);
  }
  copyFileSync("client/wasm/ifonly_bg.wasm", "client/dist/ifonly.wasm");
}

async function makePage() {
  rmSync("page/dist", { recursive: true, force: true });
  mkdirSync("page/dist", { recursive: true });
  const files = {};
  const named = (stem, ending, bytes) => {
    const name = `${stem}-${digest("sha256", bytes, "hex").slice(0, 12)}.${ending}`;
    files[name] = bytes;
    return { name, integrity: `sha384-${digest("sha384", bytes, "base64")}` };
  };
  const wasm = named("ifonly", "wasm", readFileSync("client/wasm/ifonly_bg.wasm"));
  // The worker's code is part of the script, so that the script's integrity hash and the page's
  // policy cover it.
  const worker = await bundled("client/src/worker.ts", { format: "iife", minify: true });
  const texts = {};
  for (const language of ["en", "de"]) {
    const contents = `import { ${language} } from "./${language}.ts"; globalThis.ifonlyTexts = { ...globalThis.ifonlyTexts, ${language} };`;
    const stdin = { contents, resolveDir: "page/src/texts", loader: "ts" };
    texts[language] = named(`texts-${language}`, "js", (await build({ ...shared, stdin, format: "iife", minify: true })).outputFiles[0].contents);
  }
  const define = {
    TEXTS: JSON.stringify(texts),
    WASM: JSON.stringify(wasm),
    WORKER: JSON.stringify(Buffer.from(worker).toString()),
    VERSION: JSON.stringify(version),
  };
  const script = named("page", "js", await bundled("page/src/main.ts", { format: "esm", minify: true, define, external: ["node:*"] }));
  const style = named("page", "css", await bundled("page/src/style.css", { minify: true }));
  const icon = named("icon", "svg", readFileSync("page/src/icon.svg"));
  const sums = Object.entries(files).sort().map(([name, bytes]) => `${digest("sha256", bytes, "hex")}  ${name}\n`);
  const values = { SCRIPT: script, STYLE: style, ICON: icon, WASM: wasm };
  let html = readFileSync("page/src/index.html", "utf8").replaceAll("{BUILD}", digest("sha256", sums.join(""), "hex").slice(0, 16));
  for (const [key, { name, integrity }] of Object.entries(values)) {
    html = html.replaceAll(`{${key}}`, name).replaceAll(`{${key}_INTEGRITY}`, integrity);
  }
  files["SHA256SUMS"] = Buffer.from(sums.join(""));
  files["index.html"] = Buffer.from(html);
  files["config.json"] = Buffer.from('{"servers": []}\n');
  const index = Object.entries(files).map(([name, bytes]) => [name, bytes.length]);
  // What a program with the feature `page` contains.
  writeFileSync("page/dist.archive", Buffer.concat([Buffer.from(`${JSON.stringify(index)}\n`), ...Object.values(files)]));
  // A visitor loads the texts of one language.
  let [total, smaller] = [0, Infinity];
  for (const [name, bytes] of Object.entries(files)) {
    writeFileSync(`page/dist/${name}`, bytes);
    const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } };
    const compressed = brotliCompressSync(bytes, quality).length;
    total += compressed;
    if (name.startsWith("texts-")) smaller = Math.min(smaller, compressed);
    console.log(`${String(bytes.length).padStart(8)} bytes, ${String(compressed).padStart(7)} with brotli  ${name}`);
  }
  console.log(`${total} bytes with brotli in web/page/dist; a visitor loads at most ${total - smaller}`);
  if (total - smaller > 400_000) {
    console.error("a visitor loads more than 400 kB");
    process.exit(1);
  }
}

const [, version] = readFileSync("../Cargo.toml", "utf8").match(/^version = "(.*)"$/m);
if (JSON.parse(readFileSync("client/package.json", "utf8")).version !== version) {
  console.error(`web/client/package.json: the version must equal that of the workspace, ${version}`);
  process.exit(1);
}
tsc("-p", ".");
await makeClient();
await makePage();
