// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The examples of RFC 9001 appendix A and of `docs/protocol-examples.txt`, through the traits of the core.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::{Duration, Instant};

use ::ring::hkdf;
use arq_proto::{
    wire::protection::{PacketProtection, Sealed},
    ConnectionId, PacketNumber, PathNumber,
};
use rustls::{
    crypto::{
        cipher::{AeadKey, Iv},
        ring,
    },
    quic::Version,
    CipherSuite, Side, SupportedCipherSuite, Tls13CipherSuite,
};

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|char| char.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}

fn suite(wanted: CipherSuite) -> &'static Tls13CipherSuite {
    let suites = ring::default_provider().cipher_suites;
    let tls13 = suites.into_iter().filter_map(|suite| match suite {
        SupportedCipherSuite::Tls13(suite) => Some(suite),
        #[allow(unreachable_patterns, reason = "other crates may switch TLS 1.2 on")]
        _ => None,
    });
    tls13.into_iter().find(|suite| suite.common.suite == wanted).unwrap()
}

/// Those of appendix A.1.
fn initial_keys(side: Side) -> Keys {
    let suite = suite(CipherSuite::TLS13_AES_128_GCM_SHA256);
    let dcid = hex("8394c8f03e515708");
    keys(quic::Keys::initial(Version::V1, suite, suite.quic.unwrap(), &dcid, side))
}

/// Seals a packet, masks four bits of its flags and its number at `at`.
fn protect(keys: &DirectionKeys, number: u64, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let (mut header, mut payload) = (header.to_vec(), payload.to_vec());
    let tag = keys.packet.seal(0, number, &header, &mut payload);
    payload.extend(tag);
    let is_long = header[0] & 0x80 != 0;
    let number_bytes = usize::from(header[0] & 3) + 1;
    let at = 4 - number_bytes;
    let mask = keys.header.mask(payload[at..at + SAMPLE_BYTES].try_into().unwrap());
    header[0] ^= mask[0] & if is_long { 0x0f } else { 0x1f };
    let first = header.len() - number_bytes;
    for (byte, mask) in header[first..].iter_mut().zip(&mask[1..]) {
        *byte ^= mask;
    }
    [header, payload].concat()
}

#[test]
fn the_clients_initial_packet_is_that_of_appendix_a_2() {
    let mut payload =
        hex("060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c\
         00000413011302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006\
         001d0017001800100007000504616c706e000500050100000000003300260024001d00209370b2c9caa4\
         7fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e040305\
         0306030203080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ff\
         ff07048000ffff0801100104800075300901100f088394c8f03e51570806048000ffff");
    payload.resize(1162, 0);
    let header = hex("c300000001088394c8f03e5157080000449e00000002");
    let packet = protect(&initial_keys(Side::Client).local, 2, &header, &payload);
    assert_eq!(packet.len(), 1200);
    assert_eq!(packet[..22], hex("c000000001088394c8f03e5157080000449e7b9aec34"));
    assert_eq!(packet[22..38], hex("d1b1c98dd7689fb8ec11d242b123dc9b"));
    assert_eq!(packet[1184..], hex("e221af44860018ab0856972e194cd934"));

    let mut sealed = packet[22..].to_vec();
    let server = initial_keys(Side::Server).remote;
    assert_eq!(server.packet.open(0, 2, &header, &mut sealed).unwrap(), payload);
}

#[test]
fn the_servers_initial_packet_is_that_of_appendix_a_3() {
    let payload =
        hex("02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566dc543\
         0b9a045a1200130100002e00330024001d00209d3c940d89690b84d08a60993c144eca684d1081287c83\
         4d5311bcf32bb9da1a002b00020304");
    let header = hex("c1000000010008f067a5502a4262b50040750001");
    let packet = protect(&initial_keys(Side::Server).local, 1, &header, &payload);
    let expected =
        hex("cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69\
         797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73\
         cc3f3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456\
         cbc42158407dd074ee");
    assert_eq!(packet, expected);
}

#[test]
fn a_packet_with_chacha20_is_that_of_appendix_a_5() {
    let algorithm = suite(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256).quic.unwrap();
    let key = |text| AeadKey::from(<[u8; 32]>::try_from(hex(text)).unwrap());
    let iv = Iv::from(<[u8; 12]>::try_from(hex("e0459b3474bdd0e44a41c144")).unwrap());
    let packet_key = key("c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8");
    let header_key = key("25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4");
    let keys = DirectionKeys {
        packet: packet(algorithm.packet_key(packet_key, iv)),
        header: Box::new(NumberMask(algorithm.header_protection_key(header_key))),
    };
    let header = hex("4200bff4");
    let packet = protect(&keys, 654_360_564, &header, &[0x01]);
    assert_eq!(packet, hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb"));

    let sample = hex("5e5cd55c41f69080575d7999c25a5bfb").try_into().unwrap();
    // Of the first byte of the mask, ae, five bits are of use.
    assert_eq!(keys.header.mask(&sample)[..], hex("0efefe7d03"));
    let mut sealed = packet[4..].to_vec();
    assert_eq!(keys.packet.open(0, 654_360_564, &header, &mut sealed).unwrap(), [0x01]);
}

/// HKDF-Expand-Label (RFC 8446 §7.1) of 32 bytes at most.
fn expand_label<const N: usize>(secret: &[u8], label: &str) -> [u8; N] {
    struct Bytes(usize);
    impl hkdf::KeyType for Bytes {
        fn len(&self) -> usize {
            self.0
        }
    }
    let label = format!("tls13 {label}");
    let lengths = [[0, N as u8].as_slice(), &[label.len() as u8]].concat();
    let info = [&lengths[..], label.as_bytes(), &[0]];
    let prk = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, secret);
    let mut out = [0; N];
    prk.expand(&info, Bytes(N)).unwrap().fill(&mut out).unwrap();
    out
}

/// The traffic secret of appendix A.5 of RFC 9001, of the examples in `docs/protocol-examples.txt`.
const SECRET: &str = "9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b";

/// A packet key of ChaCha20-Poly1305.
fn packet_key(secret: &[u8]) -> Box<dyn PacketKey> {
    let algorithm = suite(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256).quic.unwrap();
    let iv = Iv::from(expand_label::<12>(secret, "quic iv"));
    packet(algorithm.packet_key(AeadKey::from(expand_label::<32>(secret, "quic key")), iv))
}

fn direction(secret: &[u8]) -> DirectionKeys {
    let algorithm = suite(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256).quic.unwrap();
    let header = AeadKey::from(expand_label::<32>(secret, "quic hp"));
    let header = Box::new(NumberMask(algorithm.header_protection_key(header)));
    DirectionKeys { packet: packet_key(secret), header }
}

#[derive(Debug)]
struct NextSecret([u8; 32]);

impl Updates for NextSecret {
    fn next(&mut self) -> (Box<dyn PacketKey>, Box<dyn PacketKey>) {
        self.0 = expand_label(&self.0, "quic ku");
        (packet_key(&self.0), packet_key(&self.0))
    }
}

const ID: ConnectionId = ConnectionId(0x1122_3344_5566_7788);

/// A side that opens what it has sealed itself, and changes its keys as soon as it may.
fn own_protection(now: Instant) -> PacketProtection {
    let secret = hex(SECRET);
    let keys = Keys { local: direction(&secret), remote: direction(&secret) };
    let updates = Box::new(NextSecret(secret.try_into().unwrap()));
    PacketProtection::sealed(Sealed::new(keys, updates, 1, now))
}

fn seal(
    protection: &mut PacketProtection,
    (path, number): (u8, u64),
    frames: &[u8],
    is_urgent: bool,
) -> Vec<u8> {
    let (number, mut out) = (PacketNumber(number), Vec::new());
    protection.write_header(ID, number, 0, None, &mut out);
    out.extend_from_slice(frames);
    if is_urgent {
        protection.set_ack_now(&mut out);
    }
    protection.seal(PathNumber(path), number, &mut out, 0).unwrap();
    out
}

/// The bytes of each block that begins with `fence`.
fn examples(fence: &str) -> Vec<Vec<u8>> {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/protocol-examples.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let fence = format!("\n```{fence}");
    let blocks = text.split(&fence).skip(1);
    let bytes = |block: &str| {
        let lines = block.split("\n```").next().unwrap().lines().skip(1);
        hex(&lines.map(|line| line.split("  ").next().unwrap()).collect::<String>())
    };
    blocks.map(bytes).collect()
}

// ARQ-SEC-2, ARQ-SEC-5, ARQ-KEY-1
#[test]
fn sealed_examples_of_the_specification_are_exact() {
    let now = Instant::now();
    let mut core = own_protection(now);
    let opened = examples("arq-opened");
    // Behind the header and the span.
    let frames = |n: usize| &opened[n][14..];
    let first = seal(&mut core, (0, 0), frames(0), true);
    let expand = |number| Some(PacketNumber(u64::from(number)));
    let mut sent = first.clone();
    let read = core.open(now, || Duration::ZERO, (PathNumber(0), ID), &mut sent, expand).unwrap();
    assert_eq!((read.frames, read.ack_now), (frames(0), true));
    core.update_if_due(now, PathNumber(0), Some(PacketNumber(0)), || Duration::ZERO);
    let second = seal(&mut core, (0, (1 << 32) + 5), frames(1), false);

    let third = seal(&mut own_protection(now), (2, 54_321), frames(2), false);

    let text = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x} ")).collect::<String>();
    let expected = examples("arq-sealed");
    for (n, packet) in [first, second, third].iter().enumerate() {
        assert_eq!(expected.get(n), Some(packet), "example {n} is {}", text(packet));
    }
    assert_eq!(expected.len(), 3);
}

#[test]
fn what_is_not_whole_and_true_does_not_open() {
    let (client, server) = (initial_keys(Side::Client).local, initial_keys(Side::Server).remote);
    let (header, mut sealed) = (*b"header", b"payload".to_vec());
    let tag = client.packet.seal(0, 7, &header, &mut sealed);
    sealed.extend(tag);
    let open_on = |path, number, header: &[u8], sealed: &[u8]| {
        server.packet.open(path, number, header, &mut sealed.to_vec()).map(|plain| plain.to_vec())
    };
    let open = |number, header: &[u8], sealed: &[u8]| open_on(0, number, header, sealed);
    assert_eq!(open(7, &header, &sealed).unwrap(), b"payload");
    assert_eq!(open(8, &header, &sealed), None);
    assert_eq!(open(7, b"Header", &sealed), None);
    assert_eq!(open_on(1, 7, &header, &sealed), None);
    for bit in 0..sealed.len() * 8 {
        let mut altered = sealed.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(open(7, &header, &altered), None, "bit {bit}");
    }
    for bytes in 0..sealed.len() {
        assert_eq!(open(7, &header, &sealed[..bytes]), None, "{bytes} bytes");
    }
}

#[test]
fn keys_do_not_print_themselves() {
    let keys = initial_keys(Side::Client);
    let printed = format!("{keys:?}");
    assert!(printed.contains("packet: Aead, header: NumberMask"), "{printed}");
}
