// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How are the cells of a table computed by every processor, in the order of the cells?

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// `work` on every item, by as many threads as there are processors; results in the order of items.
pub fn map<T: Sync, U: Send>(items: &[T], work: impl Fn(&T) -> U + Sync) -> Vec<U> {
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut results: Vec<(usize, U)> = thread::scope(|scope| {
        let run = || {
            let mut results = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else { return results };
                results.push((index, work(item)));
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        // A panic in a worker is a failed table, not a shorter one.
        workers
            .into_iter()
            .flat_map(|worker| match worker.join() {
                Ok(results) => results,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
