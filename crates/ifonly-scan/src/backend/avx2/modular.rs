//! Montgomery arithmetic on eight words at a time: the even and the odd words are two vectors of four 64-bit products.

use super::super::portable;
use std::arch::x86_64::*;

/// q and its negative inverse modulo 2^32 in all lanes.
#[derive(Clone, Copy)]
struct Modulus {
    q: __m256i,
    negative_inverse: __m256i,
}

impl Modulus {
    #[target_feature(enable = "avx2,fma")]
    fn new(q: u32) -> Modulus {
        let inverse = portable::negative_inverse(q);
        Modulus { q: _mm256_set1_epi32(q as i32), negative_inverse: _mm256_set1_epi32(inverse as i32) }
    }

    /// `x/2^32 mod q` of four even and four odd sums of at most two products, merged into eight reduced words.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn reduce(self, even: __m256i, odd: __m256i) -> __m256i {
        // x plus the multiple of q that makes its low word 0; the high word is the rest, below 2q.
        let fold = |x: __m256i| {
            let multiple = _mm256_mul_epu32(x, self.negative_inverse);
            _mm256_add_epi64(x, _mm256_mul_epu32(multiple, self.q))
        };
        let even = _mm256_srli_epi64::<32>(fold(even));
        let rest = _mm256_blend_epi32::<0b1010_1010>(even, fold(odd));
        _mm256_min_epu32(rest, _mm256_sub_epi32(rest, self.q))
    }

    /// a + b.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn add(self, a: __m256i, b: __m256i) -> __m256i {
        let sum = _mm256_add_epi32(a, b);
        _mm256_min_epu32(sum, _mm256_sub_epi32(sum, self.q))
    }
}

/// Eight words as a vector.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn load(words: &[u32; 8]) -> __m256i {
    // SAFETY: eight words are 32 bytes.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn store(words: &mut [u32; 8], vector: __m256i) {
    // SAFETY: eight words are 32 bytes.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), vector) }
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn montgomery_products(q: u32, a: &[u32], b: &[u32], out: &mut [u32]) {
    let modulus = Modulus::new(q);
    let (a_eights, a_rest) = a.as_chunks::<8>();
    let (b_eights, b_rest) = b.as_chunks::<8>();
    let (out_eights, out_rest) = out.as_chunks_mut::<8>();
    for ((a, b), out) in a_eights.iter().zip(b_eights).zip(out_eights) {
        let (a, b) = (load(a), load(b));
        let even = _mm256_mul_epu32(a, b);
        let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b));
        store(out, modulus.reduce(even, odd));
    }
    portable::montgomery_products(q, a_rest, b_rest, out_rest);
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn interpolate(q: u32, weights: &[u32], parts: &[&[u32]], constant: u32, out: &mut [u32]) {
    match (weights, parts) {
        (&[w0, w1], [a, b]) => interpolate_some(q, [w0, w1], [a, b], constant, out),
        (&[w0, w1, w2], [a, b, c]) if portable::products_per_reduction(q) >= 3 => {
            interpolate_some(q, [w0, w1, w2], [a, b, c], constant, out);
        }
        _ => interpolate_many(q, weights, parts, constant, out),
    }
}

/// Any number of servers: one reduction for every few products.
#[target_feature(enable = "avx2,fma")]
fn interpolate_many(q: u32, weights: &[u32], parts: &[&[u32]], constant: u32, out: &mut [u32]) {
    let modulus = Modulus::new(q);
    let at_once = portable::products_per_reduction(q);
    let (eights, rest) = out.as_chunks_mut::<8>();
    let done = eights.len() * 8;
    for (place, out) in eights.iter_mut().enumerate() {
        let mut value = _mm256_set1_epi32(constant as i32);
        for (weights, parts) in weights.chunks(at_once).zip(parts.chunks(at_once)) {
            let mut sums = [_mm256_setzero_si256(); 2];
            for (&weight, part) in weights.iter().zip(parts) {
                let (words, factor) = (load(&part.as_chunks::<8>().0[place]), _mm256_set1_epi32(weight as i32));
                sums[0] = _mm256_add_epi64(sums[0], _mm256_mul_epu32(words, factor));
                sums[1] = _mm256_add_epi64(sums[1], _mm256_mul_epu32(_mm256_srli_epi64::<32>(words), factor));
            }
            value = modulus.add(value, modulus.reduce(sums[0], sums[1]));
        }
        store(out, value);
    }
    let rests: Vec<&[u32]> = parts.iter().map(|part| &part[done..]).collect();
    portable::interpolate(q, weights, &rests, constant, rest);
}

/// As many products as one reduction takes.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn interpolate_some<const N: usize>(q: u32, weights: [u32; N], parts: [&[u32]; N], constant: u32, out: &mut [u32]) {
    let modulus = Modulus::new(q);
    let start = _mm256_set1_epi32(constant as i32);
    let factors: [__m256i; N] = std::array::from_fn(|n| _mm256_set1_epi32(weights[n] as i32));
    let parts: [&[u32]; N] = std::array::from_fn(|n| &parts[n][..out.len()]);
    let (eights, rest) = out.as_chunks_mut::<8>();
    let done = eights.len() * 8;
    for (place, out) in eights.iter_mut().enumerate() {
        let mut sums = [_mm256_setzero_si256(); 2];
        for (part, factor) in parts.iter().zip(factors) {
            let words = load(&part.as_chunks::<8>().0[place]);
            sums[0] = _mm256_add_epi64(sums[0], _mm256_mul_epu32(words, factor));
            sums[1] = _mm256_add_epi64(sums[1], _mm256_mul_epu32(_mm256_srli_epi64::<32>(words), factor));
        }
        store(out, modulus.add(start, modulus.reduce(sums[0], sums[1])));
    }
    portable::interpolate(q, &weights, &parts.map(|part| &part[done..]), constant, rest);
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn halve_sums(q: u32, a: &[u32], b: &[u32], constant: u32, out: &mut [u32]) {
    let modulus = Modulus::new(q);
    let one_half = _mm256_set1_epi32(q.div_ceil(2) as i32);
    let start = _mm256_set1_epi32(constant as i32);
    let (a_eights, a_rest) = a.as_chunks::<8>();
    let (b_eights, b_rest) = b.as_chunks::<8>();
    let (out_eights, out_rest) = out.as_chunks_mut::<8>();
    for ((a, b), out) in a_eights.iter().zip(b_eights).zip(out_eights) {
        let sum = modulus.add(load(a), load(b));
        // All ones where the sum is odd.
        let odd = _mm256_srai_epi32::<31>(_mm256_slli_epi32::<31>(sum));
        let half = _mm256_add_epi32(_mm256_srli_epi32::<1>(sum), _mm256_and_si256(odd, one_half));
        store(out, modulus.add(half, start));
    }
    portable::halve_sums(q, a_rest, b_rest, constant, out_rest);
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn minimum(values: &[u32]) -> u32 {
    portable::minimum(values)
}
