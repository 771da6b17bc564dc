// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What an operator reads of a link that does not open: who refuses whom, and why.

use std::time::Instant;

use rcgen::ExtendedKeyUsagePurpose;

use crate::{
    assert_says,
    pki::{Fleet, Wanted, FUTURE, ISSUING, PAST, ROUTER, VEHICLE},
    refusal, SOON,
};

/// Who looks at the other one's certificate.
#[derive(Clone, Copy)]
enum Refuses {
    Vehicle,
    /// The vehicle is told, for its link has opened by then.
    Router,
}

use Refuses::{Router, Vehicle};

impl Refuses {
    /// What the vehicle reads of it.
    fn words(self) -> &'static str {
        match self {
            Vehicle => "the handshake failed: ",
            Router => "the peer ended the handshake: ",
        }
    }
}

/// A fleet with something wrong, and what its vehicle reads.
struct Row {
    name: &'static str,
    fleet: Fleet,
    refuses: Refuses,
    words: &'static [&'static str],
    /// The vehicle has the authority of the fleet, or else the public ones.
    trusts: bool,
    /// The vehicle shows a certificate.
    shows: bool,
    /// Whether the router and the vehicle have lists of revoked certificates.
    lists: [bool; 2],
}

const OF_ROUTER: &str = "the certificate of router.fleet";
const OF_VEHICLE: &str = "the certificate of vehicle-7";

/// Keys of endpoints; `@` is the folder of the fleet.
const LISTENS: &str =
    "listen_certificate_file=@/router.pem;listen_private_key_file=@/router.key;enable_mtls=true;";
const TRUSTS: &str = "root_ca_certificate_file=@/ca.pem;";
const SHOWS: &str =
    "connect_certificate_file=@/vehicle.pem;connect_private_key_file=@/vehicle.key;enable_mtls=true;";
const HAS_LISTS: &str = "crl_file=@/crl.pem;";

impl Row {
    fn new(
        name: &'static str,
        refuses: Refuses,
        words: &'static [&'static str],
        change: impl FnOnce(&Fleet),
    ) -> Self {
        let fleet = Fleet::new();
        change(&fleet);
        Self { name, fleet, refuses, words, trusts: true, shows: true, lists: [false; 2] }
    }

    /// One of which the side that refuses has lists, whose certificates come from an authority below the root where
    /// that is wanted.
    fn revoked(
        name: &'static str,
        refuses: Refuses,
        words: &'static [&'static str],
        fleet: Fleet,
        revoke: impl FnOnce(&Fleet),
    ) -> Self {
        revoke(&fleet);
        let lists = [matches!(refuses, Router), matches!(refuses, Vehicle)];
        Self { fleet, lists, ..Self::new(name, refuses, words, |_| {}) }
    }

    fn keys(&self) -> [String; 2] {
        let parts = [
            [(LISTENS, true), (TRUSTS, true), (HAS_LISTS, self.lists[0])],
            [(SHOWS, self.shows), (TRUSTS, self.trusts), (HAS_LISTS, self.lists[1])],
        ];
        let folder = self.fleet.folder().display().to_string();
        parts.map(|parts| {
            let wanted = parts.into_iter().filter(|(_, is_wanted)| *is_wanted);
            wanted.map(|(keys, _)| keys.replace('@', &folder)).collect()
        })
    }

    async fn check(&self) {
        let [listen, connect] = self.keys();
        let called_at = Instant::now();
        let text = refusal(&listen, &connect).await;
        let after = called_at.elapsed();
        assert!(after < SOON, "{}: after {after:?}: {text}", self.name);
        assert_says(&text, &[self.refuses.words()]);
        assert_says(&text, self.words);
    }
}

async fn check(rows: impl IntoIterator<Item = Row>) {
    for row in rows {
        row.check().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dates_are_told_with_this_hosts_clock() {
    const CLOCK: &str = "this host's clock says 20";
    const ROUTER_PAST: &[&str] = &["the certificate of router.fleet is not valid after 20", CLOCK];
    const ROUTER_FUTURE: &[&str] =
        &["the certificate of router.fleet is not valid before 20", CLOCK];
    const VEHICLE_PAST: &[&str] = &["the certificate of vehicle-7 is not valid after 20", CLOCK];
    const VEHICLE_FUTURE: &[&str] = &["the certificate of vehicle-7 is not valid before 20", CLOCK];
    let router = |valid| {
        move |fleet: &Fleet| fleet.certify("router", &Wanted { valid, ..Wanted::of(ROUTER) })
    };
    let vehicle = |valid| {
        move |fleet: &Fleet| fleet.certify("vehicle", &Wanted { valid, ..Wanted::of(VEHICLE) })
    };
    check([
        Row::new("the router's has expired", Vehicle, ROUTER_PAST, router(PAST)),
        Row::new("the router's is not valid yet", Vehicle, ROUTER_FUTURE, router(FUTURE)),
        Row::new("the vehicle's has expired", Router, VEHICLE_PAST, vehicle(PAST)),
        Row::new("the vehicle's is not valid yet", Router, VEHICLE_FUTURE, vehicle(FUTURE)),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn authorities_are_told_by_name() {
    const OTHER: &[&str] = &["comes from CN=other CA", "no authority that this side trusts"];
    const TWIN: &[&str] = &["not signed by the CN=fleet CA", "another authority of the same name"];
    const PUBLIC: &[&str] =
        &[OF_ROUTER, "comes from CN=fleet CA", "no authority that this side trusts"];
    let of = |authority: &'static str, file: &'static str| {
        move |fleet: &Fleet| fleet.adopt(&Fleet::of_authority(authority), file)
    };
    let public = Row::new("the vehicle trusts the public ones", Vehicle, PUBLIC, |_| {});
    check([
        Row { trusts: false, ..public },
        Row::new("the router's is another one", Vehicle, OTHER, of("other CA", "router")),
        Row::new("the router's has the same name", Vehicle, TWIN, of("fleet CA", "router")),
        Row::new("the vehicle's is another one", Router, OTHER, of("other CA", "vehicle")),
        Row::new("the vehicle's has the same name", Router, TWIN, of("fleet CA", "vehicle")),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_certificates_are_told_by_their_subjects() {
    const ROUTER_REVOKED: &[&str] = &[OF_ROUTER, "is revoked"];
    const VEHICLE_REVOKED: &[&str] = &[OF_VEHICLE, "is revoked"];
    const NO_LIST: &[&str] = &["no revocation list here is by the issuer of", OF_ROUTER];
    let (short, long) = (Fleet::new, Fleet::with_issuing_authority);
    let of = |file: &'static str| move |fleet: &Fleet| fleet.revoke(&[file]);
    check([
        Row::revoked("the router", Vehicle, ROUTER_REVOKED, short(), of("router")),
        Row::revoked("the vehicle", Router, VEHICLE_REVOKED, short(), of("vehicle")),
        Row::revoked("the router's issuer", Vehicle, ROUTER_REVOKED, long(), of(ISSUING)),
        Row::revoked("the vehicle's issuer", Router, VEHICLE_REVOKED, long(), of(ISSUING)),
        Row::revoked(
            "no list of the issuer",
            Vehicle,
            NO_LIST,
            long(),
            Fleet::revoke_by_root_alone,
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_certificate_is_not_for_is_told() {
    const FOR_CLIENTS: &[&str] = &[OF_ROUTER, "not for this purpose", "usage lacks"];
    const FOR_SERVERS: &[&str] = &[OF_VEHICLE, "not for this purpose", "usage lacks"];
    const OTHER_NAME: &[&str] = &[OF_ROUTER, " is for ", "elsewhere.fleet", "not for localhost"];
    const ADDRESS: &[&str] = &[OF_ROUTER, " is for ", "127.0.0.2", "not for localhost"];
    let for_only = |file: &'static str, name: &'static str, usage: ExtendedKeyUsagePurpose| {
        move |fleet: &Fleet| fleet.certify(file, &Wanted { usage: Some(usage), ..Wanted::of(name) })
    };
    let named = |name: &'static str| {
        move |fleet: &Fleet| {
            fleet.certify("router", &Wanted { names: vec![name], ..Wanted::of(ROUTER) })
        }
    };
    let client = for_only("router", ROUTER, ExtendedKeyUsagePurpose::ClientAuth);
    let server = for_only("vehicle", VEHICLE, ExtendedKeyUsagePurpose::ServerAuth);
    check([
        Row::new("the router's is for clients", Vehicle, FOR_CLIENTS, client),
        Row::new("the vehicle's is for servers", Router, FOR_SERVERS, server),
        Row::new("the router has another name", Vehicle, OTHER_NAME, named("elsewhere.fleet")),
        Row::new("the router has an address for a name", Vehicle, ADDRESS, named("127.0.0.2")),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_shows_no_certificate_is_told_so() {
    let words = &["the peer shows no certificate, and this side wants one"];
    let row = Row::new("the vehicle shows none", Router, words, |_| {});
    check([Row { shows: false, ..row }]).await;
}
