# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""How does a check talk to the container engine: which docker can build, which compose is here, who cleans up?"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path

DOCKER = Path(__file__).resolve().parent
ROOT = DOCKER.parent
sys.path.insert(0, str(ROOT / "interop"))

from nodes import CheckFailed, clip  # noqa: E402 (its folder is on the path only now)

PUBLIC_BASES = ("rust:1.95-bookworm", "debian:bookworm-slim")
BUILD_SECONDS = 5400
PATIENCE_SECONDS = 60.0


def run(*words: str | Path, seconds: float = PATIENCE_SECONDS, **options) -> str:
    """Runs a command to its end; what it printed, or an error that shows it."""
    command = [str(word) for word in words]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "cwd": ROOT} | options
    try:
        done = subprocess.run(command, text=True, check=False, timeout=seconds, stdin=subprocess.DEVNULL, **options)
    except subprocess.TimeoutExpired:
        raise CheckFailed(f"{clip(' '.join(command))} did not end within {seconds:.0f} s") from None
    if done.returncode != 0:
        raise CheckFailed(f"{clip(' '.join(command))} ended with status {done.returncode}\n{done.stdout or ''}")
    return (done.stdout or "").strip()


def fails(*words: str | Path, **options) -> bool:
    try:
        run(*words, **options)
    except CheckFailed:
        return True
    return False


def missing() -> str | None:
    """Why nothing can be checked here, if so."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    if fails("docker", "info"):
        return "the docker daemon does not answer: is it started, and may this user talk to it?"
    return None


def builder() -> str:
    """A docker client that speaks BuildKit: one with buildx, or one so old that it has BuildKit built in."""
    for folder in os.get_exec_path():
        client = shutil.which("docker", path=folder)
        if client is None:
            continue
        if not fails(client, "buildx", "version"):
            return client
        version = run(client, "version", "--format", "{{.Client.Version}}")
        if int(version.split(".")[0]) < 23:
            return client
    raise CheckFailed("the Dockerfile's cache mounts need BuildKit: install docker's buildx plugin")


def compose() -> list[str]:
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and not fails(*command, "version"):
            return command
    raise CheckFailed("neither `docker compose` nor docker-compose is installed")


def bases() -> str:
    """The public bases, pulled; where no registry is reached, stand-ins from Debian packages."""
    absent = [base for base in PUBLIC_BASES if fails("docker", "image", "inspect", base)]
    if any(fails("docker", "pull", "--quiet", base, seconds=600) for base in absent):
        run(DOCKER / "local_bases.sh", seconds=BUILD_SECONDS)
    return ", ".join(base for base in PUBLIC_BASES) + (f" ({len(absent)} were absent)" if absent else "")


def build(target: str, tag: str, network: str, opt_level: str) -> str:
    command = [builder(), "build", "--file", "docker/Dockerfile", "--target", target, "--tag", tag]
    command += ["--network", network, "--build-arg", f"OPT_LEVEL={opt_level}", "."]
    environment = os.environ | {"DOCKER_BUILDKIT": "1", "BUILDKIT_PROGRESS": "plain"}
    run(*command, seconds=BUILD_SECONDS, env=environment, stdout=None, stderr=None)
    return f"{megabytes(tag) - megabytes(PUBLIC_BASES[1]):.0f} MB above its base"


def megabytes(image: str) -> float:
    return inspect("image", image)["Size"] / 1e6


def inspect(kind: str, name: str) -> dict:
    return json.loads(run("docker", kind, "inspect", name))[0]


class Ground:
    """A network of its own and the containers on it, with names nobody else has; all are gone at the end."""

    def __init__(self) -> None:
        self.network = f"arq-check-{secrets.token_hex(4)}"
        self._containers: list[str] = []

    def __enter__(self) -> "Ground":
        run("docker", "network", "create", self.network)
        return self

    def __exit__(self, *_error: object) -> None:
        for name in reversed(self._containers):
            fails("docker", "rm", "--force", "--volumes", name)
        fails("docker", "network", "rm", self.network)

    def start(self, role: str, image: str, *arguments: str, options: tuple[str, ...] = (), beside: str = "") -> str:
        """Starts a container in the background and returns its name; `beside` another it shares that one's network."""
        name = f"{self.network}-{role}"
        network = f"container:{beside}" if beside else self.network
        self._containers.append(name)
        run("docker", "run", "--detach", "--name", name, "--network", network, *options, image, *arguments)
        return name

    def healthy_router(self, image: str, *arguments: str, options: tuple[str, ...] = ()) -> str:
        options = ("--network-alias", "router", *options)
        router = self.start("router", image, *arguments, options=options)
        await_that(lambda: inspect("container", router)["State"]["Health"]["Status"] == "healthy", router, "is healthy")
        return router


def logs(container: str) -> list[str]:
    return run("docker", "logs", container).splitlines()


def await_that(condition, container: str, what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Asks a container's condition again and again until it holds; an error shows the container's last lines."""
    deadline = time.monotonic() + seconds
    while not condition():
        ended = inspect("container", container)["State"]["Status"] == "exited"
        if ended or time.monotonic() > deadline:
            tail = "\n".join(f"      {container} | {clip(line)}" for line in logs(container)[-12:])
            raise CheckFailed(f"{container} {'ended' if ended else f'for {seconds:.0f} s not'}: {what}\n{tail}")
        time.sleep(0.2)


def await_lines(container: str, text: str, count: int, seconds: float = PATIENCE_SECONDS) -> list[str]:
    """The lines of a container's log with this text, once there are so many."""

    def found() -> list[str]:
        return [line for line in logs(container) if text in line]

    await_that(lambda: len(found()) >= count, container, f"{count} lines with {text!r}", seconds)
    return found()
