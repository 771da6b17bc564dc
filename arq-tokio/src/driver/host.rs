// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What names the running system of this host?

use std::{fs, sync::OnceLock};

/// Linux draws it when the system starts (random(4)): a copy of its disk has another one, a container the same.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// A UUID as text.
const BOOT_ID_BYTES: usize = 36;

/// The name, where the system has one.
pub(super) fn name() -> Option<&'static [u8]> {
    static NAME: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let read = || fs::read(BOOT_ID).ok().filter(|name| name.len() >= BOOT_ID_BYTES);
    NAME.get_or_init(read).as_deref()
}
