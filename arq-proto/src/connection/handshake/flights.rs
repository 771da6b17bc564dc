// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The flights of a cryptographic handshake, as coded messages: any *k* symbols of one are enough, and each repetition
//! brings fresh ones.

use crate::{
    fec,
    recv::reassembly::Reassembly,
    units::LaneId,
    wire::{
        flight::{FlightFrame, MAX_FLIGHT_BYTES},
        frame::{ChunkFrame, RepairFrame, Shape},
        MAX_CHUNKS, MAX_REPAIR_SYMBOLS,
    },
};

/// Flights have no lane; what puts them together does not look at it.
const NO_LANE: LaneId = LaneId::from_wire(0);

/// A flight that this side sends.
#[derive(Debug)]
pub(super) struct FlightOut {
    stage: u64,
    bytes: Vec<u8>,
    shape: Shape,
    next: usize,
}

impl FlightOut {
    /// In chunks of `most` bytes at most, equally long. `None` if it has none, or is longer than a flight may be.
    pub(super) fn new(stage: u64, bytes: Vec<u8>, most: usize) -> Option<Self> {
        let message_bytes = bytes.len();
        let chunk_bytes = message_bytes.div_ceil(message_bytes.div_ceil(most.max(1)).max(1));
        let shape = Shape { message_bytes, chunk_bytes };
        let fits = (1..=MAX_FLIGHT_BYTES).contains(&message_bytes);
        let is_flight = fits && shape.chunk_count() <= MAX_CHUNKS;
        is_flight.then_some(Self { stage, bytes, shape, next: 0 })
    }

    /// Symbols that the peer needs.
    pub(super) fn needed(&self) -> u8 {
        // There are no more than 128 chunks.
        self.shape.chunk_count() as u8
    }

    /// Bytes of the next symbol.
    pub(super) fn symbol_bytes(&self) -> usize {
        self.shape.chunk_bytes
    }

    /// Hands the next symbol to `put`: the chunks in turn, then repair symbols, if there can be any, then all again.
    pub(super) fn next_symbol(&mut self, put: impl FnOnce(FlightFrame<'_>)) {
        let (stage, shape, chunks) = (self.stage, self.shape, self.shape.chunk_count());
        let symbols = chunks + if shape.is_codable() { MAX_REPAIR_SYMBOLS } else { 0 };
        let next = self.next;
        self.next = (next + 1) % symbols;
        if next < chunks {
            let start = next * shape.chunk_bytes;
            let data = &self.bytes[start..self.bytes.len().min(start + shape.chunk_bytes)];
            put(FlightFrame { stage, shape, index: next, data });
        } else {
            let (mut symbol, index) = (Vec::new(), next - chunks);
            fec::encode(&self.bytes, shape.chunk_bytes, index, &mut symbol);
            put(FlightFrame { stage, shape, index: MAX_CHUNKS + index, data: &symbol });
        }
    }
}

/// The peer's next flight.
#[derive(Debug, Default)]
pub(super) struct FlightIn {
    stage: u64,
    partial: Option<Reassembly>,
    /// The flight before, which was read.
    read: bytes::Bytes,
}

impl FlightIn {
    /// Takes a symbol; returns the flight once it is whole. Of another flight it takes none. One of another shape begins the
    /// flight anew: its sender does not change that, so one of the two is somebody else, who may have been first.
    pub(super) fn insert(&mut self, frame: &FlightFrame<'_>) -> Option<bytes::Bytes> {
        let FlightFrame { stage, shape, index, data } = *frame;
        if stage != self.stage {
            return None;
        }
        if self.partial.as_ref().is_some_and(|partial| partial.shape() != shape) {
            self.restart();
        }
        let partial = self.partial.get_or_insert_with(|| Reassembly::new(shape));
        let (lane, seq, Shape { message_bytes, chunk_bytes }) = (NO_LANE, 0, shape);
        let taken = match index.checked_sub(MAX_CHUNKS) {
            None => {
                partial.insert(&ChunkFrame { lane, seq, message_bytes, chunk_bytes, index, data })
            }
            Some(index) => partial.insert_repair(&RepairFrame { lane, seq, shape, index, data }),
        };
        if taken.is_err() || !partial.is_complete() {
            return None;
        }
        self.stage += 1;
        let flight = self.partial.take().map(Reassembly::into_message);
        self.read = flight.clone().unwrap_or_default();
        flight
    }

    /// Whether this is of another flight than the one that was read in its place: two have answered.
    pub(super) fn contradicts(&self, frame: &FlightFrame<'_>) -> bool {
        let FlightFrame { stage, shape, index, data } = *frame;
        let chunk = index * shape.chunk_bytes..index * shape.chunk_bytes + data.len();
        let differs = || {
            index < MAX_CHUNKS && self.read.get(chunk).is_none_or(|read| read != data)
                || shape.message_bytes != self.read.len()
        };
        stage + 1 == self.stage && differs()
    }

    /// Symbols that are missing of a flight that has begun to arrive.
    pub(super) fn missing(&self) -> usize {
        self.partial.as_ref().map_or(0, Reassembly::missing)
    }

    /// Forgets what there is of the flight: its sender was somebody else.
    pub(super) fn restart(&mut self) {
        self.partial = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{cursor::Reader, flight::HandshakeFrame};

    proptest! {
        // ARQ-HSK-3
        #[test]
        fn any_symbols_in_any_order_give_the_flight_and_fresh_ones_never_end(
            len in 1..=MAX_FLIGHT_BYTES,
            most in 200_usize..1_200,
            lost in prop::collection::vec(any::<bool>(), 0..300),
        ) {
            let bytes: Vec<u8> = (0..len).map(|n| (n * 7 % 251) as u8).collect();
            let mut out = FlightOut::new(3, bytes.clone(), most).unwrap();
            let mut into = FlightIn { stage: 3, ..FlightIn::default() };
            let (mut arrived, mut whole) = (0, None);
            for lost in lost.into_iter().chain(std::iter::repeat(false)).take(1_000) {
                let mut encoded = Vec::new();
                out.next_symbol(|frame| HandshakeFrame::Flight(frame).encode(&mut encoded));
                if lost || whole.is_some() {
                    continue;
                }
                arrived += 1;
                let frame = HandshakeFrame::decode(&mut Reader::new(&encoded)).unwrap().unwrap();
                let HandshakeFrame::Flight(frame) = frame else { panic!("{frame:?}") };
                whole = into.insert(&frame);
            }
            prop_assert_eq!(whole.as_deref(), Some(&bytes[..]));
            // All that came before is no longer needed; copies come only after all 128 repair symbols.
            prop_assert!(arrived >= usize::from(out.needed()));
            prop_assert!(out.needed() == 1 || arrived <= usize::from(out.needed()) + 300);
        }
    }

    // ARQ-HSK-4
    #[test]
    fn who_was_first_with_another_shape_does_not_keep_the_true_flight_from_being_read() {
        let symbol = |message_bytes, data| {
            let shape = Shape { message_bytes, chunk_bytes: 10 };
            FlightFrame { stage: 0, shape, index: 0, data }
        };
        let mut into = FlightIn::default();
        assert_eq!(into.insert(&symbol(20, &[1; 10])), None);
        assert_eq!(into.insert(&symbol(10, &[2; 10])).as_deref(), Some(&[2; 10][..]));
    }

    // ARQ-HSK-4
    #[test]
    fn what_differs_from_the_flight_that_was_read_contradicts_it() {
        let shape = Shape { message_bytes: 15, chunk_bytes: 10 };
        let symbol = |stage, index, data| FlightFrame { stage, shape, index, data };
        let mut into = FlightIn::default();
        assert!(!into.contradicts(&symbol(0, 0, &[2; 10])), "nothing was read");
        into.insert(&symbol(0, 0, &[1; 10]));
        assert!(into.insert(&symbol(0, 1, &[1; 5])).is_some());
        assert!(
            !into.contradicts(&symbol(0, 1, &[1; 5])) && into.contradicts(&symbol(0, 1, &[2; 5]))
        );
        assert!(
            !into.contradicts(&symbol(0, MAX_CHUNKS, &[9; 10])),
            "a repair symbol is not compared"
        );
        let longer = Shape { message_bytes: 16, ..shape };
        assert!(into.contradicts(&FlightFrame { shape: longer, ..symbol(0, 0, &[1; 10]) }));
        assert!(!into.contradicts(&symbol(1, 0, &[2; 10])));
    }

    #[test]
    fn a_flight_has_bytes_and_an_end() {
        assert!(FlightOut::new(0, Vec::new(), 1_000).is_none());
        assert!(FlightOut::new(0, vec![0; MAX_FLIGHT_BYTES + 1], 1_000).is_none());
        assert!(FlightOut::new(0, vec![0; MAX_FLIGHT_BYTES], 100).is_none(), "too many chunks");
    }
}
