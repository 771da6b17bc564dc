// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! One side of an open association: is the peer gone, and where is it?

use crate::scene::{Place, Rule};

/// PINGs in a row, or HELLOs, that a living peer does not leave unanswered by chance (ARQ-SUS-3, §7). An end counts more
/// of them; the adversary may suppress one packet less than here.
pub(crate) const QUESTIONS: u8 = 2;
/// Tokens that do not come from [`Budget::asks`](crate::scene::Budget::asks) are larger.
const UNBUDGETED: u8 = 100;

/// What a sealed packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Body {
    Ping,
    /// An acknowledgement.
    Pong,
    /// PATH_CHALLENGE with its token.
    Ask(u8),
    /// PATH_RESPONSE.
    Answer(u8),
}

/// A packet that leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub(crate) to: Place,
    pub(crate) number: u8,
    pub(crate) body: Body,
}

/// Whether the peer receives at another address (ARQ-PTH-1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    place: Place,
    token: u8,
    raised_by: u8,
    is_answered: bool,
    /// The packet with the largest number came from there.
    has_newest: bool,
}

/// There are duplicates: they or what came first are copies (ARQ-PTH-8).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Copied {
    /// Where the duplicates come from.
    place: Place,
    token: u8,
    /// Since the address came into question.
    is_asked: bool,
}

/// The peer may be gone (ARQ-SUS-1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Suspicion {
    asked: u8,
    /// There is no other evidence than that of ARQ-RPL-2.
    is_of_sibling: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Side {
    /// The peer's address.
    pub(crate) peer: Place,
    sent: u8,
    /// A bit for each number that was received.
    got: u32,
    /// PINGs since something authentic was heard.
    silence: u8,
    suspicion: Option<Suspicion>,
    question: Option<Question>,
    /// The address that the peer had, and what said that it had moved (ARQ-PTH-8).
    left: Option<(Place, u8)>,
    /// Whether the peer receives at an address that duplicates came from (ARQ-PTH-8).
    pub(crate) copied: Option<Copied>,
    /// No address is asked or believed, for the peer has answered from where it was (ARQ-PTH-8).
    pub(crate) is_doubtful: bool,
}

/// What a step of a side depends on, and leads to.
pub(crate) struct Turn<'a> {
    pub(crate) lacks: Option<Rule>,
    /// Questions that may still be asked.
    pub(crate) asks: &'a mut u8,
    pub(crate) out: &'a mut Vec<Leaving>,
}

impl Side {
    pub(crate) fn new(peer: Place) -> Self {
        Self {
            peer,
            sent: 0,
            got: 0,
            silence: 0,
            suspicion: None,
            question: None,
            left: None,
            copied: None,
            is_doubtful: false,
        }
    }

    /// The same after a first packet of either side.
    pub(crate) fn confirmed(self) -> Self {
        Self { sent: 1, got: 1, ..self }
    }

    /// Whether something sealed of the peer's has opened.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.got != 0
    }

    fn send(&mut self, to: Place, body: Body, turn: &mut Turn<'_>) {
        turn.out.push(Leaving { to, number: self.sent, body });
        self.sent += 1;
    }

    /// Where packets go: ahead of the answer to where the peer seems to be (ARQ-PTH-1), unless there are copies.
    fn destination(&self) -> Place {
        let waits = self.copied.as_ref().is_some_and(|copied| copied.is_asked);
        let ahead = self.question.as_ref().filter(|question| question.has_newest);
        let ahead = ahead.filter(|question| question.is_answered || !waits);
        ahead.map_or(self.peer, |question| question.place)
    }

    /// A sign of life that counts as no question: the first packet of all.
    pub(crate) fn greet(&mut self, turn: &mut Turn<'_>) {
        self.send(self.destination(), Body::Ping, turn);
    }

    pub(crate) fn ping(&mut self, turn: &mut Turn<'_>) {
        self.silence = QUESTIONS.min(self.silence + 1);
        if let Some(suspicion) = &mut self.suspicion {
            suspicion.asked = QUESTIONS.min(suspicion.asked + 1);
        }
        self.send(self.destination(), Body::Ping, turn);
    }

    /// Evidence that the peer is gone. Tells whether it is to be asked at once.
    pub(crate) fn suspect(&mut self, is_of_sibling: bool) -> bool {
        match &mut self.suspicion {
            Some(suspicion) => {
                suspicion.is_of_sibling &= is_of_sibling;
                false
            }
            empty => {
                *empty = Some(Suspicion { asked: 0, is_of_sibling });
                true
            }
        }
    }

    pub(crate) fn is_suspicious(&self) -> bool {
        self.suspicion.is_some()
    }

    /// ARQ-SUS-2: what was silent before counts, but not for a sibling (ARQ-SUS-4). That evidence must repeat makes no
    /// difference here: who forges it once does so as often as he likes.
    pub(crate) fn is_convicted(&self) -> bool {
        self.suspicion.as_ref().is_some_and(|suspicion| match suspicion.is_of_sibling {
            true => suspicion.asked >= QUESTIONS,
            false => self.silence >= QUESTIONS,
        })
    }

    /// A packet that opens.
    pub(crate) fn hear(&mut self, from: Place, (number, body): (u8, Body), turn: &mut Turn<'_>) {
        let lacks = turn.lacks;
        let bit = 1 << number;
        if self.got & bit != 0 {
            // ARQ-ERR-1, ARQ-NUM-4: of no other effect.
            return self.hear_again(from, number, turn);
        }
        let is_newest = bit > self.got;
        self.got |= bit;
        (self.silence, self.suspicion) = (0, None);
        if from == self.peer {
            self.settle(number, lacks);
        } else if !self.is_back(from, number) && is_newest && !self.is_doubtful {
            self.raise_question(from, number, turn);
        }
        let in_question = self.question.as_ref().is_some_and(|question| question.place == from);
        match body {
            Body::Ping => self.send(self.destination(), Body::Pong, turn),
            // ARQ-PTH-3
            Body::Ask(token) if from == self.peer || in_question => {
                self.send(from, Body::Answer(token), turn);
            }
            Body::Answer(token) => self.on_answer(from, token, lacks),
            Body::Ask(_) | Body::Pong => {}
        }
    }

    /// ARQ-PTH-8: a duplicate tells that there are copies, but not which of two addresses they come from.
    fn hear_again(&mut self, from: Place, number: u8, turn: &mut Turn<'_>) {
        let raised = self.question.as_ref().filter(|one| one.has_newest && from == self.peer);
        let raised = raised.map(|question| question.raised_by);
        let left = self.left.filter(|(left, _)| *left == from).map(|(_, raised_by)| raised_by);
        if raised.or(left).is_none_or(|raised_by| number < raised_by) {
            return;
        }
        if turn.lacks == Some(Rule::DuplicateIsAsked) {
            return self.believe(from);
        }
        let known = self.copied.take().filter(|copied| copied.place == from);
        let token = known.as_ref().map_or(UNBUDGETED + self.sent, |copied| copied.token);
        if known.is_none_or(|copied| !copied.is_asked) {
            self.send(from, Body::Ask(token), turn);
        }
        self.copied = Some(Copied { place: from, token, is_asked: true });
    }

    /// The next duplicate leads to a question.
    fn doubt_anew(&mut self) {
        if let Some(copied) = &mut self.copied {
            copied.is_asked = false;
        }
    }

    /// ARQ-PTH-8: the peer is where it was, and copies came from elsewhere.
    fn believe(&mut self, place: Place) {
        (self.peer, self.left, self.question, self.copied) = (place, None, None, None);
        self.is_doubtful = true;
    }

    /// ARQ-PTH-8: what was not received before tells that the peer is where it was.
    fn settle(&mut self, number: u8, lacks: Option<Rule>) {
        let raised = self.question.as_mut().filter(|question| number >= question.raised_by);
        if let Some(question) = raised.filter(|_| lacks != Some(Rule::OriginalSettles)) {
            question.has_newest = false;
        }
    }

    /// ARQ-PTH-8: the peer was followed too soon.
    fn is_back(&mut self, from: Place, number: u8) -> bool {
        let is_back =
            self.left.is_some_and(|(left, raised_by)| left == from && number >= raised_by);
        if is_back {
            (self.peer, self.left, self.question) = (from, None, None);
        }
        is_back
    }

    /// ARQ-PTH-1, ARQ-PTH-2: the newest packet came from elsewhere.
    fn raise_question(&mut self, from: Place, number: u8, turn: &mut Turn<'_>) {
        if turn.lacks == Some(Rule::QuestionFirst) {
            return self.move_to(from, number);
        }
        let known = self.question.take().filter(|question| question.place == from);
        if known.as_ref().is_some_and(|question| question.has_newest) || *turn.asks == 0 {
            self.question = known;
            return;
        }
        let token = known.as_ref().map_or(*turn.asks, |question| question.token);
        let is_answered = known.is_some_and(|question| question.is_answered);
        *turn.asks -= 1;
        self.doubt_anew();
        let question =
            Question { place: from, token, raised_by: number, is_answered, has_newest: true };
        self.question = Some(question);
        self.send(from, Body::Ask(token), turn);
        self.send(self.peer, Body::Ping, turn);
    }

    /// ARQ-PTH-4
    fn on_answer(&mut self, from: Place, token: u8, lacks: Option<Rule>) {
        // From wherever it comes (RFC 9000 §8.2.3): copies may be faster again.
        if let Some(copied) = self.copied.as_ref().filter(|copied| copied.token == token) {
            return self.believe(copied.place);
        }
        let is_any = lacks == Some(Rule::AnswerIsBound);
        if let Some(question) = self.question.as_mut().filter(|one| one.place == from) {
            question.is_answered |= question.has_newest && (question.token == token || is_any);
        }
    }

    /// Where the peer is followed to, once the address in use could have answered, too.
    pub(crate) fn followed(&self) -> Option<Place> {
        let question = self.question.as_ref()?;
        let is_due = question.is_answered && question.has_newest && !self.is_doubtful;
        is_due.then_some(question.place)
    }

    pub(crate) fn follow(&mut self) {
        if let Some(question) = self.question.take() {
            self.move_to(question.place, question.raised_by);
        }
    }

    fn move_to(&mut self, place: Place, raised_by: u8) {
        self.left = Some((self.peer, raised_by));
        (self.peer, self.question) = (place, None);
        self.doubt_anew();
    }

    /// Some seconds have passed.
    pub(crate) fn forget(&mut self) {
        (self.left, self.copied, self.is_doubtful) = (None, None, false);
    }
}
