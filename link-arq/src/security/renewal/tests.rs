// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{fs, path::Path};

use arq_proto::session::{Security, Session};
use arq_tls::{client_config, ServerName, Trust};
use rcgen::{CertificateParams, DnType, KeyPair};

use super::*;
use crate::config::LinkConfig;

/// Writes a certificate of `name`, which vouches for itself, and its key; gives the certificate.
fn write(folder: &Path, name: &str, parts: [bool; 2]) -> String {
    let mut params = CertificateParams::new(vec!["host".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    // Written aside and moved, as is done with files that are in use: another file each time.
    let files = [("cert", certificate.clone()), ("key", key.serialize_pem())];
    for ((file, text), _) in files.iter().zip(parts).filter(|(_, wanted)| *wanted) {
        fs::write(folder.join("new"), text).unwrap();
        fs::rename(folder.join("new"), folder.join(file)).unwrap();
    }
    certificate
}

fn watched(folder: &Path) -> Watched {
    let keys = format!(
        "listen_certificate_file={0}/cert;listen_private_key_file={0}/key",
        folder.display()
    );
    let locator = format!("arq/localhost:7447#{keys}");
    let config = LinkConfig::parse(&locator.parse().unwrap()).unwrap().security;
    let policy = config.policy().unwrap();
    let (_, Renewal(watched)) = Renewal::begin(&config, policy).unwrap();
    watched.unwrap()
}

/// Whether a client that trusts `certificate` is served with it.
fn serves(watched: &Watched, certificate: &str) -> bool {
    let mut trust = Trust::default();
    trust.add_authorities(certificate.as_bytes()).unwrap();
    let client = client_config(None, &trust, &ServerName::Asked).unwrap();
    let client = Tls::client(client, ServerName::Asked, None);
    let mut client = client.connect("host", b"").unwrap();
    let mut server = watched.tls.accept(b"").unwrap();
    let pass = |from: &mut dyn Session, to: &mut dyn Session| {
        let mut flight = Vec::new();
        let change = from.write(&mut flight);
        to.read(&flight).map(|()| change.is_some())
    };
    pass(&mut *client, &mut *server).unwrap();
    // What the server sends is cut where its keys change.
    while pass(&mut *server, &mut *client).unwrap_or(false) {
        let _ = client.write(&mut Vec::new());
    }
    !client.is_handshaking()
}

#[test]
fn a_renewed_certificate_is_served_once_its_key_is_there_too() {
    let folder = tempfile::tempdir().unwrap();
    let first = write(folder.path(), "first", [true, true]);
    let mut watched = watched(folder.path());
    assert!(serves(&watched, &first));
    watched.look();
    assert!(serves(&watched, &first));

    // The key of another certificate: nothing fits, and what was there stays.
    write(folder.path(), "half", [false, true]);
    watched.look();
    assert!(serves(&watched, &first) && watched.told.contains("not that of the certificate"));

    let second = write(folder.path(), "second", [true, true]);
    assert!(serves(&watched, &first), "not before it is looked at");
    watched.look();
    assert!(serves(&watched, &second) && !serves(&watched, &first));
    assert!(watched.told.is_empty());

    fs::remove_file(folder.path().join("cert")).unwrap();
    watched.look();
    assert!(serves(&watched, &second));
}

#[test]
fn a_listener_without_files_has_nothing_to_look_at() {
    let locator = "arq/localhost:7447#psk_base64=MDEyMzQ1Njc4OWFiY2RlZg==";
    let config = LinkConfig::parse(&locator.parse().unwrap()).unwrap().security;
    let (_, Renewal(watched)) = Renewal::begin(&config, Policy::Psk).unwrap();
    assert!(watched.is_none());
}
