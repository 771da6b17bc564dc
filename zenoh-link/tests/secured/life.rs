// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Certificates that end, are renewed, and keys that are changed.

use std::time::{Duration, Instant};

use zenoh::Session;

use crate::{
    assert_carries, chosen_port, connect, listen, meet,
    pki::{Fleet, Settings, Validity, Wanted, ROUTER, VEHICLE},
    support::patiently,
};

const DAY: Duration = Duration::from_secs(86_400);
/// Long enough to open a link on a busy machine.
const SHORT_LIFE: Duration = Duration::from_secs(8);

/// Waits until the session has no link.
async fn alone(session: &Session) {
    let ended = session.info().link_events_listener().await.unwrap();
    patiently("the link ends", async {
        while session.info().links().await.count() > 0 {
            ended.recv_async().await.unwrap();
        }
    })
    .await;
}

/// Whichever end's certificate it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_ends_with_a_certificate() {
    for (file, name) in [("router", ROUTER), ("vehicle", VEHICLE)] {
        let fleet = Fleet::new();
        let ends = Instant::now() + SHORT_LIFE;
        let valid = [Validity::Before(DAY), Validity::After(SHORT_LIFE)];
        fleet.certify(file, &Wanted { valid, ..Wanted::of(name) });
        let ending =
            |settings: Settings| settings.with("transport/link/tls/close_link_on_expiration", true);
        let (router, vehicle) =
            (ending(Settings::router(&fleet)), ending(Settings::vehicle(&fleet)));
        let sessions = meet("arq", &router, &vehicle, ["", ""]).await.unwrap();
        assert_carries(&sessions).await;
        for session in &sessions {
            alone(session).await;
        }
        // A certificate's end is written in whole seconds.
        let late = Instant::now() - ends;
        assert!(Instant::now() + Duration::from_secs(1) >= ends, "{file}: before its end");
        assert!(late < Duration::from_secs(3), "{file}: {late:?} after its end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_takes_a_renewed_certificate() {
    let fleet = Fleet::new();
    let past = [Validity::Before(2 * DAY), Validity::Before(DAY)];
    fleet.certify("router", &Wanted { valid: past, ..Wanted::of(ROUTER) });
    let listener = listen("arq/localhost:0", &Settings::router(&fleet).pairs()).await;
    let chosen = chosen_port("arq/localhost:0", &listener).await;
    let vehicle = Settings::vehicle(&fleet);
    connect(&chosen, &vehicle.pairs()).await.unwrap_err();

    fleet.certify("router", &Wanted::of(ROUTER));
    let connector = patiently("the renewed certificate is taken", async {
        loop {
            if let Ok(session) = connect(&chosen, &vehicle.pairs()).await {
                return session;
            }
        }
    })
    .await;
    assert_carries(&[listener, connector]).await;
}

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
