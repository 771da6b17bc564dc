// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The kernel of 64-bit ARM: `tbl` looks up 16 nibbles at once.

#![allow(unsafe_code, reason = "vector instructions; each block says why it is sound")]

use std::arch::aarch64::{
    vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8,
};

use super::mul_add_scalar;

/// Proof that the processor has NEON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neon(());

impl Neon {
    pub(super) fn detect() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
    }

    pub(super) fn mul_add(self, target: &mut [u8], source: &[u8], table: &[u8; 32]) {
        // SAFETY: `self` exists only where the processor was found to have NEON.
        unsafe { mul_add_neon(target, source, table) }
    }
}

/// # Safety
/// The processor has NEON.
#[target_feature(enable = "neon")]
unsafe fn mul_add_neon(target: &mut [u8], source: &[u8], table: &[u8; 32]) {
    let mut targets = target.chunks_exact_mut(16);
    let mut sources = source.chunks_exact(16);
    // SAFETY: the table has 32 bytes, of which each load takes 16, and each piece of target and
    // source exactly 16; loads and stores of bytes ask for no alignment. The caller vouches for
    // NEON.
    unsafe {
        let low = vld1q_u8(table.as_ptr());
        let high = vld1q_u8(table[16..].as_ptr());
        let mask = vdupq_n_u8(0x0f);
        for (target, source) in (&mut targets).zip(&mut sources) {
            let bytes = vld1q_u8(source.as_ptr());
            let below = vqtbl1q_u8(low, vandq_u8(bytes, mask));
            let above = vqtbl1q_u8(high, vshrq_n_u8::<4>(bytes));
            let product = veorq_u8(below, above);
            let at = target.as_mut_ptr();
            vst1q_u8(at, veorq_u8(vld1q_u8(at), product));
        }
    }
    mul_add_scalar(targets.into_remainder(), sources.remainder(), table);
}
