// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The same certificates over both links: the verdicts are the same, but where a difference is wanted.

use std::time::{Duration, Instant};

use rcgen::ExtendedKeyUsagePurpose;

use crate::{
    assert_carries, meet, peer_of,
    pki::{Fleet, Settings, Validity, Wanted, ROUTER, VEHICLE},
};

const DAY: Duration = Duration::from_secs(86_400);

/// What both ends show to whom.
struct Case {
    name: &'static str,
    router: Wanted,
    vehicle: Option<Wanted>,
    /// Whether the certificates are of another fleet than the other end's.
    foreign: [bool; 2],
    opens: bool,
}

impl Case {
    fn new(name: &'static str, opens: bool, change: impl FnOnce(&mut Self)) -> Self {
        let (router, vehicle) = (Wanted::of(ROUTER), Some(Wanted::of(VEHICLE)));
        let mut case = Self { name, router, vehicle, foreign: [false; 2], opens };
        change(&mut case);
        case
    }
}

fn cases() -> Vec<Case> {
    let past = [Validity::Before(2 * DAY), Validity::Before(DAY)];
    let future = [Validity::After(DAY), Validity::After(2 * DAY)];
    let of_vehicle =
        |change: fn(&mut Wanted)| move |case: &mut Case| case.vehicle.iter_mut().for_each(change);
    vec![
        Case::new("right", true, |_| {}),
        Case::new("no common names", true, |case| {
            case.router.common_name = None;
            case.vehicle.as_mut().unwrap().common_name = None;
        }),
        Case::new("the router is of another fleet", false, |case| case.foreign[0] = true),
        Case::new("the vehicle is of another fleet", false, |case| case.foreign[1] = true),
        Case::new("the router's has expired", false, |case| case.router.valid = past),
        Case::new("the vehicle's has expired", false, |case| {
            case.vehicle.as_mut().unwrap().valid = past;
        }),
        Case::new("the router's is not valid yet", false, |case| case.router.valid = future),
        Case::new("the vehicle's is not valid yet", false, |case| {
            case.vehicle.as_mut().unwrap().valid = future;
        }),
        Case::new("the router has another name", false, |case| case.router.names = vec![ROUTER]),
        Case::new("the router's is for clients", false, |case| {
            case.router.usage = Some(ExtendedKeyUsagePurpose::ClientAuth);
        }),
        Case::new(
            "the vehicle's is for servers",
            false,
            of_vehicle(|vehicle| {
                vehicle.usage = Some(ExtendedKeyUsagePurpose::ServerAuth);
            }),
        ),
        Case::new("the vehicle shows none", false, |case| case.vehicle = None),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn arq_and_quic_let_in_the_same() {
    let other = Fleet::new();
    let mut wrong = Vec::new();
    for case in cases() {
        let fleet = Fleet::new();
        let issuer = |foreign| if foreign { &other } else { &fleet };
        issuer(case.foreign[0]).certify("router", &case.router);
        if let Some(vehicle) = &case.vehicle {
            issuer(case.foreign[1]).certify("vehicle", vehicle);
        }
        for (from, file) in [(case.foreign[0], "router"), (case.foreign[1], "vehicle")] {
            if from {
                for ending in ["pem", "key"] {
                    let file = format!("{file}.{ending}");
                    std::fs::copy(other.path(&file), fleet.path(&file)).unwrap();
                }
            }
        }
        let vehicle = match case.vehicle {
            Some(_) => Settings::vehicle(&fleet),
            None => Settings::trusting(&fleet),
        };
        for protocol in ["arq", "quic"] {
            match meet(protocol, &Settings::router(&fleet), &vehicle, ["", ""]).await {
                Ok(sessions) if case.opens => assert_carries(&sessions).await,
                Err(_) if !case.opens => {}
                Ok(_) => wrong.push(format!("{protocol}: {}: opens", case.name)),
                Err(error) => wrong.push(format!("{protocol}: {}: {error}", case.name)),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Why is in the log: zenoh's sessions say no more than that they could not connect.
#[tokio::test(flavor = "multi_thread")]
async fn who_refuses_a_router_does_not_wait_for_a_time_out() {
    let (fleet, other) = (Fleet::new(), Fleet::new());
    let (router, vehicle) = (Settings::router(&other), Settings::vehicle(&fleet));
    let called_at = Instant::now();
    meet("arq", &router, &vehicle, ["", ""]).await.unwrap_err();
    // The handshake's is 9 s.
    assert!(called_at.elapsed() < Duration::from_secs(6), "{:?}", called_at.elapsed());
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
