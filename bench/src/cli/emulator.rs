// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which emulator carries the packets? With `ARQ_BENCH_EMULATOR=netem` the kernel's, to check one against the other.

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

/// A network of so many hosts, with the emulator that the user has chosen.
pub(super) fn network(hosts: u8) -> Result<Network, NetworkError> {
    let emulator = match std::env::var(CHOICE).as_deref() {
        Err(_) | Ok("own") => Emulator::Own,
        Ok("netem") => Emulator::Netem,
        Ok(other) => return Err(NetworkError::NoSuchEmulator(other.to_owned())),
    };
    Ok(Network::with(emulator, hosts)?)
}
