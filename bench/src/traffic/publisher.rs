// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does the publishing process keep to its timetable, whatever the link does?

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use zenoh::pubsub::Publisher;
use zenoh::qos::CongestionControl;
use zenoh::Wait;

use super::{session_config, stamp, Load, Word, KEY};

/// How long the subscriber may take to be found.
const MATCH_PATIENCE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How often the number of sent messages is told.
const TELL: Duration = Duration::from_millis(100);

/// Publishes `load` when told to on standard input, and ends.
pub fn publish(load: &Load) {
    if let Err(e) = connect_and_publish(load) {
        Word::Failed(e.to_string()).say();
    }
}

fn connect_and_publish(load: &Load) -> zenoh::Result<()> {
    let session = zenoh::open(session_config("connect", &load.endpoint)?).wait()?;
    // Block, so that what the table calls offered was really handed over, if the link takes it at all.
    let publisher =
        session.declare_publisher(KEY).congestion_control(CongestionControl::Block).wait()?;
    wait_for_subscriber(&publisher)?;
    Word::Ready.say();
    std::io::stdin().read_line(&mut String::new())?;
    send_all(load, &publisher)
}

fn wait_for_subscriber(publisher: &Publisher<'_>) -> zenoh::Result<()> {
    let deadline = stamp::now_ns() + nanos(MATCH_PATIENCE);
    while !publisher.matching_status().wait()?.matching() {
        if stamp::now_ns() > deadline {
            return Err(format!("no subscriber was found within {MATCH_PATIENCE:?}").into());
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

fn send_all(load: &Load, publisher: &Publisher<'_>) -> zenoh::Result<()> {
    let mut payload = vec![0; load.size_bytes];
    ChaCha8Rng::seed_from_u64(load.seed).fill_bytes(&mut payload);
    let start = stamp::now_ns();
    Word::Started { at_ns: start }.say();
    let end = start + nanos(load.limit());
    let mut told = start;
    for sequence in 0..load.messages {
        let intended = start + nanos(load.departure(sequence));
        sleep_until(intended);
        stamp::write(&mut payload, sequence, intended);
        publisher.put(payload.as_slice()).wait()?;
        let now = stamp::now_ns();
        if now > end {
            break;
        }
        if now - told > nanos(TELL) || sequence + 1 == load.messages {
            Word::Sent(sequence + 1).say();
            told = now;
        }
    }
    // The session must live on until the subscriber has what is still on its way.
    let _ = std::io::stdin().read_line(&mut String::new());
    Ok(())
}

fn sleep_until(time_ns: u64) {
    let wait = time_ns.saturating_sub(stamp::now_ns());
    std::thread::sleep(Duration::from_nanos(wait));
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
