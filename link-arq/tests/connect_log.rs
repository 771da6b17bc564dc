// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does the log say of an endpoint that can never work, which zenoh dials again and again?

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod log;

use std::sync::mpsc::channel;

use log::Lines;
use zenoh_link_arq::LinkManagerUnicastArq;
use zenoh_link_commons::LinkManagerUnicastTrait;

#[tokio::test]
async fn a_bad_key_is_warned_of_once() {
    let (sender, lines) = channel();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(Lines(sender));
    log.with_env_filter("zenoh=info").init();

    let manager = LinkManagerUnicastArq::new(flume::unbounded().0);
    for key in ["presett", "presett", "prest"] {
        let endpoint = format!("arq/127.0.0.1:7447#{key}=hunter2").parse().unwrap();
        let error = manager.new_link(endpoint).await.map(drop).unwrap_err().to_string();
        assert!(error.contains("127.0.0.1:7447") && !error.contains("hunter2"), "{error}");
    }
    let warnings: Vec<_> = lines.try_iter().collect();
    let [first, second] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(
        first.contains("WARN") && first.contains("presett") && first.contains("preset"),
        "{first}"
    );
    assert!(second.contains("prest"), "{second}");
    assert!(warnings.iter().all(|warning| !warning.contains("hunter2")), "{warnings:?}");
}
