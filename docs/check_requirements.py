#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Which requirements of the protocol do code and tests cite?

A requirement is a line of protocol.md that starts with **ARQ-XXX-n**; those of the sender alone are items of that
form in the module documentation of arq-proto. A citation is that number anywhere in a Rust source, or in another
document. A citation counts as a test's if it stands in a folder `tests` or `fuzz`, in the simulator, below
`#[cfg(test)]`, or in a `tests.rs`.

Exits with 1 if a citation names a requirement that does not exist, if one is defined twice, or if no test cites one
that says MUST.
`--list` prints every requirement with the places that cite it; without it only the gaps are printed.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPECIFICATION = ROOT / "docs" / "protocol.md"
SENDER = ROOT / "arq-proto" / "src"
NUMBER = re.compile(r"\bARQ-[A-Z]+-\d+\b")
DEFINITION = re.compile(r"(?://! - )?\*\*(ARQ-[A-Z]+-\d+)\*\*")
SKIPPED = {"target", ".git"}
TEST_FOLDERS = {"tests", "fuzz", "arq-sim", "benches"}


def requirements():
    """Every requirement with its place; the numbers that are defined twice; those that say MUST."""
    found, twice, musts = {}, [], set()
    for path in [SPECIFICATION, *sorted(SENDER.rglob("*.rs"))]:
        current = None
        for line, text in enumerate(path.read_text().splitlines(), 1):
            if match := DEFINITION.match(text):
                current = match[1]
                if current in found:
                    twice.append(current)
                found[current] = f"{path.relative_to(ROOT)}:{line}"
            elif text.startswith("#") or path != SPECIFICATION and not text.startswith("//!   "):
                current = None
            if current and re.search(r"\bMUST\b", text):
                musts.add(current)
    return found, twice, musts


def files():
    for pattern in ("*.rs", "*.md"):
        for path in sorted(ROOT.rglob(pattern)):
            parts = path.relative_to(ROOT).parts
            if not SKIPPED & set(parts):
                yield path, parts


def citations():
    """Every citation as (requirement, place, whether in a test)."""
    for path, parts in files():
        in_test = path.suffix == ".rs" and bool(TEST_FOLDERS & set(parts))
        for line, text in enumerate(path.read_text(errors="replace").splitlines(), 1):
            in_test |= path.suffix == ".rs" and ("#[cfg(test)]" in text or path.name == "tests.rs")
            if DEFINITION.match(text):
                text = text.split("**", 2)[2]
            for number in NUMBER.findall(text):
                yield number, f"{'/'.join(parts)}:{line}", in_test


def order(number):
    name, index = number.rsplit("-", 1)
    return name, int(index)


def main():
    defined, twice, musts = requirements()
    code, tests = collections.defaultdict(list), collections.defaultdict(list)
    unknown = []
    for number, place, in_test in citations():
        if number not in defined:
            unknown.append(f"{place}: {number} is no requirement")
        elif place.endswith(".rs") or ".rs:" in place:
            (tests if in_test else code)[number].append(place)

    for number in sorted(defined, key=order):
        if "--list" in sys.argv[1:]:
            print(f"{number}  ({defined[number]})")
            for what, places in (("code", code), ("test", tests)):
                for place in places[number]:
                    print(f"    {what}  {place}")
    untested = [number for number in sorted(defined, key=order) if not tests[number]]
    by_group = collections.defaultdict(list)
    for number in untested:
        group, index = number.rsplit("-", 1)
        by_group[group].append(index)
    print("requirements that no test cites:")
    for group, indices in by_group.items():
        print(f"    {group}-{{{', '.join(indices)}}}" if len(indices) > 1 else f"    {group}-{indices[0]}")
    print(
        f"{len(defined)} requirements, {len(defined) - len(untested)} cited by tests, "
        f"{len(untested)} not; {sum(map(bool, code.values()))} cited by code"
    )
    problems = unknown + [f"{defined[number]}: {number} is defined twice" for number in twice]
    uncited = [number for number in untested if number in musts]
    problems += [f"{defined[number]}: {number} says MUST, and no test cites it" for number in uncited]
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(bool(problems))


main()
