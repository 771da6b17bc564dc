// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Are the packets in `docs/protocol-examples.txt` what this crate reads and writes, byte for byte?

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{fs, path::Path};

use arq_proto::wire::{
    checksum::{append_checksum, verify_checksum},
    cursor::Reader,
    frame::Frame,
    packet::{Challenge, DataHeader, Hello, PacketKind, Refuse, Reset},
    params::Params,
};

/// The bytes of each example: hex, `xx * n` for a byte n times, a comment after two spaces.
fn examples() -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/protocol-examples.txt");
    let text = fs::read_to_string(path).unwrap();
    let blocks = text.split("\n```arq-packet\n").skip(1);
    blocks.map(|block| bytes_of(block.split("\n```").next().unwrap())).collect()
}

fn bytes_of(block: &str) -> Vec<u8> {
    let codes = block.lines().map(|line| line.split("  ").next().unwrap());
    codes
        .flat_map(|code| match code.split_once(" * ") {
            Some((byte, times)) => vec![hex(byte); times.parse().unwrap()],
            None => code.split(' ').map(hex).collect(),
        })
        .collect()
}

fn hex(byte: &str) -> u8 {
    u8::from_str_radix(byte, 16).unwrap()
}

/// Decodes a packet wholly and writes it again.
fn again(datagram: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match PacketKind::of(datagram[0]).unwrap() {
        PacketKind::Hello => Hello::decode(datagram).unwrap().encode(&mut out),
        PacketKind::Challenge => Challenge::decode(datagram).unwrap().encode(&mut out),
        PacketKind::Refuse => Refuse::decode(datagram).unwrap().encode(&mut out),
        PacketKind::Reset => Reset::decode(datagram).unwrap().encode(&mut out),
        PacketKind::Data { .. } => {
            let mut reader = Reader::new(verify_checksum(datagram).unwrap());
            let header = DataHeader::decode(&mut reader).unwrap();
            header.encode(&mut out);
            if let Some(cookie) = header.cookie {
                Params::decode(cookie.params).unwrap();
            }
            while let Some(frame) = Frame::decode(&mut reader).unwrap() {
                frame.encode(&mut out);
            }
            append_checksum(&mut out, 0);
        }
        kind @ (PacketKind::Handshake | PacketKind::Sealed) => panic!("{kind:?}"),
    }
    out
}

// ARQ-ENC-1, ARQ-PKT-1, ARQ-VER-1
#[test]
fn the_examples_of_the_specification_are_exact() {
    let examples = examples();
    assert!(examples.len() >= 15, "{} examples", examples.len());
    for (n, example) in examples.iter().enumerate() {
        assert_eq!(&again(example), example, "example {}", n + 1);
    }
}
