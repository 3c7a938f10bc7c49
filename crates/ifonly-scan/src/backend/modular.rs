//! Montgomery arithmetic on vectors of words. The even and the odd words give two vectors of 64-bit
//! products.
//!
//! The functions are generic over the vector type and `inline(always)`. Each backend calls them
//! from functions that enable its instructions.

use super::portable;
use super::words::WordVector;

/// q and its negative inverse modulo 2^32, in all lanes.
#[derive(Clone, Copy)]
struct Modulus<W> {
    q: W,
    negative_inverse: W,
}

// SAFETY (of every block up to the public functions): the callers guarantee that the machine
// supports the instructions of W.
#[allow(clippy::undocumented_unsafe_blocks)]
impl<W: WordVector> Modulus<W> {
    #[inline(always)]
    unsafe fn new(q: u32) -> Self {
        unsafe { Modulus { q: W::splat(q), negative_inverse: W::splat(portable::negative_inverse(q)) } }
    }

    /// `x/2^32 mod q` of even and odd sums of a few products, merged into reduced words.
    #[inline(always)]
    unsafe fn reduce(self, even: W, odd: W) -> W {
        unsafe {
            // Adds the multiple of q that makes the low word of x zero. The high word is the
            // result, below 2q.
            let fold = |x: W| x.add_long(x.mul_even(self.negative_inverse).mul_even(self.q));
            let rest = fold(even).odd_to_even().with_odd(fold(odd));
            rest.min(rest.sub(self.q))
        }
    }

    /// a + b.
    #[inline(always)]
    unsafe fn add(self, a: W, b: W) -> W {
        unsafe {
            let sum = a.add(b);
            sum.min(sum.sub(self.q))
        }
    }
}

/// The number of words that fill whole vectors.
fn in_whole_vectors<W: WordVector>(words: usize) -> usize {
    words / W::LANES * W::LANES
}

/// # Safety
/// The machine must support the instructions of W.
#[inline(always)]
pub(super) unsafe fn montgomery_products<W: WordVector>(q: u32, a: &[u32], b: &[u32], out: &mut [u32]) {
    assert!(a.len() == out.len() && b.len() == out.len());
    let done = in_whole_vectors::<W>(out.len());
    // SAFETY: guaranteed by the caller; all three slices hold `done` words.
    unsafe {
        let modulus = Modulus::<W>::new(q);
        for i in (0..done).step_by(W::LANES) {
            let (a, b) = (W::load(a.as_ptr().add(i)), W::load(b.as_ptr().add(i)));
            let odd = a.odd_to_even().mul_even(b.odd_to_even());
            modulus.reduce(a.mul_even(b), odd).store(out.as_mut_ptr().add(i));
        }
    }
    portable::montgomery_products(q, &a[done..], &b[done..], &mut out[done..]);
}

/// # Safety
/// The machine must support the instructions of W.
#[inline(always)]
pub(super) unsafe fn interpolate<W: WordVector>(
    q: u32,
    weights: &[u32],
    parts: &[&[u32]],
    constant: u32,
    out: &mut [u32],
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match (weights, parts) {
            (&[w0, w1], &[a, b]) => interpolate_some::<W, 2>(q, [w0, w1], [a, b], constant, out),
            // Three servers at the points 1, −1 and 2 have the weights 1, 1/3 and −1/3: one product
            // instead of three.
            (&[w0, w1, w2], &[a, b, c]) if w0 == ((1 << 32) % u64::from(q)) as u32 && w1 + w2 == q => {
                add_scaled_difference::<W>(q, [w0, w1, w2], [a, b, c], constant, out);
            }
            (&[w0, w1, w2], &[a, b, c]) if portable::products_per_reduction(q) >= 3 => {
                interpolate_some::<W, 3>(q, [w0, w1, w2], [a, b, c], constant, out);
            }
            _ => interpolate_many::<W>(q, weights, parts, constant, out),
        }
    }
}

/// Any number of servers, with one reduction per few products.
#[inline(always)]
unsafe fn interpolate_many<W: WordVector>(q: u32, weights: &[u32], parts: &[&[u32]], constant: u32, out: &mut [u32]) {
    assert!(parts.iter().all(|part| part.len() >= out.len()));
    let at_once = portable::products_per_reduction(q);
    let done = in_whole_vectors::<W>(out.len());
    // SAFETY: guaranteed by the caller; every part holds as many words as `out`.
    unsafe {
        let modulus = Modulus::<W>::new(q);
        for i in (0..done).step_by(W::LANES) {
            let mut value = W::splat(constant);
            for (weights, parts) in weights.chunks(at_once).zip(parts.chunks(at_once)) {
                let (mut even, mut odd) = (W::splat(0), W::splat(0));
                for (&weight, part) in weights.iter().zip(parts) {
                    let (words, factor) = (W::load(part.as_ptr().add(i)), W::splat(weight));
                    even = even.add_long(words.mul_even(factor));
                    odd = odd.add_long(words.odd_to_even().mul_even(factor));
                }
                value = modulus.add(value, modulus.reduce(even, odd));
            }
            value.store(out.as_mut_ptr().add(i));
        }
    }
    let rests: Vec<&[u32]> = parts.iter().map(|part| &part[done..]).collect();
    portable::interpolate(q, weights, &rests, constant, &mut out[done..]);
}

/// As many products as one reduction allows.
#[inline(always)]
unsafe fn interpolate_some<W: WordVector, const N: usize>(
    q: u32,
    weights: [u32; N],
    parts: [&[u32]; N],
    constant: u32,
    out: &mut [u32],
) {
    assert!(parts.iter().all(|part| part.len() >= out.len()));
    let done = in_whole_vectors::<W>(out.len());
    // SAFETY: guaranteed by the caller; every part holds as many words as `out`.
    unsafe {
        let modulus = Modulus::<W>::new(q);
        let start = W::splat(constant);
        let factors = weights.map(|weight| W::splat(weight));
        for i in (0..done).step_by(W::LANES) {
            let (mut even, mut odd) = (W::splat(0), W::splat(0));
            for (part, factor) in parts.iter().zip(factors) {
                let words = W::load(part.as_ptr().add(i));
                even = even.add_long(words.mul_even(factor));
                odd = odd.add_long(words.odd_to_even().mul_even(factor));
            }
            modulus.add(start, modulus.reduce(even, odd)).store(out.as_mut_ptr().add(i));
        }
    }
    portable::interpolate(q, &weights, &parts.map(|part| &part[done..]), constant, &mut out[done..]);
}

/// Interpolation with the weights 1, w and −w.
#[inline(always)]
unsafe fn add_scaled_difference<W: WordVector>(
    q: u32,
    weights: [u32; 3],
    parts: [&[u32]; 3],
    constant: u32,
    out: &mut [u32],
) {
    assert!(parts.iter().all(|part| part.len() >= out.len()));
    let done = in_whole_vectors::<W>(out.len());
    // SAFETY: guaranteed by the caller; every part holds as many words as `out`.
    unsafe {
        let modulus = Modulus::<W>::new(q);
        let (start, factor) = (W::splat(constant), W::splat(weights[1]));
        for i in (0..done).step_by(W::LANES) {
            let [a, b, c] = parts.map(|part| W::load(part.as_ptr().add(i)));
            let difference = b.sub(c);
            let difference = difference.min(difference.add(modulus.q));
            let odd = difference.odd_to_even().mul_even(factor);
            let product = modulus.reduce(difference.mul_even(factor), odd);
            modulus.add(modulus.add(product, a), start).store(out.as_mut_ptr().add(i));
        }
    }
    portable::interpolate(q, &weights, &parts.map(|part| &part[done..]), constant, &mut out[done..]);
}

/// # Safety
/// The machine must support the instructions of W.
#[inline(always)]
pub(super) unsafe fn halve_sums<W: WordVector>(q: u32, a: &[u32], b: &[u32], constant: u32, out: &mut [u32]) {
    assert!(a.len() == out.len() && b.len() == out.len());
    let done = in_whole_vectors::<W>(out.len());
    // SAFETY: guaranteed by the caller; all three slices hold `done` words.
    unsafe {
        let modulus = Modulus::<W>::new(q);
        let one_half = W::splat(q.div_ceil(2));
        let start = W::splat(constant);
        for i in (0..done).step_by(W::LANES) {
            let sum = modulus.add(W::load(a.as_ptr().add(i)), W::load(b.as_ptr().add(i)));
            let half = sum.halved().add(sum.odd_mask().and(one_half));
            modulus.add(half, start).store(out.as_mut_ptr().add(i));
        }
    }
    portable::halve_sums(q, &a[done..], &b[done..], constant, &mut out[done..]);
}
