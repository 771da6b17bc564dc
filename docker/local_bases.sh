#!/usr/bin/env bash
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
# How are the images built where no registry can be reached?
#
#   sudo docker/local_bases.sh
#
# Makes images with the names of the public bases that the Dockerfile asks for, from Debian's packages and this
# machine's Rust. They have in common with the public ones what the Dockerfile needs: the release of Debian, the
# compiler's version, the paths. This machine's certificate authorities come along into the base for building, so that
# cargo trusts there what it trusts here; no image for running gets them. An image that is there is left alone.
set -euo pipefail

RELEASE=bookworm
RUST=1.95
SYSTEM_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

have() {
    docker image inspect "$1" >/dev/null 2>&1
}

work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT
cat >"$work/no-cache" <<'END'
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
APT::Keep-Downloaded-Packages "false";
END

# debian ARGUMENTS...: Debian's smallest variant with apt, in $work/image.tar: like the public image it has no
# documentation, and apt leaves no cache in what is built from it.
debian() {
    mmdebstrap --quiet --variant=apt --include=usr-is-merged --aptopt='APT::Install-Recommends "false"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' --customize-hook="copy-in $work/no-cache /etc/apt/apt.conf.d" \
        --customize-hook="rm -f \"\$1\"/var/cache/apt/*.bin" "$@" "$RELEASE" "$work/image.tar" ${MIRROR:+"$MIRROR"}
}

slim() {
    debian
    docker import --change 'CMD ["bash"]' "$work/image.tar" "debian:$RELEASE-slim"
}

# Cargo and rustc alone, where the public image has them; no documentation, no other targets.
rust() {
    local sysroot toolchain=/usr/local/rustup/toolchains/$RUST
    sysroot=$(rustc --print sysroot)
    [[ $(rustc --version) == "rustc $RUST."* ]] || {
        echo "the base for building is rust:$RUST, this machine has $(rustc --version): rustup default $RUST" >&2
        exit 1
    }
    debian --include=build-essential,ca-certificates,curl,git,libssl-dev,pkg-config \
        --customize-hook="mkdir -p \"\$1$toolchain\" \"\$1/usr/local/cargo/bin\"" \
        --customize-hook="tar -C '$sysroot' --exclude=./share --exclude=./lib/rustlib/src -c . \
            | tar -C \"\$1$toolchain\" -x" \
        --customize-hook="cd \"\$1/usr/local/cargo/bin\" && ln -s $toolchain/bin/cargo $toolchain/bin/rustc ." \
        --customize-hook='copy-in /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs'

    docker import --change "ENV PATH=/usr/local/cargo/bin:$SYSTEM_PATH" --change 'ENV CARGO_HOME=/usr/local/cargo' \
        --change 'CMD ["bash"]' "$work/image.tar" "rust:$RUST-$RELEASE"
}

for tool in docker mmdebstrap rustc; do
    command -v "$tool" >/dev/null || {
        echo "$tool is missing: mmdebstrap is a Debian package, the rustc of rustup needs" \
            "sudo --preserve-env=HOME env PATH=\$PATH $0" >&2
        exit 1
    }
done
have "debian:$RELEASE-slim" || slim
have "rust:$RUST-$RELEASE" || rust
docker image ls --filter reference="debian:$RELEASE-slim" --filter reference="rust:$RUST-$RELEASE"
