// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do `tls/`, `quic/` and secured `arq/` get certificates that their verification accepts?
//!
//! Both sides keep verification on, names included, as their users would: a certificate authority of this cell's own
//! signs one certificate for the addresses of the listening host.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;

use super::MeasureError;

/// Files that are gone when this is.
pub struct Certificates {
    directory: TempDir,
}

const AUTHORITY: &str = "authority.pem";
const CERTIFICATE: &str = "listener.pem";
const KEY: &str = "listener-key.pem";

impl Certificates {
    /// For a listener at these addresses.
    pub fn make(addresses: Vec<String>) -> Result<Self, MeasureError> {
        let (authority, issuer) = authority()?;
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(addresses)?.signed_by(&key, &issuer)?;
        let directory = tempfile::tempdir().map_err(MeasureError::Files)?;
        let files =
            [(AUTHORITY, authority), (CERTIFICATE, certificate.pem()), (KEY, key.serialize_pem())];
        for (name, content) in files {
            std::fs::write(directory.path().join(name), content).map_err(MeasureError::Files)?;
        }
        Ok(Self { directory })
    }

    /// What zenoh's configuration calls them; `quic/` and `arq/` take them from the same keys.
    pub fn zenoh_keys(&self) -> [(String, String); 3] {
        let key = |key: &str, file| {
            let path = self.directory.path().join(file).display().to_string();
            (format!("transport/link/tls/{key}"), serde_json::Value::from(path).to_string())
        };
        [
            key("root_ca_certificate", AUTHORITY),
            key("listen_certificate", CERTIFICATE),
            key("listen_private_key", KEY),
        ]
    }
}

fn authority() -> Result<(String, Issuer<'static, KeyPair>), rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, "arq-bench");
    let key = KeyPair::generate()?;
    let authority = params.self_signed(&key)?.pem();
    Ok((authority, Issuer::new(params, key)))
}
