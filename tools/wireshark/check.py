#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Does the dissector see what the protocol says, and nothing that is not ours?

Writes captures, has tshark read them with arq.lua, and compares: the packets of docs/protocol-examples.txt, datagrams that
only look like ours, and runs of arq-tokio's `echo` example (`--echo PATH`): over a relay that drops some datagrams, and
captured from the loopback interface, where batches are, if dumpcap may. Sealed packets are opened by unseal.py: of every
suite, and of runs of z_sub and z_pub with a pre-shared key and with certificates. A run of arq-bench is captured in one of
its hosts. These programs are in `--programs FOLDER`. What cannot run is skipped, unless ARQ_REQUIRE_LAB is 1.
"""

import argparse
import contextlib
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from xml.etree import ElementTree

try:
    import unseal
except ImportError:
    unseal = None

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "docs"))
from check_examples import block_bytes, crc32c, example_blocks  # noqa: E402

LINKTYPE_IPV4 = 228
# Fewer than a run of the bench has: dumpcap leaves half a packet where an interface goes.
MOST_PACKETS = 1_000
# Far above what is needed: only a hang runs into it.
PATIENCE = 60
CLIENT, SERVER = ("10.0.0.2", 40_000), ("10.0.0.1", 7447)
STRANGER = ("10.0.0.3", 50_000)
CLIENT_ID, SERVER_ID = bytes.fromhex("1122334455667788"), bytes.fromhex("99aabbccddeeff00")

# What stands in the column Info for each example, in the order of the document.
EXAMPLES = [
    "HELLO, attempt 0",
    "HELLO, attempt 1",
    "CHALLENGE to attempt 0",
    "DATA 0 ACK_NOW with cookie, PING",
    "DATA 0, ACK 0",
    "DATA 1 ACK_NOW, MESSAGE data 0",
    "DATA 2, CHUNK data 1 [0 of 2]",
    "DATA 7 ACK_NOW, REPAIR data 1 [0 for 2]",
    "DATA 1 ACK_NOW, MAX_DATA 20971520, MAX_LANE_DATA data 2621440, ACK 61..=100 0..=59",
    "DATA 2, ACK 20 19 17 15 14 12 10 8 7",
    "DATA 3 ACK_NOW, FORGET data (best effort) 7",
    "DATA 4 ACK_NOW, PING",
    "DATA 3, PATH_CHALLENGE 5eed5eed5eed5eed",
    "DATA 5, PATH_RESPONSE 5eed5eed5eed5eed",
    "DATA 6 ACK_NOW, CLOSE finished",
    "DATA 7, PATH_ACK path 1: 5 4 3 1, PATH_STATE path 1: backup",
    "DATA 4, ACK 6 5 4 2, ECT(0) 100, ECT(1) 0, CE 3",
    "REFUSE: busy",
    "RESET of packet 6",
]
# Values of some of them: index, field, what tshark shows.
VALUES = [
    (0, "arq.scid", "0x1122334455667788"),
    (0, "arq.version", "0x61727101"),
    (2, "arq.max_datagram", "65507"),
    (2, "arq.lane_window", "2097152"),
    (2, "arq.connection_window", "16777216"),
    (5, "arq.lane", "10"),
    (5, "arq.data", "68:65:6c:6c:6f"),
    (6, "arq.size", "1000"),
    (9, "arq.ack.delay", "300"),
    (16, "arq.ack.ce", "3"),
]


def examples():
    """The packets of the document, as it writes them."""
    return [block for _, block in example_blocks()]


class Wrong(Exception):
    """The dissector says something else than the protocol."""


def expect(have, want, what):
    if have != want:
        raise Wrong(f"{what}:\n  have {have!r}\n  want {want!r}")


def ipv4(source, destination, payload, snap=None):
    """A datagram as a record of a capture, of which `snap` bytes were kept."""
    udp = struct.pack("!HHHH", source[1], destination[1], 8 + len(payload), 0) + payload
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0)
    whole = head + socket.inet_aton(source[0]) + socket.inet_aton(destination[0]) + udp
    return whole[:snap], len(whole)


def tshark(path, *options):
    """What tshark prints of a capture."""
    command = ["tshark", "-n", "-X", f"lua_script:{HERE / 'arq.lua'}", "-r", str(path), *options]
    ran = subprocess.run(command, capture_output=True, text=True)
    # tshark names an error of a script there, and goes on.
    if ran.returncode != 0 or "Lua" in ran.stderr or "Lua Error" in ran.stdout:
        raise Wrong(f"{' '.join(command)}:\n{ran.stdout[-2000:]}\n{ran.stderr}")
    return ran.stdout


class Capture:
    """A pcap file."""

    def __init__(self, folder, name):
        self.path = Path(folder) / name
        self.file = self.path.open("wb")
        self.file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, LINKTYPE_IPV4))
        self.begin = time.monotonic()

    def add(self, source, destination, payload, snap=None):
        kept, length = ipv4(source, destination, payload, snap)
        passed = time.monotonic() - self.begin
        self.file.write(struct.pack("<IIII", int(passed), int(passed % 1 * 1e6), len(kept), length) + kept)

    def read(self, *options):
        """What tshark prints of it."""
        self.file.flush()
        return tshark(self.path, *options)

    def columns(self):
        """Protocol and Info of each packet."""
        text = self.read("-T", "fields", "-e", "_ws.col.Protocol", "-e", "_ws.col.Info")
        return [tuple(line.split("\t", 1)) for line in text.splitlines()]


def sealed_by(body):
    return body + crc32c(body).to_bytes(4, "big")


# Worked examples ----------------------------------------------------------------------------------------------------


def line_starts(block):
    """Where each line begins that says what it is: (offset in the packet, its bytes in hex, its comment)."""
    offset, found = 0, []
    for line in block.splitlines():
        if re.search(r" {2,}\S", line):
            found.append((offset, line))
        offset += len(block_bytes(line))
    return found


def check_examples(folder):
    """Each is named, and each of its lines begins a field."""
    blocks = examples()
    expect(len(blocks), len(EXAMPLES), "packets in docs/protocol-examples.txt")
    capture = Capture(folder, "examples.pcap")
    for block in blocks:
        datagram = block_bytes(block)
        from_server = datagram[0] in (0xA1, 0xA2, 0xA3) or datagram[1:9] == CLIENT_ID
        capture.add(*((SERVER, CLIENT) if from_server else (CLIENT, SERVER)), datagram)
    expect(capture.columns(), [("ARQ", info) for info in EXAMPLES], "columns")
    packets = ElementTree.fromstring(capture.read("-T", "pdml")).findall("packet")
    for number, (block, packet) in enumerate(zip(blocks, packets, strict=True)):
        proto = packet.find("proto[@name='arq']")
        begin, fields = int(proto.get("pos")), list(proto.iter("field"))
        starts = {int(field.get("pos")) - begin for field in fields if field.get("name").startswith("arq.")}
        for offset, line in line_starts(block):
            if offset not in starts:
                raise Wrong(f"example {number}: no field begins at byte {offset}: {line}")
        expect(covered(fields, begin, len(block_bytes(block))), [], f"example {number}: bytes without a field")
        if [field for field in fields if "malformed" in field.get("name") or "tag.bad" in field.get("name")]:
            raise Wrong(f"example {number}: an error is reported")
    for number, name, value in VALUES:
        shown = {field.get("show") for field in packets[number].iter("field") if field.get("name") == name}
        if value not in shown:
            raise Wrong(f"example {number}: {name} is {shown}, not {value}")
    return f"{len(blocks)} worked examples, every line of them a field"


def covered(fields, begin, length):
    """The bytes of a packet that are in no field without parts."""
    left = set(range(length))
    for field in fields:
        if field.find("field") is None:
            start = int(field.get("pos")) - begin
            left -= set(range(start, start + int(field.get("size"))))
    return sorted(left)


# What is not ours, and what is damaged ------------------------------------------------------------------------------


def look_alikes(rng):
    """Datagrams that begin like ours and are none."""
    for kind in range(0xA0, 0xB2):
        for length in (1, 8, 13, 14, 40, 168, 1_200):
            yield bytes([kind]) + rng.randbytes(length - 1)
    # The checksum is right, the kind is not ours; the checksum is that of another polynomial (zlib's).
    yield sealed_by(b"\x7f" + rng.randbytes(40))
    body = b"\xa8" + rng.randbytes(40)
    yield body + struct.pack("!I", zlib.crc32(body))


def check_strangers(folder, seed):
    """Nothing is named ARQ that has not a right checksum, or the id of an association that had."""
    rng, capture = random.Random(seed), Capture(folder, "strangers.pcap")
    for datagram in look_alikes(rng):
        capture.add(STRANGER, (SERVER[0], rng.randrange(20_000, 30_000)), datagram)
    ours = block_bytes(examples()[5])
    capture.add(STRANGER, SERVER, ours, snap=40)
    named = [row for row in capture.columns() if row[0] == "ARQ"]
    expect(named, [], f"named ARQ, seed {seed}")
    return "none of the look-alikes is named"


def hostile_frames():
    """Bodies of DATA packets that break off or lie, and what is said of them."""
    head = b"\xa8" + SERVER_ID + bytes(4)
    yield head, "malformed: span: truncated"
    yield head + b"\x00\x0d", "malformed: frame.kind: 0x0d is unknown"
    yield head + b"\x00\x1a\x00\x05hel", "malformed: data: truncated"
    yield head + b"\x00\x02\x05\x00\x3f\x00", "malformed: ack.gap: truncated"
    yield head + b"\x00\x02\x05\x00\x00\x06", "malformed: ack.length: invalid value"
    yield head + b"\x00\x03\x01\x00\x01\x10", "malformed: ack.bitmap: invalid value"
    yield head + b"\x00\x2a\x00\x47\xd0\x43\xe8\x02", "malformed: index: invalid value"
    yield b"\xab" + head[1:] + bytes(1) + CLIENT_ID + b"ar\x71\x01\x00\x05\x02", "malformed: parameters: truncated"


def check_damaged(folder):
    """Within an association damage is shown; sealed packets are named by their ids."""
    capture = Capture(folder, "damaged.pcap")
    hello, challenge = (block_bytes(examples()[index]) for index in (0, 2))
    capture.add(CLIENT, SERVER, hello)
    capture.add(SERVER, CLIENT, challenge)
    want = [EXAMPLES[0], EXAMPLES[2]]
    for body, problem in hostile_frames():
        capture.add(CLIENT, SERVER, sealed_by(body))
        want.append(problem)
    damaged = bytearray(block_bytes(examples()[11]))
    damaged[-1] ^= 1
    capture.add(CLIENT, SERVER, bytes(damaged))
    want.append(EXAMPLES[11] + ", BAD TAG")
    # From an address that was not seen before.
    capture.add(STRANGER, SERVER, b"\xb0" + SERVER_ID + bytes(range(40)))
    want.append("SEALED")
    rows = capture.columns()
    expect([row[0] for row in rows], ["ARQ"] * len(want), "protocols")
    for (_, info), ending in zip(rows, want, strict=True):
        if not info.endswith(ending):
            raise Wrong(f"{info!r} does not end with {ending!r}")
    bad = capture.read("-Y", "arq.tag.bad || arq.malformed", "-T", "fields", "-e", "frame.number")
    expect(len(bad.splitlines()), len(want) - 3, "packets with expert information")
    return f"{len(want)} packets with damage or seals are named for what they are"


def check_batches(folder):
    """Several packets that were captured as one, as segmentation offload leaves them."""
    blocks = examples()
    chunk, repair, ping = (block_bytes(blocks[index]) for index in (6, 7, 11))
    infos = [EXAMPLES[index] for index in (6, 7, 11)]
    capture = Capture(folder, "batches.pcap")
    capture.add(CLIENT, SERVER, chunk + repair + ping)
    capture.add(CLIENT, SERVER, chunk + chunk)
    # The payload of the first packet holds the id, as a packet would.
    decoy = sealed_by(chunk[:-4][:1_000] + b"\xa8" + SERVER_ID + bytes(12))
    capture.add(CLIENT, SERVER, decoy + decoy)
    sealed = b"\xb0" + SERVER_ID + bytes(range(200))
    capture.add(CLIENT, SERVER, sealed * 3 + sealed[:100])
    # The second packet of three is damaged: it is not ours, as far as anybody can tell.
    damaged = repair[:-1] + bytes([repair[-1] ^ 1])
    capture.add(STRANGER, SERVER, chunk + damaged + ping)
    rows = capture.columns()
    expect(rows[0], ("ARQ", " | ".join(infos)), "a batch")
    expect(rows[1], ("ARQ", f"{infos[0]} | {infos[0]}"), "a batch of two")
    expect(rows[2], ("ARQ", f"{infos[0]} | {infos[0]}"), "a batch with the id in its payload")
    expect(rows[3], ("ARQ", " | ".join(["SEALED"] * 4)), "a sealed batch")
    expect(rows[4][0], "UDP", "a batch with damage")
    return "batches are taken apart"


def check_encrypted(folder):
    """What of the packets of an encrypted version stands in the clear."""
    version = bytes.fromhex("61727102")
    flight = bytes(range(1, 101))
    handshake = sealed_by(b"\xa4" + CLIENT_ID + SERVER_ID + version + b"\x01\x40\x64" + flight)
    hello = block_bytes(examples()[1])[:-4]
    packets = [
        (sealed_by(hello[:19] + version + flight + hello[23 + len(flight):]), "HELLO, attempt 1"),
        (sealed_by(b"\xa1" + CLIENT_ID + bytes(8) + version + b"\x01\x02ab" + bytes(16)), "CHALLENGE to attempt 1"),
        (handshake, "HANDSHAKE, attempt 1"),
        (handshake + bytes(60), "HANDSHAKE, attempt 1"),
        (sealed_by(b"\xa2" + CLIENT_ID + b"\x01\x01" + version), "REFUSE: no common version"),
        (sealed_by(b"\xa2" + CLIENT_ID + b"\x03\x28"), "REFUSE: handshake failed"),
        (sealed_by(b"\xa3" + CLIENT_ID + b"endoftag"), "RESET of a sealed packet"),
        (b"\xb1" + SERVER_ID + bytes(40), "SEALED"),
    ]
    capture = Capture(folder, "encrypted.pcap")
    for port, (packet, _) in enumerate(packets, 50_000):
        capture.add((CLIENT[0], port), SERVER, packet)
    # Where the clear part of a HANDSHAKE is damaged, nothing says that it is one; nor is there an id of zeros.
    capture.add(STRANGER, SERVER, handshake[:30] + b"?" + handshake[31:])
    capture.add(STRANGER, SERVER, b"\xb1" + bytes(48))
    rows = capture.columns()
    expect(rows[:-2], [("ARQ", info) for _, info in packets], "encrypted packets")
    expect([row[0] for row in rows[-2:]], ["UDP", "UDP"], "look-alikes of encrypted packets")
    wrong = capture.read("-Y", "arq.tag.bad || arq.malformed")
    expect(wrong, "", "encrypted packets that seem damaged")
    return "of encrypted packets the clear part is shown"


# Sealed packets -----------------------------------------------------------------------------------------------------


def seal(direction, update, number, plain):
    """ARQ-SEC-2 and ARQ-SEC-5, the other way round."""
    aead, iv = direction.keys(update)
    header = bytearray(bytes([0xB0 | update & 1]) + SERVER_ID + struct.pack("!I", number & 0xFFFF_FFFF))
    body = aead.encrypt(unseal.nonce(iv, direction.path, number), plain, bytes(header))
    mask = direction.mask(direction.mask_key, body[:16])
    header[0] ^= mask[0] & 1
    header[9:] = bytes(a ^ b for a, b in zip(header[9:], mask[1:5]))
    return bytes(header) + body


def check_suites(folder):
    """Packets of every suite are opened, over key updates, on other paths and in batches."""
    # ACK_NOW, span 0, PING, and enough padding for a mask.
    ping = b"\x01\x01" + bytes(20)
    for path, suite in enumerate(unseal.SUITES):
        secrets = [bytes([side]) * suite[0] for side in (1, 2)]
        direction = unseal.Direction(secrets[1], suite, path)
        packets = [seal(direction, update, number, ping) for number, update in enumerate((0, 0, 1, 2, 1))]
        capture = Capture(folder, f"suite-{path}.pcap")
        capture.add(CLIENT, SERVER, block_bytes(examples()[0]))
        capture.add(SERVER, CLIENT, block_bytes(examples()[2]))
        for packet in packets:
            capture.add(CLIENT, SERVER, packet)
        capture.add(CLIENT, SERVER, b"".join(seal(direction, 2, number, ping) for number in range(5, 8)))
        capture.add(CLIENT, SERVER, packets[0][:-1] + b"?")
        capture.file.flush()
        out, opened, sealed = unseal.unseal(capture.path.read_bytes(), secrets)
        expect((opened, sealed), (6, 7), f"datagrams of suite {path}")
        capture.path.write_bytes(out)
        infos = [info for _, info in capture.columns()][2:]
        told = [f"DATA {number} ACK_NOW, PING, PADDING" for number in range(8)]
        expect(infos, [*told[:5], " | ".join(told[5:]), "SEALED"], f"opened packets of suite {path}")
    return f"sealed packets of {len(unseal.SUITES)} suites are opened"


def key_of(folder):
    """What both ends' locators say of a pre-shared key."""
    key = Path(folder) / "psk"
    key.touch(mode=0o600)
    key.write_text("00112233445566778899aabbccddeeff\n")
    return [f"psk_file={key}"] * 2


def certificates_of(folder):
    """What the locators of a router and of a vehicle say of certificates, made as docs/secured-links.md tells."""
    page = (HERE.parent.parent / "docs" / "secured-links.md").read_text()
    commands = page.split("<!-- run:secured-links -->\n```sh\n")[1].split("```")[0]
    subprocess.run(["bash", "-ec", commands], cwd=folder, capture_output=True, check=True)
    both = f"enable_mtls=true;server_name=router.fleet;root_ca_certificate_file={folder}/ca.pem"
    ends = ("listen", "router"), ("connect", "vehicle-7")
    return [
        f"{both};{does}_certificate_file={folder}/{name}.pem;{does}_private_key_file={folder}/{name}.key" for does, name in ends
    ]


def check_sealed_run(folder, programs, seed, what, locators):
    """All that is sealed is opened with the secrets that a program has logged."""
    secrets, said = (Path(folder) / f"{name} {what}" for name in ("secrets", "said"))
    listening, connecting = locators(folder)
    capture, address = Capture(folder, f"{what}.pcap"), free_address()
    started = []

    def start(program, locator, **options):
        command = [Path(programs) / program, "--no-multicast-scouting", "-m", "peer" if "z_sub" in program else "client"]
        started.append(subprocess.Popen([*command, *locator], **options))
        return started[-1]

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client_side, said.open("w") as output:
        client_side.bind(("127.0.0.1", 0))
        near = f"arq/{text(client_side.getsockname())}#{connecting}"
        logs = {**os.environ, "SSLKEYLOGFILE": str(secrets)}
        try:
            start("z_sub", ["-l", f"arq/{text(address)}#{listening}"], stdout=output, env=logs)
            start("z_pub", ["-e", near, "-p", "x" * 20_000], stdout=subprocess.DEVNULL)
            deadline = time.monotonic() + PATIENCE

            def is_over():
                return said.read_text().count("Received") >= 2 or time.monotonic() > deadline

            relay(capture, client_side, address, is_over, random.Random(seed))
        finally:
            for process in started:
                process.kill()
                process.wait()
    capture.file.flush()
    out, opened, sealed = unseal.unseal(capture.path.read_bytes(), unseal.traffic_secrets(secrets.read_text()))
    if sealed < 40:
        raise Wrong(f"only {sealed} sealed packets, {what}, seed {seed}")
    expect(opened, sealed, f"opened packets, {what}, seed {seed}")
    capture.path.write_bytes(out)
    must_occur(all_named(capture.path, f"opened, seed {seed}"), ["MESSAGE", "CHUNK data", "ACK "])
    return f"{opened} sealed packets of a run with {what}, all opened and named"


# A run --------------------------------------------------------------------------------------------------------------


def relay(capture, client_side, server, is_over, rng):
    """Passes datagrams on, drops a tenth, and captures them all, until `is_over`."""
    server_side = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    # A connected socket would report the ICMP error of a server that does not listen yet.
    server_side.bind(("127.0.0.1", 0))
    client, passed = None, 0
    while not is_over():
        for ready in select.select([client_side, server_side], [], [], 0.05)[0]:
            datagram, source = ready.recvfrom(65_536)
            if ready is client_side:
                client = source
            ends = (CLIENT, SERVER) if ready is client_side else (SERVER, CLIENT)
            capture.add(*ends, datagram)
            passed += 1
            if rng.random() >= 0.1:
                server_side.sendto(datagram, server) if ready is client_side else client_side.sendto(datagram, client)
    server_side.close()
    return passed


def free_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()


class Listener:
    """An `echo` that listens while the block runs."""

    def __init__(self, echo):
        self.address = free_address()
        self.command = [echo, "listen", text(self.address)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE
        while f":{self.address[1]:04X} " not in Path("/proc/net/udp").read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Wrong(f"{self.command} does not listen")
            time.sleep(0.01)
        return self.address

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def text(address):
    return "{}:{}".format(*address)


def ask(echo, address):
    """An `echo` that sends words of one chunk and of many."""
    words = [letter * (40_000 if letter in "aeiou" else 200) for letter in "abcdefghijklmnopqrstuvwxyz"]
    return subprocess.Popen([echo, text(address), *words], stdout=subprocess.DEVNULL)


def check_run(folder, echo, seed):
    """Every packet of a run is named, and what must occur in it does."""
    capture, rng = Capture(folder, "run.pcap"), random.Random(seed)
    with Listener(echo) as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client_side:
        client_side.bind(("127.0.0.1", 0))
        asking = ask(echo, client_side.getsockname())
        deadline = time.monotonic() + PATIENCE
        passed = relay(
            capture, client_side, server, lambda: asking.poll() is not None or time.monotonic() > deadline, rng
        )
        asking.kill()
        expect(asking.wait(), 0, f"the client's status, seed {seed}")
    capture.file.flush()
    infos = all_named(capture.path, f"seed {seed}")
    expect(len(infos), passed, "packets")
    must_occur(infos, ["HELLO", "CHALLENGE", "with cookie", "MESSAGE", "CHUNK", "REPAIR", "ACK ", "CLOSE"])
    return f"{passed} packets of a run, all named"


class Refused(Exception):
    """What dumpcap says where it may not capture."""


@contextlib.contextmanager
def capturing(path, interface, which, place=()):
    """While the block runs, dumpcap writes what passes there."""
    command = [*place, "dumpcap", "-q", "-i", interface, "-f", which, "-c", str(MOST_PACKETS), "-w", str(path)]
    dumpcap = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    said = ""
    while not said.endswith("\n") or "File: " not in said:
        said += dumpcap.stderr.read(1)
        if dumpcap.poll() is not None:
            raise Refused((said + dumpcap.stderr.read()).strip())
    try:
        yield
    finally:
        dumpcap.send_signal(signal.SIGINT)
        dumpcap.communicate()


def check_loopback(folder, echo):
    """The same of packets as the kernel captures them: several at once, where it splits them later."""
    path = Path(folder) / "loopback.pcap"
    with Listener(echo) as server:
        try:
            with capturing(path, "lo", f"udp port {server[1]}"):
                expect(ask(echo, server).wait(PATIENCE), 0, "the client's status")
        except Refused as why:
            return skip(f"the dissector on the loopback interface: {why}")
    infos = all_named(path, "on the loopback interface")
    must_occur(infos, ["HELLO", "CHUNK", "MESSAGE"])
    return f"{len(infos)} datagrams of the loopback interface, {sum(' | ' in info for info in infos)} of them batches"


def check_bench(folder, bench):
    """The same of a run of the bench, on its lossy network, as one of the two hosts sees it."""
    path = Path(folder) / "bench.pcap"
    command = [bench, "run", "quick", "--links", "arq", "--out", f"{folder}/results"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        with capturing(path, "eth0", "udp", ["nsenter", f"--net=/proc/{host_of(running)}/ns/net"]):
            said, _ = running.communicate(timeout=PATIENCE)
    except Refused as why:
        running.kill()
        said, _ = running.communicate()
        return skip(f"the dissector on a run of the bench: {why}; {said.strip()}")
    expect(running.returncode, 0, f"the bench's status: {said}")
    infos = all_named(path, "of the bench")
    must_occur(infos, ["CHUNK", "ACK "])
    return f"{len(infos)} datagrams of a run of the bench, all named"


def host_of(bench):
    """A process that the bench has begun on a host of its own."""
    ours = os.stat("/proc/self/ns/net").st_ino
    deadline = time.monotonic() + PATIENCE
    while bench.poll() is None and time.monotonic() < deadline:
        for task in Path(f"/proc/{bench.pid}/task").glob("*/children"):
            for child in task.read_text().split():
                with contextlib.suppress(OSError):
                    interfaces = Path(f"/proc/{child}/net/dev").read_text()
                    if os.stat(f"/proc/{child}/ns/net").st_ino != ours and "eth0:" in interfaces:
                        return child
        time.sleep(0.01)
    raise Refused("no host")


def all_named(path, where):
    """What stands in Info, of a capture in which every packet must be ours."""
    expect(tshark(path, "-Y", "udp && !arq"), "", f"packets without a name, {where}")
    expect(tshark(path, "-Y", "arq.tag.bad || arq.malformed"), "", f"packets that seem damaged, {where}")
    found = json.loads(tshark(path, "-T", "json", "-e", "_ws.col.Info"))
    return [packet["_source"]["layers"]["_ws.col.Info"][0] for packet in found]


def must_occur(infos, parts):
    for part in parts:
        if not any(part in info for info in infos):
            raise Wrong(f"no {part} among {len(infos)} packets")


def skip(what):
    if os.environ.get("ARQ_REQUIRE_LAB") == "1":
        raise Wrong(f"cannot run {what}")
    return f"\n*** SKIPPED {what}\n"


def results(folder, options):
    if shutil.which("tshark") is None:
        yield skip("the dissector: no tshark here (Debian: tshark)")
        return
    yield check_examples(folder)
    yield check_strangers(folder, options.seed)
    yield check_damaged(folder)
    yield check_batches(folder)
    yield check_encrypted(folder)
    if unseal is None:
        yield skip("sealed packets: no cryptography in this Python (Debian: python3-cryptography)")
    else:
        yield check_suites(folder)
        if options.programs:
            yield check_sealed_run(folder, options.programs, options.seed, "a pre-shared key", key_of)
            yield check_sealed_run(folder, options.programs, options.seed, "certificates", certificates_of)
        else:
            yield skip("a sealed run: no --programs")
    if options.echo is None:
        yield skip("the dissector on a run: no --echo")
        return
    yield check_run(folder, options.echo, options.seed)
    yield check_loopback(folder, options.echo)
    if options.programs is None:
        yield skip("the dissector on a run of the bench: no --programs")
    else:
        yield check_bench(folder, Path(options.programs) / "arq-bench")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--echo", metavar="PATH", help="arq-tokio's example, built")
    parser.add_argument("--programs", metavar="FOLDER", help="where z_sub, z_pub and arq-bench are, built")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for line in results(folder, options):
                print(line)
    except Wrong as wrong:
        sys.exit(f"WRONG: {wrong}")


if __name__ == "__main__":
    main()
