# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Models of one isolated message over a path that loses packets; latencies in round trips, one way is half of one.

`ideal` hears of each loss at once and repeats what was lost (closed form). `coded` repairs with as many symbols as make
completion nearly certain, and hears of losses at once as well. `detector` is event-driven: acknowledgements take half a
round trip and are lost like data, losses are found by gaps and by probe time-outs. None of them knows of chunks, frames,
estimates, congestion control or pacing.
"""

import heapq
import math
import random
from functools import lru_cache

# Chance that a repair does not suffice.
EPSILON = 0.01
# The same of parity; what a packet has beside its chunk, and what it costs beside its bytes.
ENOUGH, OVERHEAD, PACKET_COST = 0.006, 55, 20
SMALL_BYTES = 16 << 10


def at_least(sent: int, arrives: float, wanted: int) -> float:
    """The chance that `wanted` of `sent` packets arrive."""
    counts = range(max(wanted, 0), sent + 1)
    return sum(math.comb(sent, k) * arrives**k * (1 - arrives) ** (sent - k) for k in counts)


@lru_cache(None)
def needed(under_way: int, lacking: int, loss: float, epsilon: float = EPSILON) -> int:
    """Symbols beside those under way so that `lacking` arrive with a chance of 1 - epsilon."""
    fresh = 0
    while at_least(under_way + fresh, 1 - loss, lacking) < 1 - epsilon:
        fresh += 1
    return fresh


def ideal(packets: int, loss: float, quantile: float) -> float:
    """The ideal selective repeat without redundancy."""
    rounds = 0
    while (1 - loss ** (rounds + 1)) ** packets < quantile - 1e-12:
        rounds += 1
    return 0.5 + rounds


def coded(packets: int, parity: int, loss: float, trials: int, chance: random.Random) -> list[float]:
    """Parity first, then coded repair, each round of which is known at once."""
    latencies = []
    for _ in range(trials):
        lacking, rounds = packets, 0
        while True:
            sent = lacking + (parity if rounds == 0 else needed(0, lacking, loss) - lacking)
            lacking -= sum(chance.random() >= loss for _ in range(sent))
            if lacking <= 0:
                break
            rounds += 1
        latencies.append(0.5 + rounds)
    return sorted(latencies)


def failure(packets: int, parity: int, loss: float) -> float:
    """The chance that fewer than `packets` arrive."""
    return 1 - at_least(packets + parity, 1 - loss, packets)


def parity(packets: int, loss: float, budget: int) -> int:
    """Symbols that make a block 99.4 % certain, within the budget."""
    return min(needed(packets, packets, loss, ENOUGH), budget)


def protected(message: int, chunk: int, loss: float) -> tuple[int, int]:
    """Chunks and parity of a message with `fec=auto`, at a known loss that has no bursts and where rounds are long
    (arq-proto/src/redundancy): a small message has smaller chunks where that takes fewer bytes."""
    fewest = -(-message // chunk)
    if message > SMALL_BYTES:
        return fewest, parity(fewest, loss, int(fewest * (loss / (1 - loss) + 1 / 16)))
    # Two chunks in a packet would be lost together.
    most = max(fewest, (2 * message - 1) // (chunk + 8))
    best = None
    for count in range(fewest, most + 1):
        size = -(-message // count) + OVERHEAD
        symbols = parity(count, loss, int(message * 1.33 / (1 - loss) / size - count))
        lacking = max(0.0, failure(count, symbols, loss) - ENOUGH)
        cost = (count + symbols) * (size + PACKET_COST) + lacking * 8 * message
        best = min(best or (cost, count, symbols), (cost, count, symbols))
    return best[1:]


def detector(packets: int, repair: int, loss: float, chance: random.Random, code: bool = True) -> float:
    """One message; `repair` symbols of parity. Without `code`, lost chunks are repeated one for one."""
    events, order = [], 0
    srtt, granularity = 1.01, 0.005
    sent = []  # [chunk, when, state: 0 in flight, 1 acknowledged, 2 lost]
    known = [False] * packets
    arrived, chunks = set(), set()
    largest, newest, failed, timer = -1, -1, 0, 0
    recheck, last_sent = 0, 0.0
    bad_round = 1 - (1 - loss) ** 2
    flat = max(1, math.ceil(math.log(1e-3) / math.log(bad_round)))

    def push(at, kind, what):
        nonlocal order
        order += 1
        heapq.heappush(events, (at, order, kind, what))

    def jitter():
        return chance.expovariate(1 / 0.005)

    def send(now, chunk):
        nonlocal last_sent
        sent.append([chunk, now, 0])
        last_sent = now
        if chance.random() >= loss:
            push(now + 0.5 + jitter(), "arrive", len(sent) - 1)

    def arm(now):
        nonlocal timer
        timer += 1
        backoff = 1.0 if failed < flat else min(2.0 ** (failed - flat + 1), 64)
        push(max(last_sent, now if failed else last_sent) + (srtt + 0.08) * backoff, "probe", timer)

    def mend(now, lost, probe=False):
        if not code:
            for chunk in lost:
                if not known[chunk]:
                    send(now, chunk)
            return
        lacking = packets - sum(packet[2] == 1 for packet in sent)
        if lacking > 0:
            under_way = min(sum(packet[2] == 0 for packet in sent), 200)
            for _ in range(max(needed(under_way, lacking, loss), 1 if probe else 0)):
                send(now, -1)

    def detect(now):
        nonlocal recheck
        found, soonest = [], None
        for number in range(largest):
            packet = sent[number]
            if packet[2] == 0:
                if largest - number >= 3 or now - packet[1] >= srtt * 9 / 8 - 1e-9:
                    packet[2] = 2
                    found.append(packet[0])
                else:
                    due = packet[1] + srtt * 9 / 8
                    soonest = due if soonest is None else min(soonest, due)
        recheck += 1
        if soonest is not None:
            push(soonest, "recheck", recheck)
        return found

    for chunk in range(packets):
        send(0.0, -1 if code else chunk)
    for _ in range(repair):
        send(0.0, -1)
    arm(0.0)
    while events:
        now, _, kind, what = heapq.heappop(events)
        if kind == "arrive":
            arrived.add(what)
            chunks.add(sent[what][0] if not code else what)
            if len(chunks) >= packets:
                return now
            if chance.random() >= loss:
                push(now + 0.5 + jitter(), "acknowledge", frozenset(arrived))
        elif kind == "acknowledge":
            news = [number for number in what if sent[number][2] != 1]
            for number in news:
                sent[number][2] = 1
                if not code:
                    known[sent[number][0]] = True
                largest = max(largest, number)
            failed = 0 if news else failed
            lost = detect(now)
            if lost:
                mend(now, lost)
            if news or lost:
                arm(now)
        elif kind == "recheck" and what == recheck:
            lost = detect(now)
            if lost:
                mend(now, lost)
                arm(now)
        elif kind == "probe" and what == timer:
            failed += 1
            overdue = [packet for packet in sent if packet[2] == 0 and now - packet[1] >= srtt]
            for packet in overdue:
                packet[2] = 2
            if code:
                mend(now, [], probe=True)
            else:
                mend(now, [chunk for chunk in range(packets) if not known[chunk]])
            arm(now)
    return math.inf
