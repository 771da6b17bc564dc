// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Where does `arq/` lose, in few enough lines for a terminal?
//!
//! One line for each rival in a setting, with the figures that an application feels; the report has all of them.

use crate::summary::{Defeat, Figure, Loss};

/// The figures that are told here.
const TOLD: [Figure; 7] = [
    Figure::Share,
    Figure::P50,
    Figure::P99,
    Figure::Goodput,
    Figure::Duration,
    Figure::WireBytes,
    Figure::CpuPerGb,
];
/// Lines beyond these are left to the report.
const LINES: usize = 12;

/// A paragraph; says so when there is no defeat.
pub(super) fn in_short(defeats: &[Defeat]) -> String {
    let told: Vec<_> = defeats.iter().filter(|defeat| words(defeat).is_some()).collect();
    let by_rival = told.chunk_by(|a, b| place(a) == place(b));
    let mut lines: Vec<_> = by_rival.map(line).collect();
    if lines.is_empty() {
        return "Where arq/ loses: nowhere by more than noise.".to_owned();
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
    use crate::summary::Spread;

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
        let text = in_short(&[
            defeat("tcp-cubic", Figure::P50, 2.0),
            defeat("tcp-cubic", Figure::P99, f64::INFINITY),
            defeat("udp", Figure::P90, 3.0),
        ]);
        let expected = "  drop_percent 5, arq to tcp-cubic: p50 2.00 / 1.50 ms; p99 lost / 1.50 ms";
        assert_eq!(text.lines().nth(1), Some(expected));
        assert!(!text.contains("udp"), "{text}");
        assert!(text.ends_with("some of it may be chance."), "{text}");
    }

    #[test]
    fn no_defeat_is_said_and_many_are_cut() {
        assert!(in_short(&[]).contains("nowhere"));
        let many: Vec<_> =
            (0..20).map(|rival| defeat(&rival.to_string(), Figure::P50, 2.0)).collect();
        assert!(in_short(&many).contains("and 8 more, in the report"));
    }
}
