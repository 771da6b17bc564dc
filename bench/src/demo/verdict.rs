// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Who won, and where does `arq/` lose?

use std::cmp::Reverse;
use std::time::Duration;

use super::delivery::Delivery;
use super::table::latency;
use super::Outcome;

/// Differences below this are the machine's, not the link's.
const NOISE: Duration = Duration::from_micros(200);
const NOISE_SHARE: f64 = 1.05;

/// One sentence per loss rate, then every figure in which ours is beaten.
pub(super) fn of(outcomes: &[Outcome]) -> String {
    let mut lines = Vec::new();
    for group in outcomes.chunk_by(|a, b| a.cell.drop_percent == b.cell.drop_percent) {
        let rivals: Vec<_> = group.iter().filter_map(Rival::of).collect();
        lines.extend(
            winner(&rivals).map(|words| format!("{} % drop: {words}", group[0].cell.drop_percent)),
        );
        for ours in rivals.iter().filter(|rival| rival.is_ours) {
            let losses =
                rivals.iter().filter(|rival| !rival.is_ours).flat_map(|other| ours.loses_to(other));
            lines.extend(losses.map(|words| format!("  {words}")));
        }
    }
    lines.push("One run of each: differences of a few per cent are noise.".to_owned());
    lines.join("\n")
}

struct Rival<'a> {
    name: String,
    is_ours: bool,
    delivery: &'a Delivery,
}

impl<'a> Rival<'a> {
    fn of(outcome: &'a Outcome) -> Option<Self> {
        let (_, delivery) = outcome.result.as_ref().ok()?;
        Some(Self {
            name: outcome.cell.link.to_string(),
            is_ours: outcome.cell.link.is_ours(),
            delivery,
        })
    }

    /// Smaller is better: first what was lost, then the tail, then the middle.
    fn rank(&self) -> (Reverse<u64>, Duration, Duration) {
        let [p99, p50] = [99.0, 50.0].map(|percent| or_forever(self.delivery.percentile(percent)));
        (Reverse(self.delivery.delivered()), p99, p50)
    }

    /// The figures in which the other one is clearly better.
    fn loses_to(&self, other: &Self) -> Vec<String> {
        let mut losses = Vec::new();
        let (ours, theirs) = (self.delivery, other.delivery);
        if theirs.delivered() > ours.delivered() {
            losses.push(format!(
                "{} loses to {}: {} against {} messages delivered",
                self.name,
                other.name,
                ours.delivered(),
                theirs.delivered()
            ));
        }
        for percent in [50.0, 99.0, 100.0] {
            let (our, their) = (ours.percentile(percent), theirs.percentile(percent));
            if is_later(or_forever(our), or_forever(their)) {
                let figure =
                    if percent == 100.0 { "max".to_owned() } else { format!("p{percent}") };
                losses.push(format!(
                    "{} loses to {}: {figure} {} against {} ms",
                    self.name,
                    other.name,
                    latency(our),
                    latency(their)
                ));
            }
        }
        losses
    }
}

fn winner(rivals: &[Rival<'_>]) -> Option<String> {
    let best = rivals.iter().min_by_key(|rival| rival.rank())?;
    let figures = |rival: &Rival<'_>| {
        let percent = 100.0 * rival.delivery.share();
        format!("{percent:.1} % delivered, p99 {} ms", latency(rival.delivery.percentile(99.0)))
            .replace("lost ms", "lost")
    };
    let others = rivals.iter().filter(|rival| rival.name != best.name);
    let others: Vec<_> =
        others.map(|rival| format!("{}: {}", rival.name, figures(rival))).collect();
    Some(format!("{} wins with {}. {}", best.name, figures(best), others.join("; ")))
}

fn is_later(ours: Duration, theirs: Duration) -> bool {
    theirs < Duration::MAX && ours > theirs.mul_f64(NOISE_SHARE) + NOISE
}

fn or_forever(latency: Option<Duration>) -> Duration {
    latency.unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::delivery::{Arrival, Offered};
    use crate::demo::Cell;
    use crate::measure::{MeasureError, Who};

    fn outcome(link: &str, drop_percent: f64, latencies_ms: &[u64]) -> Outcome {
        let arrivals: Vec<_> = latencies_ms
            .iter()
            .zip(0..)
            .map(|(latency, sequence)| Arrival {
                sequence,
                intended_ns: 0,
                arrived_ns: latency * 1_000_000,
            })
            .collect();
        let offered = Offered { messages: 4, first_ns: 0, last_ns: 0 };
        let cell = Cell { link: link.parse().expect("a link"), drop_percent };
        Outcome { cell, result: Ok((drop_percent / 100.0, Delivery::of(offered, &arrivals))) }
    }

    #[test]
    fn who_delivers_more_wins_then_who_is_earlier() {
        let words = of(&[
            outcome("udp", 10.0, &[1, 1]),
            outcome("tcp", 10.0, &[1, 1, 1, 900]),
            outcome("arq", 10.0, &[1, 2, 3, 4]),
        ]);
        assert!(
            words.starts_with("10 % drop: arq/ wins with 100.0 % delivered, p99 4.0 ms."),
            "{words}"
        );
        assert!(words.contains("udp/: 50.0 % delivered, p99 lost"), "{words}");
    }

    #[test]
    fn a_defeat_of_ours_is_told() {
        let words = of(&[outcome("tcp", 0.0, &[1, 1, 1, 1]), outcome("arq", 0.0, &[5, 5, 5])]);
        assert!(words.starts_with("0 % drop: tcp/ wins"), "{words}");
        assert!(words.contains("arq/ loses to tcp/: 3 against 4 messages delivered"), "{words}");
        assert!(words.contains("arq/ loses to tcp/: p50 5.0 against 1.0 ms"), "{words}");
        assert!(words.contains("arq/ loses to tcp/: max lost against 1.0 ms"), "{words}");
    }

    #[test]
    fn noise_is_no_defeat_and_a_failed_cell_no_rival() {
        let mut broken = outcome("udp", 0.0, &[]);
        broken.result =
            Err(MeasureError::Process(Who::Publisher, std::io::ErrorKind::NotFound.into()));
        let words = of(&[
            broken,
            outcome("tcp", 0.0, &[10, 10, 10, 10]),
            outcome("arq", 0.0, &[10, 10, 10, 10]),
        ]);
        assert!(!words.contains("loses") && !words.contains("udp"), "{words}");
    }
}
