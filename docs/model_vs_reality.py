#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Prints the models, the simulator and the bench side by side.

They agree, except:
- `fec=off` has an earlier p99 than an ideal ARQ: several symbols answer a loss, which costs bytes.
- 100 KB with `fec=off` have a p99 up to a round later than the model: they are two messages, each made 99 % certain.
- `fec=auto` at 10 ms is earlier than the model, which paces; the path has shown that it takes the burst (ARQ-CC-9).
- Probes take 1.50 round trips instead of 1.60, and at 25 % no second round at p99.9: virtual round trips do not vary, and
  the link overestimates loss and sends one copy more.
- `fec=auto` does not double single packets: their budget is a third of a symbol (ADR 20).
- `fec=40`, 100 KB, 25 %: fewer messages without feedback, for pacing spreads the train past a round trip.
- The bench is later, most at p99 of 100 KB: zenoh, kernel and processes; back-to-back messages; loss still unknown at first;
  few messages per run.

Takes the rows of `cargo run --release -p arq-sim --example model_cases`, computes the models (docs/models/arq.py) from a
fixed seed, and reads the bench's results (docs/report/drop-rate/results.csv).
"""

import csv
import random
import statistics
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "models"))
import arq  # noqa: E402

CHUNK_BYTES = 1112
# A publication of 100 KB is two messages.
MESSAGES = {300: [300], 10_000: [10_000], 100_000: [65_447, 34_553]}
TRIALS = {300: 20_000, 10_000: 8_000, 100_000: 2_000}
LOSSES = [5, 10, 25]
DELAYS = [0.5, 10.0]


def chunks(size: int) -> list[int]:
    return [-(-message // CHUNK_BYTES) for message in MESSAGES[size]]


def protected(size: int, loss: float) -> tuple[int, int]:
    """Packets and parity."""
    parts = [arq.protected(message, CHUNK_BYTES, loss) for message in MESSAGES[size]]
    return tuple(map(sum, zip(*parts)))


def rank(ordered: list[float], at: float) -> float:
    return ordered[min(len(ordered) - 1, max(0, -(-int(len(ordered) * at * 1000) // 1000) - 1))]


def detected(size: int, packets: int, repair: int, loss: float, code: bool = True) -> list[float]:
    chance = random.Random(f"{size} {repair} {loss} {code}")
    return sorted(arq.detector(packets, repair, loss, chance, code) for _ in range(TRIALS[size]))


def simulated(path: Path) -> dict[tuple, dict[str, float]]:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    key = lambda row: (row["fec"], int(row["bytes"]), float(row["delay_ms"]), int(row["drop_percent"]))  # noqa: E731
    return {key(row): {name: float(value) for name, value in row.items() if name != "fec"} for row in rows}


def measured() -> dict[tuple, tuple[float, float]]:
    """p50 and p99 of `arq`, milliseconds, medians of the repeats."""
    runs: dict[tuple, list[tuple[float, float]]] = {}
    # Two columns are called `payload_bytes`; they are the same.
    with (DOCS / "report" / "drop-rate" / "results.csv").open() as file:
        for row in csv.DictReader(file):
            if row["link"] == "arq" and row["p50_ms"] and row["p99_ms"]:
                key = (int(row["payload_bytes"]), float(row["delay_ms"]), int(row["drop_percent"]))
                runs.setdefault(key, []).append((float(row["p50_ms"]), float(row["p99_ms"])))
    return {key: tuple(map(statistics.median, zip(*values))) for key, values in runs.items()}


def pair(p50: float, p99: float) -> str:
    return f"{p50:.1f} / {p99:.1f}"


def in_ms(latencies: list[float], delay: float) -> str:
    return pair(*(rank(latencies, at) * 2 * delay for at in (0.5, 0.99)))


def table(head: list[str], rows: list[list[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def latencies(sim: dict, bench: dict) -> str:
    rows = []
    models = {}
    for size in (10_000, 100_000):
        for percent in LOSSES:
            loss, packets = percent / 100, sum(chunks(size))
            block = protected(size, loss)
            at_once = arq.coded(packets, 0, loss, TRIALS[size], random.Random(1))
            models[size, percent] = (packets, block, at_once, detected(size, packets, 0, loss), detected(size, *block, loss))
    for size in (10_000, 100_000):
        for delay in DELAYS:
            for percent in LOSSES:
                packets, block, at_once, off, auto = models[size, percent]
                ideal = [arq.ideal(packets, percent / 100, at) * 2 * delay for at in (0.5, 0.99)]
                of = lambda fec: pair(*(sim[fec, size, delay, percent][p] * 2 * delay for p in ("p50_rtt", "p99_rtt")))  # noqa: E731
                real = bench.get((size, delay, percent))
                rows.append([
                    f"{size // 1000} KB, {delay:g} ms, {percent} %", pair(*ideal), in_ms(at_once, delay), in_ms(off, delay),
                    of("off"), "{} + {}".format(*block), in_ms(auto, delay), of("auto"), pair(*real) if real else "–",
                ])
    head = ["case", "ideal ARQ", "repair, at once", "repair, detected", "`arq-sim`, `fec=off`", "packets and parity", "parity and repair, detected", "`arq-sim`, `fec=auto`", "bench, `arq`"]
    return "### Latency\n\nMilliseconds, p50 / p99.\n\n" + table(head, rows)


def probes(sim: dict) -> str:
    rows = []
    for percent in LOSSES:
        plain, coded = (detected(300, 1, 0, percent / 100, code) for code in (False, True))
        three = lambda found: " / ".join(f"{rank(found, at):.2f}" for at in (0.5, 0.99, 0.999))  # noqa: E731
        of = lambda delay: " / ".join(f"{sim['off', 300, delay, percent][p]:.2f}" for p in ("p50_rtt", "p99_rtt", "p99.9_rtt"))  # noqa: E731
        rows.append([f"{percent} %", three(plain), three(coded), of(0.5), of(10.0), "–"])
    head = ["lost", "model, one copy", "model, by confidence", "`arq-sim`, 1 ms", "`arq-sim`, 20 ms", "bench"]
    return "### Probe time-outs\n\nRound trips, p50 / p99 / p99.9, of messages of one packet: only a probe can find them lost.\n\n" + table(head, rows)


def decoded(sim: dict) -> str:
    rows = []
    for size in (10_000, 100_000):
        for fec in (20, 40):
            for percent in LOSSES:
                chance = 1.0
                for count in chunks(size):
                    chance *= arq.at_least(count - (-count * fec // 100), 1 - percent / 100, count)
                found = [100 * sim[str(fec), size, delay, percent]["first_round"] for delay in DELAYS]
                rows.append([f"{size // 1000} KB, `fec={fec}`, {percent} %", f"{100 * chance:.1f}", *(f"{share:.1f}" for share in found), "–"])
    head = ["case", "binomial", "`arq-sim`, 1 ms", "`arq-sim`, 20 ms", "bench"]
    return "### Parity\n\nMessages that are complete without any feedback, per cent.\n\n" + table(head, rows)


def main() -> int:
    sim, bench = simulated(Path(sys.argv[1])), measured()
    print("\n".join([latencies(sim, bench), probes(sim), decoded(sim)]))
    return 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) == 2 else __doc__)
