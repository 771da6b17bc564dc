// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How much gets through, and how soon, for each loss, round trip and controller?
//!
//! A snapshot for git: everything is simulated from fixed seeds, so a cell changes only when the
//! protocol does, and then it shows in the diff.

use std::{fmt::Write as _, time::Duration};

use arq_proto::{Config, CongestionConfig};

use crate::{parallel, Bottleneck, Flow, Halt, Loss, Pair, Scenario, WireConfig};

const RATE_BPS: u64 = 100_000_000;
const LOSSES_PERCENT: [u8; 5] = [0, 1, 5, 10, 25];
const ROUND_TRIPS: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(20), Duration::from_millis(100)];
/// Goodput counts from here on, when the start-up is over.
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(1);
const MESSAGE_BYTES: usize = 10_000;
const MESSAGE_INTERVAL: Duration = Duration::from_millis(20);
const MESSAGES: u64 = 500;
/// No queue is shorter, whatever the round trip.
const MIN_QUEUE_BYTES: u64 = 64 << 10;

/// Which controller, with a window that may depend on the path.
#[derive(Debug, Clone, Copy)]
enum Window {
    Default,
    TwiceTheProduct,
    Aimd,
    Cubic,
}

impl Window {
    const ALL: [Self; 4] = [Self::Default, Self::TwiceTheProduct, Self::Aimd, Self::Cubic];

    const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::TwiceTheProduct => "constant, 2 x bandwidth x RTT",
            Self::Aimd => "aimd",
            Self::Cubic => "cubic",
        }
    }

    fn config(self, round_trip: Duration) -> Config {
        let base = Config::default();
        let congestion = match self {
            Self::Default => base.congestion,
            Self::TwiceTheProduct => {
                CongestionConfig::Constant { window_bytes: 2 * product_bytes(round_trip) }
            }
            Self::Aimd => CongestionConfig::Aimd,
            Self::Cubic => CongestionConfig::Cubic,
        };
        Config { congestion, ..base }
    }
}

fn product_bytes(round_trip: Duration) -> u64 {
    let bytes = RATE_BPS as f64 / 8.0 * round_trip.as_secs_f64();
    (bytes as u64).max(MIN_QUEUE_BYTES / 2)
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    window: Window,
    round_trip: Duration,
    loss_percent: u8,
}

impl Cell {
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for window in Window::ALL {
            for round_trip in ROUND_TRIPS {
                for loss_percent in LOSSES_PERCENT {
                    cells.push(Self { window, round_trip, loss_percent });
                }
            }
        }
        cells
    }

    fn scenario(self, queue_bytes: u64) -> Scenario {
        let wire = WireConfig {
            loss: match self.loss_percent {
                0 => Loss::None,
                percent => Loss::Random(f32::from(percent) / 100.0),
            },
            bottleneck: Some(Bottleneck {
                rate_bps: RATE_BPS,
                queue_bytes: u32::try_from(queue_bytes).unwrap_or(u32::MAX),
            }),
            ..WireConfig::with_delay(self.round_trip / 2)
        };
        Scenario::new(1).wire(wire).config(self.window.config(self.round_trip))
    }

    /// Megabits per second of one lane with always something to send.
    fn goodput(self) -> Result<f64, Halt> {
        let queue = product_bytes(self.round_trip).max(MIN_QUEUE_BYTES);
        let endless = Flow::reliable(5, 60_000, u64::MAX);
        let mut pair = Pair::new(&self.scenario(queue).client_sends([endless]));
        pair.run_to_connected(WARM_UP)?;
        pair.world.run_for(WARM_UP)?;
        let before = pair.server_side().app.bytes_read();
        pair.world.run_for(MEASURED)?;
        let bytes = pair.server_side().app.bytes_read() - before;
        Ok(bytes as f64 * 8.0 / MEASURED.as_secs_f64() / 1e6)
    }

    /// Median, 99th percentile (ms) and bytes sent per byte delivered, for messages with pauses.
    fn latency(self) -> Result<[f64; 3], Box<crate::Failure>> {
        let queue = product_bytes(self.round_trip).max(MIN_QUEUE_BYTES);
        let flow = Flow::reliable(5, MESSAGE_BYTES, MESSAGES).every(MESSAGE_INTERVAL);
        let report =
            self.scenario(queue).client_sends([flow]).within(Duration::from_secs(3_600)).run()?;
        let ms =
            |percent| report.latency_percentile(percent).unwrap_or_default().as_secs_f64() * 1e3;
        let sent = report.client_stats.bytes_sent as f64 / report.server_bytes_read as f64;
        Ok([ms(50), ms(99), sent])
    }

    fn row(self) -> String {
        let goodput = match self.goodput() {
            Ok(mbps) => format!("{mbps:.1}"),
            Err(halt) => format!("{halt}"),
        };
        let latency = match self.latency() {
            Ok([p50, p99, sent]) => format!("{p50:.1} | {p99:.1} | {sent:.2}"),
            Err(failure) => format!("{} | |", failure.halt),
        };
        let (window, rtt) = (self.window.name(), self.round_trip.as_millis());
        format!("| {window} | {rtt} | {} | {goodput} | {latency} |", self.loss_percent)
    }
}

/// The whole grid as a table in Markdown.
#[must_use]
pub fn render() -> String {
    let cells = Cell::all();
    let mut out = format!(
        "# Goodput and latency, simulated\n\n\
         100 Mb/s with a queue of one bandwidth-delay product (64 KiB at least), independent loss \
         in both directions, one association, 1,200-byte datagrams. Goodput: one lane with always \
         something to send, for {} s after {} s of start-up. Latency: {MESSAGES} messages of \
         {MESSAGE_BYTES} bytes, one every {} ms, from the intended send time; `sent` is bytes on \
         the wire per byte of message.\n\n\
         Written by `ARQ_UPDATE_SNAPSHOTS=1 cargo test -p arq-sim --test grid`; printed by \
         `cargo run -p arq-sim --bin goodput_grid`.\n\n\
         | controller | RTT, ms | loss, % | goodput, Mb/s | p50, ms | p99, ms | sent |\n\
         |---|---|---|---|---|---|---|\n",
        MEASURED.as_secs(),
        WARM_UP.as_secs(),
        MESSAGE_INTERVAL.as_millis(),
    );
    for row in parallel::map(&cells, |cell| cell.row()) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{row}");
    }
    out
}
