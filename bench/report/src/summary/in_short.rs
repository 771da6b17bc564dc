// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Where does `arq/` lose, in few enough lines for a terminal?
//!
//! One line for each rival in a setting, with the figures that an application feels; the report has all of them.

use super::{defeats, Defeat, Figure, Loss, Summary};

/// The figures that are told here.
const TOLD: [Figure; 8] = [
    Figure::Share,
    Figure::P50,
    Figure::P99,
    Figure::Goodput,
    Figure::Duration,
    Figure::WireBytes,
    Figure::WirePackets,
    Figure::CpuPerGb,
];
/// Lines beyond these are left to the report.
const LINES: usize = 12;

/// A paragraph; says so when there is no defeat, and when there could be none.
pub fn in_short(summaries: &[Summary]) -> String {
    paragraph(&defeats(summaries), is_compared(summaries))
}

/// Whether a sound run of ours stands beside one of another link.
fn is_compared(summaries: &[Summary]) -> bool {
    let sound = || summaries.iter().filter(|summary| summary.repeats > 0);
    sound().filter(|summary| summary.is_ours()).any(|ours| {
        sound().any(|other| {
            !other.is_ours()
                && other.scenario == ours.scenario
                && other.cell.setting == ours.cell.setting
        })
    })
}

fn paragraph(defeats: &[Defeat], is_compared: bool) -> String {
    let told: Vec<_> = defeats.iter().filter(|defeat| words(defeat).is_some()).collect();
    let by_rival = told.chunk_by(|a, b| place(a) == place(b));
    let mut lines: Vec<_> = by_rival.map(line).collect();
    if lines.is_empty() {
        let found = match (defeats.len(), is_compared) {
            (0, true) => "nowhere by more than noise".to_owned(),
            (0, false) => {
                "not compared; no sound run of it stands beside another link's".to_owned()
            }
            (1, _) => "in none of these figures; 1 other is in the report".to_owned(),
            (others, _) => format!("in none of these figures; {others} others are in the report"),
        };
        return format!("Where arq/ loses: {found}.");
    }
    let more = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    if more > 0 {
        lines.push(format!("  and {more} more, in the report"));
    }
    if defeats.iter().any(is_unsure) {
        lines.push("  With so few repeats some of it may be chance.".to_owned());
    }
    format!("Where arq/ loses, ours against theirs:\n{}", lines.join("\n"))
}

fn place(defeat: &Defeat) -> (&[(String, String)], &str, &str) {
    (&defeat.setting, &defeat.ours, &defeat.rival)
}

fn line(group: &[&Defeat]) -> String {
    let first = group[0];
    let setting = first.setting.iter().map(|(axis, value)| format!("{axis} {value}, "));
    let setting: String = setting.collect();
    let words: Vec<_> = group.iter().filter_map(|defeat| words(defeat)).collect();
    format!("  {setting}{} to {}: {}", first.ours, first.rival, words.join("; "))
}

fn words(defeat: &Defeat) -> Option<String> {
    match &defeat.loss {
        Loss::CouldNotRun { .. } => Some("could not run".to_owned()),
        Loss::Figure { figure, flow, our, their, .. } => {
            TOLD.contains(figure).then_some(())?;
            let of = flow.as_ref().map(|flow| format!(" of {flow}")).unwrap_or_default();
            let (our, their) = (short(our.median()), short(their.median()));
            Some(
                format!("{}{of} {our} / {their} {}", figure.name(), figure.unit())
                    .trim()
                    .to_owned(),
            )
        }
    }
}

fn short(value: f64) -> String {
    match value {
        f64::INFINITY => "lost".to_owned(),
        100.0.. => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

fn is_unsure(defeat: &Defeat) -> bool {
    matches!(defeat.loss, Loss::Figure { p_value: None, .. })
}

#[cfg(test)]
mod tests {
    use crate::record::{Outcome, Record};
    use crate::summary::tests::{flat, run};
    use crate::summary::{of, Spread};

    use super::*;

    fn defeat(rival: &str, figure: Figure, ours: f64) -> Defeat {
        let spread = |value| Spread::of(vec![value]).unwrap();
        Defeat {
            scenario: "quick".to_owned(),
            setting: vec![("drop_percent".to_owned(), "5".to_owned())],
            ours: "arq".to_owned(),
            rival: rival.to_owned(),
            loss: Loss::Figure {
                figure,
                flow: None,
                our: spread(ours),
                their: spread(1.5),
                p_value: None,
                they_deliver_less: None,
            },
        }
    }

    #[test]
    fn one_line_for_each_rival_with_what_an_application_feels() {
        let defeats = [
            defeat("tcp-cubic", Figure::P50, 2.0),
            defeat("tcp-cubic", Figure::P99, f64::INFINITY),
            defeat("udp", Figure::P90, 3.0),
            defeat("tcp-bbr", Figure::WirePackets, 19.0),
        ];
        let text = paragraph(&defeats, true);
        let expected = "  drop_percent 5, arq to tcp-cubic: p50 2.00 / 1.50 ms; p99 lost / 1.50 ms";
        assert_eq!(text.lines().nth(1), Some(expected));
        let expected = "  drop_percent 5, arq to tcp-bbr: packets per message 19.00 / 1.50";
        assert_eq!(text.lines().nth(2), Some(expected));
        assert!(!text.contains("udp"), "{text}");
        assert!(text.ends_with("some of it may be chance."), "{text}");
    }

    #[test]
    fn no_defeat_is_said_and_many_are_cut() {
        assert!(paragraph(&[], true).contains("nowhere"));
        let many: Vec<_> =
            (0..20).map(|rival| defeat(&rival.to_string(), Figure::P50, 2.0)).collect();
        assert!(paragraph(&many, true).contains("and 8 more, in the report"));
    }

    #[test]
    fn a_defeat_that_is_not_told_here_is_not_nowhere() {
        let others = [Figure::P90, Figure::Max].map(|figure| defeat("udp", figure, 3.0));
        let said = |others: &[Defeat]| paragraph(others, true);
        assert!(said(&others).ends_with("none of these figures; 2 others are in the report."));
        assert!(said(&others[..1]).ends_with("none of these figures; 1 other is in the report."));
    }

    #[test]
    fn without_a_sound_run_on_both_sides_nothing_was_compared() {
        let said = |records: &[Record]| in_short(&of(records));
        let mut both = [run("arq", "0", 0, flat(1.0)), run("udp", "0", 0, flat(1.0))];
        assert!(said(&both).contains("nowhere"));
        assert!(said(&both[..1]).contains("not compared"));
        assert!(said(&both[1..]).contains("not compared"));
        assert!(said(&[both[0].clone(), run("udp", "5", 0, flat(1.0))]).contains("not compared"));
        if let Outcome::Measured(measurement) = &mut both[0].outcome {
            measurement.forward.emulator_overrun = 1;
        }
        assert!(said(&both).contains("not compared"));
    }
}
