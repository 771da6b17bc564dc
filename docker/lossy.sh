#!/bin/bash
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
# How does a container meet a network that loses packets?
set -euo pipefail

usage() {
    cat <<'END'
lossy PERCENT       drops this share of the packets that enter this network namespace, tells how many every 10 s
lossy set PERCENT   changes the share and ends
lossy count         prints how many packets arrived and how many were dropped, and ends

Started beside a container, in its network namespace:

  docker run --rm --network container:NAME --cap-drop ALL --cap-add NET_ADMIN zenoh-arq/lossy 10

Packets are dropped where they enter, each by itself, before the kernel has looked at them: arq/, tcp/, udp/ and quic/
meet the same. For loss in both directions start one beside each container. Bursts, delay and rates are the bench's:
arq-bench.
END
}

interfaces() {
    find /sys/class/net -mindepth 1 ! -name lo -printf '%f\n'
}

# A veth hands on what a program sent with segmentation offload as one packet of up to 64 KB, and one drop would lose
# all of it: with these features off the kernel cuts it to packets before it leaves.
cut_to_packets() {
    local interface feature
    for interface in $(interfaces); do
        for feature in $(late_cuts "$interface"); do
            ethtool --features "$interface" "$feature" off >/dev/null || return
        done
    done
}

late_cuts() {
    ethtool --show-features "$1" \
        | sed --quiet --regexp-extended 's/^\s*(tx-[a-z0-9-]*segmentation|tx-gso-list): on$/\1/p' \
        | sed '/^tx-generic-segmentation$/d'
}

# The raw table comes before reassembly, so a fragment is lost alone. The first rule counts, the second drops.
set_loss() {
    local restore probability
    probability=$(awk -v percent="$1" 'BEGIN { printf "%.6f", percent / 100 }')
    for restore in iptables-restore ip6tables-restore; do
        printf '%s\n' '*raw' '-A PREROUTING ! -i lo' \
            "-A PREROUTING ! -i lo -m statistic --mode random --probability $probability -j DROP" COMMIT \
            | "$restore" --wait || return
    done
}

count() {
    { iptables-save --counters --table raw && ip6tables-save --counters --table raw; } \
        | sed --quiet 's/^\[\([0-9]*\):.* -A PREROUTING .*/& \1/p' \
        | awk '/ DROP / { dropped += $NF; next } { arrived += $NF }
               END { share = arrived ? 100 * dropped / arrived : 0
                     printf "%d packets arrived, %d dropped (%.1f %%)\n", arrived, dropped, share }'
}

check_percent() {
    if [[ ! $1 =~ ^[0-9]+(\.[0-9]+)?$ ]] || awk -v percent="$1" 'BEGIN { exit percent <= 100 }'; then
        echo "lossy: a share of $1 is impossible: 0 to 100 percent" >&2
        exit 2
    fi
}

begin() {
    check_percent "$1"
    if ! cut_to_packets || ! set_loss "$1"; then
        echo "lossy: this needs --cap-add NET_ADMIN, and iptables' statistic match in the kernel" >&2
        exit 1
    fi
    echo "lossy: $1 % of the packets that enter are dropped"
}

case ${1:-} in
    '' | -h | --help) usage ;;
    count) count ;;
    set) begin "${2:?lossy set PERCENT}" ;;
    *)
        begin "$1"
        while sleep 10; do count; done
        ;;
esac
