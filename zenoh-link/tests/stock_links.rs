// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does every link, ours and the stock ones, open through our dispatcher and carry a put?
//!
//! Serial, vsock and unixpipe need hardware, a hypervisor or a feature that zenoh leaves off by
//! default: they are compiled by `cargo check --features …`, not opened here.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod support;

use std::{net::TcpListener, path::Path};

use support::{carry_put, connect, listen};
use tempfile::TempDir;
use zenoh_link::{LinkConfigurator, LinkKind, Locator, ALL_SUPPORTED_LINKS};

#[tokio::test(flavor = "multi_thread")]
async fn arq() {
    carry_put("arq/127.0.0.1:0", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arq_best_effort() {
    carry_put("arq/127.0.0.1:0?rel=0", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arq_in_lowlatency_mode() {
    let lowlatency =
        [("transport/unicast/qos/enabled", "false"), ("transport/unicast/lowlatency", "true")];
    carry_put("arq/127.0.0.1:0", &lowlatency).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tcp() {
    carry_put("tcp/127.0.0.1:0", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn udp() {
    carry_put("udp/127.0.0.1:0", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn udp_reliable() {
    carry_put("udp/127.0.0.1:0?rel=1", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ws() {
    // This link does not tell which port it got for port 0.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    carry_put(&format!("ws/{free}"), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls() {
    let certificates = Certificates::new();
    carry_put("tls/localhost:0", &certificates.settings()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quic() {
    let certificates = Certificates::new();
    carry_put("quic/localhost:0", &certificates.settings()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quic_datagram() {
    let certificates = Certificates::new();
    carry_put("quic/localhost:0?rel=0", &certificates.settings()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unixsock_stream() {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("zenoh.sock");
    carry_put(&format!("unixsock-stream/{}", socket.display()), &[]).await;
}

/// The two halves of `quic/` are two links: only then do both transports above pass for a reason.
#[test]
fn quic_is_two_links_and_tcp_is_one() {
    let of = |locator: &str| LinkKind::try_from(&locator.parse::<Locator>().unwrap()).unwrap();
    assert_ne!(of("quic/localhost:1"), of("quic/localhost:1?rel=0"));
    assert_eq!(of("quic/localhost:1"), of("quic/localhost:2?rel=1"));
    assert_eq!(of("tcp/localhost:1"), of("tcp/localhost:1?rel=0"));

    let kinds = LinkKind::new_supported_links(["quic", "tcp", "nonsense"].into_iter());
    assert_eq!(kinds, [of("quic/a:1"), of("quic/a:1?rel=0"), of("tcp/a:1")]);
    assert!(kinds.iter().all(|kind| ALL_SUPPORTED_LINKS.contains(kind)));
}

#[test]
fn a_link_reads_its_part_of_the_config() {
    let mut config = zenoh_config::Config::default();
    config.insert_json5("transport/link/tcp/so_sndbuf", "4096").unwrap();
    let (configs, errors) = LinkConfigurator::default().configurations(&config);
    let tcp = LinkKind::try_from(&"tcp/a:1".parse::<Locator>().unwrap()).unwrap();
    assert_eq!(configs[&tcp], "so_sndbuf=4096");
    assert!(errors.is_empty(), "{errors:?}");
}

/// Certificates of a node are for its `arq/` links as for its `quic/` ones.
#[test]
fn arq_reads_the_section_of_tls() {
    let mut config = zenoh_config::Config::default();
    let kind = |protocol: &str| {
        LinkKind::try_from(&format!("{protocol}/a:1").parse::<Locator>().unwrap()).unwrap()
    };
    let of_arq = |config: &zenoh_config::Config| {
        let (mut configs, errors) = LinkConfigurator::default().configurations(config);
        assert!(errors.is_empty(), "{errors:?}");
        configs.remove(&kind("arq")).unwrap()
    };
    // What zenoh says in any case is known to the link, and makes nothing secured.
    let endpoint = format!("arq/localhost:7447#{}", of_arq(&config)).parse().unwrap();
    let link = zenoh_link::arq::config::LinkConfig::parse(&endpoint).unwrap();
    let clear = zenoh_link::arq::config::Policy::Clear { against_keys: false };
    assert_eq!(link.security.policy(), Ok(clear));

    let tls =
        r#"{ root_ca_certificate: "/ca.pem", listen_private_key: "/key.pem", enable_mtls: true }"#;
    config.insert_json5("transport/link/tls", tls).unwrap();
    let keys = of_arq(&config);
    for key in
        ["root_ca_certificate_file=/ca.pem", "listen_private_key_file=/key.pem", "enable_mtls=true"]
    {
        assert!(keys.split(';').any(|have| have == key), "{key} in {keys}");
    }
    let both = r#"{ root_ca_certificate: "/ca.pem", root_ca_certificate_base64: "x" }"#;
    config.insert_json5("transport/link/tls", both).unwrap();
    let (_, errors) = LinkConfigurator::default().configurations(&config);
    assert!(errors.contains_key(&kind("arq")), "two authorities");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_that_allows_other_links_is_obeyed() {
    let listener = listen("tcp/127.0.0.1:0", &[]).await;
    let locator = listener.info().locators().await[0].to_string();
    let only_udp = [("transport/link/protocols", "[\"udp\"]")];
    let refused = connect(&locator, &only_udp).await;
    assert!(refused.is_err(), "connected over {locator}");
    connect(&locator, &[("transport/link/protocols", "[\"tcp\"]")]).await.unwrap();
}

/// A certificate authority, and a certificate of it for `localhost`, in files.
struct Certificates {
    authority: String,
    certificate: String,
    key: String,
    _dir: TempDir,
}

impl Certificates {
    fn new() -> Self {
        let (authority, issuer) = authority();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(["localhost".to_owned()])
            .unwrap()
            .signed_by(&key, &issuer)
            .unwrap();
        let dir = TempDir::new().unwrap();
        Self {
            authority: file(&dir, "ca.pem", &authority.pem()),
            certificate: file(&dir, "cert.pem", &certificate.pem()),
            key: file(&dir, "key.pem", &key.serialize_pem()),
            _dir: dir,
        }
    }

    fn settings(&self) -> [(&str, &str); 3] {
        [
            ("transport/link/tls/root_ca_certificate", &self.authority),
            ("transport/link/tls/listen_certificate", &self.certificate),
            ("transport/link/tls/listen_private_key", &self.key),
        ]
    }
}

fn authority() -> (rcgen::Certificate, rcgen::Issuer<'static, rcgen::KeyPair>) {
    let mut params = rcgen::CertificateParams::new([]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (certificate, rcgen::Issuer::new(params, key))
}

/// Writes a file and returns its path as JSON5.
fn file(dir: &TempDir, name: &str, content: &str) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    json_string(&path)
}

fn json_string(path: &Path) -> String {
    format!("{:?}", path.display().to_string())
}
