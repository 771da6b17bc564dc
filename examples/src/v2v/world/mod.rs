// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Where is each vehicle at a given time, and when does it meet a hazard?
//!
//! Everything follows from a seed and the time, without any state: programs that share a seed and a clock are in the
//! same world, and a test is at any time that it likes. Times count from 1970.

mod roads;

use std::f64::consts::TAU;
use std::ops::Range;
use std::time::Duration;

use clap::Args;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use roads::{Blocks, Circuit};

pub(crate) use roads::Vector;
pub use roads::{streets, Point};

/// The most vehicles of a world: the emulated network has 64 hosts.
pub const MOST_VEHICLES: u32 = 64;
/// One hazard for each vehicle in a time of this length.
const HAZARD_EVERY: Duration = Duration::from_secs(20);

/// The arguments that say which world a program is in.
#[derive(Args, Clone, Copy, Debug)]
pub struct WorldArgs {
    /// Decides the ways, the speeds and the hazards of all vehicles; the same for all programs of one world.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many vehicles there are (2 to 64); the same for all programs of one world.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(2..=i64::from(MOST_VEHICLES)))]
    pub vehicles: u32,
}

/// A town with vehicles in it.
#[derive(Clone, Debug)]
pub struct World {
    seed: u64,
    drivers: Vec<Driver>,
}

/// How somebody drives.
#[derive(Clone, Debug)]
struct Driver {
    circuit: Circuit,
    start_m: f64,
    /// The mean speed, and by how much it goes up and down in how many seconds.
    speed_mps: f64,
    sway_mps: f64,
    sway_s: f64,
}

/// How a vehicle moves at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Motion {
    /// Where it is.
    pub position: Point,
    /// Degrees clockwise from north, 0 to below 360.
    pub heading_deg: f64,
    /// Metres per second.
    pub speed_mps: f64,
    /// Metres per second squared, negative when it brakes.
    pub acceleration_mps2: f64,
    /// Degrees per second, positive to the right.
    pub yaw_rate_dps: f64,
}

/// Something that a vehicle warns others of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hazard {
    /// Its number among those of its vehicle.
    pub number: u64,
    /// When the vehicle met it.
    pub at: Duration,
    /// What it is.
    pub cause: Cause,
}

/// What a hazard is; with the cause codes of ETSI EN 302 637-3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The road is slippery (6).
    SlipperyRoad,
    /// Something lies on the road (10).
    ObstacleOnRoad,
    /// A vehicle stands where it should not (94).
    StationaryVehicle,
    /// A vehicle brakes as hard as it can (99, 1).
    EmergencyBrake,
}

impl World {
    /// The world of these arguments.
    pub fn new(args: WorldArgs) -> Self {
        let drivers = (0..args.vehicles).map(|vehicle| Driver::new(args.seed, vehicle)).collect();
        Self { seed: args.seed, drivers }
    }

    /// How many vehicles there are; they are numbered from 0.
    pub fn vehicles(&self) -> u32 {
        // At most MOST_VEHICLES.
        self.drivers.len() as u32
    }

    /// How a vehicle moves at a time; `None` when there is no such vehicle.
    pub fn motion(&self, vehicle: u32, time: Duration) -> Option<Motion> {
        self.drivers.get(vehicle as usize).map(|driver| driver.motion(time))
    }

    /// The distance between two vehicles, metres; infinite when there is no such vehicle.
    pub fn distance_m(&self, one: u32, other: u32, time: Duration) -> f64 {
        match (self.motion(one, time), self.motion(other, time)) {
            (Some(one), Some(other)) => one.position.distance_m(other.position),
            _ => f64::INFINITY,
        }
    }

    /// The hazards that a vehicle meets in a span of time, in their order.
    pub fn hazards(&self, vehicle: u32, span: Range<Duration>) -> Vec<Hazard> {
        let number = |time: Duration| time.as_secs() / HAZARD_EVERY.as_secs();
        let numbers = number(span.start)..=number(span.end);
        let hazards = numbers.map(|number| self.hazard(vehicle, number));
        hazards.filter(|hazard| span.contains(&hazard.at)).collect()
    }

    /// The first hazard that a vehicle meets at or after a time.
    pub fn next_hazard(&self, vehicle: u32, time: Duration) -> Hazard {
        let number = time.as_secs() / HAZARD_EVERY.as_secs();
        let hazard = self.hazard(vehicle, number);
        if hazard.at >= time {
            return hazard;
        }
        self.hazard(vehicle, number + 1)
    }

    fn hazard(&self, vehicle: u32, number: u64) -> Hazard {
        let mut random = random(self.seed, u64::from(vehicle) << 40 | number | 1 << 63);
        let within = HAZARD_EVERY.mul_f64(unit(&mut random));
        let cause = match random.next_u32() % 4 {
            0 => Cause::SlipperyRoad,
            1 => Cause::ObstacleOnRoad,
            2 => Cause::StationaryVehicle,
            _ => Cause::EmergencyBrake,
        };
        let begins = Duration::from_secs(number.saturating_mul(HAZARD_EVERY.as_secs()));
        Hazard { number, at: begins + within, cause }
    }
}

impl Driver {
    fn new(seed: u64, vehicle: u32) -> Self {
        let mut random = random(seed, u64::from(vehicle));
        let blocks = match vehicle {
            // The first one stays in the middle of the town, where it meets the others.
            0 => Blocks { columns: [1, 3], rows: [1, 2], clockwise: false },
            _ => {
                let all = Blocks::all();
                all[random.next_u32() as usize % all.len()]
            }
        };
        let circuit = Circuit::around(blocks);
        Self {
            start_m: unit(&mut random) * circuit.length_m(),
            circuit,
            speed_mps: 12.0 + 6.0 * unit(&mut random),
            sway_mps: 1.0 + 2.5 * unit(&mut random),
            sway_s: 25.0 + 20.0 * unit(&mut random),
        }
    }

    fn motion(&self, time: Duration) -> Motion {
        let seconds = time.as_secs_f64();
        let (sine, cosine) = (TAU / self.sway_s * seconds).sin_cos();
        let sway_m = self.sway_mps * self.sway_s / TAU;
        let driven_m = self.start_m + self.speed_mps * seconds + sway_m * sine;
        let speed_mps = self.speed_mps + self.sway_mps * cosine;
        let turn_per_m = |reach_m: f64| {
            let (before, after) = (driven_m - reach_m, driven_m + reach_m);
            let turn = self.circuit.heading_deg(after) - self.circuit.heading_deg(before);
            ((turn + 180.0).rem_euclid(360.0) - 180.0) / (2.0 * reach_m)
        };
        Motion {
            position: self.circuit.place(driven_m),
            heading_deg: self.circuit.heading_deg(driven_m),
            speed_mps,
            acceleration_mps2: -self.sway_mps * TAU / self.sway_s * sine,
            yaw_rate_dps: turn_per_m(1.0) * speed_mps,
        }
    }
}

impl Motion {
    /// Metres per second, to the east and to the north.
    pub(crate) fn velocity(&self) -> Vector {
        let Vector { x, y } = Vector::of_heading(self.heading_deg);
        Vector { x: x * self.speed_mps, y: y * self.speed_mps }
    }

    /// Whether all numbers are.
    pub(crate) fn is_finite(&self) -> bool {
        let Self { position, heading_deg, speed_mps, acceleration_mps2, yaw_rate_dps } = *self;
        let numbers = [heading_deg, speed_mps, acceleration_mps2, yaw_rate_dps];
        position.is_finite() && numbers.into_iter().all(f64::is_finite)
    }

    /// The same vehicle after so many seconds straight ahead at its speed.
    pub(crate) fn ahead(&self, seconds: f64) -> Self {
        Self { position: self.position.moved(self.velocity(), seconds), ..*self }
    }
}

impl Cause {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::SlipperyRoad => "slippery road",
            Self::ObstacleOnRoad => "obstacle on the road",
            Self::StationaryVehicle => "stationary vehicle",
            Self::EmergencyBrake => "emergency brake",
        }
    }
}

fn random(seed: u64, purpose: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(purpose);
    random
}

/// From 0 to below 1.
fn unit(random: &mut ChaCha8Rng) -> f64 {
    f64::from(random.next_u32()) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests;
