// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The kernels of x86: `pshufb` looks up 16 (or twice 16) nibbles at once.

#![allow(unsafe_code, reason = "vector instructions; each block says why it is sound")]

#[cfg(target_arch = "x86")]
use std::arch::x86 as arch;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as arch;

use arch::{
    __m128i, __m256i, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_xor_si256, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_shuffle_epi8,
    _mm_srli_epi64, _mm_storeu_si128, _mm_xor_si128,
};

use super::mul_add_scalar;

/// Proof that the processor has SSSE3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ssse3(());

impl Ssse3 {
    pub(super) fn detect() -> Option<Self> {
        std::arch::is_x86_feature_detected!("ssse3").then_some(Self(()))
    }

    pub(super) fn mul_add(self, target: &mut [u8], source: &[u8], table: &[u8; 32]) {
        // SAFETY: `self` exists only where the processor was found to have SSSE3.
        unsafe { mul_add_ssse3(target, source, table) }
    }
}

/// Proof that the processor has AVX2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        std::arch::is_x86_feature_detected!("avx2").then_some(Self(()))
    }

    pub(super) fn mul_add(self, target: &mut [u8], source: &[u8], table: &[u8; 32]) {
        // SAFETY: `self` exists only where the processor was found to have AVX2.
        unsafe { mul_add_avx2(target, source, table) }
    }
}

/// # Safety
/// The processor has SSSE3.
#[target_feature(enable = "ssse3")]
unsafe fn mul_add_ssse3(target: &mut [u8], source: &[u8], table: &[u8; 32]) {
    let mut targets = target.chunks_exact_mut(16);
    let mut sources = source.chunks_exact(16);
    // SAFETY: the table has 32 bytes, and each piece of target and source exactly 16; none of the
    // loads and stores asks for alignment. The caller vouches for SSSE3, the rest is SSE2.
    unsafe {
        let low = _mm_loadu_si128(table.as_ptr().cast::<__m128i>());
        let high = _mm_loadu_si128(table[16..].as_ptr().cast::<__m128i>());
        let mask = _mm_set1_epi8(0x0f);
        for (target, source) in (&mut targets).zip(&mut sources) {
            let bytes = _mm_loadu_si128(source.as_ptr().cast::<__m128i>());
            let below = _mm_shuffle_epi8(low, _mm_and_si128(bytes, mask));
            let above = _mm_shuffle_epi8(high, _mm_and_si128(_mm_srli_epi64::<4>(bytes), mask));
            let product = _mm_xor_si128(below, above);
            let at = target.as_mut_ptr().cast::<__m128i>();
            _mm_storeu_si128(at, _mm_xor_si128(_mm_loadu_si128(at), product));
        }
    }
    mul_add_scalar(targets.into_remainder(), sources.remainder(), table);
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn mul_add_avx2(target: &mut [u8], source: &[u8], table: &[u8; 32]) {
    let mut targets = target.chunks_exact_mut(32);
    let mut sources = source.chunks_exact(32);
    // SAFETY: the table has 32 bytes, of which each load takes 16, and each piece of target and
    // source exactly 32; none of the loads and stores asks for alignment. The caller vouches for
    // AVX2.
    unsafe {
        let low = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast::<__m128i>()));
        let high = table[16..].as_ptr().cast::<__m128i>();
        let high = _mm256_broadcastsi128_si256(_mm_loadu_si128(high));
        let mask = _mm256_set1_epi8(0x0f);
        for (target, source) in (&mut targets).zip(&mut sources) {
            let bytes = _mm256_loadu_si256(source.as_ptr().cast::<__m256i>());
            let below = _mm256_shuffle_epi8(low, _mm256_and_si256(bytes, mask));
            let upper = _mm256_and_si256(_mm256_srli_epi64::<4>(bytes), mask);
            let product = _mm256_xor_si256(below, _mm256_shuffle_epi8(high, upper));
            let at = target.as_mut_ptr().cast::<__m256i>();
            _mm256_storeu_si256(at, _mm256_xor_si256(_mm256_loadu_si256(at), product));
        }
    }
    mul_add_scalar(targets.into_remainder(), sources.remainder(), table);
}
