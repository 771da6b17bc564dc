// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The table of expected deaths: which forgery ends, corrupts, mutes or moves an association in the clear, and whose?
//!
//! Each forgery is played twice: by an *observer*, who has every packet in hand before it arrives, sends from any address
//! and cannot stop the original; and by one *off the path*, who knows all but the 64 random bits of the ids. A test that
//! nothing can fail proves nothing, so a forgery that ends nothing where the table says `Dies` fails as well. Under
//! an AEAD each row says `Lives` twice.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};

use arq_proto::{
    range_set::RangeSet,
    wire::{
        ack::{Ack, MAX_ACK_BYTES},
        frame::{ChunkFrame, Frame},
        packet::{Challenge, Cookie, DataHeader, Echo, Hello, Refuse, Reset},
        VERSION,
    },
    Config, ConnectionId, EcnCounts, RefuseReason, Reliability,
};
use arq_sim::{
    hostile::{self, Sighting},
    lane, AppPlan, Datagram, Flow, Forged, Halt, Pair, Reading, Scenario, Verdict, WireConfig,
};
use fastrand::Rng;

use crate::{
    client::params,
    common::{lossy, seeds, MS, SEC},
    stranger, talk,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lives,
    Dies,
}
use Fate::{Dies, Lives};

/// What an attacker sees of a datagram that has just left.
struct Seen<'a> {
    datagram: &'a Datagram,
    /// Of a data packet.
    at: Option<Sighting>,
    /// The newest data packet the other way.
    back: Option<Sighting>,
    /// It goes to the server.
    is_up: bool,
}

/// What the attacker does about it. Nothing that he sends is shown to him again.
type Attack = Box<dyn FnMut(&Seen<'_>) -> Vec<Forged>>;

struct Row {
    name: &'static str,
    observer: Fate,
    off_path: Fate,
    scene: fn(u64) -> Scenario,
    attack: fn() -> Attack,
}

/// Both talk over a path that loses some packets.
fn usual(seed: u64) -> Scenario {
    Scenario::new(seed).wire(lossy(0.05)).both_send(talk())
}

/// The first HELLOs are lost: all that counts is seen.
fn opening(seed: u64) -> Scenario {
    let wire = lossy(0.05);
    Scenario { up: WireConfig { blackouts: vec![Duration::ZERO..40 * MS], ..wire }, ..usual(seed) }
}

/// The server reads slower than the client sends.
fn slow_reader(seed: u64) -> Scenario {
    let config = Config {
        lane_window_bytes: 128 << 10,
        connection_window_bytes: 128 << 10,
        ..Config::default()
    };
    let mut scenario = Scenario::new(seed)
        .wire(lossy(0.0))
        .config(config)
        .client_sends([Flow::reliable(5, 2_000, 300)]);
    scenario.server = AppPlan { reading: Reading::Every(5 * MS), ..AppPlan::default() };
    scenario
}

const TABLE: [Row; 16] = [
    Row { name: "A1 read", observer: Dies, off_path: Lives, scene: usual, attack: read },
    Row { name: "A2 inject", observer: Dies, off_path: Lives, scene: usual, attack: inject },
    Row { name: "A3 CLOSE", observer: Dies, off_path: Lives, scene: usual, attack: close },
    Row { name: "A3 violation", observer: Dies, off_path: Lives, scene: usual, attack: violate },
    Row { name: "A4 RESET", observer: Lives, off_path: Lives, scene: usual, attack: reset },
    Row { name: "A5 corrupt", observer: Dies, off_path: Lives, scene: usual, attack: corrupt },
    Row {
        name: "A6 false ACK",
        observer: Dies,
        off_path: Lives,
        scene: usual,
        attack: acknowledge,
    },
    Row { name: "A7 deafen", observer: Dies, off_path: Lives, scene: usual, attack: deafen },
    Row { name: "A8 FORGET", observer: Dies, off_path: Lives, scene: usual, attack: mute },
    Row { name: "A9 credit", observer: Dies, off_path: Lives, scene: slow_reader, attack: credit },
    Row { name: "A10 roaming", observer: Dies, off_path: Lives, scene: usual, attack: roam },
    Row { name: "A10 racer", observer: Lives, off_path: Lives, scene: usual, attack: race },
    Row { name: "A11 newcomer", observer: Lives, off_path: Lives, scene: usual, attack: replace },
    Row { name: "A12 CHALLENGE", observer: Dies, off_path: Lives, scene: opening, attack: spoil },
    Row { name: "A12 elsewhere", observer: Lives, off_path: Lives, scene: opening, attack: hijack },
    Row { name: "A13 REFUSE", observer: Lives, off_path: Lives, scene: opening, attack: refuse },
];

/// From `datagram`'s sender to its receiver, before it arrives itself.
fn ahead(datagram: &Datagram, bytes: Vec<u8>) -> Vec<Forged> {
    vec![Forged { from: datagram.from, to: datagram.to, after: MS, bytes }]
}

/// From `datagram`'s receiver to its sender.
fn back(datagram: &Datagram, bytes: Vec<u8>) -> Vec<Forged> {
    vec![Forged { from: datagram.to, to: datagram.from, after: MS, bytes }]
}

/// A data packet `skip` numbers beyond `at`.
fn beyond(at: Sighting, skip: u32, span: u64, frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.encode(&mut bytes));
    hostile::data_packet(
        Sighting { number: at.number.wrapping_add(skip), ..at },
        span,
        true,
        &bytes,
    )
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

/// For each data packet a forged one, made of what is seen in it.
fn for_each(forge: fn(&Datagram, Sighting) -> Vec<Forged>) -> Attack {
    Box::new(move |seen| seen.at.map(|at| forge(seen.datagram, at)).unwrap_or_default())
}

fn carries_message(datagram: &Datagram) -> bool {
    let mut carries = false;
    hostile::each_frame(&datagram.bytes, |_, frame| carries |= matches!(frame, Frame::Chunk(_)));
    carries
}

/// The same for packets with messages alone: what answers to forgeries made of answers would never end.
fn for_each_message(forge: fn(&Datagram, Sighting) -> Vec<Forged>) -> Attack {
    Box::new(move |seen| match seen.at.filter(|_| carries_message(seen.datagram)) {
        Some(at) => forge(seen.datagram, at),
        None => Vec::new(),
    })
}

/// Tells what he has read.
fn read() -> Attack {
    for_each(|datagram, _| {
        let mut told = Vec::new();
        hostile::each_frame(&datagram.bytes, |_, frame| {
            if let Frame::Chunk(ChunkFrame { data, .. }) = frame {
                let (from, to, bytes) = (datagram.from, NEWSPAPER.into(), data.to_vec());
                told.push(Forged { from, to, after: MS, bytes });
            }
        });
        told
    })
}

fn inject() -> Attack {
    for_each(|datagram, at| {
        let mut forged = Vec::new();
        hostile::each_frame(&datagram.bytes, |_, frame| {
            let Frame::Chunk(chunk) = frame else { return };
            let data = &[7; 100][..];
            let (message_bytes, chunk_bytes) = (data.len(), data.len());
            let next = ChunkFrame {
                lane: chunk.lane,
                seq: chunk.seq + 1,
                message_bytes,
                chunk_bytes,
                index: 0,
                data,
            };
            forged.extend(ahead(datagram, beyond(at, 1, 0, &[Frame::Chunk(next)])));
        });
        forged
    })
}

fn close() -> Attack {
    for_each_message(|datagram, at| {
        ahead(datagram, beyond(at, 1, 0, &[Frame::Close { reason: "me" }]))
    })
}

fn violate() -> Attack {
    for_each_message(|datagram, at| ahead(datagram, hostile::data_packet(at, 0, true, &[0x3f])))
}

fn reset() -> Attack {
    for_each(|datagram, at| {
        let reset = Reset { unknown: at.dcid, echo: Echo::Number(at.number) };
        back(datagram, encoded(|out| reset.encode(out)))
    })
}

/// The same with another last byte of what it carries.
fn corrupt() -> Attack {
    for_each(|datagram, _| {
        let mut bytes = datagram.bytes.to_vec();
        let mut end = None;
        hostile::each_frame(&bytes, |_, frame| {
            if let Frame::Chunk(ChunkFrame { data, .. }) = frame {
                end = Some(data.as_ptr_range().end as usize);
            }
        });
        let last = end.map(|end| end - bytes.as_ptr() as usize - 1);
        let Some(byte) = last.and_then(|last| bytes.get_mut(last)) else { return Vec::new() };
        *byte ^= 1;
        ahead(datagram, hostile::resealed(&bytes))
    })
}

/// Acknowledges all that the client has sent, in the server's name.
fn acknowledge() -> Attack {
    let mut numbers = RangeSet::default();
    Box::new(move |seen| {
        let (Some(at), Some(server)) = (seen.at.filter(|_| seen.is_up), seen.back) else {
            return Vec::new();
        };
        numbers.insert(at.number.into());
        let ack =
            encoded(|out| assert!(Ack::encode(&numbers, 0, EcnCounts::NONE, MAX_ACK_BYTES, out)));
        let next = Sighting { number: server.number + 1, ..server };
        back(seen.datagram, hostile::data_packet(next, 0, false, &ack))
    })
}

fn deafen() -> Attack {
    for_each_message(|datagram, at| ahead(datagram, beyond(at, 0x7fff_fff0, 0, &[Frame::Ping])))
}

fn mute() -> Attack {
    for_each_message(|datagram, at| {
        let lane = lane(2, Reliability::BestEffort);
        // In the place of the original: nobody notices.
        ahead(datagram, beyond(at, 0, 0, &[Frame::Forget { lane, below: (1 << 62) - 1 }]))
    })
}

fn credit() -> Attack {
    Box::new(|seen| {
        let is_message = seen.is_up && carries_message(seen.datagram);
        let (true, Some(server)) = (is_message, seen.back) else { return Vec::new() };
        let (lane, bytes) = (lane(5, Reliability::Reliable), (1 << 62) - 1);
        let frames = [Frame::MaxData { bytes }, Frame::MaxLaneData { lane, bytes }];
        back(seen.datagram, beyond(server, 1, 0, &frames))
    })
}

/// Claims that the client has moved to the attacker, who answers the question whether it has.
fn roam() -> Attack {
    Box::new(|seen| {
        let mut forged = Vec::new();
        let own = stranger(9);
        hostile::each_frame(&seen.datagram.bytes, |_, frame| {
            if let (Frame::PathChallenge(token), Some(client)) = (frame, seen.back) {
                forged.push(beyond(client, 2_000, 0, &[Frame::PathResponse(token)]));
            }
        });
        let is_message = seen.is_up && carries_message(seen.datagram);
        if let (true, Some(at)) = (is_message, seen.at) {
            forged.push(beyond(at, 1_000, 1_000, &[Frame::Ping]));
        }
        let to = Pair::SERVER.parse().unwrap();
        forged.into_iter().map(|bytes| Forged { from: own, to, after: MS, bytes }).collect()
    })
}

/// A relay that is always faster, and brings answers to its own address back.
fn race() -> Attack {
    Box::new(|seen| {
        let Datagram { from, to, bytes, .. } = seen.datagram;
        let (server, client) = (Pair::SERVER.parse().unwrap(), Pair::CLIENT.parse().unwrap());
        let bytes = bytes.to_vec();
        match (seen.is_up, *to == stranger(9)) {
            (true, _) => vec![Forged { from: stranger(9), to: server, after: MS, bytes }],
            (false, true) => vec![Forged { from: *from, to: client, after: MS, bytes }],
            (false, false) => Vec::new(),
        }
    })
}

/// A new association from the client's address, with the cookie as it was read.
fn replace() -> Attack {
    let mut rng = Rng::with_seed(1);
    let mut scid = None;
    Box::new(move |seen| {
        let challenge = Challenge::decode(&seen.datagram.bytes).ok();
        match (scid, challenge) {
            (Some(scid), Some(Challenge { dcid, scid: server, version, cookie, .. }))
                if dcid == scid =>
            {
                let params = encoded(|out| params().encode(out));
                let cookie = Cookie { scid, version, cookie: &cookie, params: &params };
                let cookie = Some(cookie);
                let header = DataHeader { dcid: server, ack_now: true, number: 0, span: 0, cookie };
                let mut packet = encoded(|out| header.encode(out));
                Frame::Ping.encode(&mut packet);
                back(seen.datagram, hostile::sealed(&packet))
            }
            (None, _) if seen.is_up && seen.at.is_some() && seen.back.is_some() => {
                scid = Some(ConnectionId(rng.u64(..)));
                let (instance, versions) = (rng.u64(..), vec![VERSION]);
                let hello =
                    Hello { scid: scid.unwrap(), instance, attempt: 0, versions, bytes: 1_200 };
                ahead(seen.datagram, encoded(|out| hello.encode(out)))
            }
            _ => Vec::new(),
        }
    })
}

/// Answers HELLO in the server's name.
fn challenge_from(from: fn() -> SocketAddr) -> Attack {
    Box::new(move |seen| {
        let Ok(hello) = Hello::decode(&seen.datagram.bytes) else { return Vec::new() };
        let challenge = Challenge {
            dcid: hello.scid,
            scid: ConnectionId(7),
            version: VERSION,
            attempt: hello.attempt,
            cookie: vec![7; 34],
            params: params(),
        };
        let bytes = encoded(|out| challenge.encode(out));
        vec![Forged { from: from(), to: seen.datagram.from, after: MS, bytes }]
    })
}

fn spoil() -> Attack {
    challenge_from(|| Pair::SERVER.parse().unwrap())
}

fn hijack() -> Attack {
    challenge_from(|| stranger(9))
}

/// Says REFUSE to each HELLO, and to each packet with a cookie.
fn refuse() -> Attack {
    Box::new(|seen| {
        let datagram = seen.datagram;
        let dcid = match Hello::decode(&datagram.bytes) {
            Ok(hello) => Some(hello.scid),
            Err(_) => seen.back.filter(|_| seen.is_up).map(|client| client.dcid),
        };
        let Some(dcid) = dcid else { return Vec::new() };
        let refuse = Refuse { dcid, reason: RefuseReason::Busy, versions: Vec::new() };
        back(datagram, encoded(|out| refuse.encode(out)))
    })
}

/// What an attacker sends at most.
const MAX_FORGED: usize = 5_000;
/// Where secrets go.
const NEWSPAPER: ([u8; 4], u16) = ([192, 0, 2, 255], 1);

/// What the attacker has done: how often, and whether he has read a message.
#[derive(Clone, Default)]
struct Deeds {
    forged: Rc<Cell<usize>>,
    read: Rc<Cell<bool>>,
}

/// Lets the attacker of `row` at the pair.
fn play(pair: &mut Pair, row: &Row, is_observer: bool, seed: u64) -> Deeds {
    let mut attack = (row.attack)();
    let deeds = Deeds::default();
    let done = deeds.clone();
    let mut rng = Rng::with_seed(seed);
    let newest = RefCell::new([None; 2]);
    let server = pair.world.address(pair.server);
    pair.world.set_tap(move |_: Duration, datagram: &Datagram, forged: &mut Vec<Forged>| {
        let at = hostile::sight(&datagram.bytes);
        let is_up = datagram.to == server;
        let mut newest = newest.borrow_mut();
        let back = newest[usize::from(!is_up)];
        if at.is_some() {
            newest[usize::from(is_up)] = at;
        }
        // He grows tired, too: some forgeries make others for ever.
        if done.forged.get() > MAX_FORGED {
            return Verdict::Pass;
        }
        let mut sent = attack(&Seen { datagram, at, back, is_up });
        done.forged.set(done.forged.get() + sent.len());
        let is_told = |forged: &Forged| forged.to == NEWSPAPER.into();
        done.read.set(done.read.get() || is_observer && sent.iter().any(is_told));
        sent.retain(|forged| !is_told(forged));
        if !is_observer {
            // All else he may know, or guess.
            for Forged { bytes, .. } in &mut sent {
                bytes[1..9].copy_from_slice(&rng.u64(..).to_be_bytes());
                *bytes = hostile::resealed(bytes);
            }
        }
        forged.extend(sent);
        Verdict::Pass
    });
    deeds
}

/// What became of the association, if it was not left alone.
fn harm(row: &Row, is_observer: bool, seed: u64) -> Result<(), String> {
    let mut pair = Pair::new(&(row.scene)(seed));
    let deeds = play(&mut pair, row, is_observer, seed);
    let (client, server) = (pair.world.address(pair.client), pair.world.address(pair.server));
    pair.run_to_connected(5 * SEC).map_err(|halt| format!("not connected: {halt}"))?;
    let accepted = pair.world.accepted(pair.server)[0];
    let moved = |pair: &Pair| {
        let [near, far] = [pair.conn, accepted].map(|id| pair.world.conn(id).connection().remote());
        near != server || far != client
    };
    let delivered = |pair: &Pair| {
        let far = &pair.world.conn(accepted).app;
        let reliable = lane(5, Reliability::Reliable);
        pair.client_side().app.has_sent_all()
            && far.inbox(reliable).messages == pair.client_side().app.messages_accepted(reliable)
    };
    let error = |pair: &Pair| {
        [pair.conn, accepted].into_iter().find_map(|id| pair.world.conn(id).error().cloned())
    };
    let harmed = |pair: &Pair| moved(pair) || error(pair).is_some();
    pair.run(10 * SEC, |pair| harmed(pair) || delivered(pair))
        .map_err(|halt| format!("not delivered: {halt}"))?;
    // What comes late must do no harm either.
    match pair.run(2 * SEC, harmed) {
        Err(halt @ Halt::Broken { .. }) => return Err(halt.to_string()),
        _ if moved(&pair) => return Err("moved".into()),
        _ => {}
    }
    if let Some(error) = error(&pair) {
        return Err(format!("ended: {error}"));
    }
    let best_effort = lane(2, Reliability::BestEffort);
    let (sent, read) = (
        pair.client_side().app.messages_accepted(best_effort),
        pair.world.conn(accepted).app.inbox(best_effort).messages,
    );
    if read < sent * 3 / 4 {
        return Err(format!("muted: {read} of {sent} best-effort messages"));
    }
    if deeds.read.get() {
        return Err("read".into());
    }
    assert!(deeds.forged.get() > 0, "{}: nobody attacked, seed {seed}", row.name);
    Ok(())
}

fn check(is_observer: bool, expected: impl Fn(&Row) -> Fate) {
    let mut wrong = Vec::new();
    for row in &TABLE {
        for seed in seeds(3) {
            let harm = harm(row, is_observer, seed);
            let fate = if harm.is_ok() { Lives } else { Dies };
            if fate != expected(row) {
                wrong.push(format!("{}, seed {seed}: {fate:?}, {harm:?}", row.name));
            }
        }
    }
    assert!(wrong.is_empty(), "not as the table says:\n{}", wrong.join("\n"));
}

#[test]
fn an_observer_ends_what_the_table_says_and_nothing_else() {
    check(true, |row| row.observer);
}

#[test]
fn nobody_off_the_path_ends_anything() {
    check(false, |row| row.off_path);
}
