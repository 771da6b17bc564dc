// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Do long packets vanish on a path, while short ones arrive?
//!
//! Such a path answers, so it is not silent. To be sure that its MTU has fallen takes several round trips (ARQ-MTU-6). In
//! each of them a repair is lost that is as long as what it repairs. If the losses were chance, a shorter repair costs only
//! a few bytes.
//!
//! Requirement, numbered as in `docs/protocol.md` §11.3:
//!
//! - **ARQ-MP-13** On several paths: if so many packets above *base* are lost in a row that chance explains it in less than
//!   2 % of the cases (ARQ-LOS-3), what is lost leaves again in packets of up to *base*. If packets between 576 bytes
//!   and *base* are lost so, it leaves in packets of up to 576 bytes. Messages begin in packets as long as before: their fate
//!   decides about the path MTU. No packet with such a repair is filled up (ARQ-MTU-9).

use crate::connection::Connection;

/// The accepted chance that random loss alone looks like this.
const FALSE_ALARM: f64 = 0.02;

/// Whether so many losses in a row are no chance, where that share is lost.
fn is_beyond_chance(lost: usize, loss: f64) -> bool {
    // More than 64 are as sure.
    lost > 0 && loss.powi(lost.min(64) as i32) < FALSE_ALARM
}

impl Connection {
    /// Something became known of packets on the path that is served; `loses`: some are lost. Do long ones vanish there?
    pub(in crate::connection) fn doubt_long_packets(&mut self, loses: bool) {
        if self.others.is_empty() || !loses && self.path.doubtful_above.is_none() {
            return;
        }
        // The textbook schemes repeat packets as they were.
        let adapts = self.outgoing.peer_takes_repair && self.config.window_packets.is_none();
        let recovery = &self.path.recovery;
        let loss = recovery.loss().upper().as_f64();
        let vanish = |above, up_to| is_beyond_chance(recovery.lost_in_a_row(above, up_to), loss);
        let [least, base] = self.path.mtu.sure_sizes();
        self.path.doubtful_above = if !adapts {
            None
        } else if vanish(least, base) {
            Some(least)
        } else {
            vanish(base, u16::MAX).then_some(base)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARQ-MP-13
    #[test]
    fn the_more_a_path_loses_the_more_losses_in_a_row_are_chance() {
        let enough = |loss| (0..20).find(|lost| is_beyond_chance(*lost, loss)).unwrap();
        assert_eq!([0.0, 0.01, 0.05, 0.2, 0.5].map(enough), [1, 1, 2, 3, 6]);
    }
}
