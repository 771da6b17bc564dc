#!/usr/bin/env bash
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
# Makes, for machines of this architecture with this glibc or newer: an archive of zenohd, its plugins and arq-top, and a wheel of
# Python's zenoh with the arq/ link.
#
#   packaging/archive.sh              builds all into target/archive
#   packaging/archive.sh PROGRAMS     packs the programs that the folder PROGRAMS holds
#
# Needs cargo by rustup, and Python 3.9 or newer with pip.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
output=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")/archive
programs=${1:-$output/programs}
zenoh=1.10.2
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=zenoh-$zenoh-arq-$version-$(uname -m)

# As docs/enabling.md tells: pip builds in TMPDIR, below the file for cargo.
wheel() {
    mkdir -p "$output/python/.cargo" "$output/python/tmp"
    sed "s|git = \".*/zenoh-arq\"|path = \"$here/zenoh-link\"|" configs/cargo/zenoh-arq.toml >"$output/python/.cargo/config.toml"
    RUSTUP_TOOLCHAIN=${RUSTUP_TOOLCHAIN:-stable} TMPDIR=$output/python/tmp CARGO_TARGET_DIR=$output/python/target \
        python3 -m pip wheel --no-cache-dir --no-deps --no-binary eclipse-zenoh --wheel-dir "$output" "eclipse-zenoh==$zenoh"
}

archive() {
    local folder=$output/$name
    rm -rf "$folder"
    mkdir -p "$folder"
    cp "$programs"/{zenohd,libzenoh_plugin_rest.so,libzenoh_plugin_storage_manager.so,arq-top} "$folder"
    cp LICENSE docker/zenohd.json5 packaging/debian/zenohd-arq.zenohd.service "$folder"
    tar --create --gzip --owner=0 --group=0 --file "$folder.tar.gz" --directory "$output" "$name"
    rm -r "$folder"
}

(($# > 0)) || packaging/programs.sh "$programs"
archive
wheel
ls -l "$output/$name.tar.gz" "$output"/eclipse_zenoh-*.whl
