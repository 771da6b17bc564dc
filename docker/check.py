#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Do the images do what docs/docker.md says, on a real engine?

Builds them (the first time takes as long as compiling zenoh twice), starts containers on a network of its own and
checks the router's user, ports, health, end, arguments and plugins, messages over arq/ between containers with and
without loss, the bench, the demo of compose.yaml, and the router of secured.yaml. Leaves nothing behind but the images.

One line per check, PASS or FAIL; the exit status is the number of checks that failed (at most 99). Without docker it
says so and is a success.
"""

import argparse
import base64
import json
import re
import signal
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import partial

import demo
import engine
import fleet
from engine import CheckFailed, Ground, await_lines, await_that, inspect, logs, run

TAGS = {target: f"zenoh-arq/{target}" for target in ("zenohd", "examples", "bench", "lossy")}
ZENOHD, EXAMPLES, BENCH, LOSSY = TAGS.values()
USER = "10001"
NET_ADMIN = ("--cap-drop", "ALL", "--cap-add", "NET_ADMIN")
LOSS_PERCENT = 20
PUBLICATIONS = 5
# Above the base image, stripped: the router with its two plugins is the largest program.
MOST_MEGABYTES = 80


def user_and_ports() -> str:
    for image in (ZENOHD, EXAMPLES, BENCH):
        if (user := run("docker", "run", "--rm", "--entrypoint", "id", image, "-u")) != USER:
            raise CheckFailed(f"{image} runs as user {user}")
    ports = sorted(inspect("image", ZENOHD)["Config"]["ExposedPorts"])
    if ports != ["7447/tcp", "7447/udp", "8000/tcp"]:
        raise CheckFailed(f"{ZENOHD} exposes {ports}")
    return f"user {USER}, {', '.join(ports)}"


def small() -> str:
    size = engine.megabytes(ZENOHD) - engine.megabytes(engine.PUBLIC_BASES[1])
    if size > MOST_MEGABYTES:
        raise CheckFailed(f"{size:.0f} MB above its base, more than {MOST_MEGABYTES}")
    return f"{size:.0f} MB above its base"


def health_and_end() -> str:
    """Healthy when it answers, not when it is stopped or listens elsewhere; `docker stop` ends it without a kill."""
    with Ground() as ground:
        router = ground.healthy_router(ZENOHD)
        ask = ("docker", "exec", router)
        run(*ask, "arq-health", "tcp/127.0.0.1:7447")
        for endpoint in ("arq/127.0.0.1:7448", "tcp/127.0.0.1:7448"):
            if not engine.fails(*ask, "arq-health", endpoint):
                raise CheckFailed(f"arq-health finds a router at {endpoint}")
        run(*ask, "sh", "-c", "kill -STOP $(pidof zenohd)")
        if not engine.fails(*ask, "arq-health"):
            raise CheckFailed("arq-health calls a router healthy that does not run")
        run(*ask, "sh", "-c", "kill -CONT $(pidof zenohd)")
        run(*ask, "arq-health")
        begin = time.monotonic()
        run("docker", "stop", "--time", "30", router)
        if (status := inspect("container", router)["State"]["ExitCode"]) != 128 + signal.SIGTERM:
            raise CheckFailed(f"docker stop: the router ended with status {status}")
        return f"ended {time.monotonic() - begin:.1f} s after docker stop"


def arguments() -> str:
    """zenohd's own arguments: another listener takes the place of the configured ones, a wrong one is told."""
    with Ground() as ground:
        options = ("--env", "HEALTH_ENDPOINT=arq/127.0.0.1:7500")
        router = ground.healthy_router(ZENOHD, "--listen", "arq/0.0.0.0:7500#preset=wifi", options=options)
        if not engine.fails("docker", "exec", router, "arq-health", "tcp/127.0.0.1:7447"):
            raise CheckFailed("--listen leaves the configured listeners open")
        mistaken = ground.start("mistaken", ZENOHD, "--listen", "arq/0.0.0.0:7501#presett=wifi")
        status, told = run("docker", "wait", mistaken), "\n".join(logs(mistaken))
        if status == "0":
            raise CheckFailed("a key that does not exist is no error")
        if "`presett`" not in told or "queue_age_ms" not in told:
            raise CheckFailed(f"the error does not name the keys that there are: {told}")
    return "--listen overrides, a wrong key is an error"


def plugins() -> str:
    """REST and storage: what one container publishes over arq/ is stored and read over HTTP."""
    with Ground() as ground:
        storage = 'plugins/storage_manager/storages/demo:{key_expr:"demo/**",volume:"memory"}'
        router = ground.healthy_router(
            ZENOHD, "--rest-http-port", "8000", "--cfg", storage, options=("--publish", "127.0.0.1:0:8000")
        )
        port = run("docker", "port", router, "8000/tcp").rsplit(":", 1)[1]
        url = f"http://127.0.0.1:{port}/demo/stored"
        publish(ground, "demo/stored", "kept")

        def stored() -> bool:
            try:
                samples = json.load(urllib.request.urlopen(url, timeout=5))
            except OSError:
                return False
            # The plugin gives bytes without a known encoding in Base64.
            return any(b"kept" in base64.b64decode(sample["value"]) for sample in samples)

        await_that(stored, router, f"GET {url} tells what was stored")
    return "published over arq/, stored, read over HTTP"


def session() -> list[str]:
    return ["--mode", "client", "--no-multicast-scouting", "--connect", "arq/router:7447"]


def publish(ground: Ground, key: str, payload: str) -> str:
    """A publisher that repeats itself once a second until the ground is cleared."""
    return ground.start("publisher", EXAMPLES, "z_pub", *session(), "--key", key, "--payload", payload)


def messages() -> str:
    """A publisher and a subscriber that reach the router by arq/ alone."""
    with Ground() as ground:
        ground.healthy_router(ZENOHD)
        return exchange(ground)


def messages_over_loss() -> str:
    """The same while the router loses packets; the counts show that packets were lost, the messages that none was."""
    with Ground() as ground:
        router = ground.healthy_router(ZENOHD)
        lossy = ground.start("lossy", LOSSY, str(LOSS_PERCENT), options=NET_ADMIN, beside=router)
        await_lines(lossy, "packets that enter are dropped", 1)
        received = exchange(ground, publications=20)
        counted = run("docker", "exec", lossy, "lossy", "count")
        if not re.search(r", [1-9]\d* dropped", counted):
            raise CheckFailed(f"nothing was lost: {counted}")
        return f"{received}; at the router {counted}"


def exchange(ground: Ground, publications: int = PUBLICATIONS) -> str:
    subscriber = ground.start("subscriber", EXAMPLES, "z_sub", *session(), "--key", "demo/**")
    await_lines(subscriber, "Press CTRL-C to quit", 1)
    publish(ground, "demo/said", "of a container")
    lines = await_lines(subscriber, "Received PUT ('demo/said'", publications)
    numbers = [int(number) for line in lines for number in re.findall(r"\[ *(\d+)\] of a container", line)]
    if numbers != list(range(numbers[0], numbers[0] + len(lines))):
        raise CheckFailed(f"not in order, or not each once: {numbers}")
    return f"{len(numbers)} messages in order"


def allowed(program: str) -> list[str]:
    """What docker forbids of making namespaces without root, as docs/docker.md allows it to this program."""
    page = (engine.ROOT / "docs" / "docker.md").read_text().replace("\\\n", " ")
    told = [line for line in page.splitlines() if re.match(rf"docker run .* {program}\b", line)]
    if len(told) != 1:
        raise CheckFailed(f"docs/docker.md has {len(told)} commands with {program!r}")
    return [f"--security-opt={value}" for value in re.findall(r"--security-opt (\S+)", told[0])]


def page() -> str:
    """v2v_demo serves its page from a container, and ends well."""
    with Ground() as ground:
        options = ("--publish", "127.0.0.1:0:8088", *allowed(f"{EXAMPLES} v2v_demo"))
        demo_page = ground.start("demo", EXAMPLES, "v2v_demo", "--page", "0.0.0.0:8088", options=options)
        await_lines(demo_page, "The page is at", 1)
        port = run("docker", "port", demo_page, "8088/tcp").rsplit(":", 1)[1]
        html = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30).read().decode()
        if "<html" not in html:
            raise CheckFailed(f"no page: {html[:200]}")
        await_lines(demo_page, "oldest news", 2)
        run("docker", "stop", "--time", "30", demo_page)
        if (status := inspect("container", demo_page)["State"]["ExitCode"]) != 0:
            raise CheckFailed(f"docker stop: it ended with status {status}")
        return f"{len(html) // 1000} KB, {logs(demo_page)[-1].strip()}"


def bench_in_a_container() -> str:
    """The bench makes its namespaces without root."""
    listed = run("docker", "run", "--rm", BENCH, "list")
    if "drop-rate" not in listed:
        raise CheckFailed(f"arq-bench list: {listed}")
    with Ground() as ground:
        quick = ground.start("bench", BENCH, "quick", options=tuple(allowed(f"{BENCH} quick")))
        status = run("docker", "wait", quick, seconds=900)
        told = logs(quick)
        if status != "0":
            raise CheckFailed(f"quick ended with status {status}: {told[-1:]}")
        return f"list, quick: {len(told)} lines"


class Report:
    """Prints a line per check and remembers what failed."""

    def __init__(self, only: str) -> None:
        self._only = only
        self.passed = 0
        self.failed: list[str] = []

    def check(self, title: str, check: Callable[[], str]) -> None:
        if self._only not in title:
            return
        begin = time.monotonic()
        try:
            verdict, detail = "PASS", check()
            self.passed += 1
        except (CheckFailed, OSError) as failure:
            verdict, detail = "FAIL", str(failure)
            self.failed.append(title)
        print(f"{verdict}  {title}: {detail}  [{time.monotonic() - begin:.1f} s]", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-build", action="store_true", help="use the images that there are")
    parser.add_argument("--opt-level", default="3", help="of the programs: 0 builds fastest [default: %(default)s]")
    parser.add_argument("--network", default="host", help="the network while building [default: %(default)s]")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the checks whose title has this text")
    asked = parser.parse_args()
    # So that a request to end removes the containers first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if (why := engine.missing()) is not None:
        print(f"\n*** SKIPPED docker: {why}\n")
        return 0
    report = Report(asked.only)
    if not asked.no_build:
        report.check("build: the bases", engine.bases)
        for target, tag in TAGS.items():
            report.check(f"build: {tag}", partial(engine.build, target, tag, asked.network, asked.opt_level))
    for title, check in [
        ("router: user and ports", user_and_ports),
        *([("router: size", small)] if asked.opt_level == "3" else []),
        ("router: health and end", health_and_end),
        ("router: arguments", arguments),
        ("router: plugins", plugins),
        ("messages: router and two containers", messages),
        (f"messages: {LOSS_PERCENT} % loss at the router", messages_over_loss),
        ("examples: the demo's page", page),
        ("bench: in a container", bench_in_a_container),
        ("compose: the demo", demo.check),
        ("compose: a router of its own fleet", partial(fleet.check, EXAMPLES)),
    ]:
        report.check(title, check)
    if not report.passed + len(report.failed):
        parser.error(f"no check has {asked.only!r} in its title")
    print(f"{report.passed} passed, {len(report.failed)} failed")
    for title in report.failed:
        print(f"FAIL  {title}")
    return min(len(report.failed), 99)


if __name__ == "__main__":
    sys.exit(main())
