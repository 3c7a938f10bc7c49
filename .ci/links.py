"""Checks the references between files of the repository:

- Links and paths in Markdown files lead to files and headings that exist.
- Tests that Markdown files name exist.
- The short paths and the modules in docs/architecture.md exist.
- CONTRIBUTING.md explains every step of `.ci/run`; .github/workflows/ci.yml runs those that are
  not optional.
- The version of the release is the same in every file that states it.

Links to other sites are not followed.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# [text](target) outside code; the target without its title.
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)")
# `docs/protocol.md`, `crates/ifonly-core/src/lib.rs`: a path of this repository in code quotes.
PATH = re.compile(r"`((?:\.ci|bench|crates|deploy|docs|fuzz|python|vectors)/[\w./+-]+)`")
# `a_name_of_at_least_five_words`: a test. The names of metrics begin with ifonly_.
TEST = re.compile(r"`((?!ifonly_)[a-z0-9]+(?:_[a-z0-9]+){4,})`")
FUNCTIONS = {
    name
    for file in (ROOT / "crates").rglob("*.rs")
    for name in re.findall(r"\bfn (\w+)", file.read_text(encoding="utf-8"))
}
# The files that repeat the version of the workspace, each with a pattern for it.
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
    """The text without its fenced code blocks."""
    return re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.M | re.S)


def anchors(path):
    """The anchors of a file's headings, as GitHub names them; repeated anchors get a number."""
    found = {}
    for heading in re.findall(r"^#+ +(.+?) *#*$", prose(path.read_text()), flags=re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found[name] = found.get(name, 0) + 1
    return {
        name if k == 0 else f"{name}-{k}" for name, count in found.items() for k in range(count)
    }


def faults(path):
    text = prose(path.read_text())
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            yield f"{target}: no such file"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            yield f"{target}: no such heading"
    for target in PATH.findall(text):
        if not (ROOT / target).exists():
            yield f"`{target}`: no such file"
    for name in TEST.findall(text):
        if name not in FUNCTIONS:
            yield f"`{name}`: no such test"


# A path or a file name in code quotes: `core/search.rs`, `compile.rs`, `vectors/*.json`, `texts/`.
SHORT_PATH = re.compile(r"`((?:[\w.*-]+/)*[\w*-]+\.[a-z]+|(?:[\w.*-]+/)+)`")
# `core/` means crates/ifonly-core/src/.
CRATES = {path.name.removeprefix("ifonly-"): path / "src" for path in (ROOT / "crates").iterdir()}


def wrong_short_paths(path):
    """Short paths of docs/architecture.md without a file.

    A path without a crate or a folder of the repository is in the folder of the path before it, or
    above that.
    """
    folder = ROOT
    for name in SHORT_PATH.findall(prose(path.read_text())):
        first, _, rest = name.partition("/")
        if rest or name.endswith("/"):
            starts = [CRATES[first] / rest] if first in CRATES else [ROOT / name]
        else:
            starts = []
        starts += [start / name for start in (folder, *folder.parents) if start.is_relative_to(ROOT)]
        found = next((start for start in starts if any(start.parent.glob(start.name))), None)
        if found is None:
            yield f"`{name}`: no such file"
        else:
            folder = found if found.is_dir() else found.parent


def missing_modules(path):
    """Rows of the tables "Modules of ifonly-…" without a file or folder."""
    for crate, section in re.findall(r"^## Modules of (\S+)$(.*?)(?=^## )", path.read_text(), re.M | re.S):
        for cell in re.findall(r"^\| (`[^|]*) \|", section, re.M):
            for name in re.findall(r"`([\w/]+)`", cell):
                module = ROOT / "crates" / crate / "src" / name
                if not (module.is_dir() or module.with_suffix(".rs").is_file()):
                    yield f"`{name}`: no such module of {crate}"


def unexplained():
    """Steps without a row in CONTRIBUTING.md, and rows without a step."""
    command = [ROOT / ".ci" / "run", "--list"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    needed, _, optional = listed.partition("; optional:")
    steps = {*needed.split(), *optional.split()}
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = re.search(r"^\| step \|.*?\n\n", text, flags=re.M | re.S)
    cells = re.findall(r"^\| (`[^|]*) \|", table[0] if table else "", flags=re.M)
    explained = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    for name in sorted(steps ^ explained):
        fault = "is not explained" if name in steps else "does not exist in .ci/run"
        yield f"CONTRIBUTING.md: the step {name} {fault}"
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    run = set(" ".join(re.findall(r"^ +- steps: (.+)$", workflow, flags=re.M)).split())
    for name in sorted(run ^ set(needed.split())):
        fault = "does not run" if name in needed.split() else "runs the unknown or optional step"
        yield f".github/workflows/ci.yml {fault} {name}"


def other_versions():
    """Files that state another version than the workspace, or none."""
    version = re.search(r'^version = "([^"]+)"', (ROOT / "Cargo.toml").read_text(), flags=re.M)[1]
    for name, pattern in VERSIONS.items():
        found = set(re.findall(pattern, (ROOT / name).read_text(), flags=re.M))
        if found != {version}:
            stated = ", ".join(sorted(found)) or "missing"
            yield f"{name}: version {stated}; the workspace has {version}"


def main():
    # Folders with build results and downloads are skipped.
    skipped = ("target", ".git")
    folders = [path for path in ROOT.iterdir() if path.is_dir() and path.name not in skipped]
    files = [*ROOT.glob("*.md"), *(file for folder in folders for file in folder.rglob("*.md"))]
    skipped = {".venv", "node_modules", "target"}
    files = [file for file in files if not skipped & set(file.parts[len(ROOT.parts) :])]
    found = [f"{file.relative_to(ROOT)}: {fault}" for file in files for fault in faults(file)]
    architecture = ROOT / "docs" / "architecture.md"
    wrong = [*wrong_short_paths(architecture), *missing_modules(architecture)]
    found += [f"docs/architecture.md: {fault}" for fault in wrong]
    found += [*unexplained(), *other_versions()]
    print("\n".join(found) or f"{len(files)} Markdown files: all links, paths and tests exist")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
