// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do `tls/`, `quic/` and secured `arq/` get certificates that their verification accepts?
//!
//! Both sides keep verification on, names included, as their users would: a certificate authority of this link's own
//! signs one certificate for the addresses of the listening host, or an issuer's that does.

use std::path::PathBuf;
use std::process::Command;

use arq_report::opponent::Chain;
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
    /// For a listener at these addresses that shows one certificate.
    ///
    /// # Errors
    /// A folder for temporary files that cannot be written.
    pub fn make(addresses: Vec<String>) -> Result<Self, MeasureError> {
        Self::make_chain(addresses, Chain::default())
    }

    /// For a listener at these addresses.
    ///
    /// # Errors
    /// RSA keys without the program `openssl`; a folder for temporary files that cannot be written.
    pub fn make_chain(addresses: Vec<String>, chain: Chain) -> Result<Self, MeasureError> {
        let rsa = chain.rsa_bits().map(rsa_key).transpose()?;
        // What is measured is the length of a chain and the time of its signatures: one RSA key may serve all.
        let key = || rsa.as_deref().map_or_else(KeyPair::generate, KeyPair::from_pem);
        let own = authority("arq-bench");
        let mut issuer = key()?;
        let authority_pem = own.self_signed(&issuer)?.pem();
        let mut issuer_of = Issuer::new(own, issuer);
        let mut issuers = String::new();
        for number in 0..chain.issuers() {
            issuer = key()?;
            let params = authority(&format!("arq-bench issuer {number}"));
            issuers = params.signed_by(&issuer, &issuer_of)?.pem() + &issuers;
            issuer_of = Issuer::new(params, issuer);
        }
        let listener = key()?;
        let certificate = CertificateParams::new(addresses)?.signed_by(&listener, &issuer_of)?;
        let directory = tempfile::tempdir().map_err(MeasureError::Files)?;
        let files = [
            (AUTHORITY, authority_pem),
            (CERTIFICATE, certificate.pem() + &issuers),
            (KEY, listener.serialize_pem()),
        ];
        for (name, content) in files {
            std::fs::write(directory.path().join(name), content).map_err(MeasureError::Files)?;
        }
        Ok(Self { directory })
    }

    /// What zenoh's configuration calls them; `quic/` and `arq/` take them from the same keys. Who connects shows the
    /// listener's certificate where it is asked for one.
    pub fn zenoh_keys(&self) -> [(String, String); 5] {
        let [authority, certificate, key] = self.files();
        let keys = [
            ("root_ca_certificate", &authority),
            ("listen_certificate", &certificate),
            ("listen_private_key", &key),
            ("connect_certificate", &certificate),
            ("connect_private_key", &key),
        ];
        keys.map(|(name, file)| {
            let path = serde_json::Value::from(file.display().to_string());
            (format!("transport/link/tls/{name}"), path.to_string())
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

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A new key in PEM: rcgen makes none of RSA with ring.
fn rsa_key(bits: u32) -> Result<String, MeasureError> {
    let bits = format!("rsa_keygen_bits:{bits}");
    let made = Command::new("openssl")
        .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", &bits])
        .output()
        .map_err(|e| MeasureError::NoRsaKey(e.to_string()))?;
    match (made.status.success(), String::from_utf8(made.stdout)) {
        (true, Ok(key)) => Ok(key),
        _ => Err(MeasureError::NoRsaKey(String::from_utf8_lossy(&made.stderr).trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_listener_shows_its_certificate_and_its_issuers() {
        for chain in
            [Chain::P256, Chain::P256Issuer, Chain::Rsa2048Issuer, Chain::Rsa4096TwoIssuers]
        {
            let certificates = match Certificates::make_chain(vec!["127.0.0.1".to_owned()], chain) {
                Err(MeasureError::NoRsaKey(why)) => {
                    // Past the capture of the test harness.
                    let _ = writeln!(std::io::stderr(), "\n*** SKIPPED {chain:?}: {why}\n");
                    continue;
                }
                made => made.expect("certificates"),
            };
            let shown = std::fs::read_to_string(&certificates.files()[1]).expect("a file");
            assert_eq!(
                shown.matches("BEGIN CERTIFICATE").count(),
                1 + chain.issuers(),
                "{chain:?}"
            );
        }
    }
}
