#!/usr/bin/env python3
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""Opens the sealed packets of a capture with the secrets in the file that SSLKEYLOGFILE names.

    unseal.py CAPTURE SECRETS OPENED

CAPTURE is a pcap file (`editcap -F pcap` makes one of a pcapng). Each SEALED packet that a secret opens is written as the
DATA packet that says the same, with PADDING where its tag was; all else stays as it is. Needs Python's `cryptography`
(Debian: python3-cryptography).
"""

import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "docs"))
from check_examples import Reader, crc32c, expand_label, nearest, nonce  # noqa: E402

from cryptography.exceptions import InvalidTag  # noqa: E402
from cryptography.hazmat.primitives import hashes  # noqa: E402
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: E402
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305  # noqa: E402

HEADER, TAG = 13, 16
SEALED = (0xB0, 0xB1)
LABELS = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")
# Bytes before the IP header, by the capture's link type.
LINK_HEADERS = {0: 4, 1: 14, 101: 0, 113: 16, 228: 0, 229: 0, 276: 20}
MOST_PATHS, MOST_UPDATES, MOST_TRIES = 4, 8, 8


def aes_mask(key, sample):
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(sample)


def chacha_mask(key, sample):
    return Cipher(algorithms.ChaCha20(key, sample), None).encryptor().update(bytes(5))


# The suites of TLS 1.3: bytes of a secret, hash, bytes of a key, AEAD, mask (RFC 9001 sections 5.3 and 5.4).
SUITES = (
    (32, "SHA256", 16, AESGCM, aes_mask),
    (32, "SHA256", 32, ChaCha20Poly1305, chacha_mask),
    (48, "SHA384", 32, AESGCM, aes_mask),
)


class Direction:
    """What goes to one connection id: ARQ-SEC-2, ARQ-SEC-5, ARQ-KEY-2."""

    def __init__(self, secret, suite, path):
        _, self.hash, self.key_bytes, self.aead, self.mask = suite
        self.path, self.expected, self.update = path, 0, None
        self.secrets = [secret]
        self.mask_key = self.expand(secret, b"quic hp", self.key_bytes)

    def expand(self, secret, label, length):
        return expand_label(secret, label, length, getattr(hashes, self.hash)())

    def keys(self, update):
        while len(self.secrets) <= update:
            last = self.secrets[-1]
            self.secrets.append(self.expand(last, b"quic ku", len(last)))
        secret = self.secrets[update]
        return self.aead(self.expand(secret, b"quic key", self.key_bytes)), self.expand(secret, b"quic iv", 12)

    def open(self, packet):
        """Header without mask, and the plaintext; or nothing."""
        mask = self.mask(self.mask_key, packet[HEADER : HEADER + 16])
        header = bytearray(packet[:HEADER])
        header[0] ^= mask[0] & 1
        header[9:] = bytes(a ^ b for a, b in zip(header[9:], mask[1:5]))
        number = nearest(self.expected, int.from_bytes(header[9:], "big"))
        for update in self.likely_updates(header[0] & 1):
            aead, iv = self.keys(update)
            try:
                plain = aead.decrypt(nonce(iv, self.path, number), packet[HEADER:], bytes(header))
            except InvalidTag:
                continue
            self.expected = max(self.expected, number + 1)
            self.update = max(self.update or 0, update)
            return bytes(header), plain
        return None

    def likely_updates(self, phase):
        """How often the keys may have changed."""
        if self.update is None:
            return range(phase, MOST_UPDATES, 2)
        near = (self.update, self.update - 1, self.update + 1)
        return [update for update in near if update >= 0 and update & 1 == phase]


class Associations:
    """The directions that are known, and the secrets for others."""

    def __init__(self, secrets):
        self.known = {}
        self.all = [
            (secret, suite, path)
            for path in range(MOST_PATHS)
            for secret in secrets
            for suite in SUITES
            if suite[0] == len(secret)
        ]

    def open(self, packet):
        """The DATA packet in the place of a SEALED one, as long; or nothing."""
        if len(packet) < HEADER + 1 + TAG or packet[0] not in SEALED:
            return None
        known = self.known.get(packet[1:9])
        for direction in [known] if known else (Direction(*terms) for terms in self.all):
            if opened := direction.open(packet):
                self.known[packet[1:9]] = direction
                return as_data(*opened, len(packet))
        return None

    def open_batch(self, payload):
        """The same of a datagram that the sender's host has yet to split into packets of one length."""
        if payload[:1] not in (b"\xb0", b"\xb1"):
            return None
        at, lengths = HEADER, []
        while len(lengths) < MOST_TRIES and (at := payload.find(payload[1:9], at + 1)) > 0:
            lengths.append(at - 1)
        for length in [len(payload), *lengths]:
            if self.open(payload[:length]):
                parts = [payload[begin : begin + length] for begin in range(0, len(payload), length)]
                return b"".join(self.open(part) or part for part in parts)
        return None


def varint(value):
    for bits, prefix in ((6, 0), (14, 1), (30, 2), (62, 3)):
        if value < 1 << bits:
            return (prefix << bits | value).to_bytes((bits + 2) // 8, "big")
    raise ValueError(value)


def as_data(header, plain, length):
    reader = Reader(plain)
    span = reader.varint()
    body = bytes([0xA8 | span & 1]) + header[1:] + varint(span >> 1) + reader.data
    body += bytes(length - 4 - len(body))
    return body + crc32c(body).to_bytes(4, "big")


def udp_payload(frame, link):
    """Where the payload of UDP begins and ends in a frame that holds all of it."""
    at = LINK_HEADERS[link]
    if link == 1 and frame[12:14] == b"\x81\x00":
        at += 4
    version = frame[at] >> 4 if len(frame) > at else 0
    if version == 4 and frame[at + 9] == 17:
        at += 4 * (frame[at] & 15)
    elif version == 6 and frame[at + 6] == 17:
        at += 40
    else:
        return None
    if len(frame) < at + 8:
        return None
    # 0 where segmentation offload has yet to fill it in.
    end = at + (int.from_bytes(frame[at + 4 : at + 6], "big") or len(frame) - at)
    return (at + 8, end) if end <= len(frame) else None


def unseal(capture, secrets):
    """The capture with its sealed packets opened, and how many datagrams were opened and were sealed."""
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">"}.get(bytes(capture[:4]))
    if order is None:
        sys.exit("this is no pcap file: editcap -F pcap CAPTURE OTHER")
    (link,) = struct.unpack_from(order + "I", capture, 20)
    if link not in LINK_HEADERS:
        sys.exit(f"captures of link type {link} are not understood")
    out, associations = bytearray(capture), Associations(secrets)
    at, opened, sealed = 24, 0, 0
    while at + 16 <= len(out):
        (kept,) = struct.unpack_from(order + "I", out, at + 8)
        begin, at = at + 16, at + 16 + kept
        place = udp_payload(out[begin:at], link)
        if not place or out[begin + place[0]] not in SEALED:
            continue
        sealed += 1
        where = slice(begin + place[0], begin + place[1])
        if data := associations.open_batch(bytes(out[where])):
            out[where] = data
            opened += 1
    return out, opened, sealed


def traffic_secrets(text):
    """Of a file in NSS's format."""
    lines = (line.split() for line in text.splitlines())
    return [bytes.fromhex(line[2]) for line in lines if len(line) == 3 and line[0] in LABELS]


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    capture, secrets, opened_path = map(Path, sys.argv[1:])
    out, opened, sealed = unseal(capture.read_bytes(), traffic_secrets(secrets.read_text()))
    opened_path.write_bytes(out)
    print(f"{opened} of {sealed} sealed datagrams opened")
    sys.exit(opened == 0)


if __name__ == "__main__":
    main()
