// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does the provider in use compute what the algorithms' names promise? By the vectors of project Wycheproof, which hold
//! the mistakes that implementations have made.
//!
//! They are asked through rustls, so that another provider in its place is tried as well. Its interface takes no private
//! key of X25519: there only the points are tried that must be refused.

use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::pki_types::alg_id;
use rustls::{CipherSuite, NamedGroup};
use wycheproof::{aead, ecdsa, eddsa, xdh, TestResult};

use crate::config::provider;

/// Seals and opens each vector of a cipher: its nonce is that of packet 0 on this IV. RFC 9001, 5.3.
fn ciphers_agree(name: aead::TestName, suite: CipherSuite) {
    let provider = provider();
    let suite = provider.cipher_suites.iter().find(|it| it.suite() == suite).unwrap();
    let algorithm = suite.tls13().unwrap().quic.unwrap();
    let mut tried = 0;
    let groups = aead::TestSet::load(name).unwrap().test_groups;
    // QUIC's interface has nonces of 12 bytes; it makes keys of 32 bytes only.
    for group in groups.iter().filter(|it| (it.key_size, it.nonce_size) == (256, 96)) {
        for test in &group.tests {
            let key = AeadKey::from(<[u8; 32]>::try_from(&test.key[..]).unwrap());
            let packet = algorithm.packet_key(key, Iv::new(test.nonce[..].try_into().unwrap()));
            let mut sealed = [&test.ct[..], &test.tag[..]].concat();
            let opened = packet.decrypt_in_place(0, &test.aad, &mut sealed);
            assert_eq!(opened.is_ok(), test.result == TestResult::Valid, "{name:?} {test:?}");
            if let Ok(opened) = opened {
                assert_eq!(opened, &test.pt[..], "{name:?} {test:?}");
                let mut text = test.pt.to_vec();
                let tag = packet.encrypt_in_place(0, &test.aad, &mut text).unwrap();
                assert_eq!((&text[..], tag.as_ref()), (&test.ct[..], &test.tag[..]), "{test:?}");
            }
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried} vectors of {name:?}");
}

#[test]
fn ciphers_seal_and_open_as_they_must() {
    ciphers_agree(aead::TestName::AesGcm, CipherSuite::TLS13_AES_256_GCM_SHA384);
    ciphers_agree(aead::TestName::ChaCha20Poly1305, CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
}

#[test]
fn signatures_are_verified_as_they_must() {
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms.all;
    let verifies = |signed_with, key: &[u8], message: &[u8], signature: &[u8]| {
        let mut fitting = algorithms.iter().filter(|it| it.signature_alg_id() == signed_with);
        fitting.any(|it| it.verify_signature(key, message, signature).is_ok())
    };
    for group in eddsa::TestSet::load(eddsa::TestName::Ed25519).unwrap().test_groups {
        for test in group.tests {
            let valid = verifies(alg_id::ED25519, &group.key.pk, &test.msg, &test.sig);
            assert_eq!(valid, test.result == TestResult::Valid, "{test:?}");
        }
    }
    for (name, signed_with) in [
        (ecdsa::TestName::EcdsaSecp256r1Sha256, alg_id::ECDSA_SHA256),
        (ecdsa::TestName::EcdsaSecp384r1Sha384, alg_id::ECDSA_SHA384),
    ] {
        for group in ecdsa::TestSet::load(name).unwrap().test_groups {
            for test in group.tests {
                let valid = verifies(signed_with, &group.key.key, &test.msg, &test.sig);
                assert_eq!(valid, test.result == TestResult::Valid, "{name:?} {test:?}");
            }
        }
    }
}

#[test]
fn points_of_low_order_are_refused() {
    let provider = provider();
    let x25519 = provider.kx_groups.iter().find(|it| it.name() == NamedGroup::X25519).unwrap();
    let groups = xdh::TestSet::load(xdh::TestName::X25519).unwrap().test_groups;
    let tests = groups.iter().flat_map(|group| &group.tests);
    let mut refused = 0;
    for test in tests.filter(|test| test.flags.contains(&xdh::TestFlag::ZeroSharedSecret)) {
        let agreed = x25519.start().unwrap().complete(&test.public_key);
        assert!(agreed.is_err(), "{test:?}");
        refused += 1;
    }
    assert!(refused > 10, "{refused} vectors");
}
