// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How much is in flight at the publisher, over time?

use std::sync::Arc;
use std::time::Duration;

use arq_report::record::InFlight;
use parking_lot::Mutex;

use super::clock::{nanos, now_ns, sleep_until};
use super::usage::thread_cpu_s;
use super::{arq, tcp, Load, Witness};

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(50);

/// What is in flight at one moment, over all connections of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// Sent and not acknowledged.
    pub(super) bytes: u64,
    pub(super) window_bytes: Option<u64>,
}

/// A thread that looks.
#[derive(Clone, Default)]
pub(super) struct Sampler(Arc<Mutex<Samples>>);

/// What the sampler has found, and what that cost.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    pub(super) in_flight: Vec<InFlight>,
    /// CPU of the sampling itself, seconds: it is not the link's.
    pub(super) own_cpu_s: f64,
}

impl Sampler {
    /// Looks from `first_ns` until the process ends, where the link under test or its kernel can tell.
    pub(super) fn start(load: &Load, first_ns: u64) -> Self {
        let sampler = Self::default();
        let samples = Arc::clone(&sampler.0);
        let look = match load.witness() {
            Witness::Kernel => tcp::in_flight,
            Witness::Arq => arq::in_flight,
            Witness::Nobody => return sampler,
        };
        std::thread::spawn(move || sample(&samples, look, first_ns));
        sampler
    }

    pub(super) fn samples(&self) -> Samples {
        self.0.lock().clone()
    }
}

fn sample(samples: &Mutex<Samples>, look: fn() -> Option<Reading>, first_ns: u64) {
    let mut due_ns = first_ns;
    loop {
        sleep_until(due_ns);
        due_ns += nanos(PERIOD);
        let at_s = now_ns().saturating_sub(first_ns) as f64 / 1e9;
        let reading = look();
        let mut samples = samples.lock();
        samples.own_cpu_s = thread_cpu_s();
        if let Some(Reading { bytes, window_bytes }) = reading {
            samples.in_flight.push(InFlight { at_s, bytes, window_bytes });
        }
    }
}
