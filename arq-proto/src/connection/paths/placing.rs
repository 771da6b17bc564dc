// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Paths are served in turn when something is to be sent: [`placement`](crate::connection::path::placement) says what may
//! leave on each.

use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::{PathState, SocketSet};
use crate::{
    connection::{
        draft::Draft,
        has_deadline,
        path::{
            placement::{beside_primary, Candidate, Offer},
            Path,
        },
        transmit::Transmit,
        Connection,
    },
    units::PathNumber,
};

type Candidates = SmallVec<[Candidate; PathNumber::COUNT]>;

/// All numbers, this one first.
fn beginning_with(first: PathNumber) -> impl Iterator<Item = PathNumber> {
    std::iter::once(first).chain(PathNumber::all().filter(move |number| *number != first))
}

impl Path {
    fn as_candidate(&mut self, now: Instant) -> Candidate {
        let packet_bytes = u64::from(self.mtu.size_in_use());
        let rate = self.recovery.carried_rate();
        let free_in = match self.recovery.window_allows(packet_bytes) {
            true => self.recovery.pacing_delay(now).map(|at| at.saturating_duration_since(now)),
            // An acknowledgement each packet, as a rule.
            false => Some(rate.time_for(packet_bytes)),
        };
        Candidate {
            number: self.number,
            is_backup: self.is_backup(),
            is_metered: self.meter.is_some(),
            is_silent: self.silence.is_silent(),
            is_restless: self.silence.is_restless(now) || self.is_half_open,
            is_known: self.silence.is_known(),
            one_way: self.recovery.rtt().smoothed() / 2,
            mean_wait: self.silence.mean_wait(now),
            rate,
            free_in: free_in.unwrap_or(Duration::ZERO),
            packet_bytes,
        }
    }
}

impl Connection {
    /// Datagrams of the first path that has some to send, through a socket that is not `blocked`.
    pub(in crate::connection) fn transmit_on_paths(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        max_segments: usize,
        blocked: SocketSet,
    ) -> Option<Transmit> {
        self.follow_meters(now);
        if self.others.is_empty() {
            self.path.offer.lanes = self.path.wanted_lanes();
            return self.transmit_on_path(now, out, max_segments);
        }
        let candidates = self.candidates(now, blocked);
        self.others.primary.choose(now, &candidates);
        let second = self.others.primary.second(&candidates);
        self.others.doubles.leave_on(second);
        for number in beginning_with(self.first_served(&candidates)) {
            let doubles = second.is_some() && (second == Some(number) || self.is_primary(number));
            let offer = Offer { doubles, ..self.offer(number, &candidates) };
            let transmit = self.with_path(number, |connection| {
                if blocked.contains(connection.path.socket) {
                    return None;
                }
                let lanes = offer.lanes & connection.path.wanted_lanes();
                connection.path.offer = Offer { lanes, ..offer };
                connection.transmit_on_path(now, out, max_segments)
            });
            if let Some(transmit) = transmit.flatten() {
                return Some(transmit);
            }
        }
        None
    }

    /// The paths on which messages may leave: those that answer, or all that are open if none does.
    fn candidates(&mut self, now: Instant, blocked: SocketSet) -> Candidates {
        let of = |path: &mut Path, state: PathState| {
            (path.state() == state && !blocked.contains(path.socket))
                .then(|| path.as_candidate(now))
        };
        let mut in_state = |state| -> Candidates {
            let paths = std::iter::once(self.path.as_mut()).chain(self.others.iter_mut());
            paths.filter_map(|path| of(path, state)).collect()
        };
        let open = in_state(PathState::Open);
        if open.is_empty() {
            in_state(PathState::Silent)
        } else {
            open
        }
    }

    /// The primary, as a rule. While none answers each has its turn: what one path lost leaves on the next.
    fn first_served(&mut self, candidates: &[Candidate]) -> PathNumber {
        let primary = self.others.primary.number();
        if candidates.iter().any(|path| !path.is_silent) {
            return primary;
        }
        if let Some(teller) = self.teller(candidates) {
            return teller;
        }
        if candidates.is_empty() {
            return primary;
        }
        self.others.turns = self.others.turns.wrapping_add(1);
        candidates[self.others.turns % candidates.len()].number
    }

    /// A path that has used up its budget and must say so itself: no other answers.
    fn teller(&self, candidates: &[Candidate]) -> Option<PathNumber> {
        let is_alone = candidates.iter().all(|path| path.is_silent);
        let path = self.all_paths().find(|path| path.has_used_up_wish()).filter(|_| is_alone)?;
        Some(path.number)
    }

    fn is_primary(&self, number: PathNumber) -> bool {
        self.others.primary.number() == number
    }

    fn offer(&self, number: PathNumber, candidates: &[Candidate]) -> Offer {
        let find = |number| candidates.iter().find(|path| path.number == number);
        let Some(path) = find(number) else {
            let control = self.teller(candidates) == Some(number);
            return Offer { control, ..Offer::NOTHING };
        };
        match find(self.others.primary.number()) {
            Some(primary) if primary.number != number && !path.is_silent => {
                let queued = |lane| self.outgoing.lanes[lane].to_send_bytes();
                beside_primary(path, primary, queued, |lane| has_deadline(&self.config, lane))
            }
            _ => Offer::ALL,
        }
    }

    /// What arrived on other paths is told here, too: their way back may be dead. `answers`: somebody waits for that.
    pub(in crate::connection) fn offer_path_acks(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        draft: &Draft,
        answers: bool,
    ) {
        for path in self.others.iter_mut() {
            if path.acks.has_news_elsewhere(now, answers) {
                path.acks.write_elsewhere(path.number, now, draft.room(out), out);
            }
        }
    }

    /// The end is told on the path in use, and answered on the one that it was told on.
    pub(in crate::connection) fn transmit_end(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        beginning_with(self.others.primary.number()).find_map(|number| {
            let close = |connection: &mut Self| {
                connection.if_granted(now, |connection| connection.transmit_close(now, out))
            };
            self.with_path(number, close).flatten()
        })
    }
}
