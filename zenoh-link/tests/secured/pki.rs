// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Authorities and certificates in files.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;

/// The name of every router here, by which `localhost` leads to it.
pub(crate) const ROUTER: &str = "router.fleet";
pub(crate) const VEHICLE: &str = "vehicle-7";

/// A folder with the files of a fleet: an authority, a router and a vehicle.
pub(crate) struct Fleet {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// What a certificate of a fleet is like.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) common_name: Option<&'static str>,
    pub(crate) names: Vec<&'static str>,
    pub(crate) usage: Option<ExtendedKeyUsagePurpose>,
    /// From now.
    pub(crate) valid: [Validity; 2],
}

/// A time, seen from now.
#[derive(Clone, Copy)]
pub(crate) enum Validity {
    Before(Duration),
    After(Duration),
}

const DAY: Duration = Duration::from_secs(86_400);

impl Wanted {
    pub(crate) fn of(common_name: &'static str) -> Self {
        Self {
            common_name: Some(common_name),
            names: vec!["localhost", "127.0.0.1"],
            usage: None,
            valid: [Validity::Before(DAY), Validity::After(DAY)],
        }
    }
}

fn at(validity: Validity) -> SystemTime {
    match validity {
        Validity::Before(time) => SystemTime::now() - time,
        Validity::After(time) => SystemTime::now() + time,
    }
}

impl Fleet {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "fleet CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap().pem();
        let fleet = Self { folder: tempfile::tempdir().unwrap(), issuer: Issuer::new(params, key) };
        fleet.write("ca.pem", &authority);
        fleet.certify("router", &Wanted::of(ROUTER));
        fleet.certify("vehicle", &Wanted::of(VEHICLE));
        fleet
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Written aside and moved, as is done with files that are in use.
    pub(crate) fn write(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let new = self.path("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }

    /// A certificate and its key: `FILE.pem` and `FILE.key`.
    pub(crate) fn certify(&self, file: &str, wanted: &Wanted) {
        let names: Vec<_> = wanted.names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(name) = wanted.common_name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.extended_key_usages.extend(wanted.usage.clone());
        [params.not_before, params.not_after] = wanted.valid.map(|validity| at(validity).into());
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        self.write(&format!("{file}.key"), &key.serialize_pem());
        self.write(&format!("{file}.pem"), &certificate.pem());
    }

    /// A pre-shared key, new each time.
    pub(crate) fn psk(&self, name: &str) -> String {
        // So many characters of base64 that there is nothing to pad.
        let key: String = (0..32).map(|_| fastrand::alphanumeric()).collect();
        self.write(name, &key);
        key
    }
}

/// Settings of a session, by path.
#[derive(Clone, Default)]
pub(crate) struct Settings(Vec<(&'static str, String)>);

impl Settings {
    pub(crate) fn with(mut self, path: &'static str, value: impl ToString) -> Self {
        self.0.push((path, value.to_string()));
        self
    }

    fn file(self, path: &'static str, file: &Path) -> Self {
        self.with(path, format!("{:?}", file.to_str().unwrap()))
    }

    pub(crate) fn pairs(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(path, value)| (*path, value.as_str())).collect()
    }

    /// A router of `fleet` that wants certificates.
    pub(crate) fn router(fleet: &Fleet) -> Self {
        Self::default()
            .file("transport/link/tls/root_ca_certificate", &fleet.path("ca.pem"))
            .file("transport/link/tls/listen_certificate", &fleet.path("router.pem"))
            .file("transport/link/tls/listen_private_key", &fleet.path("router.key"))
            .with("transport/link/tls/enable_mtls", true)
    }

    /// A vehicle of `fleet` that shows its certificate.
    pub(crate) fn vehicle(fleet: &Fleet) -> Self {
        Self::trusting(fleet)
            .file("transport/link/tls/connect_certificate", &fleet.path("vehicle.pem"))
            .file("transport/link/tls/connect_private_key", &fleet.path("vehicle.key"))
            .with("transport/link/tls/enable_mtls", true)
    }

    /// One that shows none.
    pub(crate) fn trusting(fleet: &Fleet) -> Self {
        Self::default().file("transport/link/tls/root_ca_certificate", &fleet.path("ca.pem"))
    }
}
