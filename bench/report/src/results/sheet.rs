// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do results look in a spreadsheet?

use std::io;

use crate::record::{FlowResult, Measurement, Outcome, Percentiles, Record};

const FLOW_COLUMNS: [&str; 18] = [
    "flow",
    "payload_bytes",
    "offered",
    "delivered",
    "duplicates",
    "out_of_order",
    "longest_silence_ms",
    "duration_s",
    "mean_of_delivered_ms",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "p99.9_ms",
    "max_ms",
    "ideal_p50_ms",
    "ideal_p99_ms",
    "ideal_of_this_run_p50_ms",
    "ideal_of_this_run_p99_ms",
];
const CELL_COLUMNS: [&str; 17] = [
    "capacity_mbps",
    "forward_wire_bytes",
    "backward_wire_bytes",
    "forward_lost_packets",
    "backward_lost_packets",
    "emulator_overrun_packets",
    "publisher_cpu_s",
    "subscriber_cpu_s",
    "publisher_peak_rss_bytes",
    "subscriber_peak_rss_bytes",
    "tcp_retransmissions",
    "arq_retransmissions",
    // Behind the others, so that whoever reads columns by their place finds them where they were.
    "forward_wire_packets",
    "backward_wire_packets",
    "stolen_percent",
    "needless_percent",
    "machine_cpu_s",
];

/// The table in CSV: a row for each record and flow. A figure that is not there, because that rank was lost or nobody
/// counted, is an empty field; a record that failed says why in `failure`.
pub(super) fn of(records: &[Record]) -> io::Result<Vec<u8>> {
    let keys = axes(records);
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fixed = ["scenario", "link"].into_iter();
    let run = ["repeat", "seed", "started_unix_s", "failure"];
    writer.write_record(
        fixed.chain(keys.iter().copied()).chain(run).chain(FLOW_COLUMNS).chain(CELL_COLUMNS),
    )?;
    for record in records {
        let begin = beginning(record, &keys);
        match &record.outcome {
            Outcome::Measured(measurement) => {
                for flow in &measurement.flows {
                    let row = begin.iter().cloned().chain([String::new()]);
                    writer.write_record(
                        row.chain(flow_fields(flow)).chain(cell_fields(measurement, flow)),
                    )?;
                }
            }
            Outcome::Failed(reason) => {
                let empty = FLOW_COLUMNS.len() + CELL_COLUMNS.len();
                let row = begin.into_iter().chain([reason.clone()]);
                writer.write_record(row.chain(std::iter::repeat_n(String::new(), empty)))?;
            }
        }
    }
    writer.into_inner().map_err(csv::IntoInnerError::into_error)
}

/// The axes of all records, each once, in the order of their first use.
fn axes(records: &[Record]) -> Vec<&str> {
    let mut keys = Vec::new();
    for (key, _) in records.iter().flat_map(|record| &record.cell.setting) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    keys
}

fn beginning(record: &Record, keys: &[&str]) -> Vec<String> {
    let value = |key: &&str| {
        let found = record.cell.setting.iter().find(|(axis, _)| axis == key);
        found.map_or_else(String::new, |(_, value)| value.clone())
    };
    let mut row = vec![record.scenario.clone(), record.cell.link.clone()];
    row.extend(keys.iter().map(value));
    row.extend([record.repeat.to_string(), record.seed.to_string()]);
    row.push(record.started_unix_s.to_string());
    row
}

fn flow_fields(result: &FlowResult) -> [String; 18] {
    let own = result.percentiles;
    let ideal = result.ideal.unwrap_or_default();
    let pair = |percentiles: Option<Percentiles>| {
        let percentiles = percentiles.unwrap_or_default();
        [optional(percentiles.p50), optional(percentiles.p99)]
    };
    let [closed_p50, closed_p99] = pair(ideal.closed_form);
    let [run_p50, run_p99] = pair(ideal.this_run);
    [
        result.flow.name.clone(),
        result.flow.payload_bytes.to_string(),
        result.offered.to_string(),
        result.delivered.to_string(),
        result.duplicates.to_string(),
        result.out_of_order.to_string(),
        result.longest_silence_ms.to_string(),
        result.duration_s.to_string(),
        optional(own.mean_of_delivered),
        optional(own.p50),
        optional(own.p90),
        optional(own.p99),
        optional(own.p99_9),
        optional(own.max),
        closed_p50,
        closed_p99,
        run_p50,
        run_p99,
    ]
}

fn cell_fields(measurement: &Measurement, flow: &FlowResult) -> [String; 17] {
    let (forward, backward) = (&measurement.forward, &measurement.backward);
    let [forward_packets, backward_packets] = packet_fields(measurement);
    [
        optional(flow.ideal.and_then(|ideal| ideal.capacity_mbps)),
        forward.entered_bytes.to_string(),
        backward.entered_bytes.to_string(),
        forward.lost.to_string(),
        backward.lost.to_string(),
        (forward.emulator_overrun + backward.emulator_overrun).to_string(),
        measurement.publisher.cpu_s.to_string(),
        measurement.subscriber.cpu_s.to_string(),
        measurement.publisher.peak_rss_bytes.to_string(),
        measurement.subscriber.peak_rss_bytes.to_string(),
        optional(measurement.tcp_retransmissions),
        optional(measurement.arq_retransmissions),
        forward_packets,
        backward_packets,
        optional(measurement.stolen_percent),
        optional(measurement.needless_percent),
        optional(measurement.machine_cpu_s),
    ]
}

/// Packets forward and backward; empty where nobody counted any, on the loopback or in a record without that count.
fn packet_fields(measurement: &Measurement) -> [String; 2] {
    let counts = [measurement.forward.entered_packets, measurement.backward.entered_packets];
    let is_counted = counts != [0, 0];
    counts.map(|packets| optional(is_counted.then_some(packets)))
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
