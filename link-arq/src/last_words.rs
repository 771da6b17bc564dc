// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A process that exits without closing its sessions: what its links hold is delivered first, as a kernel does for TCP.
//!
//! It runs as a handler of `exit`: at the end of `main`, in `std::process::exit`, at the end of a Python program. A signal
//! that kills and `_exit` leave no time for it.

#![allow(unsafe_code, reason = "the standard library has no name for `atexit`")]

use std::{
    sync::{Once, OnceLock},
    time::{Duration, Instant},
};

use crate::statistics;

/// How often the links are looked at.
const LOOKS_EACH: Duration = Duration::from_millis(1);
/// Looks in a row that find nothing: zenoh keeps a batch for a millisecond, for what may still join it.
const QUIET_LOOKS: u32 = 4;

/// From now on the end of the process waits for links.
pub(crate) fn hear_at_exit() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // So that the first who asks is the process that has the links.
        let _ = process();
        // SAFETY: the handler does not unwind. It lives as long as its library, and runs when that is unloaded.
        let refused = unsafe { libc::atexit(deliver) };
        if refused != 0 {
            tracing::debug!("no handler at exit: what links hold then is lost");
        }
    });
}

/// The process that has the links. A fork has copies that nobody drives.
fn process() -> u32 {
    static PROCESS: OnceLock<u32> = OnceLock::new();
    *PROCESS.get_or_init(std::process::id)
}

/// Waits for the driver, whose threads live on. Logs nothing and waits for no lock: the thread's locals are gone, and a
/// handler of signals may have called `exit`.
extern "C" fn deliver() {
    if process() != std::process::id() {
        return;
    }
    let begin = Instant::now();
    let mut quiet = 0;
    while quiet < QUIET_LOOKS {
        quiet = if statistics::any_undelivered(begin.elapsed()) { 0 } else { quiet + 1 };
        std::thread::sleep(LOOKS_EACH);
    }
}
