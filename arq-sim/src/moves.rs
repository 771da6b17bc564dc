// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What moves beneath a session while it lasts: NATs that rebind, hosts that sleep, interfaces that go and come back.

use std::{ops::Range, time::Duration};

use arq_proto::{Budget, Interface, InterfaceUse, SocketId};
use fastrand::Rng;

use crate::{app::Flow, wire::WireConfig, Pair, Scenario};

const MS: Duration = Duration::from_millis(1);
/// Things move for so long. Then a radio works, so that everything arrives.
const LASTS: Duration = Duration::from_secs(20);

/// Something that happens once both sides are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// The NAT of a radio of the client, the first one being 0, gives it another port or another address.
    Rebind {
        /// Which radio.
        radio: usize,
        /// To another address, not just to another port.
        roams: bool,
    },
    /// A side gets no processor for so long.
    Freeze {
        /// The client, or else the server.
        client: bool,
        /// For how long.
        time: Duration,
    },
    /// The client hears of an interface that it has gone, or is back.
    Interface {
        /// Which radio.
        radio: usize,
        /// Whether it is there.
        is_up: bool,
        /// Only for when no other path answers.
        is_backup: bool,
    },
    /// A radio loses everything from now on, and nobody says so.
    Die {
        /// Which radio.
        radio: usize,
    },
}

impl Pair {
    /// Lets a thing happen, the `count`-th one.
    pub(crate) fn apply(&mut self, what: Move, count: u16) {
        let host = |radio: usize| match radio.checked_sub(1) {
            Some(further) => self.radios[further],
            None => self.client,
        };
        match what {
            Move::Rebind { radio, roams } => {
                // Of four radios.
                let net = 10 + radio as u8;
                let address = match roams {
                    true => ([10, net, (count >> 8) as u8, count as u8], 40_001),
                    false => ([10, net, 0, 1], 20_000 + count),
                };
                self.world.rebind(host(radio), address.into());
            }
            Move::Die { radio } => {
                let (radio, server) = (host(radio), self.server);
                let dead = WireConfig { mtu: Some(1), ..WireConfig::default() };
                self.world.lay_wire(radio, server, dead.clone());
                self.world.lay_wire(server, radio, dead);
            }
            Move::Freeze { client, time } => {
                let side = if client { self.client } else { self.server };
                self.world.freeze(side, time);
            }
            Move::Interface { radio, is_up, is_backup } => {
                let metered = self.metered_rate_bps.filter(|_| radio == self.radios.len());
                let socket = SocketId(radio as u8);
                self.world.with_conn(self.conn, |clock, connection, _| {
                    let purpose = match metered {
                        Some(rate) => InterfaceUse::Metered(Budget::new(rate, clock.now())),
                        None if is_backup => InterfaceUse::Backup,
                        None => InterfaceUse::Always,
                    };
                    connection.handle_interface(clock.now(), Interface { socket, is_up, purpose });
                });
            }
        }
    }
}

impl Scenario {
    /// One [over several radios](Self::random_with_radios), each of which fails in one direction and in both for a while,
    /// beneath hosts that sleep, NATs that rebind and interfaces that come and go, for 20 seconds. In a third of the cases
    /// only one radio is left in the end.
    #[must_use]
    pub fn random_that_moves(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x6d6f_7665_735f_6d70);
        let mut scenario = Self::random_with_radios(seed);
        for wire in scenario.all_wires() {
            random_outages(&mut rng, wire);
        }
        for radio in 0..=scenario.radios.len() {
            let outages = outages(&mut rng, 2);
            scenario
                .wires_of(radio)
                .into_iter()
                .for_each(|wire| wire.blackouts.extend(outages.clone()));
            scenario.moves.extend(random_rebindings(&mut rng, radio));
            scenario.moves.extend(random_flaps(&mut rng, radio));
        }
        for client in [true, false] {
            for _ in 0..rng.u8(..4) {
                let time = MS * rng.u32(10..2_000);
                scenario.moves.push((moment(&mut rng), Move::Freeze { client, time }));
            }
        }
        // The schemes of textbooks stall in a few of ten thousand seeds: why is not known.
        if rng.u8(..3) == 0 && scenario.config.window_packets.is_none() {
            scenario.all_but_one_die(&mut rng);
        }
        // In the order of their times; those of a time in that of their radios.
        scenario.moves.sort_by_key(|(at, _)| *at);
        // One packet in a round trip has no room for more.
        let every = match scenario.config.window_packets {
            None => MS * rng.u32(20..200),
            Some(_) => 1_000 * MS,
        };
        let messages = (LASTS.as_millis() / every.as_millis()) as u64;
        scenario.both_send([Flow::reliable(1, rng.usize(1..2_000), messages).every(every)])
    }

    /// All radios but one die for good. A budget would last too long.
    fn all_but_one_die(&mut self, rng: &mut Rng) {
        let radios = 1 + self.radios.len();
        let unmetered = radios - usize::from(self.metered_rate_bps.is_some());
        let left = rng.usize(..unmetered);
        for radio in (0..radios).filter(|radio| *radio != left) {
            // Before it hears of the server the client cannot ask for another path.
            self.moves.push((LASTS / 2 + moment(rng) / 2, Move::Die { radio }));
        }
    }

    fn all_wires(&mut self) -> impl Iterator<Item = &mut WireConfig> {
        let further = self.radios.iter_mut().flat_map(|(up, down)| [up, down]);
        [&mut self.up, &mut self.down].into_iter().chain(further)
    }

    fn wires_of(&mut self, radio: usize) -> Vec<&mut WireConfig> {
        self.all_wires().skip(2 * radio).take(2).collect()
    }
}

fn moment(rng: &mut Rng) -> Duration {
    LASTS.mul_f64(rng.f64())
}

/// Up to so many outages.
fn outages(rng: &mut Rng, most: u8) -> Vec<Range<Duration>> {
    let outage = |rng: &mut Rng| {
        let start = moment(rng);
        start..(start + 5_000 * MS.mul_f64(rng.f64() * rng.f64())).min(LASTS)
    };
    (0..rng.u8(..=most)).map(|_| outage(rng)).collect()
}

/// Those of one direction.
fn random_outages(rng: &mut Rng, wire: &mut WireConfig) {
    wire.blackouts.extend(outages(rng, 1));
}

/// A NAT that rebinds now and then, or each 50 ms to 1 s for a while; in half of the cases never.
fn random_rebindings(rng: &mut Rng, radio: usize) -> Vec<(Duration, Move)> {
    let start = moment(rng);
    let (every, times) = match rng.u8(..4) {
        0 => (MS * rng.u32(1_000..5_000), rng.u32(1..5)),
        1 => (MS * rng.u32(50..1_000), rng.u32(5..100)),
        _ => return Vec::new(),
    };
    let roams = rng.u8(..4) == 0;
    let times = (0..times).map(|n| start + n * every).filter(|at| *at < LASTS);
    times.map(|at| (at, Move::Rebind { radio, roams })).collect()
}

/// An interface that goes and comes back, in half of the cases; it is there in the end.
fn random_flaps(rng: &mut Rng, radio: usize) -> Vec<(Duration, Move)> {
    let is_backup = rng.u8(..8) == 0;
    let flap = |at, is_up| (at, Move::Interface { radio, is_up, is_backup });
    let times = if rng.bool() { rng.u32(1..6) } else { 0 };
    let (mut at, mut moves) = (moment(rng), Vec::new());
    for _ in 0..times {
        let back = at + MS * rng.u32(10..3_000);
        moves.extend([flap(at, false), flap(back.min(LASTS), true)]);
        at = back + MS * rng.u32(10..3_000);
        if at >= LASTS {
            break;
        }
    }
    moves
}
