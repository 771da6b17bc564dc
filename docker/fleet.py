# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Does the router of secured.yaml take the vehicle that docs/secured-links.md makes, and nobody else?"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import engine
from engine import CheckFailed, Ground, await_lines, await_that, inspect, logs, run

COMPOSE_FILE = engine.DOCKER / "secured.yaml"
PAGE = engine.ROOT / "docs" / "secured-links.md"
PUBLICATIONS = 5


def check(examples: str) -> str:
    with tempfile.TemporaryDirectory() as folder, Ground() as ground:
        commands = re.search(r"<!-- run:secured-links -->\n```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
        if commands is None:
            raise CheckFailed(f"{PAGE.name} has no commands that make certificates")
        run("sh", "-ec", commands[1], cwd=folder)
        with router(ground, folder) as address:
            return meet(ground, examples, folder, address)


@contextmanager
def router(ground: Ground, fleet: str) -> Iterator[str]:
    """The address of secured.yaml's service on the network of a ground; the service is gone at the end."""
    command = [*engine.compose(), "--file", COMPOSE_FILE, "--project-name", f"{ground.network}-fleet"]
    environment = os.environ | {"FLEET": fleet, "FLEET_USER": str(os.getuid())}

    def compose(*words: str) -> str:
        return run(*command, *words, env=environment)

    try:
        compose("up", "--detach", "--no-build")
        service = compose("ps", "--quiet", "router")
        run("docker", "network", "connect", ground.network, service)
        await_that(lambda: any("arq/" in line for line in logs(service)), service, "it listens")
        yield inspect("container", service)["NetworkSettings"]["Networks"][ground.network]["IPAddress"]
    finally:
        compose("down", "--volumes", "--timeout", "5")


def meet(ground: Ground, examples: str, fleet: str, address: str) -> str:
    endpoint = f"arq/{address}:7447#server_name=router.fleet"
    mounts = ("--volume", f"{fleet}:/etc/zenoh:ro", "--user", str(os.getuid()))
    config = ("--volume", f"{engine.ROOT}/configs/secured-vehicle.json5:/vehicle.json5:ro")
    vehicle = ("-c", "/vehicle.json5", "--no-multicast-scouting", "--connect", endpoint)
    options = (*mounts, *config)
    subscriber = ground.start("subscriber", examples, "z_sub", *vehicle, "--key", "fleet/**", options=options)
    await_lines(subscriber, "Press CTRL-C to quit", 1)
    ground.start("vehicle", examples, "z_pub", *vehicle, "--key", "fleet/7", "--payload", "sealed", options=options)
    stranger = ("--mode", "client", "--no-multicast-scouting", "--connect", f"arq/{address}:7447")
    refused = ground.start("stranger", examples, "z_pub", *stranger, "--key", "fleet/8", "--payload", "strange")
    heard = await_lines(subscriber, "Received PUT ('fleet/7'", PUBLICATIONS)
    await_that(lambda: inspect("container", refused)["State"]["Status"] == "exited", subscriber, "hears no stranger")
    if any("strange" in line for line in logs(subscriber)) or not any("encrypted" in line for line in logs(refused)):
        raise CheckFailed("a stranger without certificate was let in, or not told why not")
    return f"{len(heard)} messages of a vehicle with a certificate, none of a stranger"
