// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What does a vehicle tell the others? The program `v2v_vehicle`.
//!
//! Each kind of message has a thread of its own: a hazard that waits for a link must not hold back beacons.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use zenoh::pubsub::Publisher;
use zenoh::sample::{Locality, Sample};
use zenoh::{Session, Wait};

use super::clock;
use super::message::{Beacon, Message, Notice, Perceived, Perception, Stamp};
use super::stop::{Stop, StopArgs};
use super::traffic::{BeaconRule, Kind, CPM_EVERY};
use super::world::{World, WorldArgs};
use crate::{say, CommonArgs};

/// How far a vehicle sees, metres.
const SIGHT_M: f64 = 80.0;
/// A hazard that was met longer ago is no news: the machine was asleep, or its clock was set.
const OLDEST_NEWS: Duration = Duration::from_secs(5);
/// Pictures a second.
const PICTURES_HZ: u32 = 5;

/// The arguments of `v2v_vehicle`.
#[derive(Args, Clone, Debug)]
pub struct VehicleArgs {
    /// The vehicle that it is (repeatable: several in one program).
    #[arg(short, long, default_value = "1")]
    pub vehicle: Vec<u32>,
    /// Publish a camera's pictures, too: kilobits per second of each vehicle, in five pictures a second.
    #[arg(long, value_name = "KBPS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub camera: u32,
    #[command(flatten)]
    world: WorldArgs,
    #[command(flatten)]
    stop: StopArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Runs until it is stopped.
pub fn run(args: &VehicleArgs) -> zenoh::Result<()> {
    args.vehicle.iter().try_for_each(|vehicle| check_vehicle(*vehicle, &args.world))?;
    let stop = Stop::listen(&args.stop)?;
    let world = World::new(args.world);
    let session = stop.while_opening(|| args.common.open_silently())?;
    let heard = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&heard);
    let count = move |_: Sample| {
        counting.fetch_add(1, Ordering::Relaxed);
    };
    let others = session.declare_subscriber("v2v/*/*").allowed_origin(Locality::Remote);
    others.callback(count).background().wait()?;
    let fleet = Fleet::start(&session, &world, &args.vehicle, args.camera, &stop)?;
    say!("Driving as vehicle {}. Press CTRL-C to stop.", numbers(&args.vehicle));
    while !stop.wait_for(Duration::from_secs(3_600)) {}
    let told = fleet.join();
    say!("{told} messages published, {} heard.", heard.load(Ordering::Relaxed));
    session.close().wait()
}

/// Refuses a vehicle that the world does not have.
pub(crate) fn check_vehicle(vehicle: u32, world: &WorldArgs) -> zenoh::Result<()> {
    if vehicle < world.vehicles {
        return Ok(());
    }
    let last = world.vehicles - 1;
    Err(format!(
        "there is no vehicle {vehicle} in a world of {} (0 to {last}): raise --vehicles, in every program alike",
        world.vehicles
    )
    .into())
}

fn numbers(vehicles: &[u32]) -> String {
    vehicles.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// Vehicles that publish until they are stopped.
pub(crate) struct Fleet {
    threads: Vec<JoinHandle<u64>>,
}

impl Fleet {
    /// Starts to publish for these vehicles; `camera_kbps` of pictures each, 0 for none.
    pub(crate) fn start(
        session: &Session,
        world: &World,
        vehicles: &[u32],
        camera_kbps: u32,
        stop: &Stop,
    ) -> zenoh::Result<Self> {
        let mut threads = Vec::new();
        for vehicle in vehicles {
            let voice = |kind: Kind| -> zenoh::Result<Voice> {
                Ok(Voice {
                    publisher: kind.publisher(session, *vehicle)?,
                    vehicle: *vehicle,
                    world: world.clone(),
                    stop: stop.clone(),
                    told: 0,
                })
            };
            let (cam, denm, cpm) = (voice(Kind::Cam)?, voice(Kind::Denm)?, voice(Kind::Cpm)?);
            threads.push(std::thread::spawn(|| cam.beacons()));
            threads.push(std::thread::spawn(|| denm.hazards()));
            threads.push(std::thread::spawn(|| cpm.perceptions()));
            if camera_kbps > 0 {
                let camera = voice(Kind::Camera)?;
                let picture_bytes = camera_kbps as usize * 1_000 / 8 / PICTURES_HZ as usize;
                threads.push(std::thread::spawn(move || camera.pictures(picture_bytes)));
            }
        }
        Ok(Self { threads })
    }

    /// Waits until all have stopped; how many messages they published.
    pub(crate) fn join(self) -> u64 {
        self.threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    }
}

/// One kind of messages of one vehicle.
struct Voice {
    publisher: Publisher<'static>,
    vehicle: u32,
    world: World,
    stop: Stop,
    told: u32,
}

impl Voice {
    fn beacons(mut self) -> u64 {
        let mut rule = BeaconRule::default();
        while let Some(now) = self.wait_for_next(BeaconRule::CHECK_EVERY) {
            if let Some(motion) = self.world.motion(self.vehicle, now) {
                if rule.is_due(now, &motion) {
                    self.tell(now, Beacon { vehicle: self.vehicle, motion }.encode().ok());
                }
            }
        }
        self.told.into()
    }

    fn hazards(mut self) -> u64 {
        let mut since = clock::now();
        loop {
            since = since.max(clock::now().saturating_sub(OLDEST_NEWS));
            let hazard = self.world.next_hazard(self.vehicle, since);
            since = hazard.at + Duration::from_nanos(1);
            if self.stop.wait_for(hazard.at.saturating_sub(clock::now())) {
                return self.told.into();
            }
            let motion = self.world.motion(self.vehicle, hazard.at);
            let notice = motion.map(|motion| Notice {
                vehicle: self.vehicle,
                number: hazard.number,
                detected: hazard.at,
                position: motion.position,
                cause: hazard.cause,
            });
            self.tell(hazard.at, notice.and_then(|notice| notice.encode().ok()));
        }
    }

    fn perceptions(mut self) -> u64 {
        while let Some(now) = self.wait_for_next(CPM_EVERY) {
            let perception = perception(&self.world, self.vehicle, now);
            self.tell(now, perception.and_then(|perception| perception.encode().ok()));
        }
        self.told.into()
    }

    fn pictures(mut self, picture_bytes: usize) -> u64 {
        let picture = crate::payload(picture_bytes);
        while let Some(now) = self.wait_for_next(Duration::from_secs(1) / PICTURES_HZ) {
            self.tell(now, Some(picture.clone()));
        }
        self.told.into()
    }

    /// Waits for the next multiple of `every`, which differs a little between vehicles; `None` when it is time to stop.
    fn wait_for_next(&self, every: Duration) -> Option<Duration> {
        let offset = every / 64 * (self.vehicle % 64);
        let now = clock::now();
        let past = now.saturating_sub(offset).as_nanos() % every.as_nanos();
        // Less than `every`.
        let left = every - Duration::from_nanos(past as u64);
        (!self.stop.wait_for(left)).then_some(now + left)
    }

    /// What cannot be sent now is lost, as on any radio: a monitor counts what is missing.
    fn tell(&mut self, made: Duration, payload: Option<Vec<u8>>) {
        let Some(payload) = payload else {
            return;
        };
        let stamp = Stamp { sequence: self.told, sent: made }.encode();
        let _ = self.publisher.put(payload).attachment(stamp).wait();
        self.told = self.told.wrapping_add(1);
    }
}

/// What a vehicle sees at a time.
fn perception(world: &World, vehicle: u32, now: Duration) -> Option<Perception> {
    let position = world.motion(vehicle, now)?.position;
    let others = (0..world.vehicles()).filter(|other| *other != vehicle);
    let objects = others
        .filter_map(|other| Some(Perceived { vehicle: other, motion: world.motion(other, now)? }))
        .filter(|other| other.motion.position.distance_m(position) <= SIGHT_M)
        .collect();
    Some(Perception { vehicle, position, objects })
}
