# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Where do the programs under test come from: the patched router, the examples, the Python package?

The router is zenoh's own `zenohd` from crates.io, built with nothing but the patch that a user would write. Each step
is quick when there is nothing to do. Everything lands in `target/`, or where CARGO_TARGET_DIR says.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from nodes import CheckFailed

ZENOH_VERSION = "1.10.2"
REPOSITORY = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")).absolute()
ZENOHD = TARGET / "interop" / "bin" / "zenohd"
EXAMPLES = TARGET / "debug"
PYTHON = TARGET / "interop-venv" / "bin" / "python"
# Of nodes that stay as they are: before and after the 1.8.0 of ROS 2, which PyPI has no wheel of.
OTHER_VERSIONS = ("1.6.2", "1.7.2", "1.9.0")
ROS2_NODE = TARGET / "debug" / "ros2-node"
ARQ_PYTHON = TARGET / "interop-venv-arq" / "bin" / "python"
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")
BUILD_SECONDS = 1800

CARGO_CONFIG = REPOSITORY / "configs" / "cargo" / "zenoh-arq.toml"
OUR_GIT = re.compile(r'git = "[^"]*/zenoh-arq"')

GIT_APPLICATION = """\
[package]
name = "arq-by-git"
version = "0.0.0"
edition = "2021"

[workspace]

[dependencies]
zenoh = "={version}"

[patch.crates-io]
zenoh-link = {{ git = "{url}" }}
"""


def profile_options() -> list[str]:
    """`cargo install` takes no profile from a workspace: with the same one, it reuses what the workspace built already."""
    profile = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["profile"]["dev"]
    packages = {f'package."{name}".': settings for name, settings in profile.pop("package").items()}
    return [
        word
        for place, settings in {"": profile, **packages}.items()
        for key, value in settings.items()
        for word in ("--config", f"profile.dev.{place}{key}={json.dumps(value)}")
    ]


def run(step: str, command: list[str | Path], **options) -> subprocess.CompletedProcess:
    """Runs a build step in the open and says how long it took; a failure ends the program."""
    words = [str(word) for word in command]
    print(f"BUILD {step}\n      $ {' '.join(words)}", flush=True)
    begin = time.monotonic()
    done = subprocess.run(words, stdin=subprocess.DEVNULL, check=False, timeout=BUILD_SECONDS, **options)
    if done.returncode != 0:
        sys.exit(f"BUILD {step}: failed with status {done.returncode}\n{done.stdout or ''}")
    print(f"      {time.monotonic() - begin:.1f} s", flush=True)
    return done


def python_package(python: Path, version: str) -> None:
    """The package as it is published, for that Python."""
    if not python.exists():
        run("virtual environment", [sys.executable, "-m", "venv", python.parent.parent])
    if python_package_version(python) != version:
        package = f"eclipse-zenoh=={version}"
        run(package, [python, *PIP, "install", package])


def python_package_version(python: Path) -> str:
    ask = "import importlib.metadata as m; print(m.version('eclipse-zenoh'))"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def python_of(version: str) -> Path:
    """The Python with another version of the package."""
    return TARGET / f"interop-venv-{version}" / "bin" / "python"


def python_package_with_arq() -> str:
    """A wheel of the Python package with arq/: the commands of docs/enabling.md, but unoptimised and of this tree."""
    folder = TARGET / "interop" / "python-arq"
    shutil.rmtree(folder / "wheels", ignore_errors=True)
    configure(folder)
    # Below the folder with the configuration, because pip builds here.
    (folder / "tmp").mkdir(exist_ok=True)
    environment = os.environ | {
        "TMPDIR": str(folder / "tmp"),
        # The sources name a toolchain of their own, which would be downloaded.
        "RUSTUP_TOOLCHAIN": os.environ.get("RUSTUP_TOOLCHAIN", "stable"),
        "CARGO_TARGET_DIR": str(folder / "target"),
        "MATURIN_PEP517_ARGS": "--profile dev",
    }
    if not ARQ_PYTHON.exists():
        run("virtual environment", [sys.executable, "-m", "venv", ARQ_PYTHON.parent.parent])
    # pip would keep the wheel, and give it to others who ask for a build of the sources.
    wheel = ["wheel", "--no-cache-dir", "--no-deps", "--no-binary", "eclipse-zenoh", "--wheel-dir", folder / "wheels"]
    run("a wheel of eclipse-zenoh with arq/", [ARQ_PYTHON, *PIP, *wheel, f"eclipse-zenoh=={ZENOH_VERSION}"], env=environment)
    [built] = (folder / "wheels").glob("eclipse_zenoh-*.whl")
    run("its installation", [ARQ_PYTHON, *PIP, "install", "--force-reinstall", built])
    return built.name


def configure(folder: Path) -> None:
    """Puts configs/cargo/zenoh-arq.toml above what is built in that folder, with the link of this tree."""
    text, replaced = OUR_GIT.subn(f'path = "{REPOSITORY / "zenoh-link"}"', CARGO_CONFIG.read_text())
    if replaced != 1:
        raise CheckFailed(f"{CARGO_CONFIG} names our repository {replaced} times")
    (folder / ".cargo").mkdir(parents=True, exist_ok=True)
    (folder / ".cargo" / "config.toml").write_text(text)


def router() -> str:
    """`cargo install` with configs/cargo/zenoh-arq.toml, as docs/enabling.md tells, in the workspace's profile."""
    folder = TARGET / "interop" / "router"
    configure(folder)
    config = folder / ".cargo" / "config.toml"
    command = ["cargo", "install", "zenohd", "--version", ZENOH_VERSION, "--config", config]
    command += ["--debug", "--force", "--no-track", "--root", ZENOHD.parent.parent, "--target-dir", TARGET]
    command += profile_options()
    run(f"zenohd {ZENOH_VERSION}, patched by config", command)
    return os.path.relpath(ZENOHD, REPOSITORY)


def examples() -> None:
    run("examples", ["cargo", "build", "--package", "arq-examples", "--bins"], cwd=REPOSITORY)


def ros2_nodes() -> None:
    """The nodes of interop/hiroz over stock zenoh. The lock of the workspace has them share what it has built."""
    folder = TARGET / "interop" / "hiroz"
    shutil.copytree(REPOSITORY / "interop" / "hiroz", folder, dirs_exist_ok=True)
    shutil.copy2(REPOSITORY / "Cargo.lock", folder)
    command = ["cargo", "build", "--target-dir", TARGET, *profile_options()]
    run("nodes of ROS 2 by hiroz", command, cwd=folder)


def application_by_git(resolve_only: bool) -> str:
    """Checks an application that takes the patch from a git repository; returns where its `zenoh-link` came from."""
    folder = TARGET / "interop" / "by-git"
    url = f"file://{snapshot(folder / 'repository')}"
    application = folder / "application"
    (application / "src").mkdir(parents=True, exist_ok=True)
    (application / "Cargo.toml").write_text(GIT_APPLICATION.format(version=ZENOH_VERSION, url=url))
    (application / "src" / "main.rs").write_text(
        "fn main() {\n    drop(zenoh::Wait::wait(zenoh::open(zenoh::Config::default())));\n}\n"
    )
    # A lock file of an earlier run would hold on to that run's commit.
    (application / "Cargo.lock").unlink(missing_ok=True)
    command = ["cargo", "check", "--target-dir", TARGET]
    command += profile_options()
    if not resolve_only:
        run("an application, patched by git", command, cwd=application)
    tree = ["cargo", "tree", "--invert", "zenoh-link", "--depth", "0"]
    origin = subprocess.run(tree, cwd=application, capture_output=True, text=True, check=True).stdout.strip()
    if url not in origin:
        raise CheckFailed(f"the patch went unused: {origin}")
    return origin


def snapshot(folder: Path) -> Path:
    """A git repository of what this folder holds now, as git sees it: also before a commit, also in a shallow clone."""
    shutil.rmtree(folder, ignore_errors=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=REPOSITORY, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, names)):
        if (source := REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    return commit(folder, "main")


def commit(repository: Path, branch: str) -> Path:
    """Commits all that is in that folder to a new branch."""
    # One content, one commit: what cargo has built of it stays valid.
    fixed = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in IDENTITY.items()}
    steps = [
        ["init", "--quiet"],
        ["checkout", "--quiet", "--orphan", branch],
        ["add", "--all", "--force"],
        ["commit", "--quiet", "--message", "snapshot"],
    ]
    for step in steps:
        subprocess.run(["git", *step], cwd=repository, env=os.environ | fixed, check=True)
    return repository


IDENTITY = {"NAME": "interop", "EMAIL": "interop@localhost", "DATE": "2000-01-01T00:00:00Z"}
