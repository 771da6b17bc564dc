#!/bin/bash
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
# Does the router answer?
#
#   arq-health [arq/HOST:PORT | tcp/HOST:PORT]      default: $HEALTH_ENDPOINT
#
# arq/: sends one HELLO and waits for its CHALLENGE or REFUSE, for which the driver itself has to run. The router keeps
# nothing of that (ARQ-HS-3), and the layout is the same in every version of the protocol (ARQ-VER-1).
# tcp/: opens a connection, which is the kernel's answer more than the router's.
set -euo pipefail

endpoint=${1:-${HEALTH_ENDPOINT:-arq/127.0.0.1:7447}}
if [[ ! $endpoint =~ ^(arq|tcp)/(\[([^]]+)\]|([^:]+)):([0-9]+)$ ]]; then
    echo "not an endpoint that can be asked: $endpoint (arq/HOST:PORT or tcp/HOST:PORT)" >&2
    exit 2
fi
protocol=${BASH_REMATCH[1]} host=${BASH_REMATCH[3]}${BASH_REMATCH[4]} port=${BASH_REMATCH[5]}

# The HELLO of docs/protocol.md: kind, SCID, instance, attempt, one version; padding to 1,200 bytes; tag.
hello() {
    printf '\xa0\x11\x22\x33\x44\x55\x66\x77\x88\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x61\x72\x71\x01'
    head --bytes=1173 /dev/zero
    printf '\x2e\xaf\x8f\x75'
}

fail() {
    echo "$endpoint does not answer" >&2
    exit 1
}

if [[ $protocol == tcp ]]; then
    timeout 2 bash -c "exec 3<>'/dev/tcp/$host/$port'" 2>/dev/null || fail
    exit 0
fi
exec 3<>"/dev/udp/$host/$port"
# One write, or it were several datagrams.
hello | dd bs=1200 iflag=fullblock status=none >&3 2>/dev/null || fail
kind=$(timeout 2 head --bytes=1 <&3 2>/dev/null | od --address-radix=n --format=x1) || fail
[[ $kind == " a1" || $kind == " a2" ]] || fail
