#!/usr/bin/env bash
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
# Builds zenohd, its plugins and arq-top for release into a folder, for deb.sh and archive.sh:
#
#   packaging/programs.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")

# The router and its plugins from one lock file, as in docker/Dockerfile.
cargo build --release --locked --manifest-path docker/router/Cargo.toml --target-dir "$target/router" \
    -p zenohd -p zenoh-plugin-rest -p zenoh-plugin-storage-manager
cargo build --release --locked --target-dir "$target" -p arq-top
mkdir -p "$1"
cp "$target"/router/release/{zenohd,libzenoh_plugin_rest.so,libzenoh_plugin_storage_manager.so} \
    "$target/release/arq-top" "$1"
