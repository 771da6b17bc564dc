// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does a batch of zenoh's say that the link must know: which framing, whether a message goes on in the next one,
//! and whether the session ends?

use zenoh_buffers::reader::{DidntRead, HasReader, Reader};
use zenoh_codec::{RCodec, Zenoh080, Zenoh080Condition, Zenoh080Header};
use zenoh_protocol::{
    common::{iext, imsg},
    core::{CongestionControl, Reliability, WireExpr},
    network::{
        id::PUSH,
        push::{ext, flag},
    },
    transport::{fragment::FragmentHeader, id, TransportBody, TransportMessage},
};

/// zenoh's keep-alive in the framing of `batch`, where that shows which one the sessions agreed on:
/// where they compress, a header of one byte stands before each batch, zero where this one is not
/// compressed.
pub(crate) fn keep_alive_framed_as(batch: &[u8]) -> Option<&'static [u8]> {
    let begins = |byte: &u8| matches!(imsg::mid(*byte), id::FRAME | id::FRAGMENT | id::KEEP_ALIVE);
    match batch {
        [first, ..] if begins(first) => Some(&[id::KEEP_ALIVE]),
        [0, first, ..] if begins(first) => Some(&[0, id::KEEP_ALIVE]),
        _ => None,
    }
}

/// Whether a batch is a part of a message of which more follows, and which zenoh drops if one part waits too long for
/// the link. `begun`: so was the batch before it. What is compressed does not show.
pub(crate) fn more_or_nothing(batch: &[u8], begun: bool) -> bool {
    let batch = batch.strip_prefix(&[0]).unwrap_or(batch);
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
        Zenoh080Condition::new(imsg::has_flag(header, flag::N)).read(&mut *reader)?;
    let mut qos = ext::QoSType::DEFAULT;
    if imsg::has_flag(header, flag::Z) {
        // The first one, or as by default.
        let extension: u8 = codec.read(&mut *reader)?;
        if iext::eid(extension) == ext::QoS::ID {
            let read: (ext::QoSType, bool) = Zenoh080Header::new(extension).read(&mut *reader)?;
            qos = read.0;
        }
    }
    Ok(qos.get_congestion_control())
}

/// Whether a batch has zenoh's last word on a link. It ends the session when it is read, and what
/// other priorities have still to deliver is lost with it. On a link where each priority has an
/// order of its own, it must therefore leave after what was written has arrived, and be read after
/// what has arrived was read: as on a stream.
///
/// It may follow data, of the priority Background or of any where the session has none. In a batch
/// that is compressed it is seen only if it is alone.
pub(crate) fn is_goodbye(batch: &[u8]) -> bool {
    /// Identifier, reason, and the header of a compressed batch.
    const LONGEST: usize = 4;
    let is_close = |byte: &u8| imsg::mid(*byte) == id::CLOSE;
    let compression_header = |byte: &u8| *byte <= 1;
    match batch {
        [first, rest @ ..]
            if batch.len() <= LONGEST
                && (is_close(first)
                    || compression_header(first) && rest.first().is_some_and(is_close)) =>
        {
            true
        }
        // Nearly all batches of data end in something else, and need not be read.
        [.., header, _reason] if is_close(header) => {
            ends_with_close(batch.strip_prefix(&[0]).unwrap_or(batch))
        }
        _ => false,
    }
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
        network::{push, NetworkBody, NetworkMessage, Push},
        transport::{fragment, frame, Close, Frame, KeepAlive},
        zenoh::{PushBody, Put},
    };

    use super::*;

    fn publication(payload: &[u8]) -> Push {
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
            ext_qos: push::ext::QoSType::DEFAULT,
            ext_tstamp: None,
            ext_nodeid: push::ext::NodeIdType::DEFAULT,
            ext_ts_stack: None,
            payload: PushBody::Put(put),
        }
    }

    #[test]
    fn the_close_message_is_recognised_and_others_are_not() {
        for reason in 0..10 {
            for session in [0, 0x20] {
                assert!(is_goodbye(&[0x03 | session, reason]));
                assert!(is_goodbye(&[0, 0x03 | session, reason]));
            }
        }
        let keep_alive = [0x04];
        let frame = [0x25, 0x07, 0x00, 0x1d];
        let longer = [0x03, 0, 0, 0, 0];
        assert!(![&[][..], &keep_alive, &frame, &longer].into_iter().any(is_goodbye));
    }

    #[test]
    fn a_close_message_behind_data_is_recognised_and_data_that_looks_like_it_is_not() {
        let frame = |payload: &[u8]| {
            let push = publication(payload);
            let reliability = Reliability::Reliable;
            let message = NetworkMessage { body: NetworkBody::Push(push), reliability };
            let ext_qos = frame::ext::QoSType::DEFAULT;
            TransportMessage::from(Frame { reliability, sn: 7, ext_qos, payload: vec![message; 2] })
        };
        let batch = |messages: &[TransportMessage]| {
            let mut batch = Vec::new();
            for message in messages {
                Zenoh080::new().write(&mut batch.writer(), message).unwrap();
            }
            batch
        };
        let close = TransportMessage::from(Close { reason: 0, session: false });
        let with_close = batch(&[frame(b"data"), close.clone()]);
        assert_eq!(with_close[with_close.len() - 2..], [0x03, 0]);
        assert!(is_goodbye(&with_close));
        assert!(is_goodbye(&[&[0][..], &with_close].concat()), "behind a compression header");
        assert!(is_goodbye(&batch(&[KeepAlive.into(), close])));
        assert!(!is_goodbye(&batch(&[frame(b"data ends in \x03\x00")])));
        assert!(!is_goodbye(&with_close[1..]), "it is no batch");
        assert!(!is_goodbye(&[3; 100]), "nothing follows a close message");
    }

    /// The two batches of a long publication.
    fn parts(ext_qos: push::ext::QoSType, key: &'static str) -> [Vec<u8>; 2] {
        let mut message = Vec::new();
        let push = Push { ext_qos, wire_expr: key.into(), ..publication(&[7; 5_000]) };
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
        let qos = |control| push::ext::QoSType::new(Priority::DataHigh, control, false);
        for key in ["", "a", "a/longer/key"] {
            for qos in [push::ext::QoSType::DEFAULT, qos(CongestionControl::Drop)] {
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
