// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What does the page show? One structure for each moment, made from the truth, the radio and both monitors' reports.

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::v2v::monitor::Report;
use crate::v2v::radio::{Impairment, Path, RANGE_M};
use crate::v2v::world::{streets, Motion, Point};

/// What does not change while the demo runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TownMap {
    /// The pieces of street between crossings, metres.
    pub streets: Vec<[Point; 2]>,
    /// Within this distance vehicles count, metres.
    pub range_m: f64,
    /// The vehicle that the monitors ride in.
    pub own: u32,
    /// Radios that each vehicle has for `arq/`, one or two.
    pub radios: u8,
}

/// One moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Milliseconds since 1970.
    pub at_ms: f64,
    /// Since the demo began, seconds.
    pub elapsed_s: f64,
    /// What was added to the radio by hand.
    pub added: Impairment,
    /// Every vehicle, where it truly is.
    pub vehicles: Vec<VehicleView>,
    /// Both links, arq/ first.
    pub links: Vec<LinkView>,
}

/// A vehicle and the radio between it and the monitors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VehicleView {
    /// Its number.
    pub vehicle: u32,
    /// How it moves.
    pub motion: Motion,
    /// How far it is from the monitors, metres.
    pub distance_m: f64,
    /// Packets lost between them, per cent.
    pub loss_percent: f64,
    /// The mean length of a burst of losses, packets.
    pub burst_packets: f64,
    /// One way, milliseconds.
    pub delay_ms: f64,
}

/// A link and what its monitor knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkView {
    /// How it is called.
    pub name: String,
    /// What it puts on the radio.
    pub radio: RadioUse,
    /// Its monitor's newest report; `None` until there is one.
    pub report: Option<Report>,
}

/// What a link puts on the radio, of the last second; retransmissions, acknowledgements and redundancy included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RadioUse {
    /// Kilobytes a second, both directions.
    pub kbytes_per_s: f64,
    /// Packets a second, both directions.
    pub packets_per_s: f64,
    /// Packets that the radio lost, per cent.
    pub lost_percent: f64,
}

impl TownMap {
    /// The town, for monitors that ride in `own`, and vehicles with so many radios.
    pub fn new(own: u32, radios: u8) -> Self {
        Self { streets: streets(), range_m: RANGE_M, own, radios }
    }
}

impl VehicleView {
    /// A vehicle behind this radio.
    pub fn new(vehicle: u32, motion: Motion, distance_m: f64, path: &Path) -> Self {
        let Path { loss_percent, burst_packets, delay_ms, .. } = *path;
        Self { vehicle, motion, distance_m, loss_percent, burst_packets, delay_ms }
    }
}

/// Views as JSON: whoever shows them gets the newest.
pub(super) fn channel() -> (watch::Sender<String>, watch::Receiver<String>) {
    watch::channel(String::new())
}
