// A search from Node: node example.mjs PROFILE.json WISHES.json URL URL …
// Prints the answer as `ifonly ask --json` does, and the progress on standard error.

import { readFileSync } from "node:fs";
import { connect, IfonlyError } from "./dist/index.js";

const [profile, wishes, ...servers] = process.argv.slice(2);
const read = (path) => JSON.parse(readFileSync(path, "utf8"));
try {
  const connection = await connect(servers);
  const { dataset, rows } = await connection.inspect();
  console.error(`${rows} accepted rows in ${dataset.name}`);
  const onProgress = ({ server, step, received, of }) => console.error(`${server}: step ${step}, ${received} of ${of} bytes`);
  console.log(JSON.stringify(await connection.ask(read(profile), read(wishes), { onProgress })));
  connection.close();
} catch (error) {
  if (!(error instanceof IfonlyError)) throw error;
  console.log(JSON.stringify({ error: { kind: error.kind, message: error.message } }));
  process.exitCode = { input: 4, servers: 5, integrity: 6, machine: 1 }[error.kind];
}
