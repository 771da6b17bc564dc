# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""How does a check start zenoh nodes, read what they print, and leave none behind?

A node is a child process whose lines are kept. Every wait has a deadline, and its error shows the node's last lines.
"""

import os
import random
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

PATIENCE_SECONDS = 30.0
LINES_IN_AN_ERROR = 12
PORTS = range(20_000, 32_000)  # below what systems hand out to clients, so that no connection takes one in between


class CheckFailed(Exception):
    """What a check expected, and what it saw instead."""


class Node:
    """One running program and everything that it has printed so far."""

    def __init__(self, name: str, command: list[str | Path]) -> None:
        self.name = name
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=os.environ | {"NO_COLOR": "1"},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def matches(self, pattern: str, count: int) -> list[re.Match]:
        """The first `count` lines that the pattern finds, waiting for them if need be."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        with self._news:
            while len(found := [m for line in self.lines if (m := re.search(pattern, line))]) < count:
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    why = "ended" if self._ended else f"ran for {PATIENCE_SECONDS:.0f} s"
                    seen = f"{len(found)} of {count} lines like {clip(pattern)}"
                    raise CheckFailed(f"{self.name} {why} with {seen}\n{self.tail()}")
                self._news.wait(left)
        return found[:count]

    def finish(self) -> int:
        """Waits for the program to end by itself."""
        try:
            status = self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise CheckFailed(f"{self.name} did not end within {PATIENCE_SECONDS:.0f} s\n{self.tail()}") from None
        self._reader.join()
        return status

    def tail(self) -> str:
        return "\n".join(f"      {self.name} | {clip(line)}" for line in self.lines[-LINES_IN_AN_ERROR:])

    def has_ended(self) -> bool:
        with self._news:
            return self._ended

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Nodes:
    """The nodes of one check; all are stopped when it ends, however it ends."""

    def __init__(self) -> None:
        self._running: list[Node] = []

    def __enter__(self) -> "Nodes":
        return self

    def __exit__(self, *_error: object) -> None:
        for node in reversed(self._running):
            node.stop()

    def start(self, name: str, command: list[str | Path]) -> Node:
        node = Node(name, command)
        self._running.append(node)
        return node

    def start_listening(self, name: str, command: list[str | Path], tcp_port: int) -> Node:
        """Starts a node and waits until its tcp listener, named last on its command line, takes connections."""
        node = self.start(name, command)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", tcp_port), timeout=1).close()
                return node
            except OSError:
                if node.has_ended() or time.monotonic() > deadline:
                    raise CheckFailed(f"{name} does not listen on tcp port {tcp_port}\n{node.tail()}") from None
                time.sleep(0.02)


def free_port() -> int:
    """A port of the loopback address that neither a tcp nor a udp socket uses."""
    for port in random.sample(PORTS, 100):
        try:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as probe:
                    probe.bind(("127.0.0.1", port))
            return port
        except OSError:
            continue
    raise CheckFailed(f"no free port in 100 tries between {PORTS.start} and {PORTS.stop}")


def clip(text: str, length: int = 240) -> str:
    return text if len(text) <= length else f"{text[:length]}... ({len(text)} characters)"
