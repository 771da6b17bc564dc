#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Does an arq/ link carry zenoh between everything that zenoh users run: routers, applications, Python?

Builds what is missing (the router `zenohd` from crates.io with the patch line, the examples, a virtual environment
with the unmodified package eclipse-zenoh), starts real processes on the loopback address, and checks that

  - a router routes publications, queries and replies between arq/ and arq/, stock tcp/, and Python on tcp/, both ways;
  - two routers that reach each other over arq/ only do so for tcp/ clients on both sides;
  - a stock router beside a patched one is none the wiser;
  - nodes of other zenoh versions are carried by two such routers, as clients and as peers;
  - the patch line works from a path and from a git repository, configs/cargo/zenoh-arq.toml below a binding;
  - with --ros: nodes of ROS 2 by hiroz are carried by two routers with configs/ros2-router.json5;
  - with --rebuild-python: the Python package, built by `pip wheel` with that file, speaks arq/ itself.

One line per check, PASS or FAIL; the exit status is the number of checks that failed (at most 99).
"""

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import bindings
import builds
from nodes import CheckFailed, Node, Nodes, clip, free_port

PYTHON_NODE = Path(__file__).resolve().parent / "python_node.py"
READY = "Press CTRL-C to quit"
PUBLICATIONS = 3
LARGE = 100_000  # more than a batch of zenoh's holds, less than an argument of a program may
AT_ONCE = 3

# Who publishes or asks, who subscribes or answers: every pair has arq/ on one side at least.
PAIRS = [("arq", "arq"), ("arq", "tcp"), ("arq", "python"), ("tcp", "arq"), ("python", "arq")]
REBUILT_PAIRS = [("python-arq", "arq"), ("arq", "python-arq"), ("python-arq", "python")]
PYTHONS: dict[str, list[str | Path]] = {
    "python": [builds.PYTHON, PYTHON_NODE],
    "python-arq": [builds.ARQ_PYTHON, PYTHON_NODE],
} | {
    f"{mode} {version}": [builds.python_of(version), PYTHON_NODE, "--mode", mode]
    for version in builds.OTHER_VERSIONS
    for mode in ("client", "peer")
}


@dataclass(frozen=True)
class Router:
    """A running router and where to reach it."""

    name: str
    arq: str
    tcp: str

    def endpoint(self, client: str) -> str:
        return self.arq if client in ("arq", "python-arq") else self.tcp


def program(client: str, role: str, router: Router, key: str, payload: str | None = None) -> list[str | Path]:
    """The command line of a client: `arq` and `tcp` are the examples, `python` is the stock package, `python-arq` the
    one rebuilt, `client 1.9.0` the package of that version."""
    said = [] if payload is None else ["--payload", payload]
    if client in PYTHONS:
        return [*PYTHONS[client], role, "-e", router.endpoint(client), "--key", key, *said]
    name = {"publish": "z_pub", "subscribe": "z_sub", "get": "z_get", "serve": "z_queryable"}[role]
    place = "--selector" if role == "get" else "--key"
    session = ["--mode", "client", "-e", router.endpoint(client), "--no-multicast-scouting"]
    return [builds.EXAMPLES / name, *session, place, key, *said]


def start_router(nodes: Nodes, name: str, *connect: str, config: Path | None = None) -> Router:
    arq, tcp = free_port(), free_port()
    router = Router(name, f"arq/127.0.0.1:{arq}", f"tcp/127.0.0.1:{tcp}")
    command = [builds.ZENOHD, "--no-multicast-scouting", "-l", router.arq, "-l", router.tcp]
    if config:
        command += ["-c", config]
    for endpoint in connect:
        command += ["-e", endpoint]
    nodes.start_listening(name, command, tcp)
    return router


def start_stock_router(nodes: Nodes, name: str, connect: str) -> Router:
    tcp = free_port()
    router = Router(name, "a stock router has no arq", f"tcp/127.0.0.1:{tcp}")
    nodes.start_listening(name, [builds.PYTHON, PYTHON_NODE, "route", "-e", connect, "-l", router.tcp], tcp)
    return router


def start_ready(nodes: Nodes, name: str, command: list[str | Path]) -> Node:
    node = nodes.start(name, command)
    node.matches(READY, 1)
    return node


def publications(near: Router, source: str, far: Router, sink: str, size: int, key: str) -> str:
    """A publisher at one router, a subscriber at the other or the same: each publication once, in order, unharmed."""
    text = f"of {key} ".ljust(size, "x")
    with Nodes() as nodes:
        subscriber = start_ready(nodes, f"{sink} subscriber", program(sink, "subscribe", far, key))
        publisher = nodes.start(f"{source} publisher", program(source, "publish", near, key, text))
        try:
            received = subscriber.matches(r"Received (PUT|DELETE) \('([^']*)': '\[ *(\d+)\] (.*)'\)$", PUBLICATIONS)
        except CheckFailed as failure:
            raise CheckFailed(f"{failure}\n{publisher.tail()}") from None
        first = int(received[0][3])
        for offset, match in enumerate(received):
            if (match[1], match[2], int(match[3]), match[4]) != ("PUT", key, first + offset, text):
                raise CheckFailed(f"publication {offset} is {clip(match[0])}\n{subscriber.tail()}")
    return f"{PUBLICATIONS} publications of {size} B in order"


def replies(near: Router, asker: str, far: Router, server: str, key: str) -> str:
    """A query with a payload and its reply: the queryable sees the one, the asker the other, once."""
    question, answer = f"question for {key}", f"answer of {key}"
    with Nodes() as nodes:
        queryable = start_ready(nodes, f"{server} queryable", program(server, "serve", far, key, answer))
        # A router may hear of the queryable after the asker's query: then that query has no reply, and another asks.
        for attempt in range(1, 11):
            get = nodes.start(f"{asker} get", program(asker, "get", near, key, question))
            status = get.finish()
            got = [m[1] for line in get.lines if (m := re.search(r">> Received \((.*)\)$", line))]
            if got or status != 0:
                break
        if status != 0 or got != [f"'{key}': '{answer}'"]:
            raise CheckFailed(f"the asker ended with status {status} and got {got}\n{get.tail()}\n{queryable.tail()}")
        seen = queryable.matches(r"Received Query '([^']*)' with payload '(.*)'$", 1)[0]
        if (seen[1], seen[2]) != (key, question):
            raise CheckFailed(f"the queryable saw {seen[0]}")
    return f"reply to query {attempt}"


def both_ways(near: Router, one: str, far: Router, other: str, key: str) -> str:
    publications(near, one, far, other, 20, f"{key}/there")
    publications(far, other, near, one, 20, f"{key}/back")
    replies(near, one, far, other, f"{key}/asked")
    replies(far, other, near, one, f"{key}/asked/back")
    return "publications and replies, both ways"


def another_version(near: Router, far: Router, version: str) -> str:
    """Nodes of another zenoh on both sides, as clients and as peers of their routers; ROS 2's graph is of tokens."""
    key = f"version/{version}"
    both_ways(near, f"client {version}", far, f"peer {version}", key)
    both_ways(near, f"peer {version}", far, f"client {version}", f"{key}/back")
    for mode, other in (("client", "peer"), ("peer", "client")):
        token_seen(near, f"{mode} {version}", far, f"{other} {version}", f"{key}/{mode}")
    return "publications, replies and liveliness tokens, both ways"


def token_seen(near: Router, asker: str, far: Router, holder: str, key: str) -> None:
    """A token at one router is seen at the other, by who watches and by who asks later."""
    with Nodes() as nodes:
        watcher = start_ready(nodes, f"{asker} watcher", program(asker, "watch", near, key))
        start_ready(nodes, f"{holder} token", program(holder, "live", far, key))
        watcher.matches(rf"Alive \('{key}'\)$", 1)
        late = start_ready(nodes, f"{asker} late watcher", program(asker, "watch", near, key))
        late.matches(rf"Alive \('{key}'\)$", 1)


def ros2_node(nodes: Nodes, role: str, mode: str, router: Router) -> Node:
    return nodes.start(role, [builds.ROS2_NODE, role, mode, router.tcp])


def ros2_ready(nodes: Nodes, role: str, mode: str, router: Router) -> Node:
    node = ros2_node(nodes, role, mode, router)
    node.matches(READY, 1)
    return node


def ros2_topic(near: Router, far: Router) -> str:
    """Small and large messages of a talker, who waits until the graph shows the listener."""
    with Nodes() as nodes:
        listener = ros2_ready(nodes, "listener", "client", far)
        talker = ros2_node(nodes, "talker", "peer", near)
        try:
            heard = listener.matches(r"I heard: (Hello World: (\d+) )x* \((\d+) B\)$", 2 * PUBLICATIONS)
        except CheckFailed as failure:
            raise CheckFailed(f"{failure}\n{talker.tail()}") from None
    for number, match in enumerate(heard, int(heard[0][2])):
        if (int(match[2]), int(match[3])) != (number, len(match[1]) + number % 2 * LARGE):
            raise CheckFailed(f"message {number} is {match[0]}")
    return f"{len(heard)} messages in order"


def ros2_late(near: Router, far: Router) -> str:
    """What is transient local reaches who comes later."""
    with Nodes() as nodes:
        ros2_ready(nodes, "map_server", "peer", near)
        ros2_ready(nodes, "map_reader", "client", far).matches(r"I heard: a map \(5 B\)$", 1)
    return "an old message"


def ros2_asked(server: str, client: str, patterns: list[str], near: Router, far: Router) -> str:
    """A service or an action: what the client prints of it."""
    with Nodes() as nodes:
        ros2_ready(nodes, server, "client", far)
        asker = ros2_node(nodes, client, "peer", near)
        if (status := asker.finish()) != 0:
            raise CheckFailed(f"{client} ended with status {status}\n{asker.tail()}")
        return ", ".join(asker.matches(pattern, 1)[0][0] for pattern in patterns)


def ros2_checks(a: Router, b: Router) -> list[tuple[str, Callable[[], str]]]:
    """Each both ways; each with a name of its own in the graph. rmw_zenoh's nodes are peers; clients listen nowhere."""
    fibonacci = [r"Feedback: \[0, 1, .*\]$", r"Result: \[0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55\]$"]
    parts = {
        "talker, listener": ros2_topic,
        "transient local": ros2_late,
        "service": partial(ros2_asked, "adder", "add_client", ["The sum is 42$"]),
        "action": partial(ros2_asked, "fibonacci", "fibonacci_client", fibonacci),
    }
    listed = [("ros2: the routers are joined by arq/", partial(link_between, b, a.arq))]
    for what, part in parts.items():
        title = f"ros2: hiroz <-> router <-arq-> router <-> hiroz, {what}"
        listed.append((title, lambda part=part: f"{part(a, b)}; {part(b, a)}"))
    return listed


def link_between(router: Router, wanted: str) -> str:
    """What the routers themselves tell, in their admin space, of a link that ends where `wanted` says."""
    with Nodes() as nodes:
        for _attempt in range(10):
            asker = nodes.start("links", [builds.PYTHON, PYTHON_NODE, "links", "-e", router.tcp, "--timeout", "2"])
            if asker.finish() == 0:
                for line in asker.lines:
                    if f'"{wanted}"' in line:
                        return line.partition("{")[2].rstrip("}")
    raise CheckFailed(f"no router tells of a link to {wanted}\n{asker.tail()}")


def stock_refuses(router: Router) -> str:
    """If the Python package spoke arq/ itself, the other checks would show nothing about stock nodes."""
    with Nodes() as nodes:
        asker = nodes.start("python", [builds.PYTHON, PYTHON_NODE, "get", "-e", router.arq])
        if asker.finish() == 0 or not any("Unable to connect" in line for line in asker.lines):
            raise CheckFailed(f"it opened a session\n{asker.tail()}")
    return "no session"


class Report:
    """Prints a line per check and remembers what failed."""

    def __init__(self, only: str) -> None:
        self._only = only
        self.passed = 0
        self.failed: list[str] = []

    def check(self, title: str, check: Callable[[], str]) -> None:
        if self._only in title:
            self.build(title, check)

    def build(self, title: str, check: Callable[[], str]) -> None:
        """A check that others need, whichever of them are asked for."""
        begin = time.monotonic()
        try:
            verdict, detail = "PASS", check()
            self.passed += 1
        except (CheckFailed, OSError, subprocess.SubprocessError) as failure:
            verdict, detail = "FAIL", str(failure)
            self.failed.append(title)
        print(f"{verdict}  {title}: {detail}  [{time.monotonic() - begin:.1f} s]", flush=True)


def checks(a: Router, b: Router, stock: Router, pairs: list[tuple[str, str]]) -> list[tuple[str, Callable[[], str]]]:
    """Titles and checks; each has a key of its own, so that several run at once."""
    listed = [
        ("links: the routers are joined by arq/ alone", partial(link_between, b, a.arq)),
        ("links: the stock router is joined by tcp/", partial(link_between, stock, a.tcp)),
        ("stock: the Python package knows no arq/", partial(stock_refuses, a)),
    ]
    for one, other in pairs:
        arrow = f"{one} -> router -> {other}"
        listed.append((f"publish: {arrow}", partial(publications, a, one, a, other, 20, f"put/{one}/{other}")))
        listed.append((f"query: {arrow}", partial(replies, a, one, a, other, f"query/{one}/{other}")))
    for one, other in [("arq", "python"), ("python", "arq")]:
        title = f"publish, {LARGE // 1000} KB: {one} -> router -> {other}"
        listed.append((title, partial(publications, a, one, a, other, LARGE, f"large/{one}/{other}")))
    for one, other in [("tcp", "python"), ("python", "tcp"), ("tcp", "tcp")]:
        title = f"two routers: {one} <-> router <-arq-> router <-> {other}"
        listed.append((title, partial(both_ways, a, one, b, other, f"routers/{one}/{other}")))
    for version in builds.OTHER_VERSIONS:
        title = f"other versions: {version} <-> router <-arq-> router <-> {version}"
        listed.append((title, partial(another_version, a, b, version)))
    title = "stock router: arq <-> router <-tcp-> stock router <-> python"
    listed.append((title, partial(both_ways, a, "arq", stock, "python", "stock")))
    return listed


def version(program: str | Path) -> str:
    quiet = os.environ | {"RUST_LOG": "off"}
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=10, env=quiet)
    return done.stdout.strip()


def print_versions() -> None:
    print(f"      {platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} CPUs")
    print(f"      {version(builds.ZENOHD)} (patched), {version(builds.EXAMPLES / 'z_pub')}")
    print(f"      eclipse-zenoh {builds.python_package_version(builds.PYTHON)} (unmodified)", flush=True)


def build(report: Report, arguments: argparse.Namespace) -> None:
    builds.python_package(builds.PYTHON, builds.ZENOH_VERSION)
    for version in builds.OTHER_VERSIONS:
        builds.python_package(builds.python_of(version), version)
    if not arguments.examples_built:
        builds.examples()
    report.build("patch: zenohd builds, patched by config", builds.router)
    what = "resolves" if arguments.git_resolve_only else "builds"
    by_git = partial(builds.application_by_git, arguments.git_resolve_only)
    report.check(f"patch: an application {what}, patched by git", by_git)
    report.check("patch: by config, a binding that takes zenoh by git", bindings.by_config)
    if arguments.ros:
        builds.ros2_nodes()
    if arguments.rebuild_python:
        report.build("patch: the Python package builds by pip wheel", builds.python_package_with_arq)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-build", action="store_true", help="use what is built; without it cargo decides what to do")
    parser.add_argument("--examples-built", action="store_true", help="use target/debug/z_* as `cargo test` built them")
    parser.add_argument("--git-resolve-only", action="store_true", help="resolve the patch by git, but compile nothing")
    parser.add_argument("--ros", action="store_true", help="nodes of ROS 2 by hiroz, too (some minutes)")
    parser.add_argument("--rebuild-python", action="store_true", help="the Python package over arq/, too (some minutes)")
    parser.add_argument("--build-only", action="store_true", help="build, but run no network checks")
    parser.add_argument("--only", default="", metavar="TEXT", help="build, then only the checks whose title has this text")
    parser.add_argument("--jobs", type=int, default=AT_ONCE, metavar="N", help="checks at a time [default: %(default)s]")
    arguments = parser.parse_args()
    # So that a request to end stops the nodes first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    begin = time.monotonic()
    report = Report(arguments.only)
    if not arguments.no_build:
        build(report, arguments)
    print_versions()
    if not arguments.build_only:
        with Nodes() as nodes:
            a = start_router(nodes, "router A")
            b = start_router(nodes, "router B", a.arq)
            stock = start_stock_router(nodes, "stock router", a.tcp)
            listed = checks(a, b, stock, PAIRS + (REBUILT_PAIRS if arguments.rebuild_python else []))
            if arguments.ros:
                config = builds.REPOSITORY / "configs" / "ros2-router.json5"
                robot = start_router(nodes, "robot's router", config=config)
                listed += ros2_checks(robot, start_router(nodes, "base's router", robot.arq, config=config))
            with ThreadPoolExecutor(arguments.jobs) as pool:
                list(pool.map(lambda titled: report.check(*titled), listed))
    if not report.passed + len(report.failed):
        parser.error(f"no check has {arguments.only!r} in its title")
    print(f"{report.passed} passed, {len(report.failed)} failed, {time.monotonic() - begin:.0f} s")
    for title in report.failed:
        print(f"FAIL  {title}")
    return min(len(report.failed), 99)


if __name__ == "__main__":
    sys.exit(main())
