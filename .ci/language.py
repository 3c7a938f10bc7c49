#!/usr/bin/env python3
"""Checks the language of the repository: names, widths of lines, forbidden phrases.

    .ci/language.py                   counts, and the first findings of each kind
    .ci/language.py --list            all findings
    .ci/language.py crates/ifonly     only findings in files whose paths begin so

Four checks:
  types       no public or crate-wide type name is defined in two crates with two meanings
  width       no line of prose and no comment is longer than 100 columns
  metaphors   no identifier or file name contains one of the household words below
  phrases     no file contains one of the phrases below

The exit code is 1 if a check fails. All files that Git does not ignore are checked, new ones
included.
"""

import argparse
import ast
import collections
import io
import pathlib
import re
import signal
import subprocess
import sys
import tokenize
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 100
SHOWN = 20

# Type names that several crates may define: the crates, and the reason.
SHARED_TYPES = {
    "Build": ({"ifonly-bundle", "python"}, "the Python class wraps the type of ifonly-bundle"),
    "Client": ({"ifonly-client", "python"}, "the Python class wraps the type of ifonly-client"),
    "Traffic": ({"ifonly-client", "ifonly-lab"}, "both count the bytes of one search"),
    "RowOrder": ({"ifonly", "ifonly-bench", "ifonly-lab"}, "all say whether rows are shuffled"),
    "Args": (None, "every command has its own clap arguments; always used with a module path"),
}

# Household words, as they appear in identifiers: lower case, singular and plural.
METAPHORS = set(
    "shelf shelves holding holdings crowd crowds seat seats lobby lobbies door doors"
    " station stations patient patients passes".split()
)
# An identifier of at least this many words is a sentence, as test names are. It may contain verbs.
SENTENCE = 5

# Phrases that no file may contain. Capital letters and line breaks make no difference.
PHRASES = [
    "how many qualify is nobody's to know",
    "this one reaches nobody",
    "an address that is none",
    "the message is none",
    "if there can be such a one",
    "were borne",
    "nobody pays for what cannot be had",
    "this counts the face",
    "servers that failed on the way",
    "over a safe way",
    "took up the configuration",
    "the oldest that waits for its client gives way",
    "of the address that has most",
    "everybody sends frame 1",
    "all but number and nonce must be equal",
    "what time tells a server",
    "whoever",
    "is nobody's",
    "nobody's to",
    "borne",
    "such a one",
]


# Files.


class File:
    """A text file of the repository; it is read once."""

    def __init__(self, name, text):
        self.name = name
        self.text = text
        self.path = pathlib.PurePosixPath(name)

    @property
    def kind(self):
        """The language, by the file's ending or by its first line."""
        by_suffix = {
            ".rs": "rust", ".py": "python", ".pyi": "python", ".md": "markdown",
            ".ts": "script", ".mjs": "script", ".js": "script", ".css": "script",
            ".toml": "hash", ".yaml": "hash", ".yml": "hash", ".tpl": "hash", ".service": "hash",
            ".sysusers": "hash", ".sh": "hash",
        }  # fmt: skip
        first = self.text.partition("\n")[0]
        if first.startswith("#!"):
            return "python" if "python" in first else "script" if "node" in first else "hash"
        if self.path.name in ("Containerfile", "requirements.txt", ".gitignore", ".npmrc"):
            return "hash"
        return by_suffix.get(self.path.suffix, "other")

    @property
    def crate(self):
        """The crate whose product code this is; None for other files and for tests."""
        parts = self.path.parts
        if self.path.suffix != ".rs" or {"tests", "tests.rs", "benches"} & set(parts):
            return None
        if parts[0] == "crates":
            return parts[1]
        return "python" if parts[:2] == ("python", "src") else None


def files():
    """All text files that Git does not ignore, except lock files."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in sorted(set(listed.split("\0")) - {""}):
        path = ROOT / name
        if path.suffix == ".lock" or path.name == "package-lock.json" or not path.is_file():
            continue
        try:
            yield File(name, path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue


# Comments and code. Each function returns the code with everything else blanked, and the comments.
# A comment is a pair of its first line (counted from 0) and its text as it stands in the file.

RUST = re.compile(
    r"""(?P<line>//[^\n]*)
      | (?P<block>/\*)
      | (?P<raw>\b(?:br|cr|r)(?P<hashes>\#*)".*?"(?P=hashes))
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<char>'(?:\\(?:u\{[^}]*\}|x..|.)|[^\\'\n])')""",
    re.X | re.S,
)
BLOCK_EDGE = re.compile(r"/\*|\*/")


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def split_rust(text):
    code, comments, at = [], [], 0
    while found := RUST.search(text, at):
        start, end = found.span()
        code.append(text[at:start])
        if found["block"]:
            end = end_of_block(text, end)
        if found["line"] or found["block"]:
            comments.append((text.count("\n", 0, start), text[start:end]))
        code.append(blank(text[start:end]))
        at = end
    code.append(text[at:])
    return "".join(code), comments


def end_of_block(text, at):
    """Where a block comment of Rust ends, which may contain others."""
    depth = 1
    while depth and (edge := BLOCK_EDGE.search(text, at)):
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return len(text) if depth else at


SCRIPT = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/|<!--.*?-->)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<pattern>(?<=[=(,:\[!&|?{};\n])[ \t]*/(?![*/])
        (?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/)
      | (?P<edge>[`{}])""",
    re.X | re.S,
)


def split_script(text):
    """TypeScript, JavaScript and CSS. Templates may contain code, and that code templates again."""
    code, comments, at, open_braces = [], [], 0, []
    while found := SCRIPT.search(text, at):
        start, end = found.span()
        code.append(text[at:start])
        if found["comment"]:
            comments.append((text.count("\n", 0, start), text[start:end]))
        elif found["edge"] == "{":
            open_braces.append("{")
        elif found["edge"] == "`" or (open_braces[-1:] == ["${"] and found["edge"] == "}"):
            if found["edge"] == "}":
                open_braces.pop()
            end, code_follows = end_of_template(text, end)
            if code_follows:
                open_braces.append("${")
        elif found["edge"] == "}" and open_braces:
            open_braces.pop()
        code.append(blank(text[start:end]))
        at = end
    code.append(text[at:])
    return "".join(code), comments


TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(`|\$\{|$)", re.S)


def end_of_template(text, at):
    """Where the text of a template ends, and whether code follows in it."""
    found = TEMPLATE.match(text, at)
    return found.end(), found[1] == "${"


def split_python(text):
    """Comments and docstrings count; names in strings do not."""
    lines = text.splitlines(keepends=True)
    code, comments = [blank(line) for line in lines], []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, column = token.start[0] - 1, token.start[1]
        if token.type == tokenize.COMMENT:
            comments.append((row, token.string))
        elif token.type == tokenize.NAME:
            line = code[row]
            code[row] = line[:column] + token.string + line[column + len(token.string):]
    return "".join(code), [*comments, *docstrings(text, lines)]


def docstrings(text, lines):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            for found in node.body:
                if isinstance(found, ast.Expr) and isinstance(found.value, ast.Constant):
                    if isinstance(found.value.value, str):
                        row = found.lineno - 1
                        yield row, "".join(lines[row : found.end_lineno])


def split_hash(text):
    """TOML, YAML, shell and the like: `#` begins a line or follows a space, outside quotes."""
    comments = []
    for row, line in enumerate(text.splitlines()):
        bare = re.sub(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'', lambda found: blank(found[0]), line)
        if found := re.search(r"(?:^|(?<=\s))#.*", bare):
            comments.append((row, line[found.start() :]))
    return "", comments


SPLIT = {"rust": split_rust, "script": split_script, "python": split_python, "hash": split_hash}


def split(file):
    """The file's code and comments; neither for languages that this program does not know."""
    if file.kind not in SPLIT:
        return "", []
    try:
        code, comments = SPLIT[file.kind](file.text)
    except (SyntaxError, tokenize.TokenError) as error:
        sys.exit(f"language: {file.name} cannot be parsed: {error}")
    return code, list(comments)


# Checks. Each yields its findings.

TYPE = re.compile(
    r"\bpub(?:\([^)]*\))?\s+(?:unsafe\s+)?(?:struct|enum|trait|type|union)\s+(\w+)"
)
TESTS = re.compile(r"\bmod\s+tests\s*\{")


def without_tests(code):
    """The code without its inline modules that are called tests."""
    while found := TESTS.search(code):
        depth, end = 1, found.end()
        while depth and (edge := re.compile(r"[{}]").search(code, end)):
            depth += 1 if edge[0] == "{" else -1
            end = edge.end()
        code = code[: found.start()] + blank(code[found.start() : end]) + code[end:]
    return code


def check_types(sources, prefix):
    places = collections.defaultdict(list)
    for file, code in sources:
        if file.crate:
            code = without_tests(code)
            for found in TYPE.finditer(code):
                line = code.count("\n", 0, found.start()) + 1
                places[found[1]].append((file.crate, file.name, line))
    for name, found in sorted(places.items()):
        crates = {crate for crate, _, _ in found}
        allowed = SHARED_TYPES.get(name, (set(), ""))[0]
        if len(crates) == 1 or allowed is None or crates <= allowed:
            continue
        if any(path.startswith(prefix) for _, path, _ in found):
            yield f"{name}: " + ", ".join(f"{path}:{line}" for _, path, line in found)


FENCE = re.compile(r"^(```+|~~~+)")
# A line that cannot be broken: one word, one link, the target of a reference.
UNBREAKABLE = re.compile(
    r"""(?:[-*+]|\d+\.)?\s*(?:
        \S+ | !?\[[^\]]*\]\([^)\s]*\)\S? | \[!\[[^\]]*\]\([^)\s]*\)\]\([^)\s]*\) | \[[^\]]+\]:\s*\S+
    )$""",
    re.X,
)
LEADER = re.compile(r"^\s*(?://[/!]?|/\*+!?|\*(?!\S)|#+|<!--|>)?\s?")


def long_lines(first, lines, comment):
    """Numbers of long lines of prose. `lines` are (whole line of the file, text of it to judge)."""
    fence = None
    for number, (whole, text) in enumerate(lines, first + 1):
        body = LEADER.sub("", text, count=1) if comment else text
        bare = body.strip().lstrip("> ")
        if found := FENCE.match(bare):
            if fence is None:
                fence = found[1]
            elif found[1].startswith(fence):
                fence = None
            continue
        if fence or len(whole) <= COLUMNS:
            continue
        if bare.startswith("|") or UNBREAKABLE.match(bare) or (not comment and indented_code(body)):
            continue
        yield number, len(whole)


def indented_code(line):
    """Four columns without a list in sight; this repository fences code in lists."""
    return line.startswith("    ") and not re.match(r"\s*(?:[-*+]|\d+\.)\s", line)


def check_width(file, comments):
    lines = file.text.splitlines()
    if file.kind == "markdown":
        found = long_lines(0, [(line, line) for line in lines], comment=False)
    else:
        found = []
        for first, block in joined([*comments, *attribute_fences(lines)]):
            texts = block.splitlines()
            pairs = [(lines[first + k], text) for k, text in enumerate(texts)]
            found += long_lines(first, pairs, comment=True)
    for number, columns in sorted(set(found)):
        yield f"{file.name}:{number}: {columns} columns"


# `#![cfg_attr(feature = "ask", doc = "```no_run")]` opens fenced code of a Rust comment.
ATTRIBUTE_FENCE = re.compile(r'^\s*#!?\[cfg_attr\(.*\bdoc = "(```|~~~)')


def attribute_fences(lines):
    """Attributes that open fenced code, as comments. Of several in a row, one is compiled."""
    opens = [ATTRIBUTE_FENCE.match(line) for line in lines]
    for row, found in enumerate(opens):
        if found:
            yield row, "" if row and opens[row - 1] else found[1]


def joined(comments):
    """Line comments that follow each other as one text, so that fenced code is seen as such."""
    blocks = []
    for row, text in sorted(comments):
        if blocks and blocks[-1][0] + blocks[-1][1].count("\n") + 1 == row:
            blocks[-1][1] += "\n" + text
        else:
            blocks.append([row, text])
    return blocks


IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
HOUSEHOLD = re.compile("|".join(METAPHORS), re.I)


def metaphors_in(identifier):
    words = [word.lower() for word in WORD.findall(identifier)]
    return [] if len(words) >= SENTENCE else [word for word in words if word in METAPHORS]


def check_metaphors(file, code):
    if file.kind not in ("rust", "python", "script"):
        return
    for part in (*file.path.parts[:-1], file.path.stem):
        for word in metaphors_in(part):
            yield f"{file.name}: the path contains {word}"
    if not HOUSEHOLD.search(code):
        return
    for number, line in enumerate(code.splitlines(), 1):
        if HOUSEHOLD.search(line):
            for name in sorted({name for name in IDENTIFIER.findall(line) if metaphors_in(name)}):
                yield f"{file.name}:{number}: {name}"


# What may be between two words of a phrase: spaces, line breaks, and signs that begin a line of
# comment, continue a string or emphasise.
GAP = r"(?:\\n|[\s/!#*>\\_\"])+"


def phrase_pattern():
    patterns = []
    for phrase in sorted(PHRASES, key=len, reverse=True):
        words = [re.escape(word).replace("'", "['’]") for word in phrase.split()]
        patterns.append(GAP.join(words))
    return re.compile(r"\b(?:" + "|".join(patterns) + r")\b", re.I)


PHRASE = phrase_pattern()


def check_phrases(file):
    if ROOT / file.name == pathlib.Path(__file__).resolve():
        return
    for found in PHRASE.finditer(file.text):
        number = file.text.count("\n", 0, found.start()) + 1
        yield f"{file.name}:{number}: {' '.join(found[0].split())}"


# The report.


def report(title, findings, shown):
    print(f"{title}: {len(findings)}")
    for finding in findings[:shown]:
        print(f"  {finding}")
    if len(findings) > shown:
        print(f"  … and {len(findings) - shown} more (--list)")


def main():
    # `| head` may close the output.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = argparse.ArgumentParser(description="Checks names, line widths, phrases and words.")
    parser.add_argument("--list", action="store_true", help="print all findings")
    parser.add_argument("path", nargs="?", default="", help="beginning of the paths to check")
    options = parser.parse_args()
    prefix = options.path.removeprefix("./")
    sources, width, metaphors, phrases = [], [], [], []
    for file in files():
        inside = file.name.startswith(prefix)
        if not (inside or file.crate):
            continue
        code, comments = split(file)
        sources.append((file, code))
        if inside:
            width += check_width(file, comments)
            metaphors += check_metaphors(file, code)
            phrases += check_phrases(file)
    types = list(check_types(sources, prefix))
    shown = sys.maxsize if options.list else SHOWN
    report("type names in several crates with different meanings", types, shown)
    report(f"lines of prose or comment over {COLUMNS} columns", width, shown)
    report("metaphors in identifiers", metaphors, shown)
    report("forbidden phrases", phrases, shown)
    sys.exit(bool(types or width or metaphors or phrases))


if __name__ == "__main__":
    main()
