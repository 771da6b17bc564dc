// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Secured links without zenoh's sessions, which keep to themselves why a link did not open.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use rcgen::{CertificateParams, DnType, KeyPair};
use tempfile::TempDir;
use tokio::time::timeout;
use zenoh_link_arq::{statistics, LinkManagerUnicastArq};
use zenoh_link_commons::{
    LinkAuthId, LinkManagerUnicastTrait, LinkUnicast, LinkUnicastTrait, NewLink,
};
use zenoh_protocol::core::EndPoint;

/// Far above what is needed: only a hang runs into it.
const HANG: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(86_400);

/// A certificate of `router.fleet`, for localhost, that vouches for itself, in files.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new(valid: [SystemTime; 2]) -> Self {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "router.fleet");
        [params.not_before, params.not_after] = valid.map(Into::into);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let files = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(files.path("cert"), certificate.pem()).unwrap();
        fs::write(files.path("key"), key.serialize_pem()).unwrap();
        files
    }

    fn valid() -> Self {
        Self::new([SystemTime::now() - DAY, SystemTime::now() + DAY])
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn listen(&self) -> String {
        let (certificate, key) = (self.path("cert"), self.path("key"));
        let (certificate, key) = (certificate.display(), key.display());
        format!("listen_certificate_file={certificate};listen_private_key_file={key}")
    }

    fn connect(&self) -> String {
        format!("root_ca_certificate_file={}", self.path("cert").display())
    }
}

/// A link to a listener, and the one that this accepts.
async fn meet(listen: &str, connect: &str) -> Result<[LinkUnicast; 2], String> {
    let (sender, accepted) = flume::unbounded();
    let server = LinkManagerUnicastArq::new(sender);
    let endpoint =
        |at: &str, keys: &str| -> EndPoint { format!("arq/{at}#mtu=1400;{keys}").parse().unwrap() };
    let locator = server.new_listener(endpoint("localhost:0", listen)).await.unwrap();
    let port = locator.address().as_str().rsplit_once(':').unwrap().1.to_owned();
    let client = LinkManagerUnicastArq::new(flume::unbounded().0);
    let at = format!("localhost:{port}");
    let near = client.new_link(endpoint(&at, connect)).await.map_err(|error| error.to_string())?;
    let far = timeout(HANG, accepted.recv_async()).await.unwrap().unwrap();
    Ok([near, far])
}

async fn refusal(listen: &str, connect: &str) -> String {
    meet(listen, connect).await.map(drop).unwrap_err()
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
async fn a_certificate_that_has_expired_is_named_with_both_dates() {
    let files = Files::new([SystemTime::now() - 2 * DAY, SystemTime::now() - DAY]);
    let text = refusal(&files.listen(), &files.connect()).await;
    let words =
        ["the certificate of router.fleet is not valid after 20", "this host's clock says 20"];
    assert_says(&text, &words);
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
