// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Send buffers: as many as tasks send at once in the whole process. One for each socket would be 64 KiB
//! for a link that has sent one long packet, and is idle since.

use super::sync::Mutex;

/// More are not kept.
const MOST: usize = 8;

static RESERVE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// An empty one, or what another batch left in it.
pub(super) fn take() -> Vec<u8> {
    RESERVE.lock().pop().unwrap_or_default()
}

pub(super) fn give_back(buffer: Vec<u8>) {
    let mut reserve = RESERVE.lock();
    if reserve.len() < MOST {
        reserve.push(buffer);
    }
}
