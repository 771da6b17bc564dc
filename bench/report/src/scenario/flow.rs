// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What traffic does a scenario send?

use serde::{Deserialize, Serialize};

/// One publisher and its subscriber.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "FlowTable")]
pub struct Flow {
    /// Told in reports; unique in a scenario.
    pub name: String,
    /// The bytes of each message.
    pub payload_bytes: usize,
    /// When messages are sent.
    #[serde(flatten)]
    pub pattern: Pattern,
    /// zenoh's priority.
    pub priority: Priority,
    /// zenoh's reliability.
    pub reliability: Reliability,
    /// What zenoh does when the link is busy.
    pub congestion_control: CongestionControl,
    /// A session, and so a link, of its own (else all flows share one).
    pub own_session: bool,
    /// A link of its own by name, whatever link is under test: a rival at the same bottleneck. It has a session of
    /// its own, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// It begins so many seconds after the first.
    pub start_s: f64,
}

/// When messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "pattern", rename_all = "kebab-case")]
pub enum Pattern {
    /// At fixed times, whatever the link does; latency counts from those times.
    Periodic {
        /// Messages per second.
        rate_hz: f64,
        /// How many.
        messages: u64,
    },
    /// As fast as the link takes them, for so many seconds. Goodput is what counts.
    Flood {
        /// How long.
        seconds: f64,
    },
    /// So many messages as fast as the link takes them; how long all take is what counts.
    Transfer {
        /// How many.
        messages: u64,
    },
    /// Each when the answer to the one before has come; latency is the round trip.
    PingPong {
        /// How many.
        messages: u64,
    },
    /// Opens a session, notes how long until the first message came, closes it, again.
    Opening {
        /// How many sessions.
        messages: u64,
    },
}

impl Pattern {
    /// With so many times the messages, or the time where that is what counts.
    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        match &mut self {
            Self::Flood { seconds } => *seconds *= factor,
            Self::Periodic { messages, .. }
            | Self::Transfer { messages }
            | Self::PingPong { messages }
            | Self::Opening { messages } => *messages = scaled(*messages, factor),
        }
        self
    }

    /// How long it lasts, seconds; `None` where that depends on the link.
    pub(super) fn length_s(&self) -> Option<f64> {
        match *self {
            Self::Periodic { rate_hz, messages } => Some(messages as f64 / rate_hz),
            Self::Flood { seconds } => Some(seconds),
            Self::Transfer { .. } | Self::PingPong { .. } | Self::Opening { .. } => None,
        }
    }
}

/// So many times a number of messages, at least one.
pub(super) fn scaled(messages: u64, factor: f64) -> u64 {
    (messages as f64 * factor).round().max(1.0) as u64
}

/// zenoh's priorities that applications may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "zenoh's own names")]
pub enum Priority {
    RealTime,
    InteractiveHigh,
    InteractiveLow,
    DataHigh,
    #[default]
    Data,
    DataLow,
    Background,
}

/// zenoh's reliability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "zenoh's own names")]
pub enum Reliability {
    #[default]
    Reliable,
    BestEffort,
}

/// What zenoh does when the link is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CongestionControl {
    /// The publisher waits, so that what is called offered was really handed over.
    #[default]
    Block,
    /// The message is thrown away.
    Drop,
}

/// A flow as it is written: one flat table, because serde cannot refuse unknown keys of a flattened one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowTable {
    name: String,
    payload_bytes: usize,
    pattern: PatternName,
    rate_hz: Option<f64>,
    messages: Option<u64>,
    seconds: Option<f64>,
    #[serde(default)]
    priority: Priority,
    #[serde(default)]
    reliability: Reliability,
    #[serde(default)]
    congestion_control: CongestionControl,
    #[serde(default)]
    own_session: bool,
    link: Option<String>,
    #[serde(default)]
    start_s: f64,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PatternName {
    Periodic,
    Flood,
    Transfer,
    PingPong,
    Opening,
}

impl PatternName {
    const fn of(pattern: &Pattern) -> Self {
        match pattern {
            Pattern::Periodic { .. } => Self::Periodic,
            Pattern::Flood { .. } => Self::Flood,
            Pattern::Transfer { .. } => Self::Transfer,
            Pattern::PingPong { .. } => Self::PingPong,
            Pattern::Opening { .. } => Self::Opening,
        }
    }

    /// How it is written, and the keys that it needs: no others of a pattern may stand beside it.
    const fn keys(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Periodic => ("periodic", &["rate_hz", "messages"]),
            Self::Flood => ("flood", &["seconds"]),
            Self::Transfer => ("transfer", &["messages"]),
            Self::PingPong => ("ping-pong", &["messages"]),
            Self::Opening => ("opening", &["messages"]),
        }
    }

    fn error(self, flow: &str, problem: &'static str, key: &'static str) -> PatternError {
        let (pattern, keys) = self.keys();
        PatternError { flow: flow.to_owned(), pattern, problem, key, keys }
    }
}

/// What a case or an axis changes of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FlowChange {
    pub(super) payload_bytes: Option<usize>,
    pub(super) rate_hz: Option<f64>,
    pub(super) messages: Option<u64>,
    pub(super) seconds: Option<f64>,
}

impl Flow {
    /// Sets what is given.
    pub(super) fn change(&mut self, change: &FlowChange) -> Result<(), PatternError> {
        let FlowChange { payload_bytes, mut rate_hz, mut messages, mut seconds } = *change;
        if let Some(bytes) = payload_bytes {
            self.payload_bytes = bytes;
        }
        match &mut self.pattern {
            Pattern::Periodic { rate_hz: rate, messages: count } => {
                take(rate, &mut rate_hz);
                take(count, &mut messages);
            }
            Pattern::Flood { seconds: time } => take(time, &mut seconds),
            Pattern::Transfer { messages: count }
            | Pattern::PingPong { messages: count }
            | Pattern::Opening { messages: count } => take(count, &mut messages),
        }
        // What was not taken has no meaning here.
        let left = [
            ("rate_hz", rate_hz.is_some()),
            ("messages", messages.is_some()),
            ("seconds", seconds.is_some()),
        ];
        match left.iter().find(|(_, left)| *left) {
            Some((key, _)) => {
                Err(PatternName::of(&self.pattern).error(&self.name, "does not know", key))
            }
            None => Ok(()),
        }
    }
}

fn take<T>(target: &mut T, given: &mut Option<T>) {
    if let Some(value) = given.take() {
        *target = value;
    }
}

/// The keys of a flow do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("flow `{flow}`: pattern `{pattern}` {problem} `{key}`; it takes {}", keys.join(" and "))]
pub struct PatternError {
    flow: String,
    pattern: &'static str,
    problem: &'static str,
    key: &'static str,
    keys: &'static [&'static str],
}

impl FlowTable {
    fn pattern(&self) -> Result<Pattern, PatternError> {
        let (_, keys) = self.pattern.keys();
        let error = |problem, key| self.pattern.error(&self.name, problem, key);
        let given = [
            ("rate_hz", self.rate_hz.is_some()),
            ("messages", self.messages.is_some()),
            ("seconds", self.seconds.is_some()),
        ];
        if let Some((key, _)) = given.iter().find(|(key, given)| *given && !keys.contains(key)) {
            return Err(error("does not know", key));
        }
        let messages = self.messages.ok_or_else(|| error("needs", "messages"));
        Ok(match self.pattern {
            PatternName::Periodic => Pattern::Periodic {
                rate_hz: self.rate_hz.ok_or_else(|| error("needs", "rate_hz"))?,
                messages: messages?,
            },
            PatternName::Flood => {
                Pattern::Flood { seconds: self.seconds.ok_or_else(|| error("needs", "seconds"))? }
            }
            PatternName::Transfer => Pattern::Transfer { messages: messages? },
            PatternName::PingPong => Pattern::PingPong { messages: messages? },
            PatternName::Opening => Pattern::Opening { messages: messages? },
        })
    }
}

impl TryFrom<FlowTable> for Flow {
    type Error = PatternError;

    fn try_from(table: FlowTable) -> Result<Self, PatternError> {
        Ok(Self {
            pattern: table.pattern()?,
            name: table.name,
            payload_bytes: table.payload_bytes,
            priority: table.priority,
            reliability: table.reliability,
            congestion_control: table.congestion_control,
            own_session: table.own_session || table.link.is_some(),
            link: table.link,
            start_s: table.start_s,
        })
    }
}
