// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What varies between the settings of a scenario, and how is it called?

use super::units::{digits, Unit};
use crate::record::Record;

/// A key of the settings that has more than one value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// As the scenario writes it.
    pub(crate) key: String,
    /// Its values: ascending if they are numbers, else as they first came.
    pub(crate) values: Vec<String>,
    /// Whether all values are numbers.
    pub(crate) numeric: bool,
}

impl Axis {
    /// All of them, in the order of the scenario's keys.
    pub(crate) fn of(records: &[Record]) -> Vec<Self> {
        let mut axes: Vec<Self> = Vec::new();
        for (key, value) in records.iter().flat_map(|record| &record.cell.setting) {
            let at = axes.iter().position(|axis| axis.key == *key).unwrap_or_else(|| {
                axes.push(Self { key: key.clone(), values: Vec::new(), numeric: true });
                axes.len() - 1
            });
            if !axes[at].values.contains(value) {
                axes[at].values.push(value.clone());
            }
        }
        axes.retain(|axis| axis.values.len() > 1);
        for axis in &mut axes {
            axis.numeric = axis.values.iter().all(|value| number(value).is_some());
            if axis.numeric {
                axis.values
                    .sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
            }
        }
        axes
    }

    /// This axis' value in a setting.
    pub(crate) fn value<'s>(&self, setting: &'s [(String, String)]) -> Option<&'s str> {
        setting.iter().find(|(key, _)| *key == self.key).map(|(_, value)| value.as_str())
    }

    /// The value as a number.
    pub(crate) fn number(&self, setting: &[(String, String)]) -> Option<f64> {
        number(self.value(setting)?)
    }

    /// The value's place among all.
    pub(crate) fn rank(&self, setting: &[(String, String)]) -> Option<usize> {
        let value = self.value(setting)?;
        self.values.iter().position(|known| known == value)
    }

    /// Whether it says how much is lost.
    pub(crate) fn is_loss(&self) -> bool {
        self.numeric && (self.key.contains("drop") || self.key.contains("loss"))
    }

    /// Its numbers' unit.
    pub(crate) fn unit(&self) -> Unit {
        unit_of(&self.key)
    }

    /// In words.
    pub(crate) fn title(&self) -> String {
        match self.key.as_str() {
            "drop_percent" | "loss_percent" => "packets lost".to_owned(),
            "payload_bytes" => "payload".to_owned(),
            "delay_ms" => "one-way delay".to_owned(),
            "jitter_ms" => "jitter".to_owned(),
            "rate_mbps" => "rate of the bottleneck".to_owned(),
            "rate_hz" => "messages per second".to_owned(),
            "bit_error_rate" => "bit error rate".to_owned(),
            key => key.replace('_', " "),
        }
    }

    /// For an axis of a figure, with the unit where the ticks do not carry it.
    pub(crate) fn label(&self) -> String {
        match self.unit() {
            Unit::MegabitsPerSecond => format!("{}, Mb/s", self.title()),
            Unit::Seconds => format!("{}, s", self.title()),
            _ => self.title(),
        }
    }

    /// The value in a setting, so that it can be read without the key.
    pub(crate) fn describe(&self, setting: &[(String, String)]) -> Option<String> {
        Some(described(&self.key, self.value(setting)?))
    }
}

/// Keys end in their unit.
pub(crate) fn unit_of(key: &str) -> Unit {
    let endings = [
        ("_percent", Unit::Percent),
        ("_bytes", Unit::Bytes),
        ("_ms", Unit::Milliseconds),
        ("_s", Unit::Seconds),
        ("_mbps", Unit::MegabitsPerSecond),
    ];
    endings
        .into_iter()
        .find(|(ending, _)| key.ends_with(ending))
        .map_or(Unit::Number, |(_, unit)| unit)
}

/// A value of this key, so that it can be read without the key.
pub(crate) fn described(key: &str, value: &str) -> String {
    let Some(number) = number(value) else { return value.to_owned() };
    match key {
        "drop_percent" | "loss_percent" => format!("{value} % lost"),
        "payload_bytes" => unit_of(key).write(number),
        "delay_ms" => format!("{value} ms one way"),
        "jitter_ms" => format!("± {value} ms"),
        "rate_mbps" => format!("{value} Mb/s"),
        "rate_hz" => format!("{} messages/s", digits(number)),
        _ => format!("{} {value}", key.replace('_', " ")),
    }
}

fn number(value: &str) -> Option<f64> {
    value.parse().ok().filter(|number: &f64| number.is_finite())
}
