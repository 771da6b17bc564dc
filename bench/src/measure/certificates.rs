// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do `tls/`, `quic/` and secured `arq/` get certificates that their verification accepts?
//!
//! Both sides keep verification on, names included, as their users would: a certificate authority of this cell's own
//! signs one certificate for the addresses of the listening host.

use std::path::PathBuf;

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
        let keys = ["root_ca_certificate", "listen_certificate", "listen_private_key"];
        let files = self.files();
        std::array::from_fn(|n| {
            let path = serde_json::Value::from(files[n].display().to_string());
            (format!("transport/link/tls/{}", keys[n]), path.to_string())
        })
    }

    /// The keys of an `arq/` endpoint whose listener shows its certificate, with their `#`.
    pub fn of_listener(&self) -> String {
        let [authority, certificate, key] = self.files();
        let (authority, certificate, key) =
            (authority.display(), certificate.display(), key.display());
        format!(
            "#root_ca_certificate_file={authority};\
             listen_certificate_file={certificate};listen_private_key_file={key}"
        )
    }

    /// The same where who connects shows that certificate, too.
    pub fn mutual(&self) -> String {
        let [_, certificate, key] = self.files();
        let (listener, certificate, key) =
            (self.of_listener(), certificate.display(), key.display());
        format!(
            "{listener};enable_mtls=true;\
             connect_certificate_file={certificate};connect_private_key_file={key}"
        )
    }

    /// The authority's certificate, the listener's and its key.
    fn files(&self) -> [PathBuf; 3] {
        [AUTHORITY, CERTIFICATE, KEY].map(|file| self.directory.path().join(file))
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
