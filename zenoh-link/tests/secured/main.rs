// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Secured links under real sessions: who is let in over `arq/` and over `quic/`, what is readable on the wire, how
//! certificates live and end.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

#[path = "../support/mod.rs"]
mod support;

mod access;
mod life;
mod matrix;
mod page;
mod pki;
mod policy;
mod rotation;
mod settings;
mod wire;

use std::{
    fmt,
    future::Future,
    time::{Duration, Instant},
};

use settings::Settings;
use support::{carry, chosen_port, connect, listen, patiently};
use tokio::task::JoinSet;
use zenoh::Session;

/// Who refuses says so at once: the time-out of the handshake is 9 s.
const SOON: Duration = Duration::from_secs(6);

/// Why two sessions do not meet.
#[derive(Debug)]
struct Refused {
    error: String,
    /// So long after who connects began to.
    after: Duration,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {:?}: {}", self.after, self.error)
    }
}

/// A session that connects to one that listens on this host, both ends as told, and the one that listens. Of the two ends
/// whichever refuses, it is the one that connects that fails.
async fn meet(
    protocol: &str,
    router: &Settings,
    vehicle: &Settings,
    keys: [&str; 2],
) -> Result<[Session; 2], Refused> {
    meet_at(&format!("{protocol}/localhost"), router, vehicle, keys).await
}

/// The same at a host that is asked for by this name.
async fn meet_at(
    host: &str,
    router: &Settings,
    vehicle: &Settings,
    keys: [&str; 2],
) -> Result<[Session; 2], Refused> {
    let [listens, connects] = keys.map(|keys| format!("{host}:0{keys}"));
    let listener = listen(&listens, &router.pairs()).await;
    let chosen = chosen_port(&connects, &listener).await;
    let called_at = Instant::now();
    let connected = connect(&chosen, &vehicle.pairs()).await;
    let refused =
        |error: zenoh::Error| Refused { error: error.to_string(), after: called_at.elapsed() };
    let connector = connected.map_err(refused)?;
    Ok([listener, connector])
}

/// A session that connects as soon as it is let in.
async fn let_in(endpoint: &str, settings: &Settings) -> Session {
    patiently("somebody is let in", async {
        loop {
            if let Ok(session) = connect(endpoint, &settings.pairs()).await {
                return session;
            }
            // Patience looks at the clock only here if all attempts fail at once.
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// What is wrong with these verdicts, of which several are awaited at once: most of them come after some waiting.
async fn wrong_of<V>(verdicts: impl IntoIterator<Item = V>) -> Vec<String>
where
    V: Future<Output = Option<String>> + Send + 'static,
{
    const AT_ONCE: usize = 4;
    let (mut awaited, mut wrong) = (JoinSet::new(), Vec::new());
    for verdict in verdicts {
        if awaited.len() == AT_ONCE {
            wrong.extend(awaited.join_next().await.unwrap().unwrap());
        }
        awaited.spawn(verdict);
    }
    while let Some(verdict) = awaited.join_next().await {
        wrong.extend(verdict.unwrap());
    }
    wrong
}

/// The end of an endpoint with those of its keys that are there: zenoh takes no `#` with nothing behind it.
fn behind(keys: &[&str]) -> String {
    let keys: Vec<_> = keys.iter().copied().filter(|key| !key.is_empty()).collect();
    if keys.is_empty() {
        String::new()
    } else {
        format!("#{}", keys.join(";"))
    }
}

/// Who the other end of a session's only link is, by its certificate.
async fn peer_of(session: &Session) -> Option<String> {
    let link = session.info().links().await.next().expect("a link");
    link.auth_identifier().map(str::to_owned)
}

/// Carries a put each way.
async fn assert_carries([a, b]: &[Session; 2]) {
    carry(a, b, "secured/there").await;
    carry(b, a, "secured/back").await;
}
