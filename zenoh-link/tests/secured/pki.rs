// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Authorities, certificates and lists of revoked ones in files.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevocationReason,
    RevokedCertParams, SerialNumber,
};
use tempfile::TempDir;

/// The name of every router here, by which `localhost` leads to it.
pub(crate) const ROUTER: &str = "router.fleet";
pub(crate) const VEHICLE: &str = "vehicle-7";
/// The authority below that of a fleet.
pub(crate) const ISSUING: &str = "issuing";

/// A folder with the files of a fleet: an authority, a router and a vehicle.
pub(crate) struct Fleet {
    folder: TempDir,
    root: Authority,
    /// Issues the certificates in place of the root, by whose certificate it is one.
    issuing: Option<Authority>,
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// What a certificate of a fleet is like.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) common_name: Option<&'static str>,
    pub(crate) names: Vec<&'static str>,
    pub(crate) usage: Option<ExtendedKeyUsagePurpose>,
    pub(crate) valid: [Validity; 2],
}

/// A time, seen from now unless it is one of the clock.
#[derive(Clone, Copy)]
pub(crate) enum Validity {
    Before(Duration),
    After(Duration),
    At(SystemTime),
}

pub(crate) const DAY: Duration = Duration::from_secs(86_400);
/// Of a certificate that has expired.
pub(crate) const PAST: [Validity; 2] =
    [Validity::Before(DAY.saturating_mul(2)), Validity::Before(DAY)];
/// Of one that is not valid yet.
pub(crate) const FUTURE: [Validity; 2] =
    [Validity::After(DAY), Validity::After(DAY.saturating_mul(2))];

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
        Validity::At(time) => time,
    }
}

impl Authority {
    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
    }

    fn root(name: &str) -> Self {
        let (params, key) = (Self::params(name), KeyPair::generate().unwrap());
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn below(&self, name: &str, serial: SerialNumber) -> Self {
        let (mut params, key) = (Self::params(name), KeyPair::generate().unwrap());
        params.serial_number = Some(serial);
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Its list of revoked certificates.
    fn revocation_list(&self, revoked: Vec<SerialNumber>) -> String {
        let yesterday = SystemTime::now() - DAY;
        let revoked_certs = revoked.into_iter().map(|serial_number| RevokedCertParams {
            serial_number,
            revocation_time: yesterday.into(),
            reason_code: Some(RevocationReason::KeyCompromise),
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: yesterday.into(),
            next_update: (SystemTime::now() + DAY).into(),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

impl Fleet {
    pub(crate) fn new() -> Self {
        Self::of_authority("fleet CA")
    }

    pub(crate) fn of_authority(name: &str) -> Self {
        let root = Authority::root(name);
        let fleet = Self { folder: tempfile::tempdir().unwrap(), root, issuing: None };
        fleet.write("ca.pem", &fleet.root.pem);
        fleet.certify_both();
        fleet
    }

    /// One whose certificates come from an authority below the root.
    pub(crate) fn with_issuing_authority() -> Self {
        let mut fleet = Self::new();
        let issuing = fleet.root.below("issuing CA", fleet.new_serial(ISSUING));
        fleet.issuing = Some(issuing);
        fleet.certify_both();
        fleet
    }

    fn certify_both(&self) {
        self.certify("router", &Wanted::of(ROUTER));
        self.certify("vehicle", &Wanted::of(VEHICLE));
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
        let new = self.path(&format!("{name}.new"));
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }

    /// A certificate with its chain, and its key: `FILE.pem` and `FILE.key`.
    pub(crate) fn certify(&self, file: &str, wanted: &Wanted) {
        let names: Vec<_> = wanted.names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(name) = wanted.common_name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.serial_number = Some(self.new_serial(file));
        params.extended_key_usages.extend(wanted.usage.clone());
        [params.not_before, params.not_after] = wanted.valid.map(|validity| at(validity).into());
        let key = KeyPair::generate().unwrap();
        let authority = self.issuing.as_ref().unwrap_or(&self.root);
        let mut chain = params.signed_by(&key, &authority.issuer).unwrap().pem();
        if let Some(issuing) = &self.issuing {
            chain += &issuing.pem;
        }
        self.write(&format!("{file}.key"), &key.serialize_pem());
        self.write(&format!("{file}.pem"), &chain);
    }

    /// Certificate and key of `file` are those of another fleet.
    pub(crate) fn adopt(&self, other: &Self, file: &str) {
        for ending in ["pem", "key"] {
            let file = format!("{file}.{ending}");
            fs::copy(other.path(&file), self.path(&file)).unwrap();
        }
    }

    /// A serial number for a certificate, by which it is found again.
    fn new_serial(&self, file: &str) -> SerialNumber {
        // Neither negative, which the first bit says, nor with zeros in front.
        let serial = fastrand::u64(1 << 62..1 << 63);
        self.write(&format!("{file}.serial"), &serial.to_string());
        serial.into()
    }

    fn serial(&self, file: &str) -> SerialNumber {
        let serial = fs::read_to_string(self.path(&format!("{file}.serial"))).unwrap();
        serial.parse::<u64>().unwrap().into()
    }

    /// Writes `crl.pem`, a list of each authority, with the certificates of `files` on them.
    pub(crate) fn revoke(&self, files: &[&str]) {
        let (of_root, of_issuing): (Vec<_>, Vec<_>) =
            files.iter().partition(|file| self.issuing.is_none() || **file == ISSUING);
        let serials = |files: Vec<&str>| files.into_iter().map(|file| self.serial(file)).collect();
        let mut lists = self.root.revocation_list(serials(of_root));
        if let Some(issuing) = &self.issuing {
            lists += &issuing.revocation_list(serials(of_issuing));
        }
        self.write("crl.pem", &lists);
    }

    /// Writes `crl.pem` without the list of the authority that issues.
    pub(crate) fn revoke_by_root_alone(&self) {
        self.write("crl.pem", &self.root.revocation_list(Vec::new()));
    }

    /// A pre-shared key, new each time.
    pub(crate) fn psk(&self, name: &str) -> String {
        // So many characters of base64 that there is nothing to pad.
        let key: String = (0..32).map(|_| fastrand::alphanumeric()).collect();
        self.write(name, &key);
        key
    }
}
