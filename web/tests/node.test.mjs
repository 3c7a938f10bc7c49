// The npm package in Node: its example searches two servers and gives the command line's answers.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { connect, IfonlyError } from "../client/dist/index.js";
import { asData, asFlags, bruteForce, build, question, table } from "./people.mjs";
import { finish, ifonly, makeFolder, ROOT, Seeded, serve, succeed } from "./support.mjs";

let folder, accepted, servers;

before(async () => {
  folder = makeFolder();
  await succeed("keygen", "-o", join(folder, "root.key"));
  accepted = await build(folder, "people", table(600, 5), "--no-shuffle");
  servers = [(await serve(folder, "people", 1)).url, (await serve(folder, "people", 2)).url];
});
after(finish);

test("the example prints what the command line prints", async () => {
  const connection = await connect(servers);
  const { columns } = await connection.inspect();
  const random = new Seeded(11);
  for (let turn = 0; turn < 4; turn++) {
    const asked = question(random, accepted, columns);
    const [profile, wishes] = ["profile.json", "wishes.json"].map((name) => join(folder, name));
    writeFileSync(profile, JSON.stringify(asked.profile));
    writeFileSync(wishes, JSON.stringify(asData(asked)));
    const example = join(ROOT, "web/client/example.mjs");
    const { stdout } = await promisify(execFile)(process.execPath, [example, profile, wishes, ...servers]);
    const native = await ifonly("ask", "--json", "--profile", profile, ...servers.flatMap((url) => ["--server", url]), ...asFlags(asked));
    assert.deepEqual(JSON.parse(stdout), JSON.parse(native.stdout));
    assert.equal(JSON.parse(stdout).matching_rows, bruteForce(accepted, columns, asked).length);
  }
  connection.close();
});

test("errors have a kind and name the features", async () => {
  const connection = await connect(servers);
  const { columns } = await connection.inspect();
  const { profile } = question(new Seeded(3), accepted, columns);
  const input = (features) => (error) => error instanceof IfonlyError && error.kind === "input" && assert.deepEqual(error.features, features) === undefined;
  await assert.rejects(connection.ask({ ...profile, income: "much" }), input(["income"]));
  // After any input error, the servers receive messages of the same number and size.
  const shape = async () => (await connection.seen()).map(({ server, bytes }) => [server, bytes]);
  await connection.ask(profile);
  const usual = await shape();
  for (const [mine, wishes] of [[{ ...profile, income: "much" }, {}], [{ ...profile, income: { euros: 1 } }, {}], [profile, { imutable: ["income"] }]]) {
    await assert.rejects(connection.ask(mine, wishes), (error) => error.kind === "input");
    assert.deepEqual((await shape()).sort(), [...usual].sort());
  }
  await assert.rejects(connection.check(profile, { immutable: ["incme"] }), input(["incme"]));
  await assert.rejects(connect([servers[0], "http://example.org"]), (error) => error.code === "url");
  await assert.rejects(connect(servers, { threshold: 2 }), (error) => error.kind === "integrity" && error.code === "pinned");
  await assert.rejects(connect([servers[0], servers[0]]), (error) => error.code === "same-index");
  await assert.rejects(connect(["https://a.invalid/one", "https://a.invalid/two"]), (error) => error.code === "same-host");
  connection.close();
});

test("a search can be cancelled, and the connection can search again", async () => {
  const connection = await connect(servers);
  const { columns } = await connection.inspect();
  const { profile } = question(new Seeded(3), accepted, columns);
  const controller = new AbortController();
  const stopped = connection.ask(profile, {}, { signal: controller.signal, onProgress: () => controller.abort() });
  await assert.rejects(stopped, { name: "AbortError" });
  assert.equal((await connection.ask(profile)).found, true);
  connection.close();
});

test("each server receives different bytes, and the same number for every search", async () => {
  const connection = await connect(servers);
  const { columns } = await connection.inspect();
  const random = new Seeded(7);
  const shapes = new Set();
  for (let turn = 0; turn < 3; turn++) {
    const asked = question(random, accepted, columns);
    await connection.ask(asked.profile, asData(asked));
    const seen = await connection.seen();
    assert.equal(new Set(seen.map((sent) => sent.server + sent.begins)).size, seen.length);
    shapes.add(JSON.stringify(seen.map(({ server, path, bytes, payload }) => [server, path, bytes, payload]).sort()));
  }
  assert.equal(shapes.size, 1);
  connection.close();
});

test("a query and its record requests leave at times that depend only on public sizes", async () => {
  const { fetch, setTimeout } = globalThis;
  const connection = await connect(servers);
  const { columns } = await connection.inspect();
  const log = [];
  globalThis.fetch = (request) => {
    log.push(new URL(request.url).pathname);
    return fetch(request);
  };
  globalThis.setTimeout = (then, milliseconds, ...rest) => {
    // Longer timers are deadlines, and `fetch` has its own timers.
    if (milliseconds < 60_000 && new Error().stack.includes("wasm://")) log.push("wait");
    return setTimeout(then, milliseconds, ...rest);
  };
  try {
    await connection.ask(question(new Seeded(9), accepted, columns).profile, { top: 2 });
  } finally {
    Object.assign(globalThis, { fetch, setTimeout });
  }
  // A timer that fires early is set again.
  const steps = log.filter((entry, place) => !(entry === "wait" && log[place - 1] === "wait"));
  const [answers, records] = [["/v1/answer", "/v1/answer"], ["/v1/record", "/v1/record"]];
  assert.deepEqual(steps, ["wait", ...answers, "wait", ...records, "wait", ...records]);
  connection.close();
});
