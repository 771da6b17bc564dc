// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Each way to configure an endpoint against each other one.

use crate::{
    assert_carries, meet,
    pki::{Fleet, Settings},
    support::carry_put,
};

/// What an endpoint holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Nothing,
    Certificates,
    Psk,
    Both,
    OffDespiteCertificates,
}

use Holds::{Both, Certificates, Nothing, OffDespiteCertificates, Psk};

const ALL: [Holds; 5] = [Nothing, Certificates, Psk, Both, OffDespiteCertificates];

/// Soon enough where nobody answers, late enough on a busy machine.
const PATIENCE: &str = "handshake_timeout_ms=3000";

fn keys(holds: Holds, psk: &str) -> String {
    match holds {
        Nothing | Certificates => format!("#{PATIENCE}"),
        Psk | Both => format!("#{PATIENCE};psk_file={psk}"),
        OffDespiteCertificates => format!("#{PATIENCE};security=off"),
    }
}

fn settings(holds: Holds, certificates: Settings) -> Settings {
    match holds {
        Nothing | Psk => Settings::default(),
        Certificates | Both | OffDespiteCertificates => certificates,
    }
}

/// Whether these two have something in common. A listener that wants a knock hears it from who has the key, too.
fn opens(listener: Holds, connector: Holds) -> bool {
    let is_clear = |holds| matches!(holds, Nothing | OffDespiteCertificates);
    match (listener, connector) {
        (Both, Certificates) => false,
        (Certificates | Both, Certificates | Both) | (Psk, Psk) => true,
        (listener, connector) => is_clear(listener) && is_clear(connector),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_falls_back() {
    let fleet = Fleet::new();
    fleet.psk("psk");
    let psk = fleet.path("psk").to_str().unwrap().to_owned();
    let mut wrong = Vec::new();
    for listener in ALL {
        for connector in ALL {
            let router = settings(listener, Settings::router(&fleet));
            let vehicle = settings(connector, Settings::vehicle(&fleet));
            let keys = [keys(listener, &psk), keys(connector, &psk)];
            let met = meet("arq", &router, &vehicle, keys.each_ref().map(String::as_str)).await;
            match met {
                Ok(sessions) if opens(listener, connector) => assert_carries(&sessions).await,
                Err(_) if !opens(listener, connector) => {}
                Ok(_) => wrong.push(format!("{connector:?} -> {listener:?}: opens")),
                Err(error) => wrong.push(format!("{connector:?} -> {listener:?}: {error}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pre_shared_key_is_enough() {
    let fleet = Fleet::new();
    fleet.psk("psk");
    carry_put(&format!("arq/localhost:0#psk_file={}", fleet.path("psk").display()), &[]).await;
}
