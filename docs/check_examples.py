#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Are the packets in protocol-examples.txt what protocol.md says? A second decoder, written from the document.

Reads every ```arq-packet block: bytes in hex, `xx * n` for a byte n times, the rest of a line after
two spaces is a comment. Checks the tag, decodes the packet to its last byte, prints what it means.
"""

import pathlib
import re
import sys

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


def example_blocks():
    text = (pathlib.Path(__file__).parent / "protocol-examples.txt").read_text()
    return re.findall(r"^```arq-packet\n(.*?)^```$", text, re.M | re.S)


def main():
    if crc32c(b"123456789") != 0xE306_9283:
        sys.exit("the checksum of this script is wrong")
    blocks, failed = example_blocks(), 0
    for number, block in enumerate(blocks, 1):
        try:
            datagram = block_bytes(block)
            print(f"{number:2} {len(datagram):5} B  {packet(datagram)[:160]}")
        except (Malformed, ValueError) as error:
            failed += 1
            print(f"{number:2} WRONG: {error}\n{block}")
    print(f"{len(blocks)} packets, {failed} wrong")
    sys.exit(failed > 0 or not blocks)


if __name__ == "__main__":
    main()
