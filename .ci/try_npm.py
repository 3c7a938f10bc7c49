"""Searches two servers with the npm package in ./node_modules and with the command line.

    python3 .ci/try_npm.py PROGRAM EXAMPLE      writes to the current directory

EXAMPLE is web/client/example.mjs. Both must give the same answer.
"""

import json
import pathlib
import random
import subprocess
import sys

program, example = sys.argv[1:]
here = pathlib.Path.cwd()


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


chance = random.Random(1)
with open("loans.csv", "w") as file:
    file.write("age,income,decision\n")
    for _ in range(300):
        age, income = chance.randrange(18, 80), chance.randrange(20, 200) * 100
        file.write(f"{age},{income},{'yes' if income >= 9000 else 'no'}\n")
run(program, "keygen", "-o", "root.key")
run(program, "build", "loans.csv", "-o", "loans.bundle", "--target", "decision", "--accept", "yes")
(here / "profile.json").write_text('{"age": 41, "income": 3000}')
(here / "wishes.json").write_text("{}")
# The example, with the installed package instead of the one beside it.
text = pathlib.Path(example).read_text().replace("./dist/index.js", "ifonly")
(here / "example.mjs").write_text(text)

servers, urls = [], []
try:
    for index in ("1", "2"):
        command = [program, "serve", "loans.bundle", "--index", index, "--key", "root.key"]
        command += ["--listen", "127.0.0.1:0", "--log", "error"]
        servers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        urls.append(servers[-1].stdout.readline().strip().removeprefix("listening on "))
    ours = json.loads(run("node", "example.mjs", "profile.json", "wishes.json", *urls))
    flags = [word for url in urls for word in ("--server", url)]
    theirs = json.loads(run(program, "ask", "--json", "--profile", "profile.json", *flags))
finally:
    for server in servers:
        server.kill()
        server.wait()
assert "error" not in ours and ours == theirs, (ours, theirs)
print(json.dumps(ours)[:200])
