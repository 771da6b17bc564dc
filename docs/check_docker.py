#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Does the lock file of the router's image still fit the crates of this tree?

The image is built with `--locked` from a lock file of its own, which nothing else uses: a dependency that a crate
gained or lost would be noticed only by who builds the image.
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROUTER = ROOT / "docker" / "router"
CRATES = ("arq-proto", "arq-tls", "arq-tokio", "link-arq", "zenoh-link")
REPAIR = "cargo metadata --manifest-path docker/router/Cargo.toml --format-version 1 >/dev/null"


def read(path: Path) -> dict:
    return tomllib.loads(path.read_text())


def dependencies(manifest: dict) -> tuple[set[str], set[str]]:
    """The crates that the manifest always needs, and those that it may need; not those of its tests."""
    always, perhaps = set(), set()
    for table in [manifest, *manifest.get("target", {}).values()]:
        for kind in ("dependencies", "build-dependencies"):
            for name, wanted in table.get(kind, {}).items():
                wanted = wanted if isinstance(wanted, dict) else {}
                name = wanted.get("package", name)
                perhaps.add(name)
                if table is manifest and not wanted.get("optional"):
                    always.add(name)
    return always, perhaps


def problems() -> list[str]:
    locked = {package["name"]: package for package in read(ROUTER / "Cargo.lock")["package"]}
    found = []
    for folder in CRATES:
        manifest = read(ROOT / folder / "Cargo.toml")
        name = manifest["package"]["name"]
        always, perhaps = dependencies(manifest)
        has = {dependency.split(" ")[0] for dependency in locked.get(name, {}).get("dependencies", [])}
        found += [f"docker/router/Cargo.lock: {name} lacks {crate}: {REPAIR}" for crate in sorted(always - has)]
        found += [f"docker/router/Cargo.lock: {name} has {crate} no more: {REPAIR}" for crate in sorted(has - perhaps)]
    return found


def main() -> int:
    found = problems()
    print("\n".join([*found, f"the lock file of the router's image: {len(found)} problems"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
