// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{fs, os::unix::fs::PermissionsExt};

use rcgen::{generate_simple_self_signed, CertifiedKey};
use tempfile::TempDir;

use super::*;
use crate::config::LinkConfig;

const PSK: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A folder with a certificate, its key, a pre-shared key, and their paths.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { folder: tempfile::tempdir().unwrap() };
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed([]).unwrap();
        files.write("cert", &cert.pem());
        files.write("key", &signing_key.serialize_pem());
        files.write("psk", PSK);
        files.chmod("psk", 0o640);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn chmod(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// The keys of an endpoint; `@name` is a file of this folder.
    fn config(&self, keys: &str) -> SecurityConfig {
        let folder = format!("{}/", self.folder.path().display());
        let locator = format!("arq/localhost:7447#{}", keys.replace('@', &folder));
        LinkConfig::parse(&locator.parse().unwrap()).unwrap().security
    }

    fn server(&self, keys: &str) -> Result<(), String> {
        let config = self.config(keys);
        server(&config, config.policy().unwrap()).map(drop)
    }

    fn client(&self, keys: &str) -> Result<(), String> {
        let config = self.config(keys);
        client(&config, config.policy().unwrap()).map(drop)
    }
}

const CERTIFICATE: &str = "listen_certificate_file=@cert;listen_private_key_file=@key";

#[test]
fn what_is_whole_makes_a_listener_and_a_link_that_connects() {
    let files = Files::new();
    files.server(CERTIFICATE).unwrap();
    files
        .server(&format!("{CERTIFICATE};enable_mtls=true;root_ca_certificate_file=@cert"))
        .unwrap();
    files.server(&format!("{CERTIFICATE};psk_file=@psk")).unwrap();
    files.server("psk_file=@psk").unwrap();
    files.client("psk_file=@psk").unwrap();
    files.client("security=tls").unwrap();
    files.client("root_ca_certificate_file=@cert").unwrap();
    let own = "connect_certificate_file=@cert;connect_private_key_file=@key";
    files.client(&format!("root_ca_certificate_file=@cert;enable_mtls=true;{own}")).unwrap();
}

#[test]
fn what_is_missing_is_named() {
    let files = Files::new();
    let error = |keys: &str| files.server(keys).unwrap_err();
    let missing = "is missing: a secured link needs it";
    assert_eq!(error("security=tls"), format!("`listen_certificate_file` {missing}"));
    let text = error("listen_certificate_file=@cert");
    assert_eq!(text, format!("`listen_private_key_file` {missing}"));
    assert!(error(&format!("{CERTIFICATE};enable_mtls=true")).contains("root_ca_certificate_file"));
    let text = files.client("root_ca_certificate_file=@cert;enable_mtls=true").unwrap_err();
    assert_eq!(text, format!("`connect_certificate_file` {missing}"));
}

#[test]
fn a_file_that_cannot_be_used_is_named_and_not_quoted() {
    let files = Files::new();
    files.write("bad", "hunter2");
    files.chmod("bad", 0o600);
    let swapped = "listen_certificate_file=@key;listen_private_key_file=@cert";
    for (keys, words) in [
        ("listen_certificate_file=@none;listen_private_key_file=@key", ["none`", "No such file"]),
        ("listen_certificate_file=@bad;listen_private_key_file=@key", ["bad`", "no certificate"]),
        ("listen_certificate_file=@cert;listen_private_key_file=@bad", ["bad`", "no private key"]),
        (swapped, ["listen_private_key_file=", "no certificate"]),
        ("psk_file=@bad", ["`psk_file=", "line 1 is not base64"]),
        ("psk_file=@none", ["`psk_file=", "No such file"]),
        ("psk_base64=hunter2", ["`psk_base64`", "not base64"]),
        (
            "listen_certificate_base64=hunter2!;listen_private_key_file=@key",
            ["base64`", "not base64"],
        ),
    ] {
        let error = files.server(keys).unwrap_err();
        assert!(words.iter().all(|word| error.contains(word)), "{keys}: {error}");
        assert!(!error.contains("hunter2"), "{keys}: {error}");
    }
    for key in ["root_ca_certificate_file", "crl_file"] {
        let error = files.client(&format!("security=tls;{key}=@bad")).unwrap_err();
        assert!(error.contains(key) && error.contains("there is no certificate"), "{error}");
    }
    let error = files.client("security=tls;crl_file=/dev/zero").unwrap_err();
    assert!(error.contains("`crl_file=/dev/zero`") && error.contains("too long"), "{error}");
}

#[test]
fn a_secret_that_all_can_read_is_refused() {
    let files = Files::new();
    for (mode, is_private) in [(0o600, true), (0o440, true), (0o644, false), (0o602, false)] {
        files.chmod("psk", mode);
        assert_eq!(files.server("psk_file=@psk").is_ok(), is_private, "{mode:o}");
        assert_eq!(files.client("psk_file=@psk").is_ok(), is_private, "{mode:o}");
    }
    assert!(files.server("psk_file=@psk").unwrap_err().contains("chmod o= FILE"));
}

#[test]
fn the_files_of_a_listener_are_those_that_it_reads() {
    let files = Files::new();
    let config = files.config(&format!(
        "{CERTIFICATE};connect_certificate_file=@cert;root_ca_certificate_base64=x;crl_file=@crl"
    ));
    let expected = ["cert", "key", "crl"].map(|name| files.path(name));
    assert_eq!(of_listener(&config), expected);
}
