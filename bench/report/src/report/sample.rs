// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What could results look like? Seeded records of made-up links, for the tests of the report.

use netlab::wire::{Conditions, Loss, WireCount};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use super::{Extent, LinkInfo, ScenarioInfo};
use crate::record::{
    Cell, Environment, FlowResult, Ideal, InFlight, Measurement, Outcome, Percentiles, ProcessUse,
    Record, SocketBuffers,
};
use crate::scenario::flow::{Flow, Pattern};
use crate::scenario::{Figure, Goal, Published};

/// The stock links of a usual comparison and ours: name, rounds' length in RTTs, share of copies sent ahead.
pub(crate) const LINKS: [(&str, f64, f64); 6] = [
    ("arq", 1.0, 0.3),
    ("tcp-cubic", 40.0, 0.0),
    ("tcp-bbr", 6.0, 0.0),
    ("udp", 0.0, 0.0),
    ("udp-rel", 5.0, 0.0),
    ("quic", 9.0, 0.0),
];

/// A set of results to make up.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) links: Vec<(&'static str, f64, f64)>,
    pub(crate) drops: Vec<f64>,
    pub(crate) payloads: Vec<usize>,
    pub(crate) delays: Vec<f64>,
    pub(crate) repeats: u32,
    pub(crate) rate_mbps: Option<f64>,
    pub(crate) flows: Vec<(&'static str, Pattern)>,
}

impl Sample {
    /// 10 and 100 KB at two delays, five drop rates.
    pub(crate) fn drop_rate() -> Self {
        Self {
            links: LINKS.to_vec(),
            drops: vec![0.0, 5.0, 10.0, 15.0, 25.0],
            payloads: vec![10_000, 100_000],
            delays: vec![0.5, 10.0],
            repeats: 5,
            rate_mbps: None,
            flows: vec![("data", Pattern::Periodic { rate_hz: 50.0, messages: 500 })],
        }
    }

    /// Made up, the same for the same seed.
    pub(crate) fn records(&self, seed: u64) -> Vec<Record> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut records = Vec::new();
        for repeat in 0..self.repeats {
            for payload in &self.payloads {
                for delay in &self.delays {
                    for drop in &self.drops {
                        for link in &self.links {
                            let conditions =
                                At { drop: drop / 100.0, delay_ms: *delay, payload: *payload };
                            records.push(self.record(&mut random, *link, conditions, repeat));
                        }
                    }
                }
            }
        }
        records
    }

    fn record(
        &self,
        random: &mut ChaCha8Rng,
        link: (&str, f64, f64),
        at: At,
        repeat: u32,
    ) -> Record {
        let mut setting = vec![("drop_percent".to_owned(), format!("{}", at.drop * 100.0))];
        if self.payloads.len() > 1 {
            setting.push(("payload_bytes".to_owned(), at.payload.to_string()));
        }
        if self.delays.len() > 1 {
            setting.push(("delay_ms".to_owned(), at.delay_ms.to_string()));
        }
        let mut network = Conditions::default();
        for wire in [&mut network.forward, &mut network.backward] {
            wire.delay_ms = at.delay_ms;
            wire.rate_mbps = self.rate_mbps;
            wire.loss = Loss::Random { percent: at.drop * 100.0 };
        }
        Record {
            scenario: "sample".into(),
            cell: Cell { link: link.0.to_owned(), setting },
            repeat,
            seed: 42,
            started_unix_s: 1_790_000_000,
            network,
            outcome: Outcome::Measured(Box::new(self.measurement(random, link, at))),
        }
    }

    fn measurement(&self, random: &mut ChaCha8Rng, link: (&str, f64, f64), at: At) -> Measurement {
        let flows: Vec<_> = self
            .flows
            .iter()
            .enumerate()
            .map(|(i, flow)| flow_result(random, link, at, *flow, i))
            .collect();
        let delivered: u64 =
            flows.iter().map(|flow| flow.delivered * flow.flow.payload_bytes as u64).sum();
        let wire = (delivered as f64 * (1.0 + link.2) / (1.0 - at.drop) * 1.03) as u64;
        let count = |bytes: u64| WireCount {
            entered_packets: bytes / 1_400,
            entered_bytes: bytes,
            ..WireCount::default()
        };
        let use_of = |cpu_s| ProcessUse { cpu_s, peak_rss_bytes: 30_000_000 + random_u64(link.0) };
        let sent_again = (wire as f64 / 1_400.0 * at.drop) as u64;
        Measurement {
            flows,
            forward: count(wire),
            backward: count(wire / 30),
            publisher: use_of(wire as f64 * 2.0e-9 * (1.0 + uniform(random))),
            subscriber: use_of(wire as f64 * 2.0e-9),
            tcp_retransmissions: link.0.starts_with("tcp").then_some(sent_again),
            arq_retransmissions: link.0.starts_with("arq").then_some(sent_again),
            needless_percent: None,
            in_flight: in_flight(random, link.0),
            stolen_percent: Some(0.0),
            machine_cpu_s: Some(wire as f64 * 6.0e-9),
            first_message_ms: None,
            fades_ms: Vec::new(),
            many_links: None,
        }
    }
}

#[derive(Clone, Copy)]
struct At {
    drop: f64,
    delay_ms: f64,
    payload: usize,
}

fn random_u64(name: &str) -> u64 {
    name.len() as u64 * 1_000_000
}

fn uniform(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u32() as f64 + 0.5) / f64::from(u32::MAX)
}

fn flow_result(
    random: &mut ChaCha8Rng,
    (_, round, ahead): (&str, f64, f64),
    at: At,
    (name, pattern): (&str, Pattern),
    index: usize,
) -> FlowResult {
    let flow = Flow {
        name: name.to_owned(),
        payload_bytes: at.payload,
        pattern,
        start_s: 5.0 * index as f64,
        ..serde_json::from_value(
            serde_json::json!({"name": "", "payload_bytes": 1, "pattern": "flood", "seconds": 1.0}),
        )
        .unwrap()
    };
    let packets = at.payload.div_ceil(1_400) as f64;
    let (offered, gap_ms) = match pattern {
        Pattern::Periodic { rate_hz, messages } => (messages, 1e3 / rate_hz),
        _ => (2_000, 5.0),
    };
    let latency = |random: &mut ChaCha8Rng| {
        let base = at.delay_ms + 0.4 + packets * 0.01 + 0.3 * uniform(random);
        let whole = (1.0 - at.drop).powf(packets);
        if uniform(random) < whole || uniform(random) < ahead * 2.0 {
            return Some(base);
        }
        if round == 0.0 {
            return None;
        }
        let rounds = 1.0 + (uniform(random).ln() / at.drop.max(1e-9).ln()).floor();
        Some(base + rounds * (2.0 * at.delay_ms + 1.0) * round * (0.5 + uniform(random)))
    };
    let messages: Vec<(f64, Option<f64>)> =
        (0..offered).map(|i| (i as f64 * gap_ms, latency(random))).collect();
    let mut sorted: Vec<f64> = messages.iter().filter_map(|(_, latency)| *latency).collect();
    sorted.sort_by(f64::total_cmp);
    let rank = |percent: f64| {
        sorted.get(((offered as f64 * percent / 100.0).ceil() as usize).max(1) - 1).copied()
    };
    let bins = 300;
    let per_bin = 600_000.0 / (index + 1) as f64;
    FlowResult {
        flow,
        offered,
        delivered: sorted.len() as u64,
        duplicates: 0,
        out_of_order: 0,
        longest_silence_ms: gap_ms + sorted.last().copied().unwrap_or(offered as f64 * gap_ms),
        duration_s: offered as f64 * gap_ms / 1e3,
        arrived_bytes: (0..bins)
            .map(|_| (per_bin * (0.8 + 0.4 * uniform(random))) as u64)
            .collect(),
        messages: messages.clone(),
        kept_every: 1,
        percentiles: Percentiles {
            mean_of_delivered: (!sorted.is_empty())
                .then(|| sorted.iter().sum::<f64>() / sorted.len() as f64),
            p50: rank(50.0),
            p90: rank(90.0),
            p99: rank(99.0),
            p99_9: rank(99.9),
            max: rank(100.0),
        },
        ideal: Some(ideal(at, packets)),
    }
}

/// Quantiles of the closed form: rounds until all of n packets have come.
fn ideal(at: At, packets: f64) -> Ideal {
    let rank = |q: f64| {
        let rounds = if at.drop > 0.0 {
            ((1.0 - q.powf(1.0 / packets)).ln() / at.drop.ln() - 1.0).ceil().max(0.0)
        } else {
            0.0
        };
        Some(at.delay_ms + rounds * 2.0 * at.delay_ms)
    };
    let ranks = Percentiles { p50: rank(0.5), p99: rank(0.99), ..Percentiles::default() };
    Ideal { closed_form: Some(ranks), this_run: None, capacity_mbps: Some(100.0 * (1.0 - at.drop)) }
}

fn in_flight(random: &mut ChaCha8Rng, link: &str) -> Vec<InFlight> {
    if !link.starts_with("arq") && !link.starts_with("tcp") {
        return Vec::new();
    }
    let reading = |i: u32| {
        let window_bytes = 20_000 + u64::from(i % 40) * 2_000;
        InFlight {
            at_s: f64::from(i) * 0.05,
            bytes: (window_bytes as f64 * uniform(random)) as u64,
            window_bytes: Some(window_bytes),
        }
    };
    (0..200).map(reading).collect()
}

/// The scenario that these records could be of; two names try to break out of the page.
pub(crate) fn info(name: &str) -> ScenarioInfo {
    let link = |(name, ..): &(&str, f64, f64)| LinkInfo {
        name: (*name).to_owned(),
        about: format!("{name}/ as zenoh ships it <b>not bold</b>"),
        ours: name.starts_with("arq"),
    };
    ScenarioInfo {
        name: name.to_owned(),
        title: "Drop rate against latency".to_owned(),
        question: "How late are messages over each link as the network loses more packets?"
            .to_owned(),
        source: "zenoh under packet loss (gary1030/zenoh-in-noise-environment)".to_owned(),
        published: vec![Published {
            setting: vec![
                ("drop_percent".into(), "10.0".into()),
                ("payload_bytes".into(), "10000".into()),
            ],
            link: "zenoh tcp (2022)".into(),
            note: String::new(),
            figures: vec![
                ("mean_ms", Figure::Exact(741.0)),
                ("lost_percent", Figure::Range(30.0, 32.7)),
                ("p99_gap_ms", Figure::Exact(5.0)),
            ],
        }],
        command: format!("arq-bench run {name} --seed 42"),
        extent: Extent { traffic: vec!["data: 500 messages".into()], repeats: 5, scale: 1.0 },
        links: LINKS.iter().map(link).collect(),
        notes: vec!["Burst lengths are a design choice.".into()],
        goals: vec![Goal {
            flow: "data".into(),
            percent: Some(99.0),
            within_ms: Some(100.0),
            longest_silence_ms: None,
        }],
    }
}

/// A machine.
pub(crate) fn environment() -> Environment {
    Environment {
        version: "0.1.0".into(),
        zenoh: "1.10.2".into(),
        command: "arq-bench run drop-rate --seed 42".into(),
        kernel: "Linux 6.18.0".into(),
        processor: "Some processor, 2 cores".into(),
        memory_bytes: 8_000_000_000,
        socket_buffers: Some(SocketBuffers { receive_bytes: 4_194_304, send_bytes: 212_992 }),
        load: 0.31,
        optimised: true,
        privilege: "user namespace".into(),
        seed: 42,
    }
}
