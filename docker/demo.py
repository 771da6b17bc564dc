# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Does `docker compose up` run the demo: do beacons reach the monitor in time over a network that loses packets?"""

import os
import re
import secrets
import time

import engine
from engine import CheckFailed, run

COMPOSE_FILE = engine.DOCKER / "compose.yaml"
LOSSY_SERVICES = ("lossy-router", "lossy-vehicles", "lossy-monitor")
LOSS_PERCENT = 20
START_SECONDS = 180.0
# The monitor's own window is 10 s: once it is full, its figures say something.
WATCH_SECONDS = 60.0
BEACONS = re.compile(r"beacons late or lost\s.*?(\d+) of (\d+) \(last 10 s\)")
LEAST_BEACONS = 50


def check() -> str:
    project = f"arq-check-{secrets.token_hex(4)}"
    command = [*engine.compose(), "--file", COMPOSE_FILE, "--project-name", project]
    environment = os.environ | {"LOSS_PERCENT": str(LOSS_PERCENT)}

    def compose(*words: str) -> str:
        return run(*command, *words, env=environment, seconds=START_SECONDS)

    try:
        compose("up", "--detach", "--no-build")
        told = watch(compose)
        return f"{told}; {losses(compose)}"
    finally:
        compose("down", "--volumes", "--timeout", "5")


def watch(compose) -> str:
    """Most beacons of the last 10 s came in time, as the monitor counts them."""
    deadline = time.monotonic() + WATCH_SECONDS
    while True:
        lines = compose("logs", "--no-color", "--tail", "40", "monitor")
        found = BEACONS.findall(lines)
        late, told = map(int, found[-1]) if found else (0, 0)
        if told >= LEAST_BEACONS and late < told / 2:
            return f"{told - late} of {told} beacons in time"
        if time.monotonic() > deadline:
            raise CheckFailed(f"{told - late} of {told} beacons in time, wanted most of {LEAST_BEACONS}\n{lines}")
        time.sleep(1)


def losses(compose) -> str:
    """The loss was real at each of the three."""
    shares = []
    for service in LOSSY_SERVICES:
        counted = compose("exec", "-T", service, "lossy", "count")
        share = re.search(r"\((\d+\.\d) %\)", counted)
        if share is None or not LOSS_PERCENT / 2 < float(share[1]) < LOSS_PERCENT * 2:
            raise CheckFailed(f"{service} was to drop {LOSS_PERCENT} %: {counted}")
        shares.append(share[1])
    return f"{', '.join(shares)} % of the packets dropped at the three"
