// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which emulator carries the packets? With `ARQ_BENCH_EMULATOR=netem` the kernel's, to check one against the other.

use netlab::wire::Conditions;
use netlab::{Emulator, EmulatorError, Network};

/// The environment variable that chooses.
const CHOICE: &str = "ARQ_BENCH_EMULATOR";

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub(super) enum NetworkError {
    #[error("{CHOICE}=`{0}` names no emulator: `own` (or unset) or `netem`")]
    NoSuchEmulator(String),
    #[error("{0}{hint}", hint = hint(.0))]
    Emulator(#[from] EmulatorError),
}

fn hint(error: &EmulatorError) -> &'static str {
    match error {
        EmulatorError::NoNetem(_) | EmulatorError::NotWithNetem(_) => {
            "\nUnset ARQ_BENCH_EMULATOR and the bench's own emulator does it."
        }
        _ => "",
    }
}

/// A network of two hosts, with the emulator that the user has chosen; the first has a second radio if it needs one.
pub(super) fn network(asked: &Conditions) -> Result<Network, NetworkError> {
    match (named(std::env::var(CHOICE).ok().as_deref())?, &asked.second) {
        (emulator, None) => Ok(Network::with(emulator, 2)?),
        (Emulator::Own, Some(_)) => Ok(Network::with_second_radios(2, 0..1)?),
        (Emulator::Netem, Some(_)) => Err(EmulatorError::NotWithNetem("second radio").into()),
    }
}

fn named(name: Option<&str>) -> Result<Emulator, NetworkError> {
    match name {
        None | Some("own") => Ok(Emulator::Own),
        Some("netem") => Ok(Emulator::Netem),
        Some(other) => Err(NetworkError::NoSuchEmulator(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_no_emulator_is_refused_with_those_that_there_are() {
        assert_eq!(named(None).ok(), Some(Emulator::Own));
        assert_eq!(named(Some("netem")).ok(), Some(Emulator::Netem));
        let error = named(Some("ns3")).unwrap_err().to_string();
        assert!(error.contains("ARQ_BENCH_EMULATOR=`ns3`") && error.contains("netem"), "{error}");
    }

    #[test]
    fn what_netem_lacks_tells_how_to_do_without_it() {
        let error = NetworkError::from(EmulatorError::NotWithNetem("MTU")).to_string();
        assert!(error.contains("no MTU") && error.contains("Unset ARQ_BENCH_EMULATOR"), "{error}");
    }
}
