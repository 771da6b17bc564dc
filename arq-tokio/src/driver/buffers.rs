// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Send buffers: one for each thread that sends. One for each socket would be 64 KiB for a link that has sent one long
//! packet, and is idle since.

use std::cell::Cell;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An empty one, or what another batch left in it.
pub(super) fn take() -> Vec<u8> {
    SPARE.take()
}

pub(super) fn give_back(buffer: Vec<u8>) {
    SPARE.set(buffer);
}
