// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What do the two sides of a link agree on? zenoh runs a link as its trait describes it, on both
//! sides alike: so both must know before the link exists. Each puts one byte into the handshake,
//! and both compute the same answer from the two bytes.

use bytes::Bytes;

use crate::config::{LinkConfig, Wish};

/// Would carry best effort beside reliable messages.
const MIXED_RELIABILITY: u8 = 1;
/// Would give each priority an order of its own.
const PRIORITIES: u8 = 1 << 1;
/// Wants the link to repair nothing past its deadline.
const BEST_EFFORT: u8 = 1 << 2;

/// What holds for a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// What publishers send as best effort is carried as that.
    pub(crate) mixed_reliability: bool,
    /// Each priority has an order of its own.
    pub(crate) priorities: bool,
    /// The link repairs nothing past its deadline.
    pub(crate) best_effort: bool,
}

/// What this side puts into its handshake.
pub(crate) fn offer(config: &LinkConfig) -> Bytes {
    Bytes::copy_from_slice(&[flags(config)])
}

/// What holds after the peer has said `theirs`.
///
/// # Errors
/// Names what this side insists on and the peer does not allow.
pub(crate) fn agree(config: &LinkConfig, theirs: &[u8]) -> Result<Terms, String> {
    let (ours, theirs) = (flags(config), theirs.first().copied().unwrap_or_default());
    let best_effort = (ours | theirs) & BEST_EFFORT != 0;
    let both = ours & theirs;
    let terms = Terms {
        mixed_reliability: both & MIXED_RELIABILITY != 0 && !best_effort,
        // Best-effort lanes leave the control lane reliable: that is two lanes at least.
        priorities: both & PRIORITIES != 0 || best_effort,
        best_effort,
    };
    for (name, wish, granted) in [
        ("mixed_rel", config.mixed_reliability, terms.mixed_reliability),
        ("multistream", config.priorities, terms.priorities),
    ] {
        if wish == Wish::Insist && !granted {
            return Err(format!("`{name}=1` is not possible: the peer does not allow it"));
        }
    }
    Ok(terms)
}

fn flags(config: &LinkConfig) -> u8 {
    let mut flags = 0;
    if config.mixed_reliability != Wish::Off {
        flags |= MIXED_RELIABILITY;
    }
    if config.priorities != Wish::Off {
        flags |= PRIORITIES;
    }
    if config.best_effort {
        flags |= BEST_EFFORT;
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(locator: &str) -> LinkConfig {
        LinkConfig::parse(&locator.parse().unwrap()).unwrap()
    }

    fn agreed(a: &str, b: &str) -> Terms {
        let (a, b) = (config(a), config(b));
        let terms = agree(&a, &offer(&b)).unwrap();
        assert_eq!(agree(&b, &offer(&a)), Ok(terms), "both sides conclude the same");
        terms
    }

    #[test]
    fn extras_need_both_sides() {
        let plain = "arq/localhost:1";
        let terms = agreed(plain, plain);
        assert!(terms.mixed_reliability && terms.priorities && !terms.best_effort);
        assert!(!agreed(plain, "arq/localhost:1?mixed_rel=0").mixed_reliability);
        assert!(!agreed(plain, "arq/localhost:1?multistream=0").priorities);
    }

    #[test]
    fn on_a_best_effort_link_nothing_is_mixed() {
        let terms = agreed("arq/localhost:1", "arq/localhost:1?rel=0");
        assert!(terms.best_effort && !terms.mixed_reliability && terms.priorities);
    }

    #[test]
    fn insisting_fails_where_the_peer_does_not_allow_it() {
        let ours = config("arq/localhost:1?mixed_rel=1");
        let error = agree(&ours, &offer(&config("arq/localhost:1?mixed_rel=0"))).unwrap_err();
        assert!(error.contains("mixed_rel"), "{error}");
        assert!(agree(&ours, &offer(&config("arq/localhost:1"))).is_ok());
        // A peer that says nothing allows nothing.
        assert!(agree(&ours, &[]).is_err());
    }
}
