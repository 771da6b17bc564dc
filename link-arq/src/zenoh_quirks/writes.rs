// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The writes of a session that have begun: a link that ends in order waits for them.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// zenoh's writers end side by side: the next write of any begins within this time of the last, unless the host is very
/// busy.
const QUIET: Duration = Duration::from_millis(5);

/// How many writes have begun, and how many of them are not done.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    begun: AtomicUsize,
    going: AtomicUsize,
}

impl Writes {
    pub(crate) fn begin(&self) -> Write<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.going.fetch_add(1, Ordering::Relaxed);
        Write(self)
    }

    /// Waits until none is going on and none begins any more.
    pub(crate) async fn done(&self) {
        self.quiet(0).await;
    }

    /// As [`Self::done`], for who is in a write itself.
    pub(crate) async fn others_done(&self) {
        self.quiet(1).await;
    }

    async fn quiet(&self, own: usize) {
        let mut begun = None;
        let begun_now = || Some(self.begun.load(Ordering::Relaxed));
        while self.going.load(Ordering::Relaxed) > own || begun != begun_now() {
            begun = begun_now();
            tokio::time::sleep(QUIET).await;
        }
    }
}

/// A write that goes on until this is dropped.
#[derive(Debug)]
pub(crate) struct Write<'a>(&'a Writes);

impl Drop for Write<'_> {
    fn drop(&mut self) {
        self.0.going.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{timeout, Instant};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_let_go_once_all_writes_are_done_and_none_has_begun_since() {
        let writes = Writes::default();
        let (own, other) = (writes.begin(), writes.begin());
        assert!(timeout(LONG, writes.others_done()).await.is_err());
        drop(other);
        let started = Instant::now();
        let late = async {
            tokio::time::sleep(QUIET / 2).await;
            drop(writes.begin());
        };
        tokio::join!(writes.others_done(), late);
        assert_eq!(started.elapsed(), 2 * QUIET, "one more write has begun");
        assert!(timeout(LONG, writes.done()).await.is_err());
        drop(own);
        writes.done().await;
    }
}
