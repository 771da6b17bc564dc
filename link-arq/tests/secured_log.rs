// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does the log say of secured links and of clear ones, and what does it keep to itself?

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "secured/files.rs"]
mod files;
mod log;

use std::{fs, sync::mpsc::channel};

use files::{meet, Files, HANG};
use log::Lines;

const PSK: &str = "MDEyMzQ1Njc4OWFiY2RlZg==";

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_in_no_line_and_what_matters_is_in_one() {
    let (sender, lines) = channel();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(Lines(sender));
    log.with_env_filter("trace").init();

    let files = Files::valid();
    let key = fs::read_to_string(files.path("key")).unwrap();
    let raw = format!(
        "listen_certificate_file={};listen_private_key_raw={key}",
        files.path("cert").display()
    );
    meet(&raw, &files.connect()).await.unwrap();
    meet(&format!("psk_base64={PSK}"), &format!("psk_base64={PSK}")).await.unwrap();
    for _ in 0..3 {
        meet("", "").await.unwrap();
    }
    let off = format!("{};security=off", files.connect());
    meet("", &off).await.unwrap();
    // The server refuses who shows nothing, after that one has its link.
    let mutual = format!("{};{};enable_mtls=true", files.listen(), files.connect());
    let lonely = tokio::spawn(async move { meet(&mutual, &files.connect()).await.map(drop) });

    let mut seen = Vec::new();
    while !seen.iter().any(|line: &String| line.contains("the peer shows no certificate")) {
        seen.push(lines.recv_timeout(HANG).unwrap());
    }
    lonely.abort();
    seen.extend(lines.try_iter());
    let count = |words: &[&str]| {
        seen.iter().filter(|line| words.iter().all(|word| line.contains(word))).count()
    };
    assert_eq!(count(&["INFO", "links that connect are not encrypted"]), 1);
    assert_eq!(count(&["INFO", "links of listeners are not encrypted"]), 1);
    assert_eq!(count(&["WARN", "links that connect are not encrypted", "security=off"]), 1);
    assert!(count(&["WARN", "no secured connection", "shows no certificate"]) >= 1, "{seen:#?}");

    let mut secrets: Vec<_> = key.lines().filter(|line| !line.starts_with("---")).collect();
    secrets.push(PSK);
    for secret in secrets {
        assert_eq!(count(&[secret]), 0, "{secret}");
    }
}
