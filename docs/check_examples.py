#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Are the packets in protocol-examples.txt what protocol.md says? A second decoder, written from the document.

Reads every ```arq-packet block: bytes in hex, `xx * n` for a byte n times, the rest of a line after
two spaces is a comment. Checks the tag, decodes the packet to its last byte, prints what it means.

Opens each ```arq-sealed block with the keys of the ```arq-secret block, and compares it with the ```arq-opened block
behind it. That needs Python's `cryptography`; without it these are skipped.
"""

import pathlib
import re
import sys

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
except ImportError:
    ChaCha20Poly1305 = None

HELLO_BYTES = 168
PARAMETERS = {  # id: (name, least, largest); APP (5) is bytes
    1: ("MAX_DATAGRAM", 576, 65_535),
    2: ("LANE_WINDOW", 131_072, 1 << 40),
    3: ("CONNECTION_WINDOW", 131_072, 1 << 40),
    4: ("HOLD", 0, 3_600_000_000),
}


class Malformed(Exception):
    """Bytes that the document does not allow."""


def crc32c(data):
    crc = 0xFFFF_FFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F6_3B78 if crc & 1 else 0)
    return crc ^ 0xFFFF_FFFF


class Reader:
    def __init__(self, data):
        self.data = data

    def bytes(self, count):
        if count > len(self.data):
            raise Malformed("truncated")
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def uint(self, bits):
        return int.from_bytes(self.bytes(bits // 8), "big")

    def varint(self, least=0, largest=(1 << 62) - 1):
        if not self.data:
            raise Malformed("truncated")
        bits = 8 << (self.data[0] >> 6)
        value = self.uint(bits) & ((1 << bits - 2) - 1)
        if not least <= value <= largest:
            raise Malformed(f"{value} is outside {least}..={largest}")
        return value


def parameters(reader):
    found = {}
    while reader.data:
        number = reader.varint()
        value = Reader(reader.bytes(reader.varint()))
        if number in PARAMETERS:
            name, least, largest = PARAMETERS[number]
            found[name] = value.varint(least, largest)
        elif number == 5:
            found["APP"] = value.data.hex()
            if len(value.data) > 64:
                raise Malformed("APP")
        elif number == 6:
            found["REPAIR"] = True
        elif number == 7:
            found["RESEGMENT"] = True
        elif number == 8:
            found["PATHS"] = min(value.varint(), 4)
    if not {"LANE_WINDOW", "CONNECTION_WINDOW"} <= found.keys():
        raise Malformed("a window is missing")
    return found


def ack_ranges(reader):
    largest, delay = reader.varint(), reader.varint()
    count, end = reader.varint(0, 63), largest
    ranges = []
    for index in range(count + 1):
        if index > 0:
            end = ranges[-1][0] - reader.varint() - 2
        start = end - reader.varint()
        if start < 0:
            raise Malformed("a number below 0")
        ranges.append((start, end))
    return f"ACK {' '.join(f'{s}..={e}' for s, e in ranges)} after {delay} us"


def ack_bitmap(reader):
    largest, delay = reader.varint(), reader.varint()
    bitmap = reader.bytes(reader.varint(0, 224))
    bits = "".join(f"{byte:08b}" for byte in bitmap)
    numbers = [largest] + [largest - 1 - i for i, bit in enumerate(bits) if bit == "1"]
    if numbers[-1] < 0:
        raise Malformed("a number below 0")
    return f"ACK {' '.join(map(str, numbers))} after {delay} us"


def with_counts(acknowledgement):
    return lambda r: f"{acknowledgement(r)}, ECT(0) {r.varint()} ECT(1) {r.varint()} CE {r.varint()}"


def path(reader):
    number = reader.uint(8)
    if number > 3:
        raise Malformed("a path has a number from 0 to 3")
    return number


def path_state(reader):
    uses = {1: "backup", 2: "urgent", 3: "paused", 4: "control"}
    number, sequence, use = path(reader), reader.varint(), reader.uint(8)
    return f"PATH_STATE of {number}, {sequence}: {uses.get(use, 'available')}"


def message(reader):
    sequence, length = reader.varint(), reader.varint(1, 65_535)
    return f"MESSAGE {sequence} {reader.bytes(length)!r}"


def chunk(reader):
    sequence, length = reader.varint(), reader.varint(1, 65_535)
    size = reader.varint(512, length - 1)
    index = reader.varint(0, -(-length // size) - 1)
    reader.bytes(min(size, length - index * size))
    return f"CHUNK {index} of message {sequence}, {length} bytes in chunks of {size}"


def product(a, b):
    """In the field of ARQ-FEC-1."""
    total = 0
    while b:
        total ^= a if b & 1 else 0
        a = a << 1 ^ (0x11D if a & 0x80 else 0)
        b >>= 1
    return total


def repair(reader):
    sequence, length = reader.varint(), reader.varint(1, 65_535)
    size = reader.varint(512, length - 1)
    if -(-length // size) * size - length >= 512:
        raise Malformed("chunks too unequal for repair symbols")
    index = reader.varint(0, 127)
    symbol = reader.bytes(size)
    text = f"REPAIR {index} of message {sequence}, {length} bytes in chunks of {size}"
    # The document's example is of a message whose bytes are all 0x5a.
    factors = [next(f for f in range(256) if product(f, (128 + index) ^ i) == 1) for i in range(-(-length // size))]
    total = 0
    for factor in factors:
        total ^= product(factor, 0x5A)
    if length % size == 0 and set(symbol) != {total}:
        raise Malformed(f"the symbol is not {total:02x}")
    return text


FRAMES = {
    0x00: lambda r: "PADDING",
    0x01: lambda r: "PING",
    0x02: ack_ranges,
    0x03: ack_bitmap,
    0x04: lambda r: "CLOSE " + r.bytes(r.varint(0, 200)).decode(),
    0x05: lambda r: f"MAX_DATA {r.varint()}",
    0x06: lambda r: f"PATH_CHALLENGE {r.uint(64):016x}",
    0x07: lambda r: f"PATH_RESPONSE {r.uint(64):016x}",
    0x08: with_counts(ack_ranges),
    0x09: with_counts(ack_bitmap),
    0x0A: lambda r: f"PATH {path(r)} {ack_ranges(r)}",
    0x0B: lambda r: f"PATH {path(r)} {ack_bitmap(r)}",
    0x0C: path_state,
    0x0E: lambda r: f"PATH {path(r)} {with_counts(ack_ranges)(r)}",
    0x0F: lambda r: f"PATH {path(r)} {with_counts(ack_bitmap)(r)}",
}
LANE_FRAMES = {
    0x10: message,
    0x20: chunk,
    0x30: repair,
    0x40: lambda r: f"MAX_LANE_DATA {r.varint()}",
    0x50: lambda r: f"FORGET below {r.varint()}",
    0x60: lambda r: f"TIMESTAMP {int.from_bytes(r.bytes(3), 'big')}",
}


def frame(reader):
    kind = reader.uint(8)
    if kind in FRAMES:
        return FRAMES[kind](reader)
    if kind & 0xF0 not in LANE_FRAMES:
        raise Malformed(f"frame {kind:#04x}")
    reliability = "best effort" if kind & 1 else "reliable"
    return f"{LANE_FRAMES[kind & 0xF0](reader)} (priority {kind >> 1 & 7}, {reliability})"


def data_packet(reader, kind):
    text = f"DATA to {reader.uint(64):016x} number {reader.uint(32)} span {reader.varint()}"
    text += " ACK_NOW" if kind & 1 else ""
    if kind & 2:
        text += f" cookie block: from {reader.uint(64):016x} version {reader.uint(32):#x}"
        text += f" cookie {len(reader.bytes(reader.varint(0, 64)))} B"
        text += f" {parameters(Reader(reader.bytes(reader.varint())))}"
    frames = []
    while reader.data:
        frames.append(frame(reader))
    return f"{text}: {', '.join(frames)}"


def packet(datagram):
    body, tag = datagram[:-4], int.from_bytes(datagram[-4:], "big")
    if crc32c(body) != tag:
        raise Malformed(f"tag is {tag:08x}, should be {crc32c(body):08x}")
    reader = Reader(body)
    kind = reader.uint(8)
    if kind == 0xA0:
        if len(datagram) < HELLO_BYTES:
            raise Malformed("a HELLO has 168 bytes at least")
        text = f"HELLO from {reader.uint(64):016x} instance {reader.uint(64):016x}"
        text += f" attempt {reader.uint(8)}"
        count = reader.uint(8)
        if not 1 <= count <= 8:
            raise Malformed("versions")
        return f"{text} versions {[hex(reader.uint(32)) for _ in range(count)]}"
    if kind == 0xA1:
        text = f"CHALLENGE to {reader.uint(64):016x} from {reader.uint(64):016x}"
        text += f" version {reader.uint(32):#x} attempt {reader.uint(8)}"
        text += f" cookie {len(reader.bytes(reader.varint(0, 64)))} B"
        return f"{text} {parameters(reader)}"
    if kind == 0xA2:
        return f"REFUSE to {reader.uint(64):016x} reason {reader.uint(8)}"
    if kind == 0xA3:
        return f"RESET of {reader.uint(64):016x} number {reader.uint(32)}"
    if kind & 0xFC == 0xA8:
        return data_packet(reader, kind)
    raise Malformed(f"kind {kind:#04x}")


def block_bytes(block):
    out = bytearray()
    for line in block.splitlines():
        code = re.split(r" {2,}", line)[0]
        repeated = re.fullmatch(r"([0-9a-f]{2}) \* (\d+)", code)
        out += bytes.fromhex(repeated[1]) * int(repeated[2]) if repeated else bytes.fromhex(code)
    return bytes(out)


TEXT = (pathlib.Path(__file__).parent / "protocol-examples.txt").read_text()


def example_blocks(kind="arq-packet"):
    """Of each block what stands behind its kind, and its lines."""
    return re.findall(rf"^```{kind}( [^\n]*)?\n(.*?)^```$", TEXT, re.M | re.S)


def expand_label(secret, label, length, digest=None):
    """RFC 8446 section 7.1; with SHA-256 if no other is given."""
    label = b"tls13 " + label
    info = length.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0"
    return HKDFExpand(digest or hashes.SHA256(), length, info).derive(secret)


def nonce(iv, path, number):
    return bytes(a ^ b for a, b in zip(iv, path.to_bytes(4, "big") + number.to_bytes(8, "big")))


def nearest(expected, low):
    """ARQ-NUM-2: the number nearest to the expected one that has these 32 bits."""
    candidates = (expected // (1 << 32) * (1 << 32) + low + (shift << 32) for shift in (-1, 0, 1))
    return min((n for n in candidates if n >= 0), key=lambda n: abs(n - expected))


def open_sealed(datagram, secret, path, phase, expected):
    """Header without mask, and the plaintext."""
    if len(datagram) < 13 + 1 + 16:
        raise Malformed("a SEALED packet has 30 bytes at least")
    sample = datagram[13:29]
    # RFC 9001 section 5.4.4: a block counter and a nonce, and five bytes of key stream.
    stream = Cipher(algorithms.ChaCha20(expand_label(secret, b"quic hp", 32), sample), None)
    mask = stream.encryptor().update(bytes(5))
    header = bytearray(datagram[:13])
    header[0] ^= mask[0] & 1
    header[9:] = bytes(a ^ b for a, b in zip(header[9:], mask[1:]))
    if header[0] != 0xB0 | phase & 1:
        raise Malformed(f"kind and key phase are {header[0]:02x}")
    for _ in range(phase):
        secret = expand_label(secret, b"quic ku", 32)
    number = nearest(expected, int.from_bytes(header[9:], "big"))
    iv = expand_label(secret, b"quic iv", 12)
    aead = ChaCha20Poly1305(expand_label(secret, b"quic key", 32))
    try:
        return bytes(header) + aead.decrypt(nonce(iv, path, number), datagram[13:], bytes(header))
    except InvalidTag:
        raise Malformed(f"SEALED {number} does not open") from None


def sealed_packet(opened):
    reader = Reader(opened)
    kind, dcid, number = reader.uint(8), reader.uint(64), reader.uint(32)
    first = reader.varint()
    text = f"SEALED phase {kind & 1} to {dcid:016x} number {number} span {first >> 1}"
    text += " ACK_NOW" if first & 1 else ""
    frames = []
    while reader.data:
        frames.append(frame(reader))
    return f"{text}: {', '.join(frames)}"


def siphash_2_4(key, data):
    """Of at most 7 bytes; from the paper of Aumasson and Bernstein, section 2."""
    (k0, k1), mask = (int.from_bytes(key[n : n + 8], "little") for n in (0, 8)), (1 << 64) - 1
    v = [0x736F6D6570736575 ^ k0, 0x646F72616E646F6D ^ k1, 0x6C7967656E657261 ^ k0, 0x7465646279746573 ^ k1]

    def half(a, b, shift, turned):
        v[a] = v[a] + v[b] & mask
        v[b] = (v[b] << shift | v[b] >> 64 - shift) & mask ^ v[a]
        v[a] = (v[a] << 32 | v[a] >> 32) & mask if turned else v[a]

    def rounds(count):
        for _ in range(count):
            half(0, 1, 13, True)
            half(2, 3, 16, False)
            half(0, 3, 21, False)
            half(2, 1, 17, True)

    last = len(data) << 56 | int.from_bytes(data, "little")
    v[3] ^= last
    rounds(2)
    v[0] ^= last
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def check_path_ids():
    rows = re.findall(r"^\| `([0-9a-f]{32})` \| ([cs]) \| (\d) \| `([0-9a-f]{16})` \|$", TEXT, re.M)
    for key, receiver, number, expected in rows:
        found = siphash_2_4(bytes.fromhex(key), receiver.encode() + bytes([int(number)]))
        if f"{found:016x}" != expected:
            raise Malformed(f"the id of {receiver} on path {number} is {found:016x}, not {expected}")
    if not rows:
        raise Malformed("there is no id of a path")


def check_nonces():
    rows = re.findall(r"^\| `([0-9a-f]{24})` \| (\d+) \| (\d+) \| `([0-9a-f]{24})` \|$", TEXT, re.M)
    for iv, path, number, expected in rows:
        if nonce(bytes.fromhex(iv), int(path), int(number)).hex() != expected:
            raise Malformed(f"the nonce of path {path} is not {expected}")
    if not rows:
        raise Malformed("there is no nonce")


def check_sealed():
    """How many sealed packets were opened."""
    check_nonces()
    check_path_ids()
    sealed, opened = example_blocks("arq-sealed"), example_blocks("arq-opened")
    if len(sealed) != len(opened) or not sealed:
        raise Malformed(f"{len(sealed)} sealed packets, {len(opened)} opened ones")
    if ChaCha20Poly1305 is None:
        print(f"SKIPPED: {len(sealed)} sealed packets; `pip install cryptography` opens them")
        return 0
    ((_, secret),) = example_blocks("arq-secret")
    for (terms, block), (_, plain) in zip(sealed, opened):
        terms = dict(term.split("=") for term in terms.split())
        path, phase, expected = (int(terms[name]) for name in ("path", "phase", "expected"))
        datagram = block_bytes(block)
        found = open_sealed(datagram, block_bytes(secret), path, phase, expected)
        if found != block_bytes(plain):
            raise Malformed(f"a SEALED packet says {found.hex(' ')}")
        print(f"   {len(datagram):5} B  {sealed_packet(found)}")
    return len(sealed)


def main():
    if crc32c(b"123456789") != 0xE306_9283:
        sys.exit("the checksum of this script is wrong")
    blocks, failed = example_blocks(), 0
    for number, (_, block) in enumerate(blocks, 1):
        try:
            datagram = block_bytes(block)
            print(f"{number:2} {len(datagram):5} B  {packet(datagram)[:160]}")
        except (Malformed, ValueError) as error:
            failed += 1
            print(f"{number:2} WRONG: {error}\n{block}")
    try:
        opened = check_sealed()
    except (Malformed, ValueError) as error:
        opened, failed = 0, failed + 1
        print(f"SEALED, WRONG: {error}")
    print(f"{len(blocks)} packets, {opened} sealed ones opened, {failed} wrong")
    sys.exit(failed > 0 or not blocks)


if __name__ == "__main__":
    main()
