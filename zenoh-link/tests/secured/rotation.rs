// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Pre-shared keys that are changed.

use std::time::Duration;

use tokio::sync::{
    mpsc::{unbounded_channel, UnboundedReceiver},
    watch,
};
use zenoh::{qos::CongestionControl, Session};

use crate::{
    assert_carries, chosen_port, connect, let_in, listen, meet, pki::Fleet, settings::Settings,
    support::patiently,
};

/// Append, put first, remove: whoever has taken a step meets whoever has not.
#[tokio::test(flavor = "multi_thread")]
async fn a_pre_shared_key_is_changed_without_an_outage() {
    let fleet = Fleet::new();
    let (old, new) = (fleet.psk("old"), fleet.psk("new"));
    let steps = [old.clone(), format!("{old}\n{new}"), format!("{new}\n{old}"), new.clone()];
    for (step, keys) in steps.iter().enumerate() {
        fleet.write(&format!("step-{step}"), keys);
    }
    let nothing = Settings::default();
    let file = |step: usize| format!("#psk_file={}/step-{step}", fleet.folder().display());
    let quick = |step: usize| format!("{};handshake_timeout_ms=1000", file(step));
    for (listener, connector) in [(0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (3, 3)] {
        let keys = [file(listener), file(connector)];
        let keys = keys.each_ref().map(String::as_str);
        let met = meet("arq", &nothing, &nothing, keys).await;
        let sessions = met.unwrap_or_else(|e| panic!("{connector} -> {listener}: {e}"));
        assert_carries(&sessions).await;
    }
    let met = meet("arq", &nothing, &nothing, [&file(0), &quick(3)]).await;
    assert!(met.is_err(), "the first step and the last have no key in common");
}

/// Publishes numbers from 0 until it is told to stop, and gives how many.
async fn count_up(session: Session, key: &'static str, mut stop: watch::Receiver<bool>) -> u64 {
    let publisher = session.declare_publisher(key);
    let publisher = publisher.congestion_control(CongestionControl::Block).await.unwrap();
    let matching = publisher.matching_listener().await.unwrap();
    while !publisher.matching_status().await.unwrap().matching() {
        matching.recv_async().await.unwrap();
    }
    let mut pace = tokio::time::interval(Duration::from_millis(2));
    for number in 0.. {
        if *stop.borrow_and_update() {
            return number;
        }
        publisher.put(number.to_string()).await.unwrap();
        pace.tick().await;
    }
    unreachable!("numbers do not end")
}

/// Every number arrives, in order and once.
async fn assert_counts(heard: &mut UnboundedReceiver<String>, sent: u64) {
    for number in 0..sent {
        let arrived = patiently("the next number", heard.recv()).await;
        assert_eq!(arrived, Some(number.to_string()));
    }
}

/// The file changes under a listener, which reads it again every 10 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_takes_another_key_and_keeps_its_sessions() {
    let fleet = Fleet::new();
    let (old, new) = (fleet.psk("old"), fleet.psk("new"));
    fleet.write("of-listener", &old);
    let of =
        |file: &str| format!("#handshake_timeout_ms=1000;psk_file={}", fleet.path(file).display());
    let at = format!("arq/localhost:0{}", of("of-listener"));
    let listener = listen(&at, &[]).await;
    let by = [of("old"), of("new")].map(|keys| format!("arq/localhost:0{keys}"));
    let [by_old, by_new] =
        [chosen_port(&by[0], &listener).await, chosen_port(&by[1], &listener).await];
    // zenoh's own channel holds 256 samples, and blocks the link then.
    let (arrives, mut heard) = unbounded_channel();
    let heard_by = listener.declare_subscriber("rotation/old").callback(move |sample| {
        let _ = arrives.send(sample.payload().try_to_string().unwrap().into_owned());
    });
    let _heard_by = heard_by.await.unwrap();
    let senior = connect(&by_old, &[]).await.unwrap();
    assert!(connect(&by_new, &[]).await.is_err(), "the listener does not have the new key yet");
    let (stop, stopped) = watch::channel(false);
    let counting = tokio::spawn(count_up(senior.clone(), "rotation/old", stopped));

    fleet.write("of-listener", &new);
    let junior = let_in(&by_new, &Settings::default()).await;
    assert!(connect(&by_old, &[]).await.is_err(), "the listener no longer has the old key");
    let sessions = [listener, junior];
    assert_carries(&sessions).await;
    stop.send(true).unwrap();
    let sent = patiently("the count", counting).await.unwrap();
    assert_counts(&mut heard, sent).await;
    assert_eq!(sessions[0].info().links().await.count(), 2, "the first session lives on");
}
