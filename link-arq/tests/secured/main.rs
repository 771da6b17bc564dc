// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Secured links without zenoh's sessions, which keep to themselves why a link did not open.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod files;
#[path = "../../../zenoh-link/tests/secured/pki.rs"]
mod pki;
mod refusals;

use std::time::{Duration, SystemTime};

use files::{dial, meet, Files, DAY, HANG};
use tokio::time::timeout;
use zenoh_link_arq::{statistics, LinkManagerUnicastArq};
use zenoh_link_commons::{
    LinkAuthId, LinkManagerUnicastTrait, LinkUnicast, LinkUnicastTrait, NewLink,
};

/// Well below the time-out of a handshake, which is 9 s.
const SOON: Duration = Duration::from_secs(6);

/// Why a link does not open. One that shows a certificate which the listener refuses has opened by then, and ends before
/// anything can be read.
async fn refusal(listen: &str, connect: &str) -> String {
    let dialled = dial(listen, connect).await;
    match &dialled.link {
        Err(error) => error.clone(),
        Ok(link) => {
            let mut buffer = vec![0; 65_535];
            match timeout(SOON, single(link).read(&mut buffer, None)).await {
                Ok(read) => read.unwrap_err().to_string(),
                Err(_) => format!("nothing ends the link within {SOON:?}"),
            }
        }
    }
}

fn single(link: &LinkUnicast) -> &dyn LinkUnicastTrait {
    let NewLink::Single(link) = &link.0 else { panic!("two links") };
    link.as_ref()
}

fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn zenoh_and_the_statistics_know_who_is_there() {
    let files = Files::valid();
    let [near, far] = meet(&files.listen(), &files.connect()).await.unwrap();
    let (near, far) = (single(&near), single(&far));
    let name = Some("router.fleet".to_owned());
    assert!(matches!(near.get_auth_id(), LinkAuthId::Quic(have) if *have == name));
    assert!(matches!(far.get_auth_id(), LinkAuthId::Quic(None)), "{:?}", far.get_auth_id());
    let links = statistics();
    let link = links.iter().find(|link| link.dst == *near.get_dst()).unwrap();
    assert_eq!((link.security, &link.peer), ("tls", &name));
    let expires = link.certificate_expires.unwrap().duration_since(SystemTime::now()).unwrap();
    assert!(expires <= DAY && expires > DAY - HANG, "{expires:?}");

    let [near, _far] = meet("", "").await.unwrap();
    assert!(matches!(single(&near).get_auth_id(), LinkAuthId::Udp));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clear_and_a_secured_end_refuse_each_other_with_words() {
    let files = Files::valid();
    let text = refusal(&files.listen(), "").await;
    assert_says(&text, &["the peer only takes encrypted links"]);
    let text = refusal("", &files.connect()).await;
    assert_says(&text, &["the peer offers no encryption: not connecting in clear"]);
    let off = format!("{};security=off", files.connect());
    assert_says(&refusal(&files.listen(), &off).await, &["only takes encrypted links"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_name_is_told_beside_the_one_that_was_asked_for() {
    let files = Files::valid();
    let connect = format!("{};server_name=other.fleet", files.connect());
    let text = refusal(&files.listen(), &connect).await;
    assert_says(&text, &["certificate of router.fleet is for", "localhost", "not for other.fleet"]);
    meet(&files.listen(), &format!("{connect};verify_name_on_connect=false")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_pre_shared_key_meets_silence() {
    let of = |key: &str| format!("handshake_timeout_ms=500;psk_base64={key}");
    let text = refusal(&of("AAAAAAAAAAAAAAAAAAAAAA=="), &of("BAAAAAAAAAAAAAAAAAAAAA==")).await;
    assert_says(&text, &["no answer"]);
    assert!(!text.contains("AAAA"), "{text}");
}

/// zenoh puts the keys of its configuration behind the `#` of an endpoint.
#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_the_listeners_gets_no_secret() {
    let manager = LinkManagerUnicastArq::new(flume::unbounded().0);
    let secret = "MDEyMzQ1Njc4OWFiY2RlZg==";
    let endpoint = format!("arq/127.0.0.1:0#psk_base64={secret};mtu=1300").parse().unwrap();
    let locator = manager.new_listener(endpoint).await.unwrap();
    let [listener] = &manager.get_listeners().await[..] else { panic!("one listener") };
    assert!(listener.as_str().ends_with("#mtu=1300"), "{listener}");
    assert!(!locator.as_str().contains(secret), "{locator}");
}
