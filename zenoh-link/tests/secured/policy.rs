// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Each way to configure an endpoint against each other one.

use std::{sync::Arc, time::Duration};

use crate::{
    assert_carries, behind, meet, pki::Fleet, settings::Settings, support::carry_put, wrong_of,
    Refused, SOON,
};

/// What an endpoint holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Nothing,
    Certificates,
    Psk,
    Both,
    OffDespiteCertificates,
    TlsInWriting,
    PskDespiteCertificates,
}

use Holds::{
    Both, Certificates, Nothing, OffDespiteCertificates, Psk, PskDespiteCertificates, TlsInWriting,
};

const ALL: [Holds; 7] = [
    Nothing,
    Certificates,
    Psk,
    Both,
    OffDespiteCertificates,
    TlsInWriting,
    PskDespiteCertificates,
];

/// Of who meets silence: long enough to be told from a refusal.
const PATIENCE: Duration = Duration::from_secs(1);

fn keys(holds: Holds, psk: &str) -> String {
    match holds {
        Nothing | Certificates => String::new(),
        Psk | Both => format!("psk_file={psk}"),
        OffDespiteCertificates => "security=off".to_owned(),
        TlsInWriting => "security=tls".to_owned(),
        PskDespiteCertificates => format!("security=psk;psk_file={psk}"),
    }
}

fn settings(holds: Holds, certificates: Settings) -> Settings {
    match holds {
        Nothing | Psk => Settings::default(),
        _ => certificates,
    }
}

/// What is behind the choice.
#[derive(PartialEq, Eq)]
enum By {
    Nothing,
    Certificates,
    Psk,
}

fn by(holds: Holds) -> By {
    match holds {
        Nothing | OffDespiteCertificates => By::Nothing,
        Certificates | Both | TlsInWriting => By::Certificates,
        Psk | PskDespiteCertificates => By::Psk,
    }
}

fn has_psk(holds: Holds) -> bool {
    matches!(holds, Psk | Both | PskDespiteCertificates)
}

/// Whether these two have something in common. A listener with a pre-shared key hears who knocks with it, and nobody else;
/// one without it takes no notice of the knock.
fn opens(listener: Holds, connector: Holds) -> bool {
    by(listener) == by(connector) && (has_psk(connector) || !has_psk(listener))
}

/// Who has a pre-shared key neither answers those who lack it, nor believes what they answer.
fn is_silent(listener: Holds, connector: Holds) -> bool {
    !opens(listener, connector) && has_psk(listener) != has_psk(connector)
}

/// Whether the verdict comes when it should: silence lasts until the time is up, words come before.
fn is_in_time(refused: &Refused, is_silent: bool) -> bool {
    match is_silent {
        true => refused.after >= PATIENCE,
        false => refused.after < SOON,
    }
}

/// What is wrong with what comes of these two.
async fn judge(listener: Holds, connector: Holds, fleet: Arc<Fleet>) -> Option<String> {
    let psk = fleet.path("psk").to_str().unwrap().to_owned();
    let router = settings(listener, Settings::router(&fleet));
    let vehicle = settings(connector, Settings::vehicle(&fleet));
    let is_silent = is_silent(listener, connector);
    let patience = match is_silent {
        true => format!("handshake_timeout_ms={}", PATIENCE.as_millis()),
        false => String::new(),
    };
    let keys = [behind(&[&keys(listener, &psk)]), behind(&[&patience, &keys(connector, &psk)])];
    let met = meet("arq", &router, &vehicle, keys.each_ref().map(String::as_str)).await;
    let wrong = match met {
        Ok(sessions) if opens(listener, connector) => {
            assert_carries(&sessions).await;
            return None;
        }
        Err(refused) if !opens(listener, connector) && is_in_time(&refused, is_silent) => {
            return None
        }
        Ok(_) => "opens".to_owned(),
        Err(refused) => refused.to_string(),
    };
    Some(format!("{connector:?} -> {listener:?}: {wrong}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_falls_back() {
    let fleet = Arc::new(Fleet::new());
    fleet.psk("psk");
    let pairs = ALL.into_iter().flat_map(|one| ALL.into_iter().map(move |other| (one, other)));
    let wrong = wrong_of(pairs.map(|(one, other)| judge(one, other, fleet.clone()))).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pre_shared_key_is_enough() {
    let fleet = Fleet::new();
    fleet.psk("psk");
    carry_put(&format!("arq/localhost:0#psk_file={}", fleet.path("psk").display()), &[]).await;
}
