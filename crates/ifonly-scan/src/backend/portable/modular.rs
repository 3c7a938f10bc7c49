//! Arithmetic modulo an odd q < 2^31 on words.

/// `x` with `q·x ≡ −1 mod 2^32`.
#[inline(always)]
pub(crate) fn negative_inverse(q: u32) -> u32 {
    debug_assert!(q % 2 == 1, "an even number has no inverse modulo 2^32");
    // Newton's method: each step doubles the number of correct low bits, and q itself has three.
    let mut inverse = q;
    for _ in 0..4 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(q.wrapping_mul(inverse)));
    }
    inverse.wrapping_neg()
}

/// `x/2^32 mod q` for a sum x of at most [`products_per_reduction`] products. One conditional
/// subtraction suffices.
#[inline(always)]
pub(crate) fn montgomery_reduce(x: u64, q: u32, negative_inverse: u32) -> u32 {
    let multiple = (x as u32).wrapping_mul(negative_inverse);
    let rest = ((x + u64::from(multiple) * u64::from(q)) >> 32) as u32;
    rest.min(rest.wrapping_sub(q))
}

#[inline(always)]
pub(crate) fn montgomery_products(q: u32, a: &[u32], b: &[u32], out: &mut [u32]) {
    let inverse = negative_inverse(q);
    for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *out = montgomery_reduce(u64::from(a) * u64::from(b), q, inverse);
    }
}

/// The number of products of reduced numbers that can be summed before a Montgomery reduction: `n·q
/// ≤ 2^32` keeps the result below 2q.
#[inline(always)]
pub(crate) fn products_per_reduction(q: u32) -> usize {
    if q < 1 << 30 { 4 } else { 2 }
}

#[inline(always)]
pub(crate) fn interpolate(q: u32, weights: &[u32], parts: &[&[u32]], constant: u32, out: &mut [u32]) {
    let inverse = negative_inverse(q);
    let at_once = products_per_reduction(q);
    for (i, out) in out.iter_mut().enumerate() {
        let mut value = constant;
        for (weights, parts) in weights.chunks(at_once).zip(parts.chunks(at_once)) {
            let products = weights.iter().zip(parts).map(|(&weight, part)| u64::from(weight) * u64::from(part[i]));
            value += montgomery_reduce(products.sum(), q, inverse);
            value = value.min(value.wrapping_sub(q));
        }
        *out = value;
    }
}

#[inline(always)]
pub(crate) fn halve_sums(q: u32, a: &[u32], b: &[u32], constant: u32, out: &mut [u32]) {
    for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
        let sum = (a + b).min((a + b).wrapping_sub(q));
        // Half of an odd number is half of the preceding even number plus 1/2 = (q + 1)/2.
        let half = (sum >> 1) + (sum & 1) * q.div_ceil(2);
        *out = (half + constant).min((half + constant).wrapping_sub(q));
    }
}
