// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Every number of the controller, in four parts: what was tuned (29 constants), what follows from it, what others have
//! fixed, and what bounds memory.
//!
//! Each tuned constant tells its unit, its source, the figures that need it and the tests about it. The *figures* are
//! those of `arq-sim/score-tolerant.csv`, some 800: so many are worse without the rule of the constant by more than
//! three standard errors and 3 %. Up to two are chance, and not told. A value "by trial" was found with that table and
//! these tests. BBR is draft-ietf-ccwg-bbr.

use std::time::Duration;

// What was tuned: time.

/// Shorter round trips count as this, where they would make the least rate or the time between probes useless. A sender
/// of less sees so few rounds that nothing shows any more that there is room.
///
/// Unit: time. Source: RFC 8085 §3.1.2 allows a packet per round trip; the value by trial. Needed by: 3 figures through
/// [`MIN_CRUISE`]. Tests: `a_slow_line_is_not_asked`, `a_path_below_base_delivers_in_small_packets`.
pub(super) const SHORT_RTT: Duration = Duration::from_millis(20);

/// Hosts under load answer so much later than a loopback or a wire. A wait of this length tells nothing of the path,
/// what leaves within it has left at once, and the window holds what arrives in it.
///
/// Unit: time. Source: by trial. Tests: `what_was_paced_says_nothing_about_bursts`,
/// `a_sender_whose_host_wakes_it_late_uses_nearly_as_much`.
pub(super) const HOST_DELAY: Duration = Duration::from_millis(1);

/// Half the product is in flight for so long, to see the least round trip.
///
/// Unit: time. Source: BBR has 200 ms; the value by trial. Needed by: 8 figures. Tests:
/// `to_see_the_least_round_trip_anew_costs_no_rate`.
pub(super) const PROBE_RTT: Duration = Duration::from_millis(100);

/// The estimate of an idle connection halves per such interval.
///
/// Unit: time. Source: after draft-ietf-tsvwg-careful-resume; the value by trial. Tests:
/// `the_estimate_outlives_half_a_minute_and_then_halves`.
pub(super) const HALVED_PER: Duration = Duration::from_secs(10);

// What was tuned: rounds.

/// From one probe to the next, in the mean. What hinders probes lasts as long, or three times as long.
///
/// Unit: rounds. Source: the cycle of BBRv1. Needed by: 7 figures (no probe after a reduction).
pub(super) const CYCLE_ROUNDS: u64 = 8;

/// Chance makes a cycle so much shorter or longer: flows that probe in step never learn of each other.
///
/// Unit: rounds. Source: by trial. Needed by: 7 figures, 13 figures through [`DRAIN_ROUNDS`]. Tests:
/// `flows_do_not_probe_in_step_nor_on_short_paths_each_few_milliseconds`.
pub(super) const CYCLE_SPREAD: u64 = 2;

/// What was sent before a change comes back for so long: for a round trip, which two rounds share.
///
/// Unit: rounds. Source: follows from what a round is. Needed by: 12 figures. Tests:
/// `a_leap_takes_two_reductions_and_a_queue_that_has_grown_seven`.
pub(super) const ECHO_ROUNDS: u64 = 2;

/// What may be chance must be seen so often.
///
/// Unit: times in a row. Source: the least number above one. Needed by: 8 figures (probes). Tests:
/// `all_streams_of_a_vehicle_that_leaves_its_cable_go_on` (leaps).
pub(super) const TWICE: u8 = 2;

/// Loss that is ours though no queue shows leads to so many reductions. Then it must be seen again: a mistake costs no
/// more.
///
/// Unit: reductions. Source: by trial. Needed by: 8 figures. Tests:
/// `what_several_flows_lose_together_is_not_the_mediums`.
pub(super) const MAX_REDUCTIONS: u8 = 6;

/// A queue stands where more rounds than this have one for each round that has none.
///
/// Unit: a ratio of rounds. Source: by trial. Tests:
/// `reductions_that_do_not_help_are_unfounded_unless_the_queue_stands`.
pub(super) const MAX_QUEUED_PER_CLEAR: u64 = 3;

// What was tuned: packets.

/// The first window.
///
/// Unit: packets. Source: RFC 6928 has 10; the value by trial. Tests: `arq-sim/snapshots/cold.md`.
pub(super) const INITIAL_PACKETS: u64 = 32;

/// Fewer are no round and no burst: the pacer itself lets out more at once, and on a thin path a round is several round
/// trips.
///
/// Unit: packets. Source: by trial. Tests: `start_up_on_a_thin_path_keeps_to_what_was_measured`.
pub(super) const LEAST_PACKETS: u64 = 8;

/// Fewer show no share of loss that could be compared with another.
///
/// Unit: packets. Source: rule of thumb of the normal approximation. Needed by: 5 figures (loss beyond any medium's
/// ends start-up). Tests: `loss_that_grows_with_the_rate_is_ours`.
pub(super) const JUDGED_PACKETS: u64 = 30;

/// Fewer lost in a round are chance, whatever their share.
///
/// Unit: packets. Source: by trial. Tests: `the_base_is_the_median_without_queue_and_more_is_excessive`.
pub(super) const MIN_EXCESS_PACKETS: u64 = 3;

/// From so many a share is computed. The standard error of 5 % is then about [`TOLERANCE`].
///
/// Unit: packets. Source: that error. Needed by: 20 figures (loss of the medium counts as carried).
pub(super) const SHARE_PACKETS: f64 = 100.0;

/// The median of so many is what the medium loses.
///
/// Unit: shares. Source: by trial. Needed by: 20 figures as [`SHARE_PACKETS`].
pub(super) const SHARES: usize = 8;

/// Where more are lost in a row, in the mean, they are lost in fades, which come and go whatever is sent.
///
/// Unit: packets. Source: by trial. Tests: `fades_are_not_taken_for_our_own_doing`.
pub(super) const MAX_RUN: f64 = 4.0;

// What was tuned: shares.

/// Loss by congestion leaves so much of the rate.
///
/// Unit: a share. Source: BBR and CUBIC have 0.7, for loss that is surely congestion; the value by trial. Tests:
/// `marks_end_start_up_and_cost_a_seventh_a_round_trip_without_any_queue_in_sight`, `tests/congestion/sharing.rs`.
pub(super) const BACK_OFF: f64 = 0.85;

/// Cruising beside a queue, which may be our own, sends so much of the estimate: it shrinks by a product in fifteen
/// rounds.
///
/// Unit: a share. Source: by trial. Needed by: 32 figures.
pub(super) const QUEUED_GAIN: f64 = 0.93;

/// The window beside a queue grows to so many times what was in flight.
///
/// Unit: a fraction. Source: by trial. Needed by: 3 figures. Tests: `steps_of_the_round_trip_are_followed`.
pub(super) const WINDOW_STEP: (u64, u64) = (3, 2);

/// From this share of a configured limit on there is nothing to look for.
///
/// Unit: a share. Source: by trial. Tests: `max_rate_is_kept_to_two_percent_by_every_controller`.
pub(super) const AT_LIMIT: f64 = 0.95;

/// Two round trips, or two rates, are the same if they differ by less than one part of so many.
///
/// Unit: parts. Source: by trial. Needed by: 9 figures (a slower path is told from a longer one). Tests:
/// `more_in_flight_tells_a_slower_path_from_a_longer_one`.
pub(super) const SAME_WITHIN: u32 = 10;

/// A round trip confirms the least one if it exceeds it by less than one part of so many.
///
/// Unit: parts. Source: by trial. Needed by: 8 figures (the least round trip is measured). Tests:
/// `the_least_round_trip_is_doubted_after_five_seconds`.
pub(super) const CONFIRMED_WITHIN: u32 = 50;

/// More loss is excused by nothing.
///
/// Unit: a share. Source: by trial. Tests: `a_radio_that_loses_nearly_half_is_not_given_up`,
/// `a_policer_far_below_what_is_offered_is_not_fed`.
pub(super) const MAX_BASE: f64 = 0.35;

/// More loss is not the medium's only because reductions did not lessen it.
///
/// Unit: a share. Source: by trial. Tests: `reductions_that_do_not_help_are_unfounded_unless_the_queue_stands`.
pub(super) const MAX_SHARE: f64 = 0.3;

// What was tuned: doubt.

/// A probe that loses so much more than holding back may do so by chance, and must be seen [`TWICE`].
///
/// Unit: standard errors, 7 % by chance. Source: by trial. Needed by: 20 figures (probes are compared with holding
/// back).
pub(super) const LIKELY: f64 = 1.5;

/// Within so many a difference is chance.
///
/// Unit: standard errors, 2 % by chance. Source: statistics. Tests:
/// `with_a_queue_less_loss_disproves_the_base_and_more_says_nothing`.
pub(super) const CHANCE: f64 = 2.0;

/// Beyond so many one observation is enough.
///
/// Unit: standard errors, 0.1 % by chance. Source: statistics. Needed by: 18 figures (start-up ends by loss). Tests:
/// `start_up_ends_by_loss_only_where_rounds_without_a_queue_have_surely_lost_less`.
pub(super) const CERTAIN: f64 = 3.0;

/// Where less is lost, a share is as uncertain as where this is: a single loss is no proof.
///
/// Unit: a share. Source: by trial. Tests:
/// `start_up_ends_by_loss_only_where_rounds_without_a_queue_have_surely_lost_less`.
pub(super) const MIN_UNCERTAIN: f64 = 0.01;

// What follows from it.

/// Rounds of cruising at least.
pub(super) const CRUISE_ROUNDS: u64 = CYCLE_ROUNDS - CYCLE_SPREAD;
/// Lengths of a cruise, of which chance takes one.
pub(super) const CRUISE_CHOICES: u64 = 2 * CYCLE_SPREAD + 1;
/// Rounds of draining at most: never longer than the cruise after it.
pub(super) const DRAIN_ROUNDS: u64 = CRUISE_ROUNDS;
/// Rounds for which a rate is remembered: two cycles, as in BBR.
pub(super) const RATE_ROUNDS: u64 = 2 * CYCLE_ROUNDS;
/// Rounds without a probe, or bursts without growth, after a queue.
pub(super) const HOLD_ROUNDS: u64 = CYCLE_ROUNDS;
/// The same where loss grew with the rate; reductions within so many rounds belong together. Needed by: 3 figures.
pub(super) const LONG_HOLD_ROUNDS: u64 = 3 * CYCLE_ROUNDS;
/// For so many rounds after a reduction the rate is near what the path carries.
pub(super) const RECENT_ROUNDS: u64 = 5 * CYCLE_ROUNDS;
/// Bursts without growth after loss: each costs packets, where a queue costs time.
pub(super) const HELD_AFTER_LOSS: u64 = 8 * CYCLE_ROUNDS;
/// Reductions that leave a queue in every round: one more than are made before loss must be seen again. Needed by: 3
/// figures.
pub(super) const STANDING: u8 = MAX_REDUCTIONS + 1;
/// Time of cruising at least: rounds of short paths are too short to show what a probe did.
pub(super) const MIN_CRUISE: Duration = SHORT_RTT.saturating_mul(3);
/// Time for which an idle connection keeps its estimate.
pub(super) const KEPT_WHEN_IDLE: Duration = HALVED_PER.saturating_mul(3);
/// What timers of the hosts add to a round trip without load.
pub(super) const TIMER_DELAY: Duration = Duration::from_micros(HOST_DELAY.as_micros() as u64 / 10);
/// Packets of a train that tells a rate: half of it may be the burst at its head.
pub(super) const MIN_TRAIN_PACKETS: u64 = 2 * LEAST_PACKETS;
/// Packets of a probe, and of holding back, before they are compared. The latter sends fewer in the same time.
pub(super) const MIN_PROBED: f64 = JUDGED_PACKETS as f64;
pub(super) const MIN_HELD_BACK: f64 = MIN_PROBED / 2.0;
/// Packets of each kind after which older ones fade: half of what the medium's loss is known from. On a thin path a
/// probe is eight packets, so many must be taken together before their difference means anything.
pub(super) const MAX_TALLIED: f64 = SHARE_PACKETS * SHARES as f64 / 2.0;
/// The least variance of one packet's loss, where two shares are compared: both together have [`MIN_UNCERTAIN`].
pub(super) const MIN_VARIANCE: f64 = MIN_UNCERTAIN / 2.0;
/// A path that delivers at most so much more per second has become slower, not longer.
pub(super) const AS_MUCH: f64 = 1.0 + 1.0 / SAME_WITHIN as f64;
/// A probe that finds more than a reduction takes away is followed by another at once: the path has become faster.
pub(super) const FOUND_MORE: f64 = 2.0 - BACK_OFF;
/// Start-up sends the lost share in addition, up to what a probe does: a queue that others keep full may lose more.
pub(super) const MAX_COMPENSATED: f64 = PROBE_GAIN - 1.0;
/// What a probe has put into the queue leaves it in one round at this rate. What arrives below it is a slower path.
pub(super) const HOLD_BACK_GAIN: f64 = 2.0 - PROBE_GAIN;
/// A round trip of more than so many times the least one is *far* above it: a full window doubles it, not more.
pub(super) const FAR: u32 = 2 * WINDOW_GAIN;

// What others have fixed.

/// BBR's gain of start-up, 4 ln 2: what is delivered doubles in each round.
pub(super) const START_UP_GAIN: f64 = 2.77;
/// BBR's gain of a probe, and its growth per round that keeps start-up going. So much more in flight is a trial, too.
pub(super) const PROBE_GAIN: f64 = 1.25;
/// BBR's gain of the window.
pub(super) const WINDOW_GAIN: u32 = 2;
/// BBR's bound of the gain while draining, the inverse of the window's.
pub(super) const DRAIN_GAIN: f64 = 1.0 / WINDOW_GAIN as f64;
/// BBR's count of rounds without growth that end start-up. As many reductions in a row, or bursts, are no chance
/// either.
pub(super) const IN_A_ROW: u8 = 3;
/// BBR's margin: of what the phase asks for so much is sent, and a queue that is there shrinks. Needed by: 32 figures.
pub(super) const PACED: f64 = 0.99;
/// BBR's threshold for all loss, here for loss above the medium's.
pub(super) const TOLERANCE: f64 = 0.02;
/// BBR's interval of measuring the least round trip. Pauses of the application do so for free.
pub(super) const MIN_RTT_LIFETIME: Duration = Duration::from_secs(5);
/// BBR's least window.
pub(super) const MIN_WINDOW_PACKETS: u64 = 4;
/// BBR's allowance for acknowledgements that are thinned: three units of sending.
pub(super) const SPARE_PACKETS: u64 = 3;
/// What the pacer lets out at once (`pacing`): its spacing is not the sender's. RFC 9002 §7.7.
pub(super) const BURST_PACKETS: u64 = 10;
/// The weight of a sample in the mean turn of round trips is one in so many: RFC 3550 §6.4.1 for jitter.
pub(super) const JITTER_SAMPLES: u32 = 16;
/// The least round trip of a round exceeds the least one of all by less than so many times the mean turn, if there is
/// no queue. Where round trips vary as a normal distribution does, a turn is 0.57 standard deviations in the mean: of
/// eight samples the least one lies 1.4 below their mean, of ten thousand 3.8.
pub(super) const MOST_TURNS: u32 = 4;

// Bounds of memory.

/// Bytes of a burst: four of zenoh's batches, and what a socket buffer of the usual size holds.
pub(super) const MAX_BURST_BYTES: u64 = 256 << 10;
/// Phases, or bursts, of which packets may be under way.
pub(super) const MAX_UNDER_WAY: usize = 16;
