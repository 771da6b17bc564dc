#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Does every link between the documents lead somewhere, its heading included?

Reads the Markdown files that git knows. Links to the outside are not followed: a check that needs the network fails
for reasons that are nobody's here.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def pages() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def anchors(page: Path) -> set[str]:
    """As GitHub makes them: lower case, no punctuation, a hyphen for each space."""
    found = set()
    for heading in HEADING.findall(re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return found


def problem(page: Path, link: str) -> str | None:
    if re.match(r"[a-z]+:", link):
        return None
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return "no such file"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return "no such heading"
    return None


def main() -> int:
    checked, problems = 0, []
    for page in pages():
        for inline, attribute in LINK.findall(CODE.sub("", page.read_text())):
            link = inline or attribute
            checked += 1
            if why := problem(page, link):
                problems.append(f"{page.relative_to(ROOT)}: {link}: {why}")
    print("\n".join([*problems, f"{checked} links, {len(problems)} of them broken"]))
    return 1 if problems or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
