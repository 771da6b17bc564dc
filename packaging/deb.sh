#!/usr/bin/env bash
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
# Makes zenohd-arq_VERSION_ARCH.deb and arq-top_VERSION_ARCH.deb for this machine's architecture and Debian or newer.
#
#   packaging/deb.sh              builds zenohd, its plugins and arq-top, and packs them into target/debian
#   packaging/deb.sh PROGRAMS     packs those that the folder PROGRAMS holds
#
# Needs cargo, and of Debian: dpkg-dev debhelper help2man. What is packed, and how: packaging/debian.
# Test: packaging/check.py
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")
output=$target/debian
programs=${1:-$target/debian-programs}
files=(zenohd libzenoh_plugin_rest.so libzenoh_plugin_storage_manager.so arq-top)
router=docker/router/Cargo.toml

for tool in cargo dpkg-buildpackage dh help2man; do
    command -v "$tool" >/dev/null || {
        echo "$tool is missing: apt-get install dpkg-dev debhelper help2man; cargo comes with rustup" >&2
        exit 1
    }
done

# Name, licence and source of every crate that is linked in.
dependencies() {
    {
        cargo tree --locked --manifest-path "$router" --edges normal --prefix none --format '{p}: {l} {r}' \
            -p zenohd -p zenoh-plugin-rest -p zenoh-plugin-storage-manager
        cargo tree --locked -p arq-top --edges normal --prefix none --format '{p}: {l} {r}'
    } | sed "s| ([^)]*)||; s| (\*)$||" | sort --unique
}

# The licence that Debian has no copy of, in the format of debian/copyright.
eclipse_licence() {
    sed -n '/^Eclipse Public License - v 2.0/,$p' LICENSE | sed 's/^ *$/./; s/^/ /'
}

(($# > 0)) || packaging/programs.sh "$programs"
for file in "${files[@]}"; do
    [[ -f $programs/$file ]] || {
        echo "$programs has no $file" >&2
        exit 1
    }
done
work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source" "$work/source/programs"
cp -r packaging/debian docker/zenohd.json5 "$work/source"
for file in "${files[@]}"; do
    install "$programs/$file" "$work/source/programs"
done
dependencies >"$work/source/dependencies"
eclipse_licence >>"$work/source/debian/copyright"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
grep -q "+arq$version)" packaging/debian/changelog || {
    echo "packaging/debian/changelog has no version of $version" >&2
    exit 1
}
(cd "$work/source" && dpkg-buildpackage --build=binary --no-sign)
mkdir -p "$output"
mv "$work"/*.deb "$output"
ls -l "$output"/*.deb
