// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! `arq-bench many-links`: what do a thousand links cost one process?

use std::path::{Path, PathBuf};

use arq_report::check::REPEATS;
use arq_report::many_links::{LINKS, SCENARIO};
use arq_report::record::{FlowResult, ManyLinks, Outcome, SideOfMany};
use arq_report::results::ResultSet;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::Args;

use super::{CliError, THIS_PROGRAM};
use crate::many_links::{self, Plan};

/// `arq-bench many-links`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  arq-bench many-links                                           what T10 needs, about eight minutes
  arq-bench many-links --idle 100 --idle-s 10 --repeats 1        a look at it
  arq-bench many-links --link arq-mtls --out secured             with certificates on both sides")]
pub(super) struct ManyLinksArgs {
    /// Which link, in clear or secured.
    #[arg(long, value_name = "NAME", default_value = LINKS[0], value_parser = link())]
    link: &'static str,
    /// Links that carry nothing while it counts.
    #[arg(long, default_value_t = Plan::TARGET.idle, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    idle: u64,
    /// Links that carry 20 messages of 1 KB a second each.
    #[arg(long, default_value_t = Plan::TARGET.busy, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    busy: u64,
    /// How long nothing is sent.
    #[arg(long, value_name = "SECONDS", default_value_t = Plan::TARGET.idle_s, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    idle_s: u64,
    /// How long the busy links send, before and after.
    #[arg(long, value_name = "SECONDS", default_value_t = Plan::TARGET.busy_s, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    busy_s: u64,
    /// How often it is measured.
    #[arg(long, value_name = "N", default_value_t = REPEATS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// Where the results go; a run that was interrupted there goes on.
    #[arg(long, value_name = "DIR", default_value = "arq-bench-results/many-links")]
    out: PathBuf,
}

/// Of [`LINKS`].
fn link() -> impl TypedValueParser<Value = &'static str> {
    PossibleValuesParser::new(LINKS).try_map(|name| {
        LINKS.into_iter().find(|link| *link == name).ok_or_else(|| format!("no link `{name}`"))
    })
}

/// Measures and shows.
pub(super) fn run(args: &ManyLinksArgs) -> Result<(), CliError> {
    let ManyLinksArgs { link, idle, busy, idle_s, busy_s, repeats, .. } = *args;
    let results = measure_into(&Plan { link, idle, busy, idle_s, busy_s }, repeats, &args.out)?;
    for record in &results.records {
        if let Outcome::Measured(measurement) = &record.outcome {
            println!("repeat {}:", record.repeat + 1);
            measurement.flows.iter().for_each(|flow| println!("  {}", latency(flow)));
            measurement.many_links.iter().for_each(|many| println!("{}", cost(many)));
        }
    }
    println!("results: {}", args.out.display());
    Ok(())
}

/// Measures what the target needs.
pub(super) fn measure_target(results: &Path, repeats: u32) -> Result<(), CliError> {
    measure_into(&Plan::TARGET, repeats, &results.join(SCENARIO)).map(drop)
}

fn measure_into(plan: &Plan, repeats: u32, directory: &Path) -> Result<ResultSet, CliError> {
    let say = |what: &str| eprintln!("{SCENARIO}: {what}");
    Ok(many_links::measure_into(plan, repeats, directory, Path::new(THIS_PROGRAM), &say)?)
}

fn latency(result: &FlowResult) -> String {
    let ms =
        |value: Option<f64>| value.map_or_else(|| "lost".to_owned(), |ms| format!("{ms:.2} ms"));
    let FlowResult { flow, offered, delivered, percentiles, .. } = result;
    let (p50, p99) = (ms(percentiles.p50), ms(percentiles.p99));
    format!("{}: p50 {p50}, p99 {p99}, {delivered} of {offered} messages", flow.name)
}

fn cost(many: &ManyLinks) -> String {
    let links = (many.idle_links + many.busy_links) as f64;
    let side = |name: &str, side: &SideOfMany| {
        let per_link = |count: u64| count as f64 / links / many.idle_s;
        format!(
            "  {name}: {:.1} KiB per idle link; {:.2} % of a core, {:.2} datagrams and {:.2} wake-ups per link and \
             second; {} probe time-outs, {} repairs, {} links lost",
            side.bytes_per_idle_link / 1_024.0,
            100.0 * side.idle_cpu_s / many.idle_s,
            per_link(side.packets_sent),
            per_link(side.wake_ups),
            side.ptos,
            side.retransmitted,
            side.links_lost,
        )
    };
    [side("listening", &many.listening), side("connecting", &many.connecting)].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_told_per_link_and_second() {
        let side = SideOfMany {
            bytes_per_idle_link: 2_048.0,
            idle_cpu_s: 0.5,
            wake_ups: 2_000,
            packets_sent: 1_000,
            ..SideOfMany::default()
        };
        let many = ManyLinks {
            idle_links: 90,
            busy_links: 10,
            idle_s: 10.0,
            listening: side,
            connecting: side,
        };
        let told = cost(&many);
        let expected =
            "listening: 2.0 KiB per idle link; 5.00 % of a core, 1.00 datagrams and 2.00 wake-ups";
        assert!(told.contains(expected), "{told}");
    }
}
