// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How soon does a message arrive under loss, against an ideal ARQ, and for how many bytes?
//!
//! The ideal hears of each loss at once and by magic, and sends what was lost once per round trip:
//! `P[latency <= delay + k * round trip] = (1 - p^(k + 1))^n` for `n` packets at a loss of `p`. It has
//! no redundancy, so who sends some may beat it.

use std::{fmt::Write as _, time::Duration};

use arq_proto::{Config, FecConfig, Reliability, Stats, BASE_MTU};

use crate::{lane, parallel, Flow, Halt, Loss, Pair, Scenario, WireConfig};

const MS: Duration = Duration::from_millis(1);
const DELAYS: [Duration; 2] = [Duration::from_micros(500), Duration::from_millis(10)];
/// The longest message, and the rest of 100 KB: a publication that zenoh cuts in two.
const SIZES: [&[usize]; 2] = [&[10_000], &[65_535, 34_465]];
/// Messages of two packets, of some, and of many.
const DENSE_SIZES: [&[usize]; 3] = [&[2_000], &[10_000], &[40_000]];
/// Commands: smaller than a packet, and several of them in a round trip.
const THIN_SIZES: [&[usize]; 1] = [&[300]];
const THIN_DELAY: Duration = Duration::from_millis(30);
const THIN_INTERVAL: Duration = Duration::from_millis(20);
/// How much later one packet of a message may arrive than another.
const TRICKLE: Duration = Duration::from_micros(200);
const MESSAGES: u64 = 1_000;
/// Before these, the estimates are still being made.
const WARM_UP: usize = 100;
const LIMIT: Duration = Duration::from_secs(3_600);

/// What is lost, in both directions.
#[derive(Debug, Clone, Copy)]
enum Channel {
    Percent(u8),
    /// One in ten, in bursts of so many packets on average.
    Bursts(u8),
}

impl Channel {
    const ALL: [Self; 7] = [
        Self::Percent(0),
        Self::Percent(1),
        Self::Percent(5),
        Self::Percent(10),
        Self::Percent(25),
        Self::Bursts(3),
        Self::Bursts(20),
    ];

    fn loss(self) -> Loss {
        match self {
            Self::Percent(0) => Loss::None,
            Self::Percent(percent) => Loss::Random(f32::from(percent) / 100.0),
            Self::Bursts(packets) => Loss::Bursts {
                good_packets: 9.0 * f32::from(packets),
                bad_packets: packets.into(),
                loss_in_bad: 1.0,
            },
        }
    }

    fn name(self) -> String {
        match self {
            Self::Percent(percent) => format!("{percent} %"),
            Self::Bursts(packets) => format!("10 %, bursts of {packets}"),
        }
    }
}

/// The latency that an ideal ARQ does not exceed with this probability.
fn ideal(bytes: usize, delay: Duration, channel: Channel, quantile: f64) -> Option<Duration> {
    let Channel::Percent(percent) = channel else { return None };
    let (packets, loss) = (bytes as f64 / f64::from(BASE_MTU), f64::from(percent) / 100.0);
    let rounds = (0..100).find(|&k| (1.0 - loss.powi(k + 1)).powf(packets.ceil()) >= quantile)?;
    Some(delay + 2 * delay * rounds.unsigned_abs())
}

/// How soon a publication follows another.
#[derive(Debug, Clone, Copy)]
enum Pace {
    /// Everything is known before the next.
    Pauses,
    /// A round trip apart, and packets are read together: a message's answer is one packet, and the next message
    /// leaves as it is due.
    RoundTrip,
    /// With pauses, but packets trickle in, as radios deliver them: a message's answer is two or three packets.
    InParts,
    /// Before anything is heard of the last one.
    Thin,
}

/// How it went.
struct Outcome {
    latencies: Vec<Duration>,
    bytes: usize,
    stats: Stats,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    sizes: &'static [usize],
    delay: Duration,
    channel: Channel,
    fec: FecConfig,
    pace: Pace,
}

impl Cell {
    fn new(
        sizes: &'static [usize],
        delay: Duration,
        channel: Channel,
        fec: FecConfig,
        pace: Pace,
    ) -> Self {
        Self { sizes, delay, channel, fec, pace }
    }

    fn with_pauses() -> Vec<Self> {
        let mut cells = Vec::new();
        for fec in [FecConfig::Off, FecConfig::Auto] {
            for sizes in SIZES {
                for delay in DELAYS {
                    let pace = Pace::Pauses;
                    cells.extend(Channel::ALL.map(|c| Self::new(sizes, delay, c, fec, pace)));
                }
            }
        }
        cells
    }

    fn in_each_round_trip() -> Vec<Self> {
        let mut cells = Vec::new();
        for sizes in DENSE_SIZES {
            for delay in DELAYS {
                let (fec, pace) = (FecConfig::Auto, Pace::RoundTrip);
                cells.extend(Channel::ALL.map(|c| Self::new(sizes, delay, c, fec, pace)));
            }
        }
        cells
    }

    fn in_parts() -> Vec<Self> {
        let (delay, fec, pace) = (DELAYS[0], FecConfig::Auto, Pace::InParts);
        let row = |sizes| Channel::ALL.map(|c| Self::new(sizes, delay, c, fec, pace));
        DENSE_SIZES.into_iter().flat_map(row).collect()
    }

    fn thin() -> Vec<Self> {
        let mut cells = Vec::new();
        for fec in [FecConfig::Off, FecConfig::Auto] {
            for sizes in THIN_SIZES {
                let (delay, pace) = (THIN_DELAY, Pace::Thin);
                cells.extend(Channel::ALL.map(|c| Self::new(sizes, delay, c, fec, pace)));
            }
        }
        cells
    }

    fn interval(self) -> Duration {
        match self.pace {
            Pace::Pauses | Pace::InParts => (10 * self.delay).max(10 * MS),
            Pace::RoundTrip => 2 * self.delay,
            Pace::Thin => THIN_INTERVAL,
        }
    }

    fn run(self) -> Result<Outcome, Halt> {
        let jitter = if matches!(self.pace, Pace::InParts) { TRICKLE } else { Duration::ZERO };
        let wire = WireConfig {
            loss: self.channel.loss(),
            jitter,
            jitter_in_order: true,
            ..WireConfig::with_delay(self.delay)
        };
        let (interval, reads_together) = (self.interval(), !matches!(self.pace, Pace::Pauses));
        let flows = self.sizes.iter().map(|&n| Flow::reliable(5, n, MESSAGES).every(interval));
        let scenario = Scenario::new(1)
            .wire(wire)
            .config(Config { fec: self.fec, ..Config::default() })
            .client_sends(flows.collect::<Vec<_>>());
        let mut pair = Pair::new(&Scenario { reads_together, ..scenario });
        pair.run_to_connected(LIMIT)?;
        pair.run_to_delivery(LIMIT)?;
        let inbox = pair.server_side().app.inbox(lane(5, Reliability::Reliable));
        let whole = inbox.latencies.chunks(self.sizes.len()).skip(WARM_UP);
        let mut latencies: Vec<_> = whole.filter_map(|parts| parts.iter().max().copied()).collect();
        latencies.sort_unstable();
        let stats = pair.client_side().connection().stats();
        Ok(Outcome { latencies, bytes: inbox.bytes as usize, stats })
    }

    fn row(self) -> String {
        let bytes: usize = self.sizes.iter().sum();
        let (rtt, name) = (self.delay.as_secs_f64() * 2e3, self.channel.name());
        let fec = format!("{:?}", self.fec).to_lowercase();
        let mut row = format!("| {fec} | {} | {rtt} | {name} |", bytes as f64 / 1e3);
        let outcome = match self.run() {
            Ok(outcome) => outcome,
            Err(halt) => return format!("{row} {halt}"),
        };
        let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
        for quantile in [0.5, 0.9, 0.99] {
            let rank = (outcome.latencies.len() - 1) as f64 * quantile;
            let ideal = ideal(bytes, self.delay, self.channel, quantile);
            let ideal = ideal.map_or_else(|| "-".to_owned(), ms);
            // Writing to a String cannot fail.
            let _ = write!(row, " {ideal} | {} |", ms(outcome.latencies[rank as usize]));
        }
        let stats = &outcome.stats;
        let sent = stats.bytes_sent as f64 / outcome.bytes as f64;
        let chunks = outcome.bytes as f64 / 1_112.0;
        let share = |count: u64| count as f64 * 100.0 / chunks;
        let _ = write!(
            row,
            " {sent:.2} | {:.0} | {:.0} |",
            share(stats.chunks_retransmitted),
            share(stats.repair_symbols_sent)
        );
        row
    }
}

/// The tables, in Markdown.
#[must_use]
pub fn render() -> String {
    let mut out = format!(
        "# Repair, simulated\n\n\
         Messages of 10 KB and publications of 100 KB (two messages) on a wire without a bottleneck, \
         loss in both directions, {MESSAGES} of them with pauses. `ideal` is an ARQ without \
         redundancy that hears of each loss at once; the other times are the link's, from the \
         intended send time. `sent` is bytes on the wire per byte of message; `again` is chunks sent \
         again, `coded` repair symbols, per 100 chunks.\n\n\
         Written by `ARQ_UPDATE_SNAPSHOTS=1 cargo test -p arq-sim --test repair`.\n\n",
    );
    write_table(&mut out, &Cell::with_pauses());
    out.push_str(
        "\n## A round trip apart\n\n\
         The same, with a message every round trip and packets that are read together: one \
         acknowledgement tells of a message, and where it is lost, the next message is under way.\n\n",
    );
    write_table(&mut out, &Cell::in_each_round_trip());
    out.push_str(
        "\n## Answers in parts\n\n\
         With pauses again, but packets are read together and trickle in within 0.2 ms: two or three acknowledgements tell \
         of a message, and one of them may be lost.\n\n",
    );
    write_table(&mut out, &Cell::in_parts());
    out.push_str(
        "\n## Thin streams\n\n\
         Commands of 300 bytes every 20 ms: three of them in a round trip. `sent` has what bundling costs; what \
         arrives behind a lost one waits for it, which the ideal does not count.\n\n",
    );
    write_table(&mut out, &Cell::thin());
    out
}

fn write_table(out: &mut String, cells: &[Cell]) {
    out.push_str(
        "| fec | KB | RTT, ms | loss | ideal p50 | p50 | ideal p90 | p90 | ideal p99 | p99 | sent | again | coded |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in parallel::map(cells, |cell| cell.row()) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{row}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ideal_is_that_of_the_closed_form() {
        let ms = |bytes, percent, quantile| {
            ideal(bytes, 10 * MS, Channel::Percent(percent), quantile).unwrap().as_millis()
        };
        assert_eq!([ms(10_000, 0, 0.99), ms(10_000, 5, 0.5), ms(10_000, 10, 0.5)], [10, 10, 30]);
        assert_eq!([ms(10_000, 10, 0.99), ms(100_000, 10, 0.5)], [50, 50]);
        assert_eq!([ms(100_000, 10, 0.99), ms(100_000, 25, 0.99)], [70, 130]);
    }
}
