// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does the subscribing process note when each message came?

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zenoh::sample::Sample;
use zenoh::Wait;

use super::{session_config, stamp, Load, Word, KEY};
use crate::delivery::Arrival;

/// How often the number of arrivals is told.
const TELL: Duration = Duration::from_millis(100);

type Arrivals = Arc<Mutex<Vec<Arrival>>>;

/// Notes arrivals until standard input closes, tells them and ends.
pub fn subscribe(load: &Load) {
    if let Err(e) = listen_and_note(load) {
        Word::Failed(e.to_string()).say();
    }
}

fn listen_and_note(load: &Load) -> zenoh::Result<()> {
    let session = zenoh::open(session_config("listen", &load.endpoint)?).wait()?;
    let arrivals = Arrivals::default();
    let noted = Arc::clone(&arrivals);
    let note = move |sample: Sample| {
        let arrived_ns = stamp::now_ns();
        if let Some((sequence, intended_ns)) = stamp::read(&sample.payload().to_bytes()) {
            let arrival = Arrival { sequence, intended_ns, arrived_ns };
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
        }
    };
    session.declare_subscriber(KEY).callback(note).background().wait()?;
    Word::Ready.say();
    tell_in_background(Arc::clone(&arrivals));
    while std::io::stdin().read_line(&mut String::new())? > 0 {}
    Word::Arrivals(arrivals.lock().unwrap_or_else(PoisonError::into_inner).clone()).say();
    // Without the farewells of a session: over a bad network they take long, and nobody waits for them.
    std::process::exit(0)
}

fn tell_in_background(arrivals: Arrivals) {
    std::thread::spawn(move || loop {
        std::thread::sleep(TELL);
        let count = arrivals.lock().unwrap_or_else(PoisonError::into_inner).len();
        Word::Received(count as u64).say();
    });
}
