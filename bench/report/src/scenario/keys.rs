// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which keys does a scenario file know, and within which bounds? One list: values are checked against it, and
//! `arq-bench list --keys` prints it.

use std::fmt;

/// One key of one table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The table that it stands in.
    pub table: Table,
    /// Its name.
    pub name: &'static str,
    /// What it may be.
    pub value: Value,
    /// What holds when it is not given; empty when it must be given.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

/// The tables of a scenario file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the headings below say it")]
pub enum Table {
    Scenario,
    Network,
    Wire,
    Loss,
    Policer,
    Fade,
    Recording,
    Event,
    Flow,
    Sweep,
    Case,
    CaseFlow,
    Goal,
    Published,
    Link,
}

impl Table {
    /// In the order in which they are printed.
    pub const ALL: [Self; 15] = [
        Self::Scenario,
        Self::Network,
        Self::Wire,
        Self::Loss,
        Self::Policer,
        Self::Fade,
        Self::Recording,
        Self::Event,
        Self::Flow,
        Self::Sweep,
        Self::Case,
        Self::CaseFlow,
        Self::Goal,
        Self::Published,
        Self::Link,
    ];

    /// How it is written in a file.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Scenario => "at the top",
            Self::Network => "[network]",
            Self::Wire => "[network], [network.forward], [network.backward]",
            Self::Loss => "loss = { … }",
            Self::Policer => "policer = { … }",
            Self::Fade => "fade = { … }",
            Self::Recording => "recording = { … }",
            Self::Event => "[[network.event]]",
            Self::Flow => "[[flow]]",
            Self::Sweep => "[sweep]",
            Self::Case => "[[case]]",
            Self::CaseFlow => "[[case]] flow = { … }",
            Self::Goal => "[[goal]]",
            Self::Published => "[[published]]",
            Self::Link => "[[link]]",
        }
    }

    /// Its keys.
    pub fn keys(self) -> impl Iterator<Item = &'static Key> {
        KEYS.iter().filter(move |key| key.table == self)
    }

    /// What a key of this name may be. `[network]` takes the keys of a wire, for both directions.
    pub(super) fn value(self, name: &str) -> Option<Value> {
        let own = self.keys().find(|key| key.name == name).map(|key| key.value);
        own.or_else(|| if self == Self::Network { Self::Wire.value(name) } else { None })
    }

    /// The keys as a table in Markdown.
    pub fn markdown(self) -> String {
        let rows = self.keys().map(|key| {
            let (unit, default) = (key.value.unit(), key.default);
            format!("| `{}` | {unit} | {default} | {} | {} |\n", key.name, key.value, key.meaning)
        });
        let head = "| key | unit | default | range | meaning |\n|---|---|---|---|---|\n";
        std::iter::once(head.to_owned()).chain(rows).collect()
    }
}

/// What a key may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A number, or a list of such, within bounds.
    Number {
        /// What is counted.
        unit: &'static str,
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
    },
    /// A table, or a list of such.
    Nested(Table),
    /// Anything else, as described; its type refuses what does not fit.
    Other(&'static str),
}

impl Value {
    /// What the number counts; empty for anything else.
    pub const fn unit(&self) -> &'static str {
        match self {
            Self::Number { unit, .. } => unit,
            Self::Nested(_) | Self::Other(_) => "",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { min, max, .. } => write!(f, "{min} to {max}"),
            Self::Nested(_) => f.write_str("a table, see below"),
            Self::Other(description) => f.write_str(description),
        }
    }
}

const fn number(unit: &'static str, min: f64, max: f64) -> Value {
    Value::Number { unit, min, max }
}

const fn key(
    table: Table,
    name: &'static str,
    value: Value,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key { table, name, value, default, meaning }
}

const TEXT: Value = Value::Other("text");
const TEXTS: Value = Value::Other("a list of texts");
const FLAG: Value = Value::Other("true, false");
const PERCENT: Value = number("%", 0.0, 100.0);
const MS: Value = number("ms", 0.0, 60_000.0);
const SECONDS: Value = number("s", 0.0, 86_400.0);
const PERIOD: Value = number("s", 0.1, 86_400.0);
const MBPS: Value = number("Mb/s", 0.001, 100_000.0);
const BIT_ERRORS: Value = number("per bit", 0.0, 0.01);
const QUEUE: Value = number("bytes", 1_500.0, 1_000_000_000.0);
const MTU: Value = number("bytes", 576.0, 1_500.0);
/// The least holds the stamp that each message carries, whatever carries it.
const PAYLOAD: Value = number("bytes", 32.0, 67_108_864.0);
const RATE: Value = number("messages per second", 0.01, 100_000.0);
const MESSAGES: Value = number("messages", 1.0, 10_000_000.0);
/// One figure, or two as a range.
const FIGURE_MS: Value = number("ms", 0.0, 1e9);

use Table::{
    Case, CaseFlow, Event, Fade, Flow, Goal, Link, Loss, Network, Policer, Published, Recording,
    Scenario, Sweep, Wire,
};

/// All keys, table by table.
pub const KEYS: &[Key] = &[
    key(Scenario, "title", TEXT, "", "The heading of the report."),
    key(Scenario, "question", TEXT, "", "What it answers, in one sentence."),
    key(Scenario, "source", TEXT, "none", "Where the experiment or its numbers come from."),
    key(Scenario, "notes", TEXTS, "none", "What a report must say beside the figures."),
    key(Scenario, "links", TEXTS, "", "Who is compared: names of `bench/links.toml`, or of `[[link]]` here."),
    key(Scenario, "repeats", number("", 1.0, 1000.0), "5", "How often each cell is measured; below five a spread means little."),
    key(Scenario, "grace_s", number("s", 0.0, 3600.0), "5", "How long after its last intended departure a message may still come; without timetable, how long the whole may take."),
    key(Scenario, "network", Value::Nested(Network), "a clean wire", "The network between the two hosts."),
    key(Scenario, "flow", Value::Nested(Flow), "", "The traffic, one table for each flow."),
    key(Scenario, "sweep", Value::Nested(Sweep), "none", "Values to go through; the cells are the product of its axes, the cases and the links."),
    key(Scenario, "case", Value::Nested(Case), "none", "Named settings to go through, for what is no product."),
    key(Scenario, "goal", Value::Nested(Goal), "none", "Lines that the report draws."),
    key(Scenario, "published", Value::Nested(Published), "none", "Figures of the source, shown beside ours."),
    key(Scenario, "link", Value::Nested(Link), "none", "Links of your own, beside those of `bench/links.toml`."),
    //
    key(Network, "preset", Value::Other("the name of a preset"), "none", "Begin with the network of that preset; the keys given here win."),
    key(Network, "forward", Value::Nested(Wire), "both alike", "From the publisher to the subscriber: wins over what is said for both."),
    key(Network, "backward", Value::Nested(Wire), "both alike", "From the subscriber to the publisher."),
    key(Network, "event", Value::Nested(Event), "none", "What changes on the way, in both directions; replaces the preset's events."),
    key(Network, "second", Value::Nested(Network), "none", "A second radio of the publisher's host, `eth1`: the keys of a network. A link uses it when it asks to."),
    //
    key(Wire, "delay_ms", MS, "0", "Time from one end to the other. A round trip has it twice."),
    key(Wire, "jitter_ms", MS, "0", "Standard deviation of the delay: normal, cut off at zero delay."),
    key(Wire, "jitter_reorders", FLAG, "true", "Whether jitter may change the order of packets, as netem's does."),
    key(Wire, "loss", Value::Nested(Loss), "none", "Which packets are lost, behind the bottleneck."),
    key(Wire, "bit_error_rate", BIT_ERRORS, "0", "The chance of each bit to be wrong: long packets are lost more often."),
    key(Wire, "duplicate_percent", PERCENT, "0", "Packets that arrive twice."),
    key(Wire, "reorder_percent", PERCENT, "0", "Packets that are held back so that later ones overtake them."),
    key(Wire, "reorder_hold_ms", MS, "0", "How long those are held back."),
    key(Wire, "rate_mbps", MBPS, "no limit", "The bottleneck, in 10^6 bits of IP packets per second."),
    key(Wire, "queue_bytes", QUEUE, "250000", "What waits before the bottleneck at most; what does not fit is dropped."),
    key(Wire, "policer", Value::Nested(Policer), "none", "A token bucket that drops what exceeds it and delays nothing."),
    key(Wire, "mtu_bytes", MTU, "1500", "Longer IP packets vanish."),
    key(Wire, "fade", Value::Nested(Fade), "none", "Spells by the clock in which all is lost; both directions of a radio fade together."),
    key(Wire, "recording", Value::Nested(Recording), "none", "A recorded radio instead of `rate_mbps`."),
    //
    key(Loss, "model", Value::Other("none, random, correlated, gilbert, state"), "", "`random`: each packet alike. `correlated`: netem's `loss p% c%`. `gilbert`: bursts by share and length. `state`: netem's `loss state p13 p31`."),
    key(Loss, "percent", PERCENT, "", "Of `random`, `correlated`, `gilbert`: the share lost."),
    key(Loss, "correlation_percent", number("%", 0.0, 99.9), "", "Of `correlated`."),
    key(Loss, "burst_packets", number("packets", 1.0, 10_000.0), "", "Of `gilbert`: the mean length of a burst, L."),
    key(Loss, "enter_percent", PERCENT, "", "Of `state`: good to bad, per packet."),
    key(Loss, "leave_percent", number("%", 0.01, 100.0), "", "Of `state`: bad to good, per packet."),
    //
    key(Policer, "rate_mbps", MBPS, "", "The rate of the tokens."),
    key(Policer, "burst_bytes", QUEUE, "", "The size of the bucket."),
    //
    key(Fade, "share_percent", number("%", 0.0, 90.0), "", "Of the time."),
    key(Fade, "mean_ms", number("ms", 1.0, 60_000.0), "", "The mean length of a fade: exponential, as the time between them."),
    //
    key(Recording, "name", TEXT, "", "A file of `bench/impairments/recordings` such as `nyc-lte/taxi.down`, or of the folder `ARQ_TRACES`."),
    key(Recording, "delays", TEXT, "none", "A file with a delay for each 10 ms, on top of `delay_ms`."),
    key(Recording, "start_s", SECONDS, "decided by the seed", "Where it begins."),
    //
    key(Event, "at_s", SECONDS, "", "When it begins; the clock starts 5 ms before the first message."),
    key(Event, "until_s", SECONDS, "for good", "When it is over: a ramp of the loss has arrived, anything else has ended."),
    key(Event, "every_s", PERIOD, "once", "It happens again each so many seconds."),
    key(Event, "blackout", FLAG, "false", "Everything vanishes. One of these four in each event."),
    key(Event, "loss_percent", PERCENT, "", "The share lost becomes this; gradually with `until_s`."),
    key(Event, "delay_ms", MS, "", "The delay becomes this."),
    key(Event, "rate_mbps", MBPS, "", "The rate becomes this."),
    //
    key(Flow, "name", TEXT, "", "Told in reports; unique."),
    key(Flow, "payload_bytes", PAYLOAD, "", "The bytes of each message."),
    key(Flow, "pattern", Value::Other("periodic, flood, transfer, ping-pong, opening"), "", "`periodic`: at fixed times whatever the link does. `flood`: as fast as it takes them, for a time. `transfer`: as fast as it takes them, so many. `ping-pong`: each after the answer to the one before. `opening`: a new session for each."),
    key(Flow, "rate_hz", RATE, "", "Of `periodic`."),
    key(Flow, "messages", MESSAGES, "", "Of all but `flood`: how many."),
    key(Flow, "seconds", PERIOD, "", "Of `flood`: how long."),
    key(Flow, "priority", Value::Other("real_time, interactive_high, interactive_low, data_high, data, data_low, background"), "data", "zenoh's priority."),
    key(Flow, "reliability", Value::Other("reliable, best_effort"), "reliable", "zenoh's reliability."),
    key(Flow, "congestion_control", Value::Other("block, drop"), "block", "What zenoh does when the link is busy. With `block` what is offered was really handed over."),
    key(Flow, "own_session", FLAG, "false", "A session, and so a link, of its own."),
    key(Flow, "link", TEXT, "the one under test", "Always this link, in a session of its own: a rival at the same bottleneck."),
    key(Flow, "start_s", SECONDS, "0", "It begins so much later than the first."),
    //
    key(Sweep, "flow", TEXT, "the only one", "Which flow `payload_bytes`, `rate_hz` and `messages` change, where there are several."),
    key(Sweep, "drop_percent", PERCENT, "", "The share lost, in both directions. The model stays; without one it is `random`."),
    key(Sweep, "delay_ms", MS, "", "In both directions."),
    key(Sweep, "jitter_ms", MS, "", "In both directions."),
    key(Sweep, "rate_mbps", MBPS, "", "In both directions."),
    key(Sweep, "bit_error_rate", BIT_ERRORS, "", "In both directions."),
    key(Sweep, "duplicate_percent", PERCENT, "", "In both directions."),
    key(Sweep, "reorder_percent", PERCENT, "", "In both directions."),
    key(Sweep, "queue_bytes", QUEUE, "", "In both directions."),
    key(Sweep, "mtu_bytes", MTU, "", "In both directions."),
    key(Sweep, "payload_bytes", PAYLOAD, "", "Of a flow."),
    key(Sweep, "rate_hz", RATE, "", "Of a flow."),
    key(Sweep, "messages", MESSAGES, "", "Of a flow."),
    //
    key(Case, "name", TEXT, "", "Told in reports; unique."),
    key(Case, "network", Value::Nested(Network), "as it is", "Wins over the scenario's network, key by key."),
    key(Case, "flow", Value::Nested(CaseFlow), "as they are", "What is different of every flow."),
    key(Case, "flows", TEXTS, "all", "Only these run."),
    //
    key(CaseFlow, "payload_bytes", PAYLOAD, "as it is", "As in `[[flow]]`."),
    key(CaseFlow, "rate_hz", RATE, "as it is", "As in `[[flow]]`."),
    key(CaseFlow, "messages", MESSAGES, "as it is", "As in `[[flow]]`."),
    key(CaseFlow, "seconds", PERIOD, "as it is", "As in `[[flow]]`."),
    //
    key(Goal, "flow", TEXT, "", "Of which flow."),
    key(Goal, "percent", PERCENT, "", "This share of the offered messages …"),
    key(Goal, "within_ms", FIGURE_MS, "", "… comes within this."),
    key(Goal, "longest_silence_ms", FIGURE_MS, "", "Or: no silence is longer. One of the two kinds in each goal."),
    //
    key(Published, "setting", Value::Other("`{ axis = value }`"), "all", "Which cells it belongs to: axes of `[sweep]`, and `case`."),
    key(Published, "link", TEXT, "", "Whose figures: the source's words."),
    key(Published, "note", TEXT, "none", "What the source says in words."),
    key(Published, "mean_ms", FIGURE_MS, "", "Latency. All figures: a number, or `[from, to]`."),
    key(Published, "median_ms", FIGURE_MS, "", "Latency."),
    key(Published, "stdev_ms", FIGURE_MS, "", "Latency."),
    key(Published, "min_ms", FIGURE_MS, "", "Latency."),
    key(Published, "max_ms", FIGURE_MS, "", "Latency."),
    key(Published, "p99_gap_ms", FIGURE_MS, "", "Time between arrivals."),
    key(Published, "lost_percent", PERCENT, "", "Messages that never came."),
    key(Published, "duration_s", number("s", 0.0, 1e6), "", "Until all had come."),
    key(Published, "retransmissions", number("packets", 0.0, 1e9), "", "Mean of a run."),
    //
    key(Link, "name", TEXT, "", "How `links` calls it; unique."),
    key(Link, "about", TEXT, "", "What it is, in a few words."),
    key(Link, "carrier", Value::Other("zenoh, kcp"), "zenoh", "Which program carries the messages."),
    key(Link, "endpoint", TEXT, "", "The locator; `{host}` and `{port}` are filled in."),
    key(Link, "connect", TEXT, "none", "What only the side that connects adds to the locator, such as `paths=eth0,eth1`."),
    key(Link, "zenoh", Value::Other("`{ \"path/of/key\" = \"JSON5\" }`"), "none", "zenoh configuration on both sides."),
    key(Link, "tcp_congestion_control", TEXT, "the kernel's", "Of the kernel's TCP on both hosts."),
    key(Link, "sysctl", Value::Other("`{ \"net.ipv4.key\" = \"value\" }`"), "none", "Kernel parameters of both hosts while it runs."),
    key(Link, "certificates", Value::Other("p256, p256-issuer, rsa2048-issuer, rsa4096-two-issuers"), "p256", "What a listener with a certificate shows; RSA needs `openssl`."),
    key(Link, "ours", FLAG, "false", "Whether it speaks our protocol; its name then begins with `arq-`."),
];
