// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is the result shown in a terminal?

use std::time::Duration;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::delivery::Delivery;
use super::Outcome;

const HEADER: [&str; 8] = [
    "drop (measured)",
    "link",
    "delivered",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "max ms",
    "longest silence ms",
];

/// The table of all cells; a cell that could not run says why.
pub(super) fn of(outcomes: &[Outcome]) -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(HEADER);
    let mut failures = String::new();
    for Outcome { cell, result } in outcomes {
        let link = cell.link.to_string();
        match result {
            Ok((measured, delivery)) => {
                let drop = format!("{} % ({:.1} %)", cell.drop_percent, 100.0 * measured);
                table.add_row([vec![drop, link], numbers(delivery)].concat());
            }
            Err(e) => {
                table.add_row([
                    format!("{} %", cell.drop_percent),
                    link.clone(),
                    "could not run".to_owned(),
                ]);
                failures
                    .push_str(&format!("\n{link} at {} % could not run: {e}", cell.drop_percent));
            }
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}{failures}")
}

fn numbers(delivery: &Delivery) -> Vec<String> {
    let percentiles =
        [50.0, 90.0, 99.0, 100.0].map(|percent| latency(delivery.percentile(percent)));
    let mut numbers = vec![format!("{:.1} %", 100.0 * delivery.share())];
    numbers.extend(percentiles);
    numbers.push(milliseconds(delivery.longest_silence));
    numbers
}

/// A latency in milliseconds, or that the message never came.
pub(super) fn latency(latency: Option<Duration>) -> String {
    latency.map_or_else(|| "lost".to_owned(), milliseconds)
}

fn milliseconds(duration: Duration) -> String {
    let ms = duration.as_secs_f64() * 1e3;
    match ms {
        100.0.. => format!("{ms:.0}"),
        _ => format!("{ms:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_read_well_and_a_lost_one_says_so() {
        let ms = |value: f64| Some(Duration::from_secs_f64(value / 1e3));
        assert_eq!(latency(ms(1.26)), "1.3");
        assert_eq!(latency(ms(2003.4)), "2003");
        assert_eq!(latency(None), "lost");
    }
}
