// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Multiplies a chunk and adds it to another: the one loop in which coding spends its time.
//!
//! A product with a fixed factor is linear in the bits of a byte, so it is the sum of the products
//! of its two halves: two look-ups in tables of 16 bytes, which is what byte shuffles do for 16 or 32
//! bytes at once (Plank et al., "Screaming Fast Galois Field Arithmetic Using Intel SIMD
//! Instructions", FAST '13). Which instructions there are is asked at run time; the answer is cached
//! by the standard library. All kernels give the same bytes.

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
mod x86;

use super::gf256::NIBBLES;

/// An implementation that this machine supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Byte by byte.
    Scalar,
    /// 16 bytes at once.
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    Ssse3(x86::Ssse3),
    /// 32 bytes at once.
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    Avx2(x86::Avx2),
    /// 16 bytes at once.
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    Neon(neon::Neon),
}

impl Kernel {
    /// Every kernel that works here, the slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        [
            Some(Self::Scalar),
            #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
            x86::Ssse3::detect().map(Self::Ssse3),
            #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
            x86::Avx2::detect().map(Self::Avx2),
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            neon::Neon::detect().map(Self::Neon),
        ]
        .into_iter()
        .flatten()
    }

    /// Adds `source` times `factor` to `target`, as far as both reach.
    pub fn mul_add(self, target: &mut [u8], source: &[u8], factor: u8) {
        let table = &NIBBLES[usize::from(factor)];
        match self {
            Self::Scalar => mul_add_scalar(target, source, table),
            #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
            Self::Ssse3(kernel) => kernel.mul_add(target, source, table),
            #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
            Self::Avx2(kernel) => kernel.mul_add(target, source, table),
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Self::Neon(kernel) => kernel.mul_add(target, source, table),
        }
    }
}

/// Adds `source` times `factor` to `target` by the fastest kernel.
pub(super) fn mul_add(target: &mut [u8], source: &[u8], factor: u8) {
    debug_assert_eq!(target.len(), source.len());
    if factor != 0 {
        let fastest = Kernel::available().last().unwrap_or(Kernel::Scalar);
        fastest.mul_add(target, source, factor);
    }
}

fn mul_add_scalar(target: &mut [u8], source: &[u8], table: &[u8; 32]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target ^= table[usize::from(source & 15)] ^ table[16 + usize::from(source >> 4)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fec::gf256;

    // ARQ-FEC-1
    #[test]
    fn every_kernel_multiplies_every_byte_by_every_factor() {
        let source: Vec<u8> = (0..=255).collect();
        for kernel in Kernel::available() {
            for factor in 0..=255 {
                let mut target: Vec<u8> = (0..=255).rev().collect();
                kernel.mul_add(&mut target, &source, factor);
                for byte in 0..=255 {
                    let expected = (255 - byte) ^ gf256::mul(byte, factor);
                    assert_eq!(target[usize::from(byte)], expected, "{kernel:?} {factor} {byte}");
                }
            }
        }
    }

    #[test]
    fn every_kernel_handles_every_length_and_alignment() {
        let bytes: Vec<u8> = (0..200_u32).map(|n| (n * 37 % 251) as u8).collect();
        for kernel in Kernel::available() {
            for start in 0..33 {
                for len in 0..100 {
                    let source = &bytes[start..start + len];
                    let mut target = bytes.clone();
                    let mut expected = bytes.clone();
                    kernel.mul_add(&mut target[start + 7..][..len], source, 0x8e);
                    mul_add_scalar(&mut expected[start + 7..][..len], source, &NIBBLES[0x8e]);
                    assert_eq!(target, expected, "{kernel:?}: {len} bytes at {start}");
                }
            }
        }
    }
}
