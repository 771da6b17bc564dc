#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Do zenoh's own tests of its transport pass over arq/, with nothing but the protocol of their locators changed?

The tests are those of the package zenoh-transport, as cargo has fetched it for this workspace. They are copied to
`target/interop/zenoh-tests`, and `"tcp/` becomes `"arq/` there, or what --link says: `tcp` for the stock link's verdict.
The exit status is the number of tests that failed (at most 99).
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import builds

PACKAGE = "zenoh-transport"
FEATURES = "transport_tcp,transport_compression,shared-memory,unstable"
# Their proxy between the two nodes speaks TCP.
NEEDS_TCP = "unicast_unresponsive_peer"
TEST_SECONDS = 1800
VERDICT = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED)$", re.MULTILINE)

# zenoh's crate of this name is not published. Ports below the ephemeral ones: nobody else is given one of them.
ZENOH_TEST = """\
use std::{net::{TcpListener, UdpSocket}, sync::atomic::{AtomicU16, Ordering}};

pub fn get_free_tcp_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(21_000);
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("0.0.0.0", port)).is_ok() && UdpSocket::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

pub fn get_free_udp_port() -> u16 {
    get_free_tcp_port()
}
"""
MANIFEST = f"""
[dev-dependencies.zenoh-test]
path = "zenoh-test"

[workspace]

[patch.crates-io]
zenoh-link = {{ path = "{builds.REPOSITORY / "zenoh-link"}" }}
"""


def package() -> Path:
    """Where cargo keeps the sources of the package that this workspace uses."""
    ask = ["cargo", "metadata", "--locked", "--format-version", "1"]
    told = subprocess.run(ask, cwd=builds.REPOSITORY, capture_output=True, check=True).stdout
    [manifest] = [p["manifest_path"] for p in json.loads(told)["packages"] if p["name"] == PACKAGE]
    return Path(manifest).parent


def prepare(link: str) -> Path:
    """A copy of the package whose tests use `link`."""
    source, copy = package(), builds.TARGET / "interop" / "zenoh-tests"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy)
    shutil.copy2(builds.REPOSITORY / "Cargo.lock", copy)
    for test in (copy / "tests").glob("*.rs"):
        test.write_text(test.read_text().replace('"tcp/', f'"{link}/'))
    with (copy / "Cargo.toml").open("a") as manifest:
        manifest.write(MANIFEST)
    helper = copy / "zenoh-test"
    (helper / "src").mkdir(parents=True)
    (helper / "src" / "lib.rs").write_text(ZENOH_TEST)
    (helper / "Cargo.toml").write_text('[package]\nname = "zenoh-test"\nversion = "0.0.0"\nedition = "2021"\n')
    return copy


def tests_of(copy: Path, link: str) -> list[str]:
    names = sorted(test.stem for test in (copy / "tests").glob("*.rs"))
    return [name for name in names if link == "tcp" or name != NEEDS_TCP]


def run(link: str, names: list[str]) -> tuple[int, list[str]]:
    """How many tests passed over `link`, and which failed."""
    copy = prepare(link)
    names = names or tests_of(copy, link)
    command = ["cargo", "test", "--no-fail-fast", "--features", FEATURES, "--target-dir", str(builds.TARGET)]
    command += builds.profile_options()
    for name in names:
        command += ["--test", name]
    builds.run(f"zenoh's tests over {link}/", [*command, "--no-run"], cwd=copy)
    done = subprocess.run(command, cwd=copy, stdout=subprocess.PIPE, text=True, check=False, timeout=TEST_SECONDS)
    (builds.TARGET / "interop" / f"zenoh-tests-{link}.log").write_text(done.stdout)
    verdicts = VERDICT.findall(done.stdout)
    failed = [test for test, verdict in verdicts if verdict == "FAILED"]
    if done.returncode != 0 and not failed:
        sys.exit(f"the tests ended without a verdict\n{done.stdout[-2000:]}")
    return len(verdicts) - len(failed), failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--link", default="arq", help="the protocol of the locators [default: %(default)s]")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these files of tests, such as unicast_multilink")
    arguments = parser.parse_args()
    if not (package() / "tests").is_dir():
        print(f"SKIPPED: {PACKAGE} was published without its tests", flush=True)
        return 0
    begin = time.monotonic()
    passed, failed = run(arguments.link, arguments.names)
    for test in failed:
        print(f"FAIL  {test}")
    print(f"{passed} passed, {len(failed)} failed over {arguments.link}/, {time.monotonic() - begin:.0f} s")
    return min(len(failed), 99)


if __name__ == "__main__":
    sys.exit(main())
