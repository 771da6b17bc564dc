// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Certificates that end, and are renewed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zenoh::Session;

use crate::{
    assert_carries, chosen_port, connect, let_in, listen, meet,
    pki::{Fleet, Validity, Wanted, DAY, PAST, ROUTER, VEHICLE},
    settings::Settings,
    support::patiently,
};

/// Long enough to open a link on a busy machine.
const SHORT_LIFE: Duration = Duration::from_secs(8);
/// Between the end of a certificate and that of its links.
const PROMPTLY: Duration = Duration::from_secs(1);

/// After a time, by the clock. A certificate's end is written in whole seconds.
fn whole_second_after(time: Duration) -> SystemTime {
    let since_1970 = (SystemTime::now() + time).duration_since(UNIX_EPOCH).unwrap();
    UNIX_EPOCH + Duration::from_secs(since_1970.as_secs())
}

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
        let ends = whole_second_after(SHORT_LIFE);
        let valid = [Validity::Before(DAY), Validity::At(ends)];
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
        let late = SystemTime::now().duration_since(ends);
        let late =
            late.unwrap_or_else(|early| panic!("{file}: {:?} before its end", early.duration()));
        assert!(late < PROMPTLY, "{file}: {late:?} after its end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_takes_a_renewed_certificate() {
    let fleet = Fleet::new();
    fleet.certify("router", &Wanted { valid: PAST, ..Wanted::of(ROUTER) });
    let listener = listen("arq/localhost:0", &Settings::router(&fleet).pairs()).await;
    let chosen = chosen_port("arq/localhost:0", &listener).await;
    let vehicle = Settings::vehicle(&fleet);
    connect(&chosen, &vehicle.pairs()).await.unwrap_err();

    fleet.certify("router", &Wanted::of(ROUTER));
    let connector = let_in(&chosen, &vehicle).await;
    assert_carries(&[listener, connector]).await;
}
