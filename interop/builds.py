# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Where do the programs under test come from: the patched router, the examples, the Python package?

The router is zenoh's own `zenohd` from crates.io, built with nothing but the patch that a user would write. Each step
is quick when there is nothing to do. Everything lands in `target/`, or where CARGO_TARGET_DIR says.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from nodes import CheckFailed

ZENOH_VERSION = "1.10.2"
REPOSITORY = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")).absolute()
ZENOHD = TARGET / "interop" / "bin" / "zenohd"
EXAMPLES = TARGET / "debug"
PYTHON = TARGET / "interop-venv" / "bin" / "python"
ARQ_PYTHON = TARGET / "interop-venv-arq" / "bin" / "python"
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")
BUILD_SECONDS = 1800

# `cargo install` takes no profile from a workspace: with the same one, it reuses what the workspace built already.
WORKSPACE_PROFILE = (
    'profile.dev.debug="line-tables-only"',
    'profile.dev.package."*".debug=false',
    'profile.dev.package."*".opt-level=1',
)

# The source archive of that version, and its SHA-256, as https://pypi.org/simple/eclipse-zenoh names them.
SOURCES = "https://files.pythonhosted.org/packages/c4/6d/1a71883d4d515a4c30a702ec14dc86150ed5dfb1315b7a2ecfb740f053cb"
SOURCES_SHA256 = "a338f4d1a0a736cbae4e1f5becdd2e81a6a2e5934ffa8a4b1436cf0fbac7fb2e"
# How a manifest takes zenoh from its repository; the patch reaches what comes from crates.io.
FROM_GIT = re.compile(rf'version = "{ZENOH_VERSION}", git = "[^"]*", branch = "[^"]*"')

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


def python_package() -> None:
    wanted = f"eclipse-zenoh=={ZENOH_VERSION}"
    if not PYTHON.exists():
        run("virtual environment", [sys.executable, "-m", "venv", PYTHON.parent.parent])
    if python_package_version() != ZENOH_VERSION:
        run(wanted, [PYTHON, *PIP, "install", wanted])


def python_package_version() -> str:
    ask = "import importlib.metadata as m; print(m.version('eclipse-zenoh'))"
    done = subprocess.run([PYTHON, "-c", ask], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def python_package_with_arq() -> str:
    """The Python package from its source archive, with arq/: the steps of docs/enabling.md, but unoptimised."""
    folder = TARGET / "interop" / "python-arq"
    archive = f"eclipse_zenoh-{ZENOH_VERSION}"
    # The archive names a toolchain of its own, which would be downloaded.
    toolchain = os.environ | {"RUSTUP_TOOLCHAIN": os.environ.get("RUSTUP_TOOLCHAIN", "stable")}
    if not ARQ_PYTHON.exists():
        run("virtual environment", [sys.executable, "-m", "venv", ARQ_PYTHON.parent.parent])
    shutil.rmtree(folder / archive, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    # Not `pip download`: it would ask the manifest, before it is changed, and fetch zenoh's repository for that.
    fetch = ["curl", "--silent", "--show-error", "--fail", "--location", "--remote-name"]
    run("source archive of eclipse-zenoh", [*fetch, f"{SOURCES}/{archive}.tar.gz"], cwd=folder)
    if (found := hashlib.sha256((folder / f"{archive}.tar.gz").read_bytes()).hexdigest()) != SOURCES_SHA256:
        raise CheckFailed(f"{archive}.tar.gz is another than it was: SHA-256 {found}")
    run("unpack", ["tar", "--extract", "--gzip", "--file", f"{archive}.tar.gz"], cwd=folder)
    manifest = folder / archive / "Cargo.toml"
    text, from_git = FROM_GIT.subn(f'version = "={ZENOH_VERSION}"', manifest.read_text())
    if not from_git:
        raise CheckFailed(f"{manifest} does not take zenoh from git")
    # It lies in our folder, and is no member of our workspace.
    patch = f'\n[workspace]\n\n[patch.crates-io]\nzenoh-link = {{ path = "{REPOSITORY / "zenoh-link"}" }}\n'
    manifest.write_text(text + patch)
    built = {"CARGO_TARGET_DIR": str(folder / "target"), "MATURIN_PEP517_ARGS": "--profile dev"}
    install = [ARQ_PYTHON, *PIP, "install", "--force-reinstall", folder / archive]
    run("eclipse-zenoh from source, patched by path", install, env=toolchain | built)
    return f"eclipse-zenoh {ZENOH_VERSION} with arq/"


def router() -> str:
    """`cargo install` with the patch by path: what the README tells a user to do, in the workspace's profile."""
    patch = f'patch.crates-io.zenoh-link.path="{REPOSITORY / "zenoh-link"}"'
    command = ["cargo", "install", "zenohd", "--version", ZENOH_VERSION, "--config", patch]
    command += ["--debug", "--force", "--no-track", "--root", ZENOHD.parent.parent, "--target-dir", TARGET]
    for setting in WORKSPACE_PROFILE:
        command += ["--config", setting]
    run(f"zenohd {ZENOH_VERSION}, patched by path", command)
    return os.path.relpath(ZENOHD, REPOSITORY)


def examples() -> None:
    run("examples", ["cargo", "build", "--package", "arq-examples", "--bins"], cwd=REPOSITORY)


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
    for setting in WORKSPACE_PROFILE:
        command += ["--config", setting]
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
    # One content, one commit: what cargo has built of it stays valid.
    fixed = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in IDENTITY.items()}
    for command in (["init", "--quiet"], ["add", "--all", "--force"], ["commit", "--quiet", "--message", "snapshot"]):
        subprocess.run(["git", *command], cwd=folder, env=os.environ | fixed, check=True)
    return folder


IDENTITY = {"NAME": "interop", "EMAIL": "interop@localhost", "DATE": "2000-01-01T00:00:00Z"}
