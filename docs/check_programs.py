#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Do the programs that the documents start exist, and do they know the options given to them?

Reads the commands in the `sh` blocks and the inline code of the pages. A package and its program must be in the
sources; subcommands and options must be in what the built program says to --help. Programs that are not built are
skipped, loudly; --require turns that into a failure.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "configs/README.md", "docs/*.md", "docs/report/README.md")
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))

FENCE = re.compile(r"^ *```([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:[^`\n]|\n(?!\n))+)`")
COMMENT = re.compile(r"(?:^|\s)#\s")
OURS = re.compile(r"(?:target/(?:debug|release)/)?(z_\w+|v2v_\w+|arq-top|arq-bench)")
CARGO_RUN = re.compile(r"\bcargo run\b")
SEPARATORS = {"&&", "||", "|", ";", ">"}

# How clap prints them: `  -e, --connect <ENDPOINT>`, `      --json`; below `Commands:` two spaces and the name.
OPTION = re.compile(r"^ +(?:(-\w), )?(--[\w-]+)|^ +(-\w)\b", re.MULTILINE)
COMMANDS = re.compile(r"^Commands:\n((?: .*\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Start:
    """A command that starts a program of ours."""

    text: str
    program: str
    arguments: list[str]
    # What cargo was told of where it is.
    package: str | None = None
    is_example: bool = False


def commands(page: str) -> list[str]:
    """The lines of the `sh` blocks, their comments apart (a comment may be a command, too), and inline code."""
    blocks = [text.replace("\\\n", " ") for language, text in FENCE.findall(page) if language == "sh"]
    lines = [part for block in blocks for line in block.splitlines() for part in COMMENT.split(line)]
    return lines + [code.replace("\n", " ") for code in INLINE.findall(FENCE.sub("", page))]


def simple_commands(line: str) -> list[list[str]]:
    """The words between `&&`, `|` and the like."""
    found: list[list[str]] = [[]]
    for word in shlex.split(line):
        if word in SEPARATORS:
            found.append([])
        else:
            found[-1].append(word)
    return found


def start_of(words: list[str]) -> Start | None:
    """What the words start, if that is ours: by cargo, or by its name, which may stand behind `sudo` or variables."""
    text = " ".join(words)
    if "cargo" in words:
        words = words[words.index("cargo") + 1 :]
        return start_by_cargo(text, words[1:]) if words[:1] == ["run"] else None
    for index, word in enumerate(words):
        if name := OURS.fullmatch(word):
            return Start(text, name[1], words[index + 1 :])
    return None


def start_by_cargo(text: str, words: list[str]) -> Start:
    end = words.index("--") if "--" in words else len(words)
    given = dict(zip(words[:end], words[1:end]))
    package = given.get("-p", "")
    program = given.get("--bin") or given.get("--example") or package
    return Start(text, program, words[end + 1 :], package, "--example" in given)


@cache
def crates() -> dict[str, Path]:
    """The folder of each crate of the workspace, by its name."""
    manifests = ROOT.glob("*/Cargo.toml")
    return {re.search(r'^name = "([^"]+)"', path.read_text(), re.MULTILINE)[1]: path.parent for path in manifests}


def has_source(crate: Path, found: Start) -> bool:
    """An example is a file, or a folder with a `main.rs`."""
    if found.is_example:
        examples = crate / "examples"
        return any((examples / name).exists() for name in (f"{found.program}.rs", f"{found.program}/main.rs"))
    return (crate / "src" / ("main.rs" if found.program == found.package else f"bin/{found.program}.rs")).exists()


def wrong_place(found: Start) -> str | None:
    """What is wrong with the package and the program, by the sources."""
    if found.package is None:
        name = found.program
        is_there = name in crates() or any(ROOT.glob(f"*/src/bin/{name}.rs"))
        return None if is_there else f"no program {name}"
    crate = crates().get(found.package)
    if crate is None:
        return f"no package {found.package!r}"
    return None if has_source(crate, found) else f"no program {found.program} in {found.package}"


@cache
def help_of(*command: str | Path) -> str:
    told = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=30, check=False)
    return told.stdout if told.returncode == 0 else ""


def options(help_text: str) -> set[str]:
    return {name for names in OPTION.findall(help_text) for name in names if name}


def subcommands(help_text: str) -> set[str]:
    section = COMMANDS.search(help_text)
    return set(re.findall(r"^  ([a-z][\w-]*)", section[1], re.MULTILINE)) if section else set()


def wrong_arguments(binary: Path, arguments: list[str]) -> str | None:
    """What the program would not understand; values, and placeholders in their place, are not looked at."""
    help_text = help_of(binary)
    if not help_text:
        return f"{binary} --help fails"
    names = subcommands(help_text)
    if names and arguments and re.fullmatch(r"[a-z][\w-]*", arguments[0]):
        if arguments[0] not in names:
            return f"no subcommand {arguments[0]}"
        help_text = help_of(binary, arguments[0])
    # A long option may have its value behind `=`, a short one directly behind it.
    given = [word.split("=")[0] if word.startswith("--") else word[:2] for word in arguments if word.startswith("-")]
    known = options(help_text)
    missing = [name for name in given if name not in known]
    return f"no option {', '.join(missing)}" if missing else None


def starts(page: Path) -> list[Start]:
    lines = [line for line in commands(page.read_text()) if OURS.search(line) or CARGO_RUN.search(line)]
    return [found for line in lines for words in simple_commands(line) if (found := start_of(words))]


def newest_folder(programs: set[str]) -> Path:
    """Where cargo has built any of the programs last."""

    def built(folder: Path) -> float:
        return max((path.stat().st_mtime for name in programs if (path := folder / name).exists()), default=0)

    return max(TARGET / "debug", TARGET / "release", key=built)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin-dir", type=Path, help="the built programs [default: the newer of debug and release]")
    parser.add_argument("--require", action="store_true", help="fail where a program is not built")
    asked = parser.parse_args()
    pages = [page for pattern in PAGES for page in sorted(ROOT.glob(pattern))]
    found = [(page, started) for page in pages for started in starts(page)]
    folder = asked.bin_dir.resolve() if asked.bin_dir else newest_folder({started.program for _, started in found})
    problems, not_built = [], set()
    for page, started in found:
        why = wrong_place(started)
        if why is None and not started.is_example:
            if (folder / started.program).exists():
                why = wrong_arguments(folder / started.program, started.arguments)
            else:
                not_built.add(started.program)
        if why:
            problems.append(f"{page.relative_to(ROOT)}: {started.text}: {why}")
    print("\n".join([*problems, f"{len(found)} commands start programs of ours, {len(problems)} of them wrongly"]))
    if not_built:
        names = ", ".join(sorted(not_built))
        print(f"\n*** SKIPPED the options of programs not built in {folder}: {names} (cargo build --workspace)\n")
    return 1 if problems or not found or (asked.require and not_built) else 0


if __name__ == "__main__":
    sys.exit(main())
