// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Send buffers, one for each sending thread. With one for each socket an idle link that once sent a long packet would keep
//! 64 KiB.

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
