#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Do the packages of packaging/deb.sh install, run, upgrade and go as Debian's should?

In a fresh bookworm, with namespaces of its own: lintian, installation, a session over arq/ between two routers (one is
run as the unit says, one loads a plugin), an upgrade over an edited configuration, a package that depends on zenohd, and
a purge that leaves no file. Needs root, mmdebstrap and Debian's packages; says so and ends where they are not.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "interop"))
from nodes import PATIENCE_SECONDS, CheckFailed, Nodes  # noqa: E402

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")).absolute()
BASE = TARGET / "debian-base.tar"
TOOLS = ("mmdebstrap", "unshare", "dpkg-deb", "ip")
UNIT = "lib/systemd/system/zenohd.service"
CONFIG = "etc/zenohd/zenohd.json5"
STATE = "var/lib/private/zenoh/state"
EDIT = "// An edit of this machine's administrator.\n"
REST = 18_000
# What the package manager keeps of its own doings.
NOT_OURS = ("proc", "dev", "sys", "run", "tmp", "var/lib/dpkg", "var/lib/apt", "var/log", "var/cache")


def run(command: list[str | Path], **options) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    if done.returncode != 0:
        raise CheckFailed(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}")
    return done.stdout


class Machine:
    """A Debian in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}

    def within(self, *command: str) -> list[str | Path]:
        return ["chroot", self.root, *command]

    def run(self, *command: str) -> str:
        return run(self.within(*command), env=self.environment)

    def install(self, *packages: Path) -> None:
        """With the packages that are here; there is no network. An edited configuration is kept without asking."""
        for package in packages:
            shutil.copy2(package, self.root / "tmp")
        keep = ("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")
        self.run("apt-get", "install", "--yes", *keep, *(f"/tmp/{package.name}" for package in packages))

    def files(self) -> set[str]:
        found = set()
        for folder, _, names in os.walk(self.root):
            below = os.path.relpath(folder, self.root)
            if not below.startswith(NOT_OURS):
                found |= {f"{below}/{name}" for name in names}
        return found

    def unit(self) -> tuple[list[str], list[str]]:
        """Environment and command of the service."""
        text = (self.root / UNIT).read_text()
        return re.findall(r"^Environment=(.*)$", text, re.MULTILINE), re.search(r"^ExecStart=(.*)$", text, re.M)[1].split()


def starts(machine: Machine) -> str:
    said = machine.run("systemd-analyze", "--man=no", "verify", f"/{UNIT}")
    if said:
        raise CheckFailed(f"systemd-analyze: {said}")
    enabled = subprocess.run(machine.within("systemctl", "is-enabled", "zenohd"), capture_output=True, text=True, check=False)
    if enabled.stdout.strip() != "disabled":
        raise CheckFailed(f"the service is {enabled.stdout.strip()!r} after the installation")
    environment, command = machine.unit()
    # Without privileges, as the unit's DynamicUser.
    service = ["chroot", "--userspec=nobody:nogroup", machine.root, "env", *environment, *command]
    other = ["zenohd", "--no-multicast-scouting", "-l", "tcp/127.0.0.1:0", "-e", "arq/127.0.0.1:7447"]
    with Nodes() as nodes:
        nodes.start_listening("the service", service, 7447)
        nodes.start_listening("another router", machine.within(*other, "--rest-http-port", str(REST)), REST)
        link = session_over_arq()
        table = machine.run("arq-top", "--once", "9464")
    if len(table.splitlines()) < 2:
        raise CheckFailed(f"arq-top shows no link:\n{table}")
    return f"{machine.run('zenohd', '--version').splitlines()[-1]}, a session over {link}"


def session_over_arq() -> str:
    """What the other router's REST plugin tells of its links, once there is one of arq/."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{REST}/@/*/router", timeout=10) as answer:
            told = answer.read().decode()
        for router in json.loads(told):
            if link := re.search(r"arq/127\.0\.0\.1:7447", json.dumps(router["value"])):
                return link[0]
        if time.monotonic() > deadline:
            raise CheckFailed(f"no session over arq/: {told}")
        time.sleep(0.1)


def newer(package: Path, folder: Path) -> Path:
    """The package once more, with a higher version and another configuration."""
    run(["dpkg-deb", "--raw-extract", package, folder / "newer"])
    control = folder / "newer" / "DEBIAN" / "control"
    control.write_text(re.sub(r"^(Version: .*)$", r"\1+newer", control.read_text(), flags=re.MULTILINE))
    with (folder / "newer" / CONFIG).open("a") as config:
        config.write("// A newer one.\n")
    run(["dpkg-deb", "--build", "--root-owner-group", "-Zgzip", folder / "newer", folder / "newer.deb"])
    return folder / "newer.deb"


def upgrades(machine: Machine, package: Path, folder: Path) -> str:
    config = machine.root / CONFIG
    config.write_text(edited := config.read_text() + EDIT)
    machine.install(newer(package, folder))
    version = machine.run("dpkg-query", "--show", "--showformat=${Version}", "zenohd-arq")
    if not version.endswith("+newer"):
        raise CheckFailed(f"the version is {version} after the upgrade")
    if config.read_text() != edited:
        raise CheckFailed("the upgrade has overwritten an edited configuration")
    if not config.with_name(config.name + ".dpkg-dist").exists():
        raise CheckFailed("the new configuration is not a conffile")
    return f"{version}, with the edited {CONFIG}"


def stands_for_zenohd(machine: Machine, folder: Path) -> str:
    control = folder / "dependent" / "DEBIAN" / "control"
    control.parent.mkdir(parents=True)
    control.write_text(
        "Package: dependent\nVersion: 1\nArchitecture: all\nMaintainer: Test <test@localhost>\n"
        "Depends: zenohd (= 1.10.2)\nDescription: a package that needs zenohd\n"
    )
    run(["dpkg-deb", "--build", folder / "dependent", folder / "dependent.deb"])
    machine.install(folder / "dependent.deb")
    machine.run("apt-get", "purge", "--yes", "dependent")
    return "a package that depends on zenohd (= 1.10.2) installs"


def purges(machine: Machine, before: set[str]) -> str:
    state = machine.root / STATE
    state.parent.mkdir(parents=True, exist_ok=True)
    state.touch()
    machine.run("apt-get", "purge", "--yes", "zenohd-arq", "arq-top")
    if left := sorted(machine.files() - before):
        raise CheckFailed(f"left behind: {left}")
    return "no file is left"


def lint(packages: list[Path]) -> str:
    return run(["lintian", "--allow-root", "--fail-on", "error,warning", *packages]).strip() or "nothing to say"


def check(title: str, what: Callable[[], str]) -> bool:
    try:
        print(f"PASS  {title}: {what()}", flush=True)
        return True
    except (CheckFailed, OSError, subprocess.SubprocessError) as failure:
        print(f"FAIL  {title}: {failure}", flush=True)
        return False


def check_in(folder: Path, packages: list[Path]) -> int:
    """All checks, in namespaces of their own, with that folder for what they make."""
    machine = Machine(folder / "root")
    machine.root.mkdir()
    run(["tar", "--extract", "--file", BASE, "--directory", machine.root])
    run(["ip", "link", "set", "lo", "up"])
    run(["mount", "-t", "proc", "proc", machine.root / "proc"])
    before = machine.files()
    [router] = [package for package in packages if package.name.startswith("zenohd-arq_")]
    steps = [
        ("installs", lambda: machine.install(*packages) or "without a network"),
        ("starts", lambda: starts(machine)),
        ("stands for zenohd", lambda: stands_for_zenohd(machine, folder)),
        ("upgrades", lambda: upgrades(machine, router, folder)),
        ("purges", lambda: purges(machine, before)),
    ]
    return sum(not check(*step) for step in steps)


def skip(why: str) -> None:
    print(f"\n*** SKIPPED Debian packages: {why}\n", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    packages = sorted((TARGET / "debian").glob("*.deb"))
    if asked.inside:
        return check_in(asked.inside, packages)
    lacking = [tool for tool in TOOLS if not shutil.which(tool)]
    if os.geteuid() != 0 or lacking:
        skip(f"they need root and {', '.join(lacking or TOOLS)}")
        return 0
    if len(packages) != 2:
        sys.exit(f"{TARGET / 'debian'} does not hold two packages: run packaging/deb.sh")
    if not BASE.exists():
        run(["mmdebstrap", "--quiet", "--variant=apt", "--include=systemd,usr-is-merged", "bookworm", BASE])
    failed = 0
    if shutil.which("lintian"):
        failed += not check("lintian", lambda: lint(packages))
    else:
        skip("no lintian here")
    with tempfile.TemporaryDirectory(dir=TARGET) as folder:
        alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
        failed += subprocess.run([*alone, sys.executable, __file__, "--inside", folder], check=False).returncode
    return min(failed, 99)


if __name__ == "__main__":
    sys.exit(main())
