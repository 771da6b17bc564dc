// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Recorded radios: which ones are there, and how are they read?
//!
//! Those with a permissive licence lie in `recordings/` beside this crate, compressed, each folder with its notice. The
//! others are read from the folder that the environment variable [`FOLDER_VARIABLE`] names.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use flate2::read::GzDecoder;
use thiserror::Error;

use rand::Rng;
use rand_chacha::{rand_core::SeedableRng, ChaCha8Rng};

use crate::{wire::Recording, DelayTrace, Opportunities, RateTrace};

/// The environment variable that names the folder of recordings that are not part of the project.
pub const FOLDER_VARIABLE: &str = "ARQ_TRACES";

/// No recording here is longer.
const MOST_BYTES: u64 = 64 << 20;

/// A recording cannot be used.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// It cannot be read.
    #[error("{}: {error}", .path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is not part of the project, and nobody says where it is.
    #[error(
        "{name} is not part of the project: set {FOLDER_VARIABLE} to the folder of the recordings"
    )]
    Elsewhere {
        /// Its name.
        name: String,
    },
    /// A line is no number of the kind that is expected there.
    #[error("line {line}: {text:?} is no number")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What it says.
        text: String,
    },
    /// The numbers make no recording.
    #[error("no recording: {0}")]
    Invalid(&'static str),
}

/// The text of the recording `name`, such as `nyc-lte/taxi.down`: the project's own, or one of the folder that
/// [`FOLDER_VARIABLE`] names.
pub fn text(name: &str) -> Result<String, RecordingError> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings").join(format!("{name}.gz"));
    if own.is_file() {
        return read(&own, GzDecoder::new);
    }
    match std::env::var_os(FOLDER_VARIABLE) {
        Some(folder) => read(&Path::new(&folder).join(name), |file| file),
        None => Err(RecordingError::Elsewhere { name: name.to_owned() }),
    }
}

/// A recorded radio from its beginning on.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// When it delivers.
    pub opportunities: Opportunities,
    /// What it delays beside that.
    pub delays: Option<DelayTrace>,
}

/// Reads what is asked for; `seed` decides where it begins if nothing else does.
pub fn load(asked: &Recording, seed: u64) -> Result<Recorded, RecordingError> {
    let all = opportunities(&text(&asked.name)?)?;
    let anywhere = || ChaCha8Rng::seed_from_u64(seed).gen::<f64>() * all.period().as_secs_f64();
    let start = Duration::from_secs_f64(asked.start_s.unwrap_or_else(anywhere));
    let step = Duration::from_millis(10);
    let of_file = |name: &String| delays(&text(name)?, step, start);
    let delays = asked.delays.as_ref().map(of_file).transpose()?;
    Ok(Recorded { opportunities: all.starting_at(start.as_millis() as u64), delays })
}

fn read<R: Read>(path: &Path, open: impl Fn(fs::File) -> R) -> Result<String, RecordingError> {
    let unreadable = |error| RecordingError::Unreadable { path: path.to_owned(), error };
    let mut text = String::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    open(file).take(MOST_BYTES).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// Delivery opportunities in Mahimahi's format: a millisecond a line, not falling.
pub fn opportunities(text: &str) -> Result<Opportunities, RecordingError> {
    let ms = numbers::<u32>(text.lines().enumerate())?;
    let invalid = RecordingError::Invalid("milliseconds must not fall and the last be above 0");
    Opportunities::new(ms, 0).ok_or(invalid)
}

/// A delay in milliseconds for each `step`, one a line.
pub fn delays(text: &str, step: Duration, offset: Duration) -> Result<DelayTrace, RecordingError> {
    let ms = numbers::<u32>(text.lines().enumerate())?;
    let delays: Vec<_> = ms.into_iter().map(|ms| Duration::from_millis(ms.into())).collect();
    DelayTrace::new(step, delays, offset).ok_or(RecordingError::Invalid("it is empty"))
}

/// The column `name`, in kb/s, of a table of commas with a head line, as a rate for each second; of the rows in which
/// the column `only` is 1.
pub fn rates(
    text: &str,
    name: &str,
    only: &str,
    offset: Duration,
) -> Result<RateTrace, RecordingError> {
    let mut lines = text.lines().enumerate();
    let (_, head) = lines.next().unwrap_or_default();
    let column = |wanted: &str| head.split(',').position(|title| title == wanted);
    let missing = RecordingError::Invalid("no such column");
    let (value, chosen) = column(name).zip(column(only)).ok_or(missing)?;
    let field = |line: &'_ str, index: usize| line.split(',').nth(index).unwrap_or("").to_owned();
    let rows: Vec<_> = lines
        .filter(|(_, line)| field(line, chosen) == "1")
        .map(|(number, line)| (number, field(line, value)))
        .collect();
    let kbps = numbers::<f64>(rows.iter().map(|(number, field)| (*number, field.as_str())))?;
    let bps: Vec<_> = kbps.into_iter().map(|kbps| kbps * 1e3).collect();
    let invalid = RecordingError::Invalid("nothing passes");
    RateTrace::new(Duration::from_secs(1), bps, offset).ok_or(invalid)
}

/// Messages with their round trip (`t_ms`, `rtt_ms` first in each line of a table): the delay of one direction, half of
/// it, for each `step`. Between two messages that of the earlier one holds.
pub fn half_round_trips(text: &str, step: Duration) -> Result<DelayTrace, RecordingError> {
    let column = |index| {
        let rows = text.lines().enumerate().skip(1);
        numbers::<f64>(rows.map(move |(n, line)| (n, line.split(',').nth(index).unwrap_or(""))))
    };
    let (times, round_trips) = (column(0)?, column(1)?);
    let last = times.last().copied().unwrap_or_default();
    let step_ms = step.as_secs_f64() * 1e3;
    let mut delays = Vec::new();
    let mut next = 0;
    while delays.len() as f64 * step_ms <= last && !round_trips.is_empty() {
        let now = delays.len() as f64 * step_ms;
        while next + 1 < times.len() && times[next + 1] <= now {
            next += 1;
        }
        delays.push(Duration::from_secs_f64(round_trips[next].max(0.0) / 2e3));
    }
    DelayTrace::new(step, delays, Duration::ZERO).ok_or(RecordingError::Invalid("it is empty"))
}

fn numbers<'a, N: std::str::FromStr>(
    fields: impl Iterator<Item = (usize, &'a str)>,
) -> Result<Vec<N>, RecordingError> {
    let number = |(line, text): (usize, &str)| {
        let wrong = || RecordingError::Line { line: line + 1, text: text.to_owned() };
        text.trim().parse().map_err(|_| wrong())
    };
    fields.map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_projects_own_recordings_have_the_rates_that_their_readmes_say() {
        for (name, seconds, mbps) in [
            ("nyc-lte/taxi.down", 105_u32, 9.6),
            ("nyc-lte/bus.down", 315, 8.1),
            ("nyc-lte/walking.down", 128, 4.0),
            ("starlink-leocc/link.mm", 120, 48.8),
        ] {
            let trace = opportunities(&text(name).unwrap()).unwrap();
            assert_eq!(trace.period().as_secs_f64().round(), f64::from(seconds), "{name}");
            let period = trace.period();
            let bytes = Rate::Opportunities(trace).capacity_bytes(period, 2 * period);
            let found = bytes * 8.0 / period.as_secs_f64() / 1e6;
            assert!((found / mbps - 1.0).abs() < 0.01, "{name}: {found} Mb/s");
        }
        let delay = text("starlink-leocc/delay_ms_per_10ms.txt").unwrap();
        let delay = delays(&delay, SECOND / 100, Duration::ZERO).unwrap();
        assert_eq!(delay.at(3 * SECOND / 100), 16 * SECOND / 1_000);
    }

    #[test]
    fn a_recording_begins_where_it_is_told_or_where_the_seed_says() {
        let starlink = Recording {
            name: "starlink-leocc/link.mm".to_owned(),
            delays: Some("starlink-leocc/delay_ms_per_10ms.txt".to_owned()),
            start_s: Some(0.03),
        };
        let told = load(&starlink, 1).unwrap();
        assert_eq!(told.delays.unwrap().at(Duration::ZERO), 16 * SECOND / 1_000);
        let anywhere = Recording { start_s: None, ..starlink.clone() };
        assert_eq!(load(&anywhere, 1).unwrap(), load(&anywhere, 1).unwrap());
        assert_ne!(load(&anywhere, 1).unwrap(), load(&anywhere, 2).unwrap());
        let nowhere = Recording { name: "nowhere/taxi".to_owned(), ..starlink };
        assert!(load(&nowhere, 1).unwrap_err().to_string().contains("nowhere/taxi"));
    }

    #[test]
    fn wifi_and_5g_recordings_are_read() {
        let wifi = text("feup-wifi/links_per_second.csv").unwrap();
        let rate = rates(&wifi, "ap1_kbps", "ap1_on", Duration::ZERO).unwrap();
        let second = Rate::Trace(rate).capacity_bytes(SECOND, 2 * SECOND);
        assert_eq!(second, 23_727_000.0 / 8.0);
        let car = text("cicv5g/urban-n78-30kmh-27hz.csv").unwrap();
        let delay = half_round_trips(&car, SECOND / 1_000).unwrap();
        assert_eq!(delay.at(35 * SECOND / 1_000), 12_500 * SECOND / 1_000_000);
        assert_eq!(delay.at(36 * SECOND / 1_000), 7 * SECOND / 1_000);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let said = |error: RecordingError| error.to_string();
        assert_eq!(said(opportunities("1\nx\n").unwrap_err()), "line 2: \"x\" is no number");
        assert!(said(opportunities("2\n1\n").unwrap_err()).contains("must not fall"));
        assert!(said(rates("a,b\n1,2\n", "c", "b", SECOND).unwrap_err()).contains("column"));
    }
}
