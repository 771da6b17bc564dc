// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is every number of a scenario file within its bounds?

use toml::{Table as TomlTable, Value as TomlValue};

use super::error::Problem;
use super::keys::{Table, Value};

/// Checks all numbers of a file that has been read, so that its keys are known.
pub(super) fn check(file: &TomlTable) -> Result<(), Problem> {
    check_in(Table::Scenario, file)
}

/// The same of a table of this kind.
pub(super) fn check_in(table: Table, content: &TomlTable) -> Result<(), Problem> {
    check_table(table, content, "")
}

fn check_table(table: Table, content: &TomlTable, path: &str) -> Result<(), Problem> {
    content.iter().try_for_each(|(name, given)| match table.value(name) {
        Some(value) => check_value(value, given, &format!("{path}{name}")),
        None => Ok(()),
    })
}

fn check_value(value: Value, given: &TomlValue, path: &str) -> Result<(), Problem> {
    match (value, given) {
        (_, TomlValue::Array(entries)) => entries
            .iter()
            .enumerate()
            .try_for_each(|(index, entry)| check_value(value, entry, &format!("{path}[{index}]"))),
        (Value::Nested(table), TomlValue::Table(content)) => {
            check_table(table, content, &format!("{path}."))
        }
        (Value::Number { unit, min, max }, given) => match number(given) {
            Some(number) if !(min..=max).contains(&number) => {
                let key = path.to_owned();
                Err(Problem::OutOfRange { key, value: number, min, max, unit })
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn number(value: &TomlValue) -> Option<f64> {
    match value {
        TomlValue::Integer(number) => Some(*number as f64),
        TomlValue::Float(number) => Some(*number),
        _ => None,
    }
}
