// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which figures has the source of an experiment published, to be shown beside ours?

use serde::{Deserialize, Serialize};

use super::file::SettingTable;

/// One row of the source.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Which cells it belongs to: those whose setting has all of these.
    pub setting: Vec<(String, String)>,
    /// Whose figures: the source's words.
    pub link: String,
    /// What the source says in words; may be empty.
    pub note: String,
    /// What was published, by the key of the file, such as `mean_ms`.
    pub figures: Vec<(&'static str, Figure)>,
}

/// A published figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Figure {
    /// As it stands there.
    Exact(f64),
    /// From, to.
    Range(f64, f64),
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(value) => write!(f, "{value}"),
            Self::Range(from, to) => write!(f, "{from} to {to}"),
        }
    }
}

/// The row as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedTable {
    #[serde(default)]
    pub(super) setting: SettingTable,
    link: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    note: String,
    mean_ms: Option<Figure>,
    median_ms: Option<Figure>,
    stdev_ms: Option<Figure>,
    min_ms: Option<Figure>,
    max_ms: Option<Figure>,
    p99_gap_ms: Option<Figure>,
    lost_percent: Option<Figure>,
    duration_s: Option<Figure>,
    retransmissions: Option<Figure>,
}

impl From<&PublishedTable> for Published {
    fn from(table: &PublishedTable) -> Self {
        let figures = [
            ("mean_ms", table.mean_ms),
            ("median_ms", table.median_ms),
            ("stdev_ms", table.stdev_ms),
            ("min_ms", table.min_ms),
            ("max_ms", table.max_ms),
            ("p99_gap_ms", table.p99_gap_ms),
            ("lost_percent", table.lost_percent),
            ("duration_s", table.duration_s),
            ("retransmissions", table.retransmissions),
        ];
        let setting = table.setting.iter();
        Self {
            setting: setting.map(|(axis, value)| (axis.clone(), value.written())).collect(),
            link: table.link.clone(),
            note: table.note.clone(),
            figures: figures.into_iter().filter_map(|(key, figure)| Some((key, figure?))).collect(),
        }
    }
}
