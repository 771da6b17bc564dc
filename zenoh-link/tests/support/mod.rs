// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How do two zenoh sessions in one process carry one put over a given link?

use std::{future::Future, time::Duration};

use zenoh::{config::Config, Session, Wait};

/// Longer than anything here takes on a busy machine; a test that needs it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A config without scouting, with `settings` (path and JSON5 value) on top.
pub(crate) fn config(settings: &[(&str, &str)]) -> Config {
    let mut config = Config::default();
    let quiet = [
        ("scouting/multicast/enabled", "false"),
        ("scouting/gossip/enabled", "false"),
        ("listen/endpoints", "[]"),
        // An error at once instead of a retry without end.
        ("connect/timeout_ms", "0"),
        ("connect/exit_on_failure", "true"),
    ];
    for (path, value) in quiet.iter().chain(settings) {
        config.insert_json5(path, value).unwrap();
    }
    config
}

/// Waits for `condition`, but not for ever.
pub(crate) async fn patiently<T>(what: &str, condition: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, condition).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}

pub(crate) async fn listen(endpoint: &str, settings: &[(&str, &str)]) -> Session {
    let mut config = config(settings);
    let endpoints = format!("[{endpoint:?}]");
    config.insert_json5("listen/endpoints", &endpoints).unwrap();
    let opening = async { zenoh::open(config).await };
    patiently(endpoint, opening).await.unwrap()
}

pub(crate) async fn connect(endpoint: &str, settings: &[(&str, &str)]) -> zenoh::Result<Session> {
    let mut config = config(settings);
    let endpoints = format!("[{endpoint:?}]");
    config.insert_json5("mode", "\"client\"").unwrap();
    config.insert_json5("connect/endpoints", &endpoints).unwrap();
    patiently(endpoint, async { zenoh::open(config).await }).await
}

/// Opens two sessions over `endpoint` and carries a put from the connecting one to the other.
///
/// With port 0 in `endpoint`, the second session connects to the port that the first one got.
pub(crate) async fn carry_put(endpoint: &str, settings: &[(&str, &str)]) {
    let listener = listen(endpoint, settings).await;
    let chosen = chosen_port(endpoint, &listener).await;
    let connector = connect(&chosen, settings).await.unwrap();

    carry(&connector, &listener, "carry/put").await;

    let links: Vec<_> = connector.info().links().await.collect();
    let protocol = endpoint.split('/').next().unwrap();
    assert!(
        links.iter().all(|link| link.dst().protocol().as_str() == protocol),
        "{endpoint}: another link than asked for carried the put: {links:?}"
    );

    connector.close().wait().unwrap();
    listener.close().wait().unwrap();
}

/// Carries a put from one session to the other, once the route is known.
pub(crate) async fn carry(from: &Session, to: &Session, key: &'static str) {
    let samples = to.declare_subscriber(key).await.unwrap();
    let publisher = from.declare_publisher(key).await.unwrap();
    let matching = publisher.matching_listener().await.unwrap();
    patiently("the subscriber is known", async {
        while !publisher.matching_status().await.unwrap().matching() {
            matching.recv_async().await.unwrap();
        }
    })
    .await;

    let payload: Vec<u8> = (0..5_000u32).map(|i| i as u8).collect();
    publisher.put(payload.clone()).await.unwrap();
    let sample = patiently(key, samples.recv_async()).await.unwrap();
    assert_eq!(sample.payload().to_bytes(), payload, "of {key}");
}

/// `endpoint` with the port that `listener` got where it has port 0.
pub(crate) async fn chosen_port(endpoint: &str, listener: &Session) -> String {
    if endpoint.split(['?', '#']).next().is_some_and(|locator| !locator.ends_with(":0")) {
        return endpoint.to_owned();
    }
    let locators = listener.info().locators().await;
    let port = locators[0].address().as_str().rsplit(':').next().unwrap().to_owned();
    endpoint.replacen(":0", &format!(":{port}"), 1)
}
