// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Arithmetic in GF(2^8), in which every byte but zero has an inverse.
//!
//! The field of polynomials over two elements modulo x^8 + x^4 + x^3 + x^2 + 1, in which x generates
//! every element but zero: the one that erasure codes commonly use (RFC 5510 §8.1).

/// The polynomial without x^8.
const REDUCTION: u8 = 0x1d;

/// Powers of x, twice in a row so that a sum of two logarithms needs no modulus.
const EXP: [u8; 510] = {
    let mut table = [0; 510];
    let (mut power, mut value) = (0, 1_u8);
    while power < 255 {
        table[power] = value;
        table[power + 255] = value;
        value = times_x(value);
        power += 1;
    }
    table
};

/// The inverse of [`EXP`]; zero has no logarithm.
const LOG: [u8; 256] = {
    let mut table = [0; 256];
    let mut power = 0;
    while power < 255 {
        table[EXP[power] as usize] = power as u8;
        power += 1;
    }
    table
};

/// For each factor, its products with 0..16 and with 16 times these: what a byte shuffle needs.
pub(super) static NIBBLES: [[u8; 32]; 256] = {
    let mut table = [[0; 32]; 256];
    let mut factor = 0;
    while factor < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            table[factor][nibble] = mul(factor as u8, nibble as u8);
            table[factor][16 + nibble] = mul(factor as u8, (nibble as u8) << 4);
            nibble += 1;
        }
        factor += 1;
    }
    table
};

const fn times_x(value: u8) -> u8 {
    (value << 1) ^ (if value & 0x80 == 0 { 0 } else { REDUCTION })
}

/// The product.
#[must_use]
pub const fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[LOG[a as usize] as usize + LOG[b as usize] as usize]
}

/// The inverse of `a`; zero for zero, which has none.
#[must_use]
pub const fn inverse(a: u8) -> u8 {
    if a == 0 {
        return 0;
    }
    EXP[255 - LOG[a as usize] as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication as the definition says: bit by bit, reduced at every step.
    fn mul_by_definition(a: u8, b: u8) -> u8 {
        let (mut sum, mut shifted) = (0, a);
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                sum ^= shifted;
            }
            shifted = times_x(shifted);
        }
        sum
    }

    // ARQ-FEC-1
    #[test]
    fn every_product_is_right() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(mul(a, b), mul_by_definition(a, b), "{a} * {b}");
                assert_eq!(mul(a, b), reed_solomon_erasure::galois_8::mul(a, b), "{a} * {b}");
                let table = &NIBBLES[usize::from(a)];
                let split = table[usize::from(b & 15)] ^ table[16 + usize::from(b >> 4)];
                assert_eq!(mul(a, b), split, "{a} * {b} by nibbles");
            }
        }
    }

    // ARQ-FEC-1
    #[test]
    fn every_element_but_zero_has_an_inverse() {
        for a in 1..=255 {
            assert_eq!(mul(a, inverse(a)), 1, "{a}");
            assert_eq!(inverse(a), reed_solomon_erasure::galois_8::div(1, a), "{a}");
        }
        assert_eq!(inverse(0), 0);
    }
}
