# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Does configs/cargo/zenoh-arq.toml reach a binding, as it stands, and where does it silently build a stock link?

zenoh-c and the Python package take zenoh from its git repository. In the place of that one stands a repository of
empty crates, which git is told to take for it: so cargo resolves what it resolves for a binding, and only registries are
asked. Nothing is compiled.
"""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import builds
from nodes import CheckFailed

ZENOH = "https://github.com/eclipse-zenoh/zenoh.git"
OURS = "https://github.com/zenoh-arq/zenoh-arq"
# An older one, whose lock holds on to a stock link.
OLD_VERSION = "1.10.0"
# What a binding takes, and what of zenoh's repository each needs.
CRATES = {"zenoh": "zenoh-link", "zenoh-ext": "zenoh", "zenoh-util": None}


def package(name: str, version: str, dependencies: str) -> str:
    head = f'[package]\nname = "{name}"\nversion = "{version}"\nedition = "2021"\npublish = false\n'
    return f"{head}\n[dependencies]\n{dependencies}"


def write_crate(folder: Path, manifest: str) -> None:
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "Cargo.toml").write_text(manifest)
    (folder / "src" / "lib.rs").touch()


@dataclass(frozen=True)
class Workshop:
    """A folder with a git repository of zenoh's names, and the environment in which git takes it for zenoh's own."""

    folder: Path
    environment: dict[str, str]

    def binding(self, name: str, version: str) -> Path:
        """A crate that takes zenoh as zenoh-c does, with a crate of its own that takes it, too."""
        binding = self.folder / name
        shutil.rmtree(binding, ignore_errors=True)
        by_git = f'git = "{ZENOH}", branch = "release/{version}"'
        dependencies = "".join(f'{crate} = {{ version = "{version}", {by_git} }}\n' for crate in CRATES)
        write_crate(binding, package(name, "0.0.0", dependencies) + "\n[workspace]\n")
        inner = package("opaque-types", "0.0.0", dependencies) + "\n[workspace]\n"
        write_crate(binding / "opaque-types", inner)
        return binding

    def cargo(self, folder: Path, *arguments: str) -> str:
        command = ["cargo", *arguments]
        done = subprocess.run(command, cwd=folder, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CheckFailed(f"{' '.join(command)}\n{done.stderr}")
        return done.stdout

    def link_of(self, folder: Path, *arguments: str) -> str:
        """Where the zenoh-link of that crate would come from."""
        return self.cargo(folder, "tree", "--invert", "zenoh-link", "--depth", "0", *arguments).strip()

    def configure(self, binding: Path) -> None:
        (binding / ".cargo").mkdir()
        shutil.copy2(builds.CARGO_CONFIG, binding / ".cargo" / "config.toml")


def workshop() -> Workshop:
    folder = builds.TARGET / "interop" / "bindings"
    zenoh = folder / "zenoh"
    shutil.rmtree(folder, ignore_errors=True)
    for version in (OLD_VERSION, builds.ZENOH_VERSION):
        write_crate(zenoh / "zenoh-link", package("zenoh-link", version, ""))
        for crate, needs in CRATES.items():
            dependency = f'{needs} = {{ version = "{version}", path = "../{needs}" }}\n' if needs else ""
            write_crate(zenoh / crate, package(crate, version, dependency))
        builds.commit(zenoh, f"release/{version}")
    return Workshop(folder, redirected({ZENOH: zenoh, OURS: builds.snapshot(folder / "zenoh-arq")}, folder / "cargo"))


def redirected(repositories: dict[str, Path], cargo_home: Path) -> dict[str, str]:
    """An environment in which those URLs are folders. The cargo home keeps no word of it, but has what is downloaded."""
    real = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    (real / "registry").mkdir(parents=True, exist_ok=True)
    cargo_home.mkdir(parents=True)
    (cargo_home / "registry").symlink_to(real / "registry")
    environment = os.environ | {"CARGO_HOME": str(cargo_home), "CARGO_NET_GIT_FETCH_WITH_CLI": "true"}
    environment["GIT_CONFIG_COUNT"] = str(len(repositories))
    for index, (url, folder) in enumerate(repositories.items()):
        environment[f"GIT_CONFIG_KEY_{index}"] = f"url.file://{folder}.insteadOf"
        environment[f"GIT_CONFIG_VALUE_{index}"] = url
    return environment


def expect(is_ours: bool, origin: str, what: str) -> None:
    if (OURS in origin) != is_ours:
        raise CheckFailed(f"{what}: {origin}")


def by_config() -> str:
    """What docs/enabling.md says of the file and of the traps, one by one."""
    shop = workshop()
    fresh = shop.binding("fresh", OLD_VERSION)
    expect(False, shop.link_of(fresh), "without the file")
    (fresh / "Cargo.lock").unlink()
    shop.configure(fresh)
    expect(True, shop.link_of(fresh), "with the file, without a lock")
    shutil.copy2(fresh / "Cargo.lock", fresh / "opaque-types")
    expect(True, shop.link_of(fresh / "opaque-types", "--offline"), "the inner crate, offline, with the outer lock")

    same = shop.binding("same-version", builds.ZENOH_VERSION)
    shop.cargo(same, "generate-lockfile")
    shop.configure(same)
    expect(True, shop.link_of(same), "with a lock of the same version")

    locked = shop.binding("old-lock", OLD_VERSION)
    shop.cargo(locked, "generate-lockfile")
    shop.configure(locked)
    expect(False, shop.link_of(locked), "a lock of another version is no trap any more: change docs/enabling.md")
    (locked / "Cargo.lock").unlink()
    expect(True, shop.link_of(locked), "with that lock removed")
    return "without a lock, with one of this version, in a crate within; an older lock builds stock until it is removed"
