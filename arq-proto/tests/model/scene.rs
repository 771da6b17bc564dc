// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Who is there, what may be said, and how much of everything there is.

use crate::side::Body;

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    Server,
    /// Where the client's host is.
    Home,
    /// Where a NAT puts it later.
    Moved,
    /// Another port of that host, of its second program.
    Beside,
    /// All others: nobody there has keys.
    Foreign,
}

/// A rule of the protocol that a mutant lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// ARQ-RST-2, ARQ-SUS-1: RESET ends nothing alone.
    ResetIsEvidence,
    /// ARQ-HS-9: REFUSE ends no client that is open.
    RefuseIsEvidence,
    /// ARQ-RPL-1: a newcomer from the peer's address ends nothing alone.
    NewcomerIsEvidence,
    /// ARQ-RPL-2: nor does a newcomer of the peer's host.
    SiblingIsEvidence,
    /// ARQ-SUS-3: questions have time for their answers.
    QuestionsTakeTime,
    /// ARQ-HS-9: REFUSE ends no attempt in its first second.
    RefusalIsDoubted,
    /// ARQ-HSK-6: who is answered by a forger asks again.
    SpoiledIsRepeated,
    /// ARQ-PTH-1: an address is asked before it is believed.
    QuestionFirst,
    /// ARQ-PTH-4: the answer has the question's token.
    AnswerIsBound,
    /// ARQ-PTH-4: the address in use could have answered, too.
    OldCouldAnswer,
    /// ARQ-PTH-8: an original settles the question that its copy raised.
    OriginalSettles,
    /// ARQ-PTH-8: a duplicate is not believed, but leads to a question.
    DuplicateIsAsked,
    /// ARQ-HSK-5: a handshake is known by address and id.
    HelloIsKnown,
    /// ARQ-ADM-1: without room no state before the cookie returns.
    CookieFirst,
    /// ARQ-HS-5: a cookie is good for one address and id.
    CookieIsBound,
}

/// What vouches for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cookie {
    None,
    /// The adversary's invention.
    Junk,
    /// For this address and client's id.
    For(Place, u8),
}

/// A packet. Nobody but the client `client` and the server's state `server` can make a sealed one of theirs; all can be
/// copied. `nth` tells repetitions apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Packet {
    Hello {
        client: u8,
        cookie: Cookie,
        nth: u8,
    },
    Challenge {
        client: u8,
        cookie: Cookie,
        nth: u8,
    },
    Refuse {
        client: u8,
    },
    /// HANDSHAKE to the client; of no server: a forgery.
    ServerFlight {
        client: u8,
        server: Option<u8>,
        nth: u8,
    },
    /// HANDSHAKE to the server, with HOST.
    ClientFlight {
        client: u8,
        server: u8,
        nth: u8,
    },
    Reset {
        client: u8,
        server: u8,
        is_up: bool,
    },
    Sealed {
        client: u8,
        server: u8,
        is_up: bool,
        number: u8,
        body: Body,
    },
}

impl Packet {
    pub(crate) fn client(self) -> u8 {
        match self {
            Self::Hello { client, .. }
            | Self::Challenge { client, .. }
            | Self::Refuse { client }
            | Self::ServerFlight { client, .. }
            | Self::ClientFlight { client, .. }
            | Self::Reset { client, .. }
            | Self::Sealed { client, .. } => client,
        }
    }

    /// Whether it is for the server.
    pub(crate) fn is_up(self) -> bool {
        match self {
            Self::Hello { .. } | Self::ClientFlight { .. } => true,
            Self::Challenge { .. } | Self::Refuse { .. } | Self::ServerFlight { .. } => false,
            Self::Reset { is_up, .. } | Self::Sealed { is_up, .. } => is_up,
        }
    }
}

/// A packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Datagram {
    pub(crate) from: Place,
    pub(crate) to: Place,
    pub(crate) packet: Packet,
}

/// How often what may happen. It bounds the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Packets that the adversary suppresses.
    pub(crate) drops: u8,
    /// Packets that he sends once more, from any address.
    pub(crate) copies: u8,
    /// Packets of his own.
    pub(crate) forgeries: u8,
    /// PINGs, and questions about addresses, of all sides.
    pub(crate) pings: u8,
    pub(crate) asks: u8,
    /// Times that a client's program is killed, one more is started, a NAT rebinds, the server restarts.
    pub(crate) kills: u8,
    pub(crate) starts: u8,
    pub(crate) rebindings: u8,
    pub(crate) restarts: u8,
}

/// What is checked.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) budget: Budget,
    /// The association is open at the start.
    pub(crate) is_open: bool,
    /// And the client's NAT has just rebound.
    pub(crate) has_moved: bool,
    /// Handshakes of clients that may be anywhere (ARQ-ADM-1).
    pub(crate) seats: usize,
    /// The adversary reads what is sent to [`Place::Foreign`], and to where a client was.
    pub(crate) reads_all: bool,
    /// Addresses that he sends copies from.
    pub(crate) copies_from: &'static [Place],
    pub(crate) lacks: Option<Rule>,
    /// Names of the properties.
    pub(crate) claims: &'static [&'static str],
}
