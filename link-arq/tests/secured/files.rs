// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A certificate in files, and two ends that meet.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use rcgen::{CertificateParams, DnType, KeyPair};
use tempfile::TempDir;
use tokio::time::timeout;
use zenoh_link_arq::LinkManagerUnicastArq;
use zenoh_link_commons::{LinkManagerUnicastTrait, LinkUnicast};
use zenoh_protocol::core::EndPoint;

/// Far above what is needed: only a hang runs into it.
pub(crate) const HANG: Duration = Duration::from_secs(30);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// A certificate of `router.fleet`, for localhost, that vouches for itself, in files.
pub(crate) struct Files {
    folder: TempDir,
}

impl Files {
    pub(crate) fn valid() -> Self {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "router.fleet");
        params.not_before = (SystemTime::now() - DAY).into();
        params.not_after = (SystemTime::now() + DAY).into();
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let files = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(files.path("cert"), certificate.pem()).unwrap();
        fs::write(files.path("key"), key.serialize_pem()).unwrap();
        files
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn listen(&self) -> String {
        let (certificate, key) = (self.path("cert"), self.path("key"));
        let (certificate, key) = (certificate.display(), key.display());
        format!("listen_certificate_file={certificate};listen_private_key_file={key}")
    }

    pub(crate) fn connect(&self) -> String {
        format!("root_ca_certificate_file={}", self.path("cert").display())
    }
}

/// An endpoint at this place with a small MTU.
fn endpoint(at: &str, keys: &str) -> EndPoint {
    format!("arq/{at}#mtu=1400;{keys}").parse().unwrap()
}

/// A link to a listener, and what this accepts.
pub(crate) struct Dialled {
    pub(crate) link: Result<LinkUnicast, String>,
    accepted: flume::Receiver<LinkUnicast>,
    _listens: LinkManagerUnicastArq,
}

pub(crate) async fn dial(listen: &str, connect: &str) -> Dialled {
    let (sender, accepted) = flume::unbounded();
    let server = LinkManagerUnicastArq::new(sender);
    let locator = server.new_listener(endpoint("localhost:0", listen)).await.unwrap();
    let port = locator.address().as_str().rsplit_once(':').unwrap().1.to_owned();
    let client = LinkManagerUnicastArq::new(flume::unbounded().0);
    let link = client.new_link(endpoint(&format!("localhost:{port}"), connect)).await;
    Dialled { link: link.map_err(|error| error.to_string()), accepted, _listens: server }
}

/// A link to a listener, and the one that this accepts.
pub(crate) async fn meet(listen: &str, connect: &str) -> Result<[LinkUnicast; 2], String> {
    let dialled = dial(listen, connect).await;
    let near = dialled.link?;
    let far = timeout(HANG, dialled.accepted.recv_async()).await.unwrap().unwrap();
    Ok([near, far])
}
