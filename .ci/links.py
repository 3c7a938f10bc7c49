"""Checks that the links in the Markdown files lead to files and headings that exist, that the tests they name do, that
CONTRIBUTING.md explains every step of `.ci/run`, and that the release's version is the same wherever it is written.

Links to other sites are not followed.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# [text](target) outside of code, the target without a title.
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)")
# `docs/protocol.md`, `crates/ifonly-core/src/lib.rs`: a path of this repository in code quotes.
PATH = re.compile(r"`((?:\.ci|bench|crates|deploy|docs|fuzz|python|vectors)/[\w./+-]+)`")
# `a_name_of_at_least_five_words`: a test. Metrics may have as long names, and begin with the program's.
TEST = re.compile(r"`((?!ifonly_)[a-z0-9]+(?:_[a-z0-9]+){4,})`")
FUNCTIONS = {
    name for file in (ROOT / "crates").rglob("*.rs") for name in re.findall(r"\bfn (\w+)", file.read_text(encoding="utf-8"))
}
# Where the version stands beside the workspace's own, and how.
VERSIONS = {
    "Cargo.toml": r'^ifonly-[\w-]+ = .*version = "([^"]+)"',
    "python/Cargo.toml": r'^version = "([^"]+)"',
    "web/client/package.json": r'"version": "([^"]+)"',
    "deploy/helm/ifonly/Chart.yaml": r"^(?:version|appVersion): (\S+)",
    "deploy/README.md": r"\bifonly:(\d[\w.-]*)",
    "deploy/compose.yaml": r"\bifonly:(\d[\w.-]*)",
    "deploy/container/Containerfile": r"\bifonly:(\d[\w.-]*)",
}


def prose(text):
    """The text without its fenced blocks, whose brackets are no links."""
    return re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.M | re.S)


def anchors(path):
    """The names of a file's headings, as a renderer makes them; a repeated one gets a number."""
    found = {}
    for heading in re.findall(r"^#+ +(.+?) *#*$", prose(path.read_text()), flags=re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found[name] = found.get(name, 0) + 1
    return {name if k == 0 else f"{name}-{k}" for name, count in found.items() for k in range(count)}


def faults(path):
    text = prose(path.read_text())
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            yield f"{target}: there is no such file"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            yield f"{target}: there is no such heading"
    for target in PATH.findall(text):
        if not (ROOT / target).exists():
            yield f"`{target}`: there is no such file"
    for name in TEST.findall(text):
        if name not in FUNCTIONS:
            yield f"`{name}`: there is no such test"


def unexplained():
    """Steps without a row in CONTRIBUTING.md, and rows without a step."""
    listed = subprocess.run([ROOT / ".ci" / "run", "--list"], check=True, capture_output=True, text=True).stdout
    steps = set(listed.replace("; optional:", "").split())
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = re.search(r"^\| step \|.*?\n\n", text, flags=re.M | re.S)
    cells = re.findall(r"^\| (`[^|]*) \|", table[0] if table else "", flags=re.M)
    explained = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    for name in sorted(steps ^ explained):
        yield f"CONTRIBUTING.md: the step {name} is {'not explained' if name in steps else 'none of .ci/run'}"


def other_versions():
    """Places with another version than the workspace's, or without one."""
    version = re.search(r'^version = "([^"]+)"', (ROOT / "Cargo.toml").read_text(), flags=re.M)[1]
    for name, pattern in VERSIONS.items():
        found = set(re.findall(pattern, (ROOT / name).read_text(), flags=re.M))
        if found != {version}:
            yield f"{name}: version {', '.join(sorted(found)) or 'missing'}; the workspace has {version}"


def main():
    # Not what was built or downloaded.
    folders = [folder for folder in ROOT.iterdir() if folder.is_dir() and folder.name not in ("target", ".git")]
    files = [*ROOT.glob("*.md"), *(file for folder in folders for file in folder.rglob("*.md"))]
    files = [file for file in files if not {".venv", "node_modules", "target"} & set(file.parts[len(ROOT.parts):])]
    found = [f"{file.relative_to(ROOT)}: {fault}" for file in files for fault in faults(file)]
    found += [*unexplained(), *other_versions()]
    print("\n".join(found) or f"{len(files)} files, every link leads somewhere and every test is there")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
