// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
use super::*;
use crate::v2v::world::{World, WorldArgs};

const NOW: Duration = Duration::from_millis(1_795_000_000_123);

fn motion(vehicle: u32) -> Motion {
    World::new(WorldArgs { seed: 1, vehicles: 64 }).motion(vehicle, NOW).unwrap()
}

fn comes_back<M: Message + PartialEq + std::fmt::Debug>(message: &M) -> usize {
    let bytes = message.encode().unwrap();
    assert_eq!(&M::decode(&bytes).unwrap(), message);
    bytes.len()
}

#[test]
fn messages_come_back_as_they_were_and_have_their_size() {
    let position = Point { x_m: 123.4, y_m: -567.8 };
    for vehicle in 0..64 {
        assert_eq!(comes_back(&Beacon { vehicle, motion: motion(vehicle) }), 300);
    }
    for cause in [
        Cause::SlipperyRoad,
        Cause::ObstacleOnRoad,
        Cause::StationaryVehicle,
        Cause::EmergencyBrake,
    ] {
        let notice = Notice { vehicle: 63, number: u64::MAX, detected: NOW, position, cause };
        assert_eq!(comes_back(&notice), 800);
    }
    for (objects, size) in [(0, 1_600), (1, 1_600), (30, 1_600)] {
        let objects = (0..objects).map(|vehicle| Perceived { vehicle, motion: motion(vehicle) });
        let objects = objects.collect();
        assert_eq!(comes_back(&Perception { vehicle: 3, position, objects }), size);
    }
    let objects = (0..64).map(|vehicle| Perceived { vehicle, motion: motion(vehicle) }).collect();
    assert!(
        comes_back(&Perception { vehicle: 3, position, objects }) > 1_600,
        "one that says more"
    );
}

#[test]
fn foreign_bytes_are_errors_and_name_the_message() {
    let beacon = Beacon { vehicle: 0, motion: motion(0) }.encode().unwrap();
    for bytes in
        [&[][..], &[1], &[0xff; 12], &beacon[..20], b"CAM\x02 and more", b"DEN\x01", b"CPM\x01\x01"]
    {
        assert!(Beacon::decode(bytes).unwrap_err().to_string().contains("CAM"), "{bytes:?}");
        assert!(Notice::decode(bytes).unwrap_err().to_string().contains("DENM"), "{bytes:?}");
        assert!(Perception::decode(bytes).unwrap_err().to_string().contains("CPM"), "{bytes:?}");
    }
    assert!(Notice::decode(&beacon).is_err() && Perception::decode(&beacon).is_err());
}

#[test]
fn a_list_that_claims_to_be_endless_is_refused() {
    let mut bytes =
        Perception { vehicle: 1, position: Point::default(), objects: vec![] }.encode().unwrap();
    // Behind tag, vehicle and two floats stands the count of objects.
    bytes[4 + 1 + 16..4 + 1 + 16 + 5].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert!(Perception::decode(&bytes).is_err());
}

#[test]
fn numbers_that_are_none_are_refused() {
    let motion = Motion { heading_deg: f64::NAN, ..motion(0) };
    let refused = Beacon::decode(&Beacon { vehicle: 1, motion }.encode().unwrap());
    assert!(refused.unwrap_err().to_string().contains("a number that is none"));
}

#[test]
fn a_stamp_comes_back_as_it_was() {
    for stamp in [
        Stamp { sequence: 0, sent: Duration::ZERO },
        Stamp { sequence: u32::MAX, sent: NOW },
        Stamp { sequence: 7, sent: Duration::from_micros(u64::MAX) },
    ] {
        assert_eq!(Stamp::decode(&stamp.encode()), Ok(stamp));
    }
    assert!(Stamp::decode(&[0; 11]).unwrap_err().to_string().contains("11 bytes"));
}
