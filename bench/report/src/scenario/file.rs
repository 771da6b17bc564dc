// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is a scenario written down? The tables of its TOML file; [`keys`](super::keys) has their bounds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::flow::{Flow, FlowChange};
use super::network::NetworkTable;
use super::published::PublishedTable;
use super::sweep::Sweep;
use crate::opponent::Opponent;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    pub(super) title: String,
    pub(super) question: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) source: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
    pub(super) links: Vec<String>,
    #[serde(default = "five")]
    pub(super) repeats: u32,
    #[serde(default = "five_seconds")]
    pub(super) grace_s: f64,
    #[serde(default)]
    pub(super) network: NetworkTable,
    #[serde(rename = "flow", default)]
    pub(super) flows: Vec<Flow>,
    #[serde(default)]
    pub(super) sweep: Sweep,
    #[serde(rename = "case", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) cases: Vec<Case>,
    #[serde(rename = "goal", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) goals: Vec<Goal>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) published: Vec<PublishedTable>,
    #[serde(rename = "link", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) own_links: Vec<Opponent>,
}

const fn five() -> u32 {
    5
}

const fn five_seconds() -> f64 {
    5.0
}

/// A named setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    #[serde(default)]
    pub(super) network: NetworkTable,
    #[serde(default)]
    pub(super) flow: FlowChange,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) flows: Vec<String>,
}

/// A line that the report draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// Of which flow.
    pub flow: String,
    /// This share of the offered messages, per cent,
    pub percent: Option<f64>,
    /// comes within so many milliseconds.
    pub within_ms: Option<f64>,
    /// Or: no silence is longer, milliseconds.
    pub longest_silence_ms: Option<f64>,
}

/// The value of an axis or the name of a case, as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Value {
    Number(f64),
    Text(String),
}

impl Value {
    /// As a cell's setting has it: no fraction where there is none, no exponent.
    pub(super) fn written(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// Axes and their values.
pub(super) type SettingTable = BTreeMap<String, Value>;
