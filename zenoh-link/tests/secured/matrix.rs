// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The same certificates over both links: the verdicts are the same, but where a difference is wanted.

use rcgen::ExtendedKeyUsagePurpose;

use crate::{
    assert_carries, behind, meet, meet_at, peer_of,
    pki::{Fleet, Wanted, FUTURE, ISSUING, PAST, ROUTER, VEHICLE},
    settings::Settings,
    wrong_of, SOON,
};

/// By which links two sessions meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opens {
    Both,
    Neither,
    /// zenoh's link has no lists of revoked certificates.
    OnlyQuic,
}

use Opens::{Both, Neither, OnlyQuic};

/// What both ends show to whom.
struct Case {
    name: &'static str,
    opens: Opens,
    router: Wanted,
    vehicle: Option<Wanted>,
    /// Whether the certificates are of another fleet than the other end's.
    foreign: [bool; 2],
    /// How the vehicle calls the router's host.
    host: &'static str,
    /// An authority below the root has issued the certificates.
    is_issued_below: bool,
    /// The certificates on the lists of revoked ones.
    revoked: &'static [&'static str],
    /// Whether the router and the vehicle have these lists.
    lists: [bool; 2],
    /// The vehicle has no authority of its own.
    trusts_public: bool,
    /// More keys of the vehicle's endpoint.
    keys: &'static str,
}

impl Case {
    fn new(name: &'static str, opens: Opens, change: impl FnOnce(&mut Self)) -> Self {
        let mut case = Self {
            name,
            opens,
            router: Wanted::of(ROUTER),
            vehicle: Some(Wanted::of(VEHICLE)),
            foreign: [false; 2],
            host: "localhost",
            is_issued_below: false,
            revoked: &[],
            lists: [false; 2],
            trusts_public: false,
            keys: "",
        };
        change(&mut case);
        case
    }

    /// One whose vehicle is another one.
    fn of_vehicle(name: &'static str, opens: Opens, change: fn(&mut Wanted)) -> Self {
        Self::new(name, opens, |case| case.vehicle.iter_mut().for_each(change))
    }

    /// One with lists.
    fn revoking(
        name: &'static str,
        opens: Opens,
        lists: [bool; 2],
        revoked: &'static [&'static str],
    ) -> Self {
        Self::new(name, opens, |case| (case.lists, case.revoked) = (lists, revoked))
    }

    fn below(mut self) -> Self {
        self.is_issued_below = true;
        self
    }

    fn fleet(&self, other: &Fleet) -> Fleet {
        let fleet = match self.is_issued_below {
            true => Fleet::with_issuing_authority(),
            false => Fleet::new(),
        };
        let vehicle = self.vehicle.as_ref();
        let parts = [("router", Some(&self.router)), ("vehicle", vehicle)];
        for ((file, wanted), is_foreign) in parts.into_iter().zip(self.foreign) {
            let Some(wanted) = wanted else { continue };
            let issuer = if is_foreign { other } else { &fleet };
            issuer.certify(file, wanted);
            if is_foreign {
                fleet.adopt(other, file);
            }
        }
        fleet.revoke(self.revoked);
        fleet
    }

    fn vehicle(&self, fleet: &Fleet) -> Settings {
        match (&self.vehicle, self.trusts_public) {
            (None, _) => Settings::trusting(fleet),
            (Some(_), false) => Settings::vehicle(fleet),
            (Some(_), true) => Settings::default().showing(fleet),
        }
    }

    fn keys(&self, fleet: &Fleet) -> [String; 2] {
        let list = format!("crl_file={}", fleet.path("crl.pem").display());
        let [router, vehicle] = self.lists.map(|has| if has { list.as_str() } else { "" });
        [behind(&[router]), behind(&[vehicle, self.keys])]
    }

    fn opens(&self, protocol: &str) -> bool {
        match self.opens {
            Both => true,
            Neither => false,
            OnlyQuic => protocol == "quic",
        }
    }

    /// What is wrong with the verdict over a link.
    async fn judge(&self, protocol: &str, fleet: &Fleet) -> Option<String> {
        let (router, vehicle) = (Settings::router(fleet), self.vehicle(fleet));
        let keys = self.keys(fleet);
        let keys = keys.each_ref().map(String::as_str);
        let host = format!("{protocol}/{}", self.host);
        let wrong = match meet_at(&host, &router, &vehicle, keys).await {
            Ok(sessions) if self.opens(protocol) => {
                assert_carries(&sessions).await;
                return None;
            }
            Ok(_) => "opens".to_owned(),
            Err(refused) if self.opens(protocol) => refused.to_string(),
            // A time-out is no verdict.
            Err(refused) if refused.after < SOON => return None,
            Err(refused) => format!("waits {refused}"),
        };
        Some(format!("{protocol}: {}: {wrong}", self.name))
    }
}

fn plain_cases() -> Vec<Case> {
    vec![
        Case::new("right", Both, |_| {}),
        Case::new("no common names", Both, |case| {
            case.router.common_name = None;
            case.vehicle.as_mut().unwrap().common_name = None;
        }),
        Case::new("the router is of another fleet", Neither, |case| case.foreign[0] = true),
        Case::new("the vehicle is of another fleet", Neither, |case| case.foreign[1] = true),
        Case::new("the router's has expired", Neither, |case| case.router.valid = PAST),
        Case::of_vehicle("the vehicle's has expired", Neither, |wanted| wanted.valid = PAST),
        Case::new("the router's is not valid yet", Neither, |case| case.router.valid = FUTURE),
        Case::of_vehicle("the vehicle's is not valid yet", Neither, |wanted| wanted.valid = FUTURE),
        Case::new("the router has another name", Neither, |case| case.router.names = vec![ROUTER]),
        Case::new("the router's is for clients", Neither, |case| {
            case.router.usage = Some(ExtendedKeyUsagePurpose::ClientAuth);
        }),
        Case::of_vehicle("the vehicle's is for servers", Neither, |wanted| {
            wanted.usage = Some(ExtendedKeyUsagePurpose::ServerAuth);
        }),
        Case::new("the vehicle shows none", Neither, |case| case.vehicle = None),
        Case::new("the router's is for its address", Both, |case| {
            (case.host, case.router.names) = ("127.0.0.1", vec!["127.0.0.1"]);
        }),
        Case::new("the router's is for another address", Neither, |case| {
            (case.host, case.router.names) = ("127.0.0.1", vec!["127.0.0.2", "localhost"]);
        }),
        Case::new("the vehicle trusts the public authorities", Neither, |case| {
            case.trusts_public = true;
        }),
        Case::new("the vehicle trusts the public authorities, too", Both, |case| {
            case.keys = "webpki_roots=true";
        }),
    ]
}

/// zenoh's link opens whatever is on a list: that is the difference.
fn cases_with_lists() -> Vec<Case> {
    let (at_router, at_vehicle, at_both) = ([true, false], [false, true], [true, true]);
    vec![
        Case::revoking("nothing is revoked", Both, at_both, &[]),
        Case::revoking("nothing is revoked of a longer chain", Both, at_both, &[]).below(),
        Case::revoking("the router is revoked", OnlyQuic, at_vehicle, &["router"]),
        Case::revoking("the vehicle is revoked", OnlyQuic, at_router, &["vehicle"]),
        // Each end looks at its peer's alone.
        Case::revoking("the router is revoked at the router", Both, at_router, &["router"]),
        Case::revoking("the vehicle is revoked at the vehicle", Both, at_vehicle, &["vehicle"]),
        Case::revoking("the router's issuer is revoked", OnlyQuic, at_vehicle, &[ISSUING]).below(),
        Case::revoking("the vehicle's issuer is revoked", OnlyQuic, at_router, &[ISSUING]).below(),
        Case::new("any name does for a revoked router", OnlyQuic, |case| {
            (case.lists, case.revoked) = (at_vehicle, &["router"]);
            case.keys = "verify_name_on_connect=false";
        }),
    ]
}

async fn assert_verdicts(cases: Vec<Case>) {
    let other = Fleet::new();
    let verdicts = cases.into_iter().map(|case| {
        let fleet = case.fleet(&other);
        async move {
            let [arq, quic] = [case.judge("arq", &fleet).await, case.judge("quic", &fleet).await];
            [arq, quic].into_iter().flatten().reduce(|arq, quic| format!("{arq}; {quic}"))
        }
    });
    let wrong = wrong_of(verdicts).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn arq_and_quic_let_in_the_same() {
    assert_verdicts(plain_cases()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn arq_lets_in_nobody_who_is_on_a_list() {
    assert_verdicts(cases_with_lists()).await;
}

/// zenoh's rules of access know both ends by these.
#[tokio::test(flavor = "multi_thread")]
async fn both_ends_are_known_by_their_common_names() {
    let fleet = Fleet::new();
    let (router, vehicle) = (Settings::router(&fleet), Settings::vehicle(&fleet));
    for protocol in ["arq", "quic"] {
        let [at_router, at_vehicle] = meet(protocol, &router, &vehicle, ["", ""]).await.unwrap();
        assert_eq!(peer_of(&at_router).await.as_deref(), Some(VEHICLE), "{protocol}");
        assert_eq!(peer_of(&at_vehicle).await.as_deref(), Some(ROUTER), "{protocol}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_be_known_by_another_name_than_its_address() {
    let fleet = Fleet::new();
    fleet.certify("router", &Wanted { names: vec![ROUTER], ..Wanted::of(ROUTER) });
    let (router, vehicle) = (Settings::router(&fleet), Settings::vehicle(&fleet));
    let named = format!("#server_name={ROUTER}");
    let sessions = meet("arq", &router, &vehicle, ["", &named]).await.unwrap();
    assert_carries(&sessions).await;
    meet("arq", &router, &vehicle, ["", "#server_name=other"]).await.unwrap_err();
    let any = ["", "#verify_name_on_connect=false"];
    assert_carries(&meet("arq", &router, &vehicle, any).await.unwrap()).await;
}
