#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Does no page and no script name the host of a package registry, or an archive's address on one?

Such an address rots, and passes by whatever mirror a user has set up: the ordinary clients find a package by its name.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REGISTRIES = "crates|debian|npmjs|pypi|pythonhosted|rubygems|ubuntu"
HOST = re.compile(rf"\bhttps?://(?!www\.)(?:[\w-]+\.)*(?:{REGISTRIES})\.(?:com|io|net|org)\b[^\s'\"`)]*")
# What a client writes by itself: each package with the registry that it is from.
WRITTEN_BY_CLIENTS = ("*.lock",)


def files() -> list[str]:
    """What git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "."]
    command += [f":(exclude){pattern}" for pattern in WRITTEN_BY_CLIENTS]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def addresses(name: str) -> list[str]:
    lines = (ROOT / name).read_text(errors="ignore").splitlines()
    return [f"{name}:{number}: {match[0]}" for number, line in enumerate(lines, 1) for match in HOST.finditer(line)]


def main() -> int:
    names = files()
    found = [address for name in names for address in addresses(name)]
    print("\n".join([*found, f"{len(names)} files, {len(found)} addresses on package registries"]))
    return 1 if found or not names else 0


if __name__ == "__main__":
    sys.exit(main())
