// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! When does a program end, and how do all its threads hear of it?
//!
//! At Ctrl-C or a termination, after its `--duration`, or when whoever started it closes its standard input.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use parking_lot::{Condvar, Mutex};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The arguments that say when a program ends.
#[derive(Args, Clone, Debug, Default)]
pub struct StopArgs {
    /// End after so many seconds [default: at Ctrl-C].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// End when standard input does: whoever starts this program need not find it to end it.
    #[arg(long)]
    pub with_stdin: bool,
}

/// Signals within this time of the first are the same wish.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Tells all threads of a program to end.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    /// Stops at a signal, at the end of the duration, or with standard input, as asked.
    pub fn listen(args: &StopArgs) -> io::Result<Self> {
        let stop = Self::default();
        let (signalled, mut signals) = (stop.clone(), Signals::new([SIGINT, SIGTERM])?);
        std::thread::spawn(move || {
            let mut first = None;
            for _ in signals.forever() {
                // A second one is from somebody who will not wait, unless both are one: `timeout` and supervisors
                // signal a program and its group.
                if first.get_or_insert_with(Instant::now).elapsed() > SAME_SIGNAL {
                    std::process::exit(130);
                }
                signalled.now();
            }
        });
        if let Some(duration) = args.duration {
            let timed = stop.clone();
            std::thread::spawn(move || {
                timed.wait_for(duration);
                timed.now();
            });
        }
        if args.with_stdin {
            let closed = stop.clone();
            std::thread::spawn(move || {
                let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
                closed.now();
            });
        }
        Ok(stop)
    }

    /// Opens what may take for ever: a stop meanwhile ends the program.
    pub fn while_opening<T>(&self, open: impl FnOnce() -> T) -> T {
        let (stop, is_open) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let opened = Arc::clone(&is_open);
        std::thread::spawn(move || {
            while !stop.wait_for(Duration::from_secs(3_600)) {}
            if !is_open.load(Ordering::Acquire) {
                eprintln!("Ended before a session was open.");
                std::process::exit(0);
            }
        });
        let result = open();
        opened.store(true, Ordering::Release);
        result
    }

    /// Ends everything that waits.
    pub fn now(&self) {
        let (stopped, changed) = &*self.0;
        *stopped.lock() = true;
        changed.notify_all();
    }

    /// Whether it is time to end; waits for that so long at most.
    pub fn wait_for(&self, patience: Duration) -> bool {
        let (stopped, changed) = &*self.0;
        let deadline = Instant::now() + patience;
        let mut stopped = stopped.lock();
        changed.wait_while_until(&mut stopped, |stopped| !*stopped, deadline);
        *stopped
    }
}

/// A day at most: `Instant` cannot hold just any sum.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "0.1 to 86400 seconds (a day)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_reaches_every_thread_at_once() {
        let stop = Stop::default();
        assert!(!stop.wait_for(Duration::ZERO));
        let threads: Vec<_> = (0..3)
            .map(|_| stop.clone())
            .map(|stop| std::thread::spawn(move || stop.wait_for(Duration::from_secs(60))))
            .collect();
        stop.now();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    }

    #[test]
    fn durations_are_positive_and_finite() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1_500)));
        for bad in ["0", "-1", "nan", "inf", "1e9", "soon"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
