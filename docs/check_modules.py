#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Do modules that lie side by side use each other in a circle?

Reads the paths `crate::…`, `super::…` and `self::…` of these crates, without comments and tests. A module stands for all
that lies below it, and two are compared where they have one parent: what a module has from its own parent, or its parent
from it, is no circle. `pub use` counts like any use.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = ["arq-proto", "arq-tokio"]
# What closes a circle today: a module, what it uses, and what ends that. Once it is gone, it must go from here, too.
ALLOWED = {
    # The reasons of REFUSE belong to the wire.
    ("arq-proto::wire", "arq-proto::error"),
    # Where a packet goes is the path's to say: `Candidate` belongs to `connection::path`.
    ("arq-proto::connection::transmit", "arq-proto::connection::validation"),
    # A connection tells the socket of its deadlines and of its end: by a trait, or by what its driver passes in.
    ("arq-tokio::driver::connection", "arq-tokio::driver::shared"),
    # `bind_device` belongs to the interface.
    ("arq-tokio::socket::interface", "arq-tokio::socket::udp"),
}

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
TEST = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:pub(?:\([^)]*\))? )?(?:mod|use|fn|impl)\b[^;{]*")
PATH = re.compile(r"(?<![\w:$])(?:crate|self|super)(?:::super)*::(?=[\w{])")
Module = tuple[str, ...]


def without_tests(code: str) -> str:
    """Drops comments, and each item for tests alone with its body."""
    code = COMMENT.sub("", code)
    while found := TEST.search(code):
        end = found.end()
        if code[end : end + 1] == "{":
            end = closing(code, end)
        code = code[: found.start()] + code[end + 1 :]
    return code


def closing(code: str, start: int) -> int:
    """The index of the brace that closes the one at `start`."""
    depth = 0
    for index in range(start, len(code)):
        depth += (code[index] == "{") - (code[index] == "}")
        if depth == 0:
            return index
    return len(code) - 1


def leaves(tree: str) -> list[list[str]]:
    """The paths of a use tree that begins `tree`: `a::{b, c::d}` has `a::b` and `a::c::d`."""
    name = re.match(r"\s*(\w+)\s*(::\s*)?", tree)
    if name is None:
        return [[]]
    rest = tree[name.end() :]
    if not name[2]:
        return [[name[1]]]
    if not rest.startswith("{"):
        return [[name[1], *leaf] for leaf in leaves(rest)]
    return [[name[1], *leaf] for part in parts(rest[1 : closing(rest, 0)]) for leaf in leaves(part)]


def parts(group: str) -> list[str]:
    """The members of a group, split where no inner brace is open."""
    found, depth = [""], 0
    for char in group:
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            found.append("")
        else:
            found[-1] += char
    return [part for part in found if part.strip()]


def module_of(source: Path, folder: Path) -> Module:
    names = source.relative_to(folder).with_suffix("").parts
    return names[:-1] if names[-1] in ("mod", "lib") else names


def uses(code: str, module: Module) -> set[Module]:
    """Everything that a file names by a path, from the crate's root on."""
    found = set()
    for path in PATH.finditer(code):
        words = path[0].strip(":").split("::")
        base = () if words[0] == "crate" else module[: len(module) - words.count("super")]
        tree = code[path.end() :]
        groups = parts(tree[1 : closing(tree, 0)]) if tree.startswith("{") else [tree]
        found |= {(*base, *leaf) for group in groups for leaf in leaves(group)}
    return found


def edges(folder: Path) -> dict[Module, set[Module]]:
    """Which modules a module uses that lie beside it."""
    sources = {module_of(path, folder): without_tests(path.read_text()) for path in folder.rglob("*.rs")}
    sources = {module: code for module, code in sources.items() if "tests" not in module}
    known = {module[:length] for module in sources for length in range(1, len(module) + 1)}
    found = defaultdict(set)
    for module, code in sources.items():
        for used in uses(code, module):
            shared = next((n for n, (a, b) in enumerate(zip(module, used)) if a != b), None)
            if shared is not None and used[: shared + 1] in known:
                found[module[: shared + 1]].add(used[: shared + 1])
    return found


def circles(graph: dict[Module, set[Module]]) -> list[list[Module]]:
    """Modules that reach each other, in groups."""

    def reached(start: Module) -> set[Module]:
        seen, left = set(), [start]
        while left:
            for module in graph.get(left.pop(), ()):
                if module not in seen:
                    seen.add(module)
                    left.append(module)
        return seen

    reach = {module: reached(module) for module in graph}
    groups = {frozenset(other for other in reach[module] if module in reach.get(other, ())) for module in graph}
    return sorted(sorted(group) for group in groups if group)


def main() -> int:
    problems, modules = [], 0
    for crate in CRATES:

        def name(module: Module) -> str:
            return "::".join((crate, *module))

        graph = edges(ROOT / crate / "src")
        modules += len(graph)
        closing_today = {pair for pair in ALLOWED if pair[0].startswith(f"{crate}::")}
        left = {module: {u for u in used if (name(module), name(u)) not in ALLOWED} for module, used in graph.items()}
        for circle in circles(left):
            problems.append("a circle: " + ", ".join(map(name, circle)))
            for module in circle:
                problems += [f"    {name(module)} uses {name(used)}" for used in sorted(left[module] & set(circle))]
        for circle in circles(graph):
            closing_today -= {(name(module), name(used)) for module in circle for used in graph[module] & set(circle)}
        problems += [f"allowed, and no circle any more: {user} uses {used}" for user, used in sorted(closing_today)]
    print("\n".join(problems) or f"{modules} modules; {len(ALLOWED)} uses that close a circle are known, and no others")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
