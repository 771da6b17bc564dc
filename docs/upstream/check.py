#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Do the patches of this folder apply to zenoh as it is published, on our zenoh-link, and does the result compile?"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
WORK = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")).absolute() / "upstream"
MANIFEST = f"""\
[package]
name = "patched"
version = "0.0.0"
edition = "2021"

[workspace]

[dependencies]
zenoh = {{ version = "=1.10.2", features = ["stats", "unstable"] }}

[patch.crates-io]
zenoh-link = {{ path = "{REPOSITORY / "zenoh-link"}" }}
"""


def patched_crates() -> dict[str, str]:
    """Name and folder in zenoh's repository of each crate that a patch names."""
    lines = [line for patch in HERE.glob("*.diff") for line in patch.read_text().splitlines()]
    folders = {line.removeprefix("+++ b/").partition("/src/")[0] for line in lines if line.startswith("+++ b/")}
    return {Path(folder).name: folder for folder in folders}


def main() -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    (WORK / "src").mkdir(parents=True)
    (WORK / "src" / "lib.rs").touch()
    (WORK / "Cargo.toml").write_text(MANIFEST)
    shutil.copy2(REPOSITORY / "Cargo.lock", WORK)
    command = ["cargo", "metadata", "--format-version", "1"]
    told = subprocess.run(command, cwd=WORK, capture_output=True, check=True).stdout
    published = {package["name"]: Path(package["manifest_path"]).parent for package in json.loads(told)["packages"]}
    crates = patched_crates()
    for name, folder in crates.items():
        shutil.copytree(published[name], WORK / folder)
    for patch in sorted(HERE.glob("*.diff")):
        print(f"{patch.name}:", flush=True)
        subprocess.run(["patch", "--strip", "1", "--fuzz", "0", "--input", patch], cwd=WORK, check=True)
    with (WORK / "Cargo.toml").open("a") as manifest:
        manifest.writelines(f'{name} = {{ path = "{folder}" }}\n' for name, folder in sorted(crates.items()))
    sys.exit(subprocess.run(["cargo", "check", "--target-dir", WORK / "target"], cwd=WORK, check=False).returncode)


if __name__ == "__main__":
    main()
