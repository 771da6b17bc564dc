// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
use super::*;

/// In November 2026: programs use the time of day.
const NOW: Duration = Duration::from_secs(1_795_000_000);
const STEP: Duration = Duration::from_millis(50);

fn world(seed: u64) -> World {
    World::new(WorldArgs { seed, vehicles: 12 })
}

#[test]
fn a_world_follows_from_its_seed_and_another_seed_is_another_world() {
    let places = |seed| (0..12).map(move |v| world(seed).motion(v, NOW).unwrap().position);
    assert!(places(3).eq(places(3)));
    assert!(!places(3).eq(places(4)));
    assert_eq!(world(3).motion(12, NOW), None);
}

#[test]
fn vehicles_drive_as_their_motion_says() {
    let world = world(5);
    for vehicle in 0..world.vehicles() {
        for step in 0..4_000 {
            let time = NOW + STEP * step;
            let (now, next) = (world.motion(vehicle, time), world.motion(vehicle, time + STEP));
            let (now, next) = (now.unwrap(), next.unwrap());
            let driven_m = now.position.distance_m(next.position);
            let expected_m = now.speed_mps * STEP.as_secs_f64();
            assert!(
                (driven_m - expected_m).abs() < 0.05,
                "{vehicle}: {driven_m}, not {expected_m}"
            );
            let gained_mps = now.acceleration_mps2 * STEP.as_secs_f64();
            assert!((next.speed_mps - now.speed_mps - gained_mps).abs() < 0.01);
            assert!((8.0..=22.0).contains(&now.speed_mps), "{}", now.speed_mps);
            assert!(now.yaw_rate_dps.abs() < 110.0, "{vehicle}: {}", now.yaw_rate_dps);
        }
    }
}

#[test]
fn vehicles_meet_and_part() {
    let world = world(1);
    let distances: Vec<_> = (0..600)
        .flat_map(|second| (1..12).map(move |vehicle| (vehicle, NOW + Duration::from_secs(second))))
        .map(|(vehicle, time)| world.distance_m(0, vehicle, time))
        .collect();
    assert!(distances.iter().any(|d| *d < 20.0), "somebody comes near");
    assert!(distances.iter().any(|d| *d > 600.0), "somebody is out of range");
}

#[test]
fn hazards_come_once_in_their_time_and_are_found_by_any_span() {
    let world = world(9);
    let span = NOW..NOW + Duration::from_secs(1_000);
    let hazards = world.hazards(4, span.clone());
    assert!((49..=51).contains(&hazards.len()), "{}", hazards.len());
    assert!(hazards.is_sorted_by_key(|hazard| hazard.at));
    let middle = NOW + Duration::from_millis(123_456);
    let halves = [world.hazards(4, NOW..middle), world.hazards(4, middle..span.end)].concat();
    assert_eq!(halves, hazards);
    let mut time = NOW;
    for expected in &hazards {
        let next = world.next_hazard(4, time);
        assert_eq!(next, *expected);
        time = next.at + Duration::from_nanos(1);
    }
    assert_ne!(world.hazards(5, span), hazards);
}
