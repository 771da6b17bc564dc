#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Does every test that the documents name exist, and does every name match one?

Reads the commands `cargo test -p CRATE [--lib | --test BINARY] [NAME...]` of these pages and looks for the tests in the
sources: a renamed test or an emptied filter would otherwise pass, because cargo calls "0 tests" a success. In a list, an
item `NAME`: belongs to the command that the line before the list ends with.
"""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
COMMAND = re.compile(r"cargo test ((?:--release )?-p [^`#\n|]+)")
ITEM = re.compile(r"- `([\w: ]+)`: ")
TEST = re.compile(r"#\[(?:tokio::)?test[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:async )?fn (\w+)")


def commands_of(text: str) -> list[str]:
    """Those of a page; a list's command once for each item."""
    found, listed = [], None
    for line in text.splitlines():
        here = [command.strip() for command in COMMAND.findall(line)]
        item = ITEM.match(line)
        if item and listed:
            found.append(f"{listed} {item[1]}")
        elif line.strip() and not line.startswith(" "):
            listed = here[-1] if here and line.rstrip().endswith("`:") else None
        found += here
    return found


def crates() -> dict[str, Path]:
    """The folder of each crate of the workspace, by its name."""
    found = {}
    for manifest in [*ROOT.glob("*/Cargo.toml"), *ROOT.glob("bench/*/Cargo.toml")]:
        if name := re.search(r'^name = "([^"]+)"', manifest.read_text(), re.MULTILINE):
            found[name[1]] = manifest.parent
    return found


def sources(crate: Path, binary: str | None) -> list[Path]:
    if binary is None:
        return list(crate.glob("src/**/*.rs"))
    return [*crate.glob(f"tests/{binary}.rs"), *crate.glob(f"tests/{binary}/**/*.rs")]


def tests(crate: Path, binary: str | None) -> set[str]:
    """`module::test` for each test, where the module is its file's name: enough for a filter to match."""
    names = set()
    for source in sources(crate, binary):
        path = source.relative_to(crate).with_suffix("").parts
        module = "::".join(part for part in path[1:] if part not in ("lib", "mod", "main", "tests", binary))
        names |= {f"{module}::{name}" for name in TEST.findall(source.read_text())}
    return names


def problem(command: str, known: dict[str, Path]) -> str | None:
    words = [word for word in command.split(" -- ")[0].split() if word != "--release"]
    crate, binary, filters = known.get(words[1]), None, []
    if crate is None:
        return f"no crate {words[1]}"
    rest = iter(words[2:])
    for word in rest:
        if word == "--test":
            binary = next(rest)
        elif not word.startswith("-"):
            filters.append(word)
    found = tests(crate, binary)
    if binary is not None and not found:
        return f"no tests in {words[1]}/tests/{binary}"
    missing = [name for name in filters if not any(name in test for test in found)]
    return f"no test matches {', '.join(missing)}" if missing else None


def main() -> int:
    pages = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]
    commands = [(page, command) for page in pages for command in commands_of(page.read_text())]
    known = crates()
    problems = [(page, command, why) for page, command in commands if (why := problem(command, known))]
    for page, command, why in problems:
        print(f"{page.relative_to(ROOT)}: cargo test {command}: {why}")
    print(f"{len(commands)} commands, {len(problems)} of them name what is not there")
    return 1 if problems or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
