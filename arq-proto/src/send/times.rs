// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How long do the messages of a lane take?

use std::time::Duration;

use crate::{histogram::Histogram, stats::LaneStats};

/// The times of a lane. Most lanes of a connection carry nothing: what counts is made with the first message.
#[derive(Debug, Default)]
pub(super) struct Times(Option<Box<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    queue_wait: Histogram,
    delivery: Histogram,
}

impl Times {
    /// The first byte of a message leaves after so long.
    pub(super) fn on_begin(&mut self, waited: Duration) {
        self.0.get_or_insert_default().queue_wait.add(waited);
    }

    /// A message, and all before it, has arrived after so long.
    pub(super) fn on_delivered(&mut self, took: Duration) {
        self.0.get_or_insert_default().delivery.add(took);
    }

    pub(super) fn fill(&self, stats: &mut LaneStats) {
        if let Some(counts) = &self.0 {
            (stats.queue_wait, stats.delivery) = (counts.queue_wait, counts.delivery);
        }
    }
}
