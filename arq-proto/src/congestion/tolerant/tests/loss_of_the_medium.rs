// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What is the medium's loss, and what is a queue's?

use super::*;

// ARQ-CC-6
#[test]
fn the_base_is_the_median_without_queue_and_more_is_excessive() {
    let mut model = LossModel::new();
    let usual = rounds(100, 10, 9);
    usual.iter().for_each(|round| model.on_round(round, false));
    let terrible = rounds(100, 40, 1)[0];
    model.on_round(&terrible, false);
    model.on_round(&terrible, true);
    assert!(!model.is_excessive(&usual[0]));
    assert!(model.is_excessive(&terrible));
    assert_eq!(model.excused_bytes(&usual[0]), 10 * MTU);
    // A tenth, and half a sigma (3 %) of a hundred packets.
    assert_eq!(model.excused_bytes(&terrible), 11_500);
    rounds(100, 60, 9).iter().for_each(|round| model.on_round(round, false));
    // Beyond 35 % ever less: where 60 % are lost a tenth, and half a sigma (3 %).
    assert_eq!(model.excused_bytes(&rounds(100, 60, 1)[0]) / MTU, 11);
    rounds(100, 35, 9).iter().for_each(|round| model.on_round(round, false));
    assert_eq!(model.excused_bytes(&rounds(100, 60, 1)[0]) / MTU, 37, "never more than 35 %");
}

// ARQ-CC-6
#[test]
fn start_up_ends_by_loss_only_where_rounds_without_a_queue_have_surely_lost_less() {
    for (clear, with_queue, ends) in [
        // As if the medium lost what is ever excused, while no round was without a queue.
        (None, 40, false),
        (None, 60, true),
        // Three standard errors beyond what those rounds lost, and 2 %.
        (Some(25), 40, false),
        (Some(25), 60, true),
        (Some(0), 4, false),
        (Some(0), 10, false),
        (Some(0), 14, true),
    ] {
        let mut model = LossModel::new();
        // Queues between them are of no importance here.
        for round in clear.into_iter().flat_map(|lost| rounds(40, lost * 40 / 100, 2)) {
            model.on_round(&round, false);
            model.on_round(&round, true);
        }
        let round = rounds(100, with_queue, 1)[0];
        assert_eq!(model.is_excessive_in_start_up(&round), ends, "{clear:?}, {with_queue}");
    }
}

// ARQ-CC-6
#[test]
fn with_a_queue_less_loss_disproves_the_base_and_more_says_nothing() {
    let mut model = LossModel::new();
    rounds(100, 30, 9).iter().for_each(|round| model.on_round(round, false));
    let fewer = rounds(100, 15, 1)[0];
    rounds(100, 60, 9).iter().for_each(|round| model.on_round(round, true));
    assert!(!model.is_excessive(&fewer), "the medium loses 30 %");
    rounds(100, 3, 5).iter().for_each(|round| model.on_round(round, true));
    assert!(model.is_excessive(&fewer), "it does not");
}

// ARQ-CC-6
#[test]
fn what_several_flows_lose_together_is_not_the_mediums() {
    let mut model = LossModel::new();
    rounds(100, 20, 9).iter().for_each(|round| model.on_round(round, false));
    model.mark(PacketNumber(0), Phase::ProbeUp);
    model.mark(PacketNumber(400), HOLD_BACK);
    settle(&mut model, 0, 400, 120);
    settle(&mut model, 400, 400, 80);
    assert!(!model.judge_probe() && model.judge_probe());
    // 30 % at 5/4 of the rate and 20 % at 3/4 are 5 % at none.
    let excused = model.excused_bytes(&rounds(1_000, 200, 1)[0]);
    assert!((50..=60).contains(&(excused / MTU)), "{excused}");
}

// ARQ-CC-6
#[test]
fn what_is_lost_at_rest_follows_from_the_rates_that_were_used() {
    let mut model = LossModel::new();
    rounds(100, 20, 9).iter().for_each(|round| model.on_round(round, false));
    model.mark(PacketNumber(0), Phase::ProbeUp);
    model.mark(PacketNumber(1_000), Phase::cruise(t0(), true));
    let verdicts = [0, 0].map(|_| {
        // 20 % at 5/4 of the rate and 13 % at 0.93 of it are nothing at none.
        settle(&mut model, 0, 1_000, 200);
        settle(&mut model, 1_000, 1_000, 130);
        model.judge_probe()
    });
    assert_eq!(verdicts, [false, true]);
    assert!(model.base() < 0.01, "{}", model.base());
}

// ARQ-CC-6
#[test]
fn what_start_up_has_sent_is_no_probes() {
    let mut model = LossModel::new();
    model.mark(PacketNumber(0), Phase::START);
    model.end_start_up();
    model.mark(PacketNumber(400), Phase::ProbeUp);
    model.mark(PacketNumber(800), HOLD_BACK);
    // The fates of start-up's packets become known after it.
    let verdicts = [200, 0].map(|lost| {
        settle(&mut model, 0, 400, lost);
        settle(&mut model, 400, 800, 0);
        model.judge_probe()
    });
    assert_eq!(verdicts, [false, false]);
}

// ARQ-CC-6
#[test]
fn a_fade_is_one_run_of_losses_and_no_proof() {
    for (run, is_ours) in [(1, true), (40, false)] {
        let mut model = LossModel::new();
        model.mark(PacketNumber(0), Phase::ProbeUp);
        model.mark(PacketNumber(400), HOLD_BACK);
        for n in 0..400 {
            model.tally(PacketNumber(n), n % (10 * run) < 3 * run);
        }
        settle(&mut model, 400, 400, 0);
        model.end_start_up();
        assert_eq!(model.is_ours(), is_ours, "runs of {run} and more");
    }
}

/// Reductions until one is found to be unfounded, of so many rounds with a queue and without in turn, in which these
/// shares of 100 packets are lost.
fn reductions(queue: [bool; 4], lost: [u64; 6]) -> Option<reduction::Unfounded> {
    let (mut reductions, mut now, mut before) = (Reductions::default(), 0, rate(1_000_000));
    lost.into_iter().find_map(|lost| {
        let round = rounds(100, lost, 1)[0];
        for queue in queue {
            now += 1;
            reductions.on_round(now, &round, queue);
        }
        let unfounded = reductions.on_reduction(now, before, &round);
        before = before.mul_f64(BACK_OFF);
        unfounded
    })
}

// ARQ-CC-6
#[test]
fn reductions_that_do_not_help_are_unfounded_unless_the_queue_stands() {
    let jitter = reductions([true, false, true, true], [20; 6]).expect("the loss stays the same");
    assert!((jitter.share - 0.2).abs() < 1e-9, "{jitter:?}");
    // The first one had a reason, by all that is known: the three after it had none.
    assert!((rate(999_990)..=rate(1_000_000)).contains(&jitter.rate), "{jitter:?}");
    assert!(reductions([true; 4], [20; 6]).is_none(), "a queue that others fill, too");
    let joined = [4, 12, 20, 29, 29, 29];
    assert!(reductions([true, false, true, true], joined).is_none(), "others have joined");
    assert!(reductions([true, false, true, true], [40; 6]).is_none(), "too much for any medium");
}

// ARQ-CC-6
#[test]
fn a_queue_that_loses_too_much_is_not_taken_for_a_longer_path() {
    for (lost, least_rtt) in [(0, 20 * MS), (20, 10 * MS)] {
        let mut tolerant = Tolerant::new(MTU as u16, None);
        tolerant.min_rtt.update(t0(), 10 * MS);
        tolerant.rate.replace(rate(10_000_000));
        tolerant.phase = Phase::cruise(t0(), false);
        let mut round = rounds(100, lost, 1)[0];
        round.min_rtt = Some(20 * MS);
        tolerant.on_round(t0(), &round);
        tolerant.phase = Phase::ProbeRtt { until: t0(), least: Some(20 * MS) };
        let rtt = Some(exactly(20 * MS));
        tolerant.probe_rtt(t0() + SECOND, &AckSample { rtt, ..ack(t0(), 0, 1) });
        assert_eq!(tolerant.min_rtt.get(), Some(least_rtt), "{lost} of 100 lost");
    }
}

// ARQ-CC-6
#[test]
fn loss_that_grows_with_the_rate_is_ours() {
    for (above, below, grows) in [(10, 10, false), (30, 5, true)] {
        let mut model = LossModel::new();
        model.mark(PacketNumber(0), Phase::ProbeUp);
        model.mark(PacketNumber(100), HOLD_BACK);
        let mut verdicts = Vec::new();
        for _ in 0..3 {
            settle(&mut model, 0, 100, above);
            settle(&mut model, 100, 100, below);
            verdicts.push(model.judge_probe());
        }
        assert_eq!(verdicts, [false, grows, false], "it takes two probes to be sure");
    }
}
