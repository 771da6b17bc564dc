// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does a batch of zenoh's say that the link must know: which framing, whether it may be lost, whether a message
//! goes on in the next one, and whether the session ends?

use std::borrow::Cow;

use zenoh_buffers::reader::{DidntRead, HasReader, Reader};
use zenoh_codec::{
    transport::frame::FrameReader, RCodec, Zenoh080, Zenoh080Condition, Zenoh080Header,
};
use zenoh_protocol::{
    common::{iext, imsg},
    core::{CongestionControl, Reliability, WireExpr},
    network::{id::PUSH, push},
    transport::{
        close,
        fragment::{self, FragmentHeader},
        frame, id, BatchSize, TransportBody, TransportMessage,
    },
};

/// What stands before each batch where the sessions compress.
const UNCOMPRESSED: u8 = 0;
const COMPRESSED: u8 = 1;
/// The greatest reason of a CLOSE.
const LAST_CLOSE_REASON: u8 = close::reason::CONNECTION_TO_SELF;

/// zenoh's keep-alive in the framing of `batch`, where that shows which one the sessions agreed on:
/// where they compress, a header of one byte stands before each batch, zero where this one is not
/// compressed.
pub(crate) fn keep_alive_framed_as(batch: &[u8]) -> Option<&'static [u8]> {
    let begins = |byte: &u8| matches!(imsg::mid(*byte), id::FRAME | id::FRAGMENT | id::KEEP_ALIVE);
    match batch {
        [first, ..] if begins(first) => Some(&[id::KEEP_ALIVE]),
        [UNCOMPRESSED, first, ..] if begins(first) => Some(&[UNCOMPRESSED, id::KEEP_ALIVE]),
        _ => None,
    }
}

/// Whether a batch begins with what may be lost: a message of zenoh's of best effort. Where there are no frames
/// (lowlatency) zenoh does not say.
pub(crate) fn begins_with_best_effort(batch: &[u8]) -> bool {
    let first = match batch {
        [UNCOMPRESSED, first, ..] => Some(*first),
        [COMPRESSED, block @ ..] => first_of_block(block),
        batch => batch.first().copied(),
    };
    first.is_some_and(is_best_effort_header)
}

/// What may be lost of a batch, and what may not, each as a batch of its own: zenoh puts messages of both kinds into one
/// batch while they wait for the link.
pub(crate) fn by_kind(batch: &[u8]) -> [Option<Cow<'_, [u8]>>; 2] {
    let whole = |is_best_effort| match is_best_effort {
        true => [Some(batch.into()), None],
        false => [None, Some(batch.into())],
    };
    let decompressed;
    let (header, messages) = match batch {
        [UNCOMPRESSED, messages @ ..] => (&[UNCOMPRESSED][..], messages),
        [COMPRESSED, block @ ..] => {
            match decompress(block) {
                Some(messages) => decompressed = messages,
                None => return whole(false),
            }
            (&[UNCOMPRESSED][..], &decompressed[..])
        }
        messages => (&[][..], messages),
    };
    let (is_best_effort, bytes) = first_message(messages);
    if bytes == messages.len() {
        return whole(is_best_effort);
    }
    let [mut best_effort, mut reliable] = [header.to_vec(), header.to_vec()];
    let mut rest = messages;
    while !rest.is_empty() {
        let (is_best_effort, bytes) = first_message(rest);
        let (message, behind) = rest.split_at(bytes);
        let kind = if is_best_effort { &mut best_effort } else { &mut reliable };
        kind.extend_from_slice(message);
        rest = behind;
    }
    if best_effort.len() == header.len() || reliable.len() == header.len() {
        return whole(is_best_effort);
    }
    [Some(best_effort.into()), Some(reliable.into())]
}

/// Whether the first message of a batch may be lost, and its length. What is not understood takes all the rest, and
/// stays.
fn first_message(messages: &[u8]) -> (bool, usize) {
    let Some(&header) = messages.first() else { return (false, 0) };
    let mut behind = messages;
    let is_read = match imsg::mid(header) {
        // A fragment takes the rest of its batch.
        id::FRAGMENT => return (is_best_effort_header(header), messages.len()),
        id::FRAME => {
            let frame: Result<FrameReader<'_, &[u8]>, DidntRead> =
                Zenoh080::new().read(&mut behind);
            // Dropped, it has read all of its own messages.
            frame.map(drop).is_ok()
        }
        _ => {
            let message: Result<TransportMessage, DidntRead> = Zenoh080::new().read(&mut behind);
            message.is_ok()
        }
    };
    match is_read {
        true => (is_best_effort_header(header), messages.len() - behind.len()),
        false => (false, messages.len()),
    }
}

/// Whether a transport message that begins like this carries best effort.
fn is_best_effort_header(header: u8) -> bool {
    match imsg::mid(header) {
        id::FRAME => !imsg::has_flag(header, frame::flag::R),
        id::FRAGMENT => !imsg::has_flag(header, fragment::flag::R),
        _ => false,
    }
}

fn decompress(block: &[u8]) -> Option<Vec<u8>> {
    let mut messages = vec![0; BatchSize::MAX.into()];
    let bytes = lz4_flex::block::decompress_into(block, &mut messages).ok()?;
    messages.truncate(bytes);
    Some(messages)
}

/// The first byte of what was compressed. A block of LZ4 begins with bytes as they are: nothing is before them that they
/// could repeat.
fn first_of_block(block: &[u8]) -> Option<u8> {
    /// The length goes on in the next bytes, up to the first one that is less than 255.
    const LONG: u8 = 15;
    let (token, rest) = block.split_first()?;
    let begin = match token >> 4 {
        0 => return None,
        LONG => 1 + rest.iter().position(|byte| *byte != u8::MAX)?,
        _ => 0,
    };
    rest.get(begin).copied()
}

/// Whether a batch is a part of a message of which more follows, and which zenoh drops if one part waits too long for
/// the link. `begun`: so was the batch before it. What is compressed does not show.
pub(crate) fn more_or_nothing(batch: &[u8], begun: bool) -> bool {
    let batch = batch.strip_prefix(&[UNCOMPRESSED]).unwrap_or(batch);
    if batch.first().is_none_or(|header| imsg::mid(*header) != id::FRAGMENT) {
        return false;
    }
    let mut reader = batch.reader();
    let header: Result<FragmentHeader, DidntRead> = Zenoh080::new().read(&mut reader);
    header.is_ok_and(|header| {
        let may_be_dropped = match header.ext_first {
            Some(_) => header.reliability == Reliability::BestEffort || begins_droppable(reader),
            None => begun,
        };
        header.more && header.ext_drop.is_none() && may_be_dropped
    })
}

/// Whether what begins here is published with congestion control Drop.
fn begins_droppable(mut reader: impl Reader) -> bool {
    read_congestion_control(&mut reader).is_ok_and(|control| control == CongestionControl::Drop)
}

/// Of a publication, whose payload need not be complete.
fn read_congestion_control<R: Reader>(reader: &mut R) -> Result<CongestionControl, DidntRead> {
    let codec = Zenoh080::new();
    let header: u8 = codec.read(&mut *reader)?;
    if imsg::mid(header) != PUSH {
        return Err(DidntRead);
    }
    let _key: WireExpr<'static> =
        Zenoh080Condition::new(imsg::has_flag(header, push::flag::N)).read(&mut *reader)?;
    let mut qos = push::ext::QoSType::DEFAULT;
    if imsg::has_flag(header, push::flag::Z) {
        // The first one, or as by default.
        let extension: u8 = codec.read(&mut *reader)?;
        if iext::eid(extension) == push::ext::QoS::ID {
            let read: (push::ext::QoSType, bool) =
                Zenoh080Header::new(extension).read(&mut *reader)?;
            qos = read.0;
        }
    }
    Ok(qos.get_congestion_control())
}

/// Whether a batch ends in zenoh's CLOSE. It ends the session when it is read, and what other priorities have still to
/// deliver is lost with it. On a link where each priority has an order of its own, it must therefore leave after what was
/// written has arrived, and be read after what has arrived was read: as on a stream.
///
/// It may follow data, of the priority Background or of any where the session has none. It is not seen behind data that
/// is compressed; alone it is too short to be compressed.
pub(crate) fn is_close(batch: &[u8]) -> bool {
    // Few batches of data end like this, and need not be read.
    let may_be = matches!(batch, [.., header, reason]
        if header & !close::flag::S == id::CLOSE && *reason <= LAST_CLOSE_REASON);
    may_be && ends_with_close(batch.strip_prefix(&[UNCOMPRESSED]).unwrap_or(batch))
}

/// Whether the last message of a batch, and no other, is zenoh's CLOSE.
fn ends_with_close(batch: &[u8]) -> bool {
    let (mut reader, mut is_close) = (batch.reader(), false);
    while reader.can_read() {
        if is_close {
            return false;
        }
        let message: Result<TransportMessage, DidntRead> = Zenoh080::new().read(&mut reader);
        let Ok(message) = message else { return false };
        is_close = matches!(message.body, TransportBody::Close(_));
    }
    is_close
}

#[cfg(test)]
mod tests {
    use zenoh_buffers::writer::HasWriter;
    use zenoh_codec::WCodec;
    use zenoh_protocol::{
        core::{Encoding, Priority},
        network::{NetworkBody, NetworkMessage, Push},
        transport::{Close, Fragment, Frame, KeepAlive},
        zenoh::{PushBody, Put},
    };

    use super::{push::ext as push_ext, *};

    #[test]
    fn the_close_message_is_recognised_and_others_are_not() {
        for reason in 0..=LAST_CLOSE_REASON {
            for session in [0, close::flag::S] {
                assert!(is_close(&[0x03 | session, reason]));
                assert!(is_close(&[0, 0x03 | session, reason]));
            }
        }
        let keep_alive = [0x04];
        let frame = [0x25, 0x07, 0x00, 0x1d];
        let longer = [0x03, 0, 0, 0, 0];
        let of_no_reason = [0x03, 8];
        let others = [&[][..], &keep_alive, &frame, &longer, &of_no_reason];
        assert!(!others.into_iter().any(is_close));
    }

    fn push(payload: &[u8]) -> Push {
        let put = Put {
            timestamp: None,
            encoding: Encoding::empty(),
            ext_sinfo: None,
            ext_attachment: None,
            ext_unknown: Vec::new(),
            payload: payload.to_vec().into(),
        };
        Push {
            wire_expr: "a".into(),
            ext_qos: push_ext::QoSType::DEFAULT,
            ext_tstamp: None,
            ext_nodeid: push_ext::NodeIdType::DEFAULT,
            ext_ts_stack: None,
            payload: PushBody::Put(put),
        }
    }

    /// A frame of two messages.
    fn frame(reliability: Reliability, payload: &[u8]) -> TransportMessage {
        let message = NetworkMessage { body: NetworkBody::Push(push(payload)), reliability };
        let ext_qos = frame::ext::QoSType::new(Priority::RealTime);
        TransportMessage::from(Frame { reliability, sn: 7, ext_qos, payload: vec![message; 2] })
    }

    fn fragment(reliability: Reliability) -> TransportMessage {
        TransportMessage::from(Fragment {
            reliability,
            more: true,
            sn: 7,
            payload: vec![0x25; 100].into(),
            ext_qos: fragment::ext::QoSType::new(Priority::RealTime),
            ext_first: Some(fragment::ext::First::new()),
            ext_drop: None,
        })
    }

    fn batch(messages: &[TransportMessage]) -> Vec<u8> {
        let mut batch = Vec::new();
        for message in messages {
            Zenoh080::new().write(&mut batch.writer(), message).unwrap();
        }
        batch
    }

    #[test]
    fn a_close_message_behind_data_is_recognised_and_data_that_looks_like_it_is_not() {
        let frame = |payload| frame(Reliability::Reliable, payload);
        let close = TransportMessage::from(Close { reason: 0, session: false });
        let with_close = batch(&[frame(b"data"), close.clone()]);
        assert_eq!(with_close[with_close.len() - 2..], [0x03, 0]);
        assert!(is_close(&with_close));
        assert!(is_close(&[&[0][..], &with_close].concat()), "behind a compression header");
        assert!(is_close(&batch(&[KeepAlive.into(), close])));
        assert!(!is_close(&batch(&[frame(b"data ends in \x03\x00")])));
        assert!(!is_close(&with_close[1..]), "it is no batch");
        assert!(!is_close(&[3; 100]), "nothing follows a close message");
    }

    /// The batch without and with a header, uncompressed and compressed.
    fn framings(messages: &[TransportMessage]) -> [Vec<u8>; 3] {
        let plain = batch(messages);
        let uncompressed = [&[UNCOMPRESSED], &plain[..]].concat();
        let compressed = [&[COMPRESSED], &lz4_flex::block::compress(&plain)[..]].concat();
        [plain, uncompressed, compressed]
    }

    #[test]
    fn a_batch_is_parted_by_what_may_be_lost() {
        use Reliability::{BestEffort, Reliable};
        let close = TransportMessage::from(Close { reason: 0, session: false });
        let [lossy, sure] = [BestEffort, Reliable].map(|kind| frame(kind, &[b'.'; 200]));
        for (messages, lossy_ones) in [
            (vec![lossy.clone()], vec![0]),
            (vec![lossy.clone(), lossy.clone()], vec![0, 1]),
            (vec![lossy.clone(), fragment(BestEffort)], vec![0, 1]),
            (vec![fragment(BestEffort)], vec![0]),
            (vec![sure.clone()], vec![]),
            (vec![sure.clone(), sure.clone()], vec![]),
            (vec![fragment(Reliable)], vec![]),
            (vec![lossy.clone(), sure.clone()], vec![0]),
            (vec![sure.clone(), lossy.clone(), sure.clone(), lossy.clone()], vec![1, 3]),
            (vec![lossy.clone(), fragment(Reliable)], vec![0]),
            (vec![KeepAlive.into(), lossy.clone()], vec![1]),
            (vec![lossy.clone(), KeepAlive.into()], vec![0]),
            (vec![lossy.clone(), close.clone()], vec![0]),
            (vec![KeepAlive.into(), close], vec![]),
        ] {
            let pick = |of_lossy| -> Vec<_> {
                let all = messages.iter().enumerate();
                let picked = all.filter(|(at, _)| lossy_ones.contains(at) == of_lossy);
                picked.map(|(_, message)| message.clone()).collect()
            };
            let is_whole = [true, false].map(|kind| pick(kind).len() == messages.len());
            for (framing, sent) in framings(&messages).into_iter().enumerate() {
                assert_eq!(begins_with_best_effort(&sent), lossy_ones.first() == Some(&0));
                let parts = by_kind(&sent);
                for (kind, part, is_whole) in [(true, 0, is_whole[0]), (false, 1, is_whole[1])] {
                    let expected = match pick(kind) {
                        none if none.is_empty() => None,
                        _ if is_whole => Some(sent.clone()),
                        // What is parted is not compressed again.
                        some => Some(framings(&some)[framing.min(1)].clone()),
                    };
                    assert_eq!(parts[part].as_deref(), expected.as_deref(), "{messages:?}");
                }
            }
        }
    }

    #[test]
    fn a_compressed_batch_shows_how_it_begins_whatever_its_first_repetition() {
        for bytes in (1..40).chain(260..300) {
            let random: Vec<u8> = (0..bytes).map(|at: u32| ((at * at * 167) >> 3) as u8).collect();
            for kind in [Reliability::BestEffort, Reliability::Reliable] {
                let [_, _, compressed] = framings(&[frame(kind, &random), frame(kind, &[0; 100])]);
                let is_best_effort = kind == Reliability::BestEffort;
                assert_eq!(begins_with_best_effort(&compressed), is_best_effort, "{bytes} bytes");
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_not_lost() {
        let mut lowlatency = Vec::new();
        let body = NetworkBody::Push(push(&[5; 100]));
        let message = NetworkMessage { body, reliability: Reliability::BestEffort };
        Zenoh080::new().write(&mut lowlatency.writer(), &message).unwrap();
        assert!(!begins_with_best_effort(&lowlatency));
        let mut rng = 1_u32;
        for bytes in 0..2_000 {
            let noise: Vec<u8> = std::iter::repeat_with(|| {
                rng = rng.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (rng >> 24) as u8
            })
            .take(bytes % 50)
            .collect();
            for batch in [&noise[..], &lowlatency, &[&[COMPRESSED], &noise[..]].concat()] {
                begins_with_best_effort(batch);
                let [best_effort, reliable] = by_kind(batch);
                let parts = best_effort.iter().chain(&reliable);
                let sum = parts.map(|part| part.len()).sum::<usize>();
                assert!(sum >= batch.len() || batch[0] == COMPRESSED, "{batch:x?}");
            }
        }
    }

    /// The two batches of a long publication.
    fn parts(ext_qos: push_ext::QoSType, key: &'static str) -> [Vec<u8>; 2] {
        let mut message = Vec::new();
        let push = Push { ext_qos, wire_expr: key.into(), ..push(&[7; 5_000]) };
        Zenoh080::new().write(&mut message.writer(), &push).unwrap();
        let part = |more: bool, payload: &[u8]| {
            let header = FragmentHeader {
                reliability: Reliability::Reliable,
                more,
                sn: 300,
                ext_qos: fragment::ext::QoSType::new(Priority::DataHigh),
                ext_first: more.then(fragment::ext::First::new),
                ext_drop: None,
            };
            let mut batch = Vec::new();
            Zenoh080::new().write(&mut batch.writer(), &header).unwrap();
            batch.extend_from_slice(payload);
            batch
        };
        [part(true, &message[..3_000]), part(false, &message[3_000..])]
    }

    #[test]
    fn the_parts_of_what_may_be_dropped_are_known_to_the_last() {
        let qos = |control| push_ext::QoSType::new(Priority::DataHigh, control, false);
        for key in ["", "a", "a/longer/key"] {
            for qos in [push_ext::QoSType::DEFAULT, qos(CongestionControl::Drop)] {
                let [first, last] = parts(qos, key);
                assert!(more_or_nothing(&first, false) && more_or_nothing(&first, true));
                assert!(more_or_nothing(&[&[0][..], &first].concat(), false), "not compressed");
                assert!(!more_or_nothing(&[&[1][..], &first].concat(), false), "compressed");
                assert!(!more_or_nothing(&last, true), "it is the last one");
            }
            let [first, _] = parts(qos(CongestionControl::Block), key);
            assert!(!more_or_nothing(&first, false) && !more_or_nothing(&first, true));
            for len in 0..40 {
                assert!(!more_or_nothing(&first[..len], false), "{len} bytes of it");
            }
        }
        let header = |ext_drop| FragmentHeader {
            reliability: Reliability::Reliable,
            more: true,
            sn: 301,
            ext_qos: fragment::ext::QoSType::DEFAULT,
            ext_first: None,
            ext_drop,
        };
        let batch = |ext_drop| {
            let mut batch = Vec::new();
            Zenoh080::new().write(&mut batch.writer(), &header(ext_drop)).unwrap();
            batch
        };
        assert!(more_or_nothing(&batch(None), true));
        assert!(!more_or_nothing(&batch(None), false), "it goes on with what must not be dropped");
        let dropped = Some(fragment::ext::Drop::new());
        assert!(!more_or_nothing(&batch(dropped), true), "it was dropped");
        assert!(!more_or_nothing(&[0x25, 0x07, 0x00, 0x1d], true), "a frame");
    }

    #[test]
    fn the_framing_is_learnt_from_what_begins_a_batch() {
        let plain: Option<&[u8]> = Some(&[0x04]);
        let behind_a_header: Option<&[u8]> = Some(&[0x00, 0x04]);
        let frame = [0x25, 0x07, 0x00, 0x1d];
        let (fragment, keep_alive) = ([0x66, 0x01], [0x04]);
        for batch in [&frame[..], &fragment, &keep_alive] {
            assert_eq!(keep_alive_framed_as(batch), plain);
            let uncompressed = [&[0x00], batch].concat();
            assert_eq!(keep_alive_framed_as(&uncompressed), behind_a_header);
            let compressed = [&[0x01], batch].concat();
            assert_eq!(keep_alive_framed_as(&compressed), None);
        }
        let (init, close, push) = ([0xc1, 0x09], [0x03, 0x00], [0x1d, 0x04]);
        for batch in [&[][..], &[0x00], &init, &close, &push] {
            assert_eq!(keep_alive_framed_as(batch), None);
        }
    }
}
