// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does selective acknowledgement spare retransmissions, as its published experiment counted them?

use std::fmt;

use super::significance::{welch, Welch};
use super::{setting_in_words, spread::written, Figure, Summary};

/// One latency of the experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The values of the axes.
    pub setting: Vec<(String, String)>,
    /// Mean of the segments that TCP sent again with selective acknowledgement, over the repeats.
    pub with_sack: Option<f64>,
    /// The same without.
    pub without_sack: Option<f64>,
    /// Whether the two differ, by the test that the experiment's report used.
    pub test: Option<Welch>,
    /// Mean of the packets that `arq/` sent again.
    pub arq: Option<f64>,
}

const WITH: &str = "tcp-cubic";
const WITHOUT: &str = "tcp-cubic-nosack";
const OURS: &str = "arq";

/// A row for each setting of the scenario `sack`, in the order of the summaries.
pub fn rows(summaries: &[Summary]) -> Vec<Row> {
    let row = |group: &[Summary]| {
        let counts = |link: &str| {
            let cell = group.iter().find(|summary| summary.cell.link == link)?;
            Some(cell.figures.get(&Figure::Retransmissions)?.values())
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Row {
            setting: group[0].cell.setting.clone(),
            with_sack: counts(WITH).map(mean),
            without_sack: counts(WITHOUT).map(mean),
            test: counts(WITH)
                .zip(counts(WITHOUT))
                .and_then(|(with, without)| welch(with, without)),
            arq: counts(OURS).map(mean),
        }
    };
    summaries.chunk_by(|a, b| a.cell.setting == b.cell.setting).map(row).collect()
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: Option<f64>| count.map_or_else(|| "not measured".to_owned(), written);
        write!(
            f,
            "{}: {} segments again with SACK, {} without",
            setting_in_words(&self.setting),
            count(self.with_sack),
            count(self.without_sack)
        )?;
        match self.test {
            Some(Welch { t, degrees, p_value }) => {
                write!(
                    f,
                    " (Welch's t = {t:.2}, {degrees:.1} degrees of freedom, p = {p_value:.3})"
                )?;
            }
            None => write!(f, " (too few repeats to test)")?,
        }
        write!(f, "; arq {} packets", count(self.arq))
    }
}
