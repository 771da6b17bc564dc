#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Are the figures in the documents those of the committed reports?

A table behind a comment such as

    <!-- figures of=drop-rate cells=p50_ms,p99_ms rows=delay_ms:0.5,10/drop_percent:0,5 only=payload_bytes:10000
         links=arq,tcp-bbr -->

has its rows from docs/report/drop-rate/results.csv: one row for each value of each axis, one column for each link,
the median of the repeats in each cell. "lost" is a rank that never came. `--write` brings the tables up to date.
"""

import csv
import re
import statistics
import subprocess
import sys
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = re.compile(r"<!-- figures ([^>]*)-->\n+(\|.*\n\|[-| :]+\n)((?:\|.*\n)*)")
UNITS = {"drop_percent": " %", "delay_ms": " ms", "payload_bytes": " B"}
THOUSANDS = re.compile(r"000 B$")
LOST = float("inf")


def number(text: str) -> float:
    return float(text) if text else LOST


def payload_delivered(run: dict) -> float:
    return number(run["delivered"]) * number(run["payload_bytes"])


FIGURES = {
    "p50_ms": lambda run: number(run["p50_ms"]),
    "p99_ms": lambda run: number(run["p99_ms"]),
    "delivered_percent": lambda run: 100 * number(run["delivered"]) / number(run["offered"]),
    "wire_per_byte": lambda run: (number(run["forward_wire_bytes"]) + number(run["backward_wire_bytes"]))
    / max(payload_delivered(run), 1),
    "machine_cpu_s_per_gb": lambda run: number(run["machine_cpu_s"]) * 1e9 / max(payload_delivered(run), 1),
    "cpu_s_per_gb": lambda run: (number(run["publisher_cpu_s"]) + number(run["subscriber_cpu_s"]))
    * 1e9
    / max(payload_delivered(run), 1),
}


def shown(figure: str, value: float) -> str:
    if value == LOST:
        return "lost"
    if figure == "wire_per_byte":
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 20 else f"{value:,.0f}"


def read(experiment: str) -> list[dict]:
    """The runs of an experiment that did not fail."""
    with open(ROOT / "docs/report" / experiment / "results.csv", newline="") as file:
        return [run for run in csv.DictReader(file) if not run["failure"]]


def body(arguments: str) -> str:
    given = dict(word.split("=", 1) for word in arguments.split())
    runs = read(given["of"])
    only = [axis.split(":") for axis in given.get("only", "").split("/") if axis]
    axes = [(axis, values.split(",")) for axis, values in (part.split(":") for part in given["rows"].split("/"))]
    lines = []
    for row in product(*(values for _, values in axes)):
        setting = [*zip((axis for axis, _ in axes), row), *only]
        cells = [THOUSANDS.sub(" KB", value + UNITS.get(axis, "")) for (axis, _), value in zip(axes, row)]
        for link in given["links"].split(","):
            found = [run for run in runs if run["link"] == link and all(run[axis] == value for axis, value in setting)]
            if not found:
                raise SystemExit(f"{given['of']} has no run of {link} with {setting}")
            medians = [
                shown(figure, statistics.median(FIGURES[figure](run) for run in found))
                for figure in given["cells"].split(",")
            ]
            cell = medians[0] if set(medians) == {"lost"} else " / ".join(medians)
            cells.append(f"**{cell}**" if link == given.get("bold") else cell)
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def main() -> int:
    write = "--write" in sys.argv[1:]
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    tables, marks, stale = 0, 0, []
    for page in map(Path, listed.stdout.splitlines()):
        text = (ROOT / page).read_text()
        marks += text.count("<!-- figures of=")

        def renewed(found: re.Match) -> str:
            nonlocal tables
            tables += 1
            whole, rows = found.group(0), body(found.group(1))
            if rows != found.group(3):
                stale.append(page)
            return whole[: len(whole) - len(found.group(3))] + rows

        new = TABLE.sub(renewed, text)
        if write and new != text:
            (ROOT / page).write_text(new)
    print(f"{tables} tables of figures, {len(stale)} {'renewed' if write else 'stale'}")
    for page in stale:
        print(f"  {page}" + ("" if write else ": docs/check_figures.py --write brings it up to date"))
    if tables != marks or tables == 0:
        print(f"{marks} comments of the form above, and {tables} tables right behind one")
        return 1
    return 1 if stale and not write else 0


if __name__ == "__main__":
    sys.exit(main())
