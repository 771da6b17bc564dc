// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What can be asked of the demonstration?

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use crate::traffic::Load;

/// The arguments of `arq-bench demo`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  arq-bench demo                                  udp/, tcp/ and arq/ at 10 % drop
  arq-bench demo --drop 0,10,25 --size 100k       more loss, larger messages
  arq-bench demo --links 'udp?rel=1,arq' --rate 200
  arq-bench demo --tcp-control bbr                tcp/ at its best

It makes two network namespaces joined by a switch and drops packets with iptables where they enter a host. Needs
root or user namespaces, `ip` (iproute2) and `iptables`; leaves nothing behind. The drops are the kernel's random
numbers: no seed repeats them.")]
pub struct DemoArgs {
    /// The packet drop probabilities to show, in per cent, both ways.
    #[arg(long, value_delimiter = ',', default_value = "10", value_parser = percent)]
    pub drop: Vec<f64>,
    /// The bytes of each message (k and M allowed).
    #[arg(long, default_value = "10k", value_parser = size)]
    pub size: usize,
    /// Messages per second.
    #[arg(long, default_value = "50", value_parser = rate)]
    pub rate: f64,
    /// How long to publish.
    #[arg(long, default_value = "10", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// How many seconds after the last departure a message may still come.
    #[arg(long, default_value = "5")]
    pub grace: u32,
    /// The links: a protocol, with ?metadata and #config if wanted.
    #[arg(long, value_delimiter = ',', default_value = "udp,tcp,arq")]
    pub links: Vec<Link>,
    /// The kernel's congestion control beneath tcp/: cubic, bbr, reno.
    #[arg(long, default_value = "cubic")]
    pub tcp_control: String,
    /// Where payload bytes and the order of the measurements come from.
    #[arg(long, default_value = "1")]
    pub seed: u64,
}

impl DemoArgs {
    /// How many messages a measurement has.
    pub fn messages(&self) -> u64 {
        (self.rate * self.seconds as f64).ceil() as u64
    }

    /// How long a late message is waited for.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.grace.into())
    }
}

/// A link under test: the protocol of a locator and what follows its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    protocol: String,
    suffix: String,
}

impl Link {
    /// The endpoint of this link at an address.
    pub fn endpoint(&self, host: Ipv4Addr, port: u16) -> String {
        format!("{}/{host}:{port}{}", self.protocol, self.suffix)
    }

    /// Whether it is the one that this project makes.
    pub fn is_ours(&self) -> bool {
        self.protocol == "arq"
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.protocol, self.suffix)
    }
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let end = text.find(['?', '#']).unwrap_or(text.len());
        let (protocol, suffix) = text.split_at(end);
        let protocol = protocol.trim_end_matches('/');
        if protocol.is_empty()
            || !protocol.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        {
            return Err(
                "a protocol like udp, tcp, arq is needed, with ?metadata and #config if wanted"
                    .to_owned(),
            );
        }
        Ok(Self { protocol: protocol.to_owned(), suffix: suffix.to_owned() })
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let value = text.trim_end_matches('%').parse::<f64>().map_err(|e| e.to_string())?;
    (0.0..=90.0).contains(&value).then_some(value).ok_or_else(|| "0 to 90 per cent".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().map_err(|e| e.to_string())?;
    (0.1..=10_000.0)
        .contains(&value)
        .then_some(value)
        .ok_or_else(|| "0.1 to 10000 a second".to_owned())
}

fn size(text: &str) -> Result<usize, String> {
    let text = text.trim_end_matches(['B', 'b']);
    let (digits, unit) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1_000),
        Some('M') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    let bytes = digits.parse::<usize>().map_err(|e| e.to_string())?.saturating_mul(unit);
    let range = Load::MIN_PAYLOAD_BYTES..=100_000_000;
    range
        .contains(&bytes)
        .then_some(bytes)
        .ok_or_else(|| format!("{} bytes to 100M", Load::MIN_PAYLOAD_BYTES))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        demo: DemoArgs,
    }

    fn parsed(line: &str) -> Result<DemoArgs, clap::Error> {
        Program::try_parse_from(line.split(' ')).map(|program| program.demo)
    }

    #[test]
    fn defaults_are_the_promised_load() {
        let demo = parsed("demo").expect("no argument is needed");
        assert_eq!((demo.size, demo.messages(), demo.drop), (10_000, 500, vec![10.0]));
        let links: Vec<_> = demo.links.iter().map(ToString::to_string).collect();
        assert_eq!(links, ["udp/", "tcp/", "arq/"]);
    }

    #[test]
    fn links_keep_their_options() {
        let demo = parsed("demo --links udp/?rel=1,arq#preset=wifi").expect("two links");
        let at = |link: &Link| link.endpoint(Ipv4Addr::LOCALHOST, 7447);
        let endpoints: Vec<_> = demo.links.iter().map(at).collect();
        assert_eq!(endpoints, ["udp/127.0.0.1:7447?rel=1", "arq/127.0.0.1:7447#preset=wifi"]);
        assert!(demo.links[1].is_ours() && !demo.links[0].is_ours());
    }

    #[test]
    fn sizes_have_units_and_nonsense_names_the_valid_range() {
        assert_eq!(
            (size("10k"), size("1MB"), size("500"), size("2KB")),
            (Ok(10_000), Ok(1_000_000), Ok(500), Ok(2_000))
        );
        for (line, named) in [
            ("demo --drop 95", "0 to 90"),
            ("demo --size 3", "16 bytes"),
            ("demo --rate 0", "0.1 to 10000"),
            ("demo --links tcp,?rel=1", "a protocol"),
        ] {
            let error = parsed(line).err().unwrap_or_else(|| panic!("{line} passed")).to_string();
            assert!(error.contains(named), "{line}: {error}");
        }
    }

    #[test]
    fn the_seed_orders_the_cells_and_loses_none() {
        let cells = |seed: u64| {
            let demo = parsed(&format!("demo --drop 0,10,25 --seed {seed}")).expect("arguments");
            demo.shuffled_cells()
                .iter()
                .map(|cell| format!("{} {}", cell.link, cell.drop_percent))
                .collect::<Vec<_>>()
        };
        assert_eq!(cells(1), cells(1));
        assert_ne!(cells(1), cells(2));
        let mut all = cells(3);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 9);
    }
}
