//! The kernels: a trait whose methods are plain Rust, and one folder for each set of instructions
//! that does some of them faster, with the same results bit for bit. What this machine can run is
//! found out at run time.
//!
//! A further backend is a folder with a witness type that only its `find` hands out, an `impl
//! Kernels` with what it does faster, and a line in [`BACKENDS`]. Tests and `ifonly bench` take it
//! from there.

/// Common code, compiled for the instructions that the `compiled` of the place enables.
#[cfg(target_arch = "x86_64")]
macro_rules! compiled {
    ($call:expr) => {
        unsafe {
            compiled(
                #[inline(always)]
                || $call,
            )
        }
    };
}

/// What vector backends of x86-64 take from common code.
#[cfg(target_arch = "x86_64")]
macro_rules! common_kernels {
    ($vector:ty) => {
        fn mask_long_words(&self, draws: DrawSpec, bytes: &[u8], low: &mut [u32], high: &mut [u32]) -> bool {
            compiled!(portable::mask_long_words(draws, bytes, low, high))
        }
        fn montgomery_products(&self, q: u32, a: &[u32], b: &[u32], out: &mut [u32]) {
            compiled!(modular::montgomery_products::<$vector>(q, a, b, out))
        }
        fn interpolate(&self, q: u32, weights: &[u32], parts: &[&[u32]], constant: u32, out: &mut [u32]) {
            compiled!(modular::interpolate::<$vector>(q, weights, parts, constant, out))
        }
        fn halve_sums(&self, q: u32, a: &[u32], b: &[u32], constant: u32, out: &mut [u32]) {
            compiled!(modular::halve_sums::<$vector>(q, a, b, constant, out))
        }
        fn minimum(&self, values: &[u32]) -> u32 {
            compiled!(portable::minimum(values))
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod modular;
pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
mod words;

use crate::dot::limbs8::ByteDot;
use crate::dot::limbs16::{AnyDot, Chunk, Dot, GroupEncoding, NARROW};
use crate::dot::lookup::PlaneTables;
use crate::row_store::{BLOCK_ROWS, GROUP_BYTES};

/// All backends, the fastest last; each gives its kernels if this machine can run them.
const BACKENDS: &[fn() -> Option<&'static dyn Kernels>] = &[
    portable::find,
    #[cfg(target_arch = "x86_64")]
    avx2::find,
    #[cfg(target_arch = "x86_64")]
    avx512::find,
];

/// Kernels that this machine has been seen to run.
#[derive(Clone, Copy, Debug)]
pub struct Backend(&'static dyn Kernels);

impl Backend {
    /// All that this machine can run, the fastest last.
    pub fn available() -> Vec<Backend> {
        BACKENDS.iter().filter_map(|find| find()).map(Backend).collect()
    }

    /// The fastest one that this machine can run.
    pub fn best() -> Backend {
        BACKENDS.iter().rev().find_map(|find| find()).map_or(Backend(&portable::Portable), Backend)
    }

    /// The one of this name: `portable`, `avx2`, `avx512`. `None` if this machine cannot run it.
    pub fn named(name: &str) -> Option<Backend> {
        Backend::available().into_iter().find(|backend| backend.0.name() == name)
    }

    pub(crate) fn kernels(self) -> &'static dyn Kernels {
        self.0
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}

/// The rows that a kernel works on: whole blocks, one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) block_bytes: usize,
}

/// Numbers beside the rows: plane p is `words[p·stride..][..rows]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planes<'a> {
    pub(crate) words: &'a [u32],
    pub(crate) stride: usize,
}

/// How numbers are drawn from a key stream: words of `width` bytes, little-endian, are masked, must
/// be below the limit, and are then shifted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrawSpec {
    pub(crate) width: usize,
    pub(crate) mask: u64,
    pub(crate) limit: u64,
    pub(crate) shift: u64,
}

/// Two plans that [`Kernels::dot_pair`] takes: one chunk each, over the same groups of one byte per
/// level, with `‖y‖²`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DotPair<'a> {
    dots: [&'a Dot<NARROW>; 2],
}

impl<'a> DotPair<'a> {
    pub(crate) fn new(dots: [&'a Dot<NARROW>; 2]) -> Option<DotPair<'a>> {
        let [groups, others] = dots.map(|dot| match &dot.chunks[..] {
            [chunk] if dot.meaning == GroupEncoding::BytesNorm => chunk.groups.len(),
            _ => 0,
        });
        (groups > 0 && groups == others).then_some(DotPair { dots })
    }
}

/// Everything that is done for many rows at a time.
pub(crate) trait Kernels: std::fmt::Debug + Send + Sync {
    /// As the command line knows it.
    fn name(&self) -> &'static str;

    /// Rows per tile: the numbers of a simple query stay in the first cache level and its rows in
    /// the second, and the steps of a tile are long enough that their beginnings do not count.
    fn tile_rows(&self) -> usize {
        1920
    }

    /// Blocks that the cipher makes at a time where it is fast. A tile asks for a whole number of
    /// these, even if it needs less: what is left over is made one by one, slower than all of them
    /// together.
    fn cipher_blocks(&self) -> usize {
        8
    }

    /// Whether [`Kernels::byte_dot`] and [`Kernels::look_up`] are faster than their alternatives.
    fn prefers_bytes(&self) -> bool {
        false
    }

    /// Whether [`Kernels::dot_pair`] is faster than two dot products.
    fn prefers_pairs(&self) -> bool {
        false
    }

    /// Evaluates `dot` for whole blocks of rows; a number is one plane (narrow) or a low and a high
    /// plane (wide), one after the other in `out`.
    fn dot(&self, dot: &AnyDot, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
        match dot {
            AnyDot::Narrow(dot) => portable::dot(dot, blocks, planes, out),
            AnyDot::Wide(dot) => portable::dot(dot, blocks, planes, out),
        }
    }

    /// Evaluates two plans as [`Kernels::dot`] does; `norms` has `‖y‖²` of every row.
    fn dot_pair(
        &self,
        pair: DotPair<'_>,
        blocks: Blocks<'_>,
        _norms: &[u32],
        planes: [Planes<'_>; 2],
        out: [&mut [u32]; 2],
    ) {
        for ((dot, planes), out) in pair.dots.into_iter().zip(planes).zip(out) {
            portable::dot(dot, blocks, planes, out);
        }
    }

    /// [`Kernels::dot`] in products of bytes.
    fn byte_dot(&self, dot: &ByteDot, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
        portable::byte_dot(dot, blocks, planes, out);
    }

    /// Sums of entries for the rows of `low`, whole blocks, reduced; the upper words to `high` if
    /// that is not empty.
    fn look_up(&self, tables: &PlaneTables, blocks: Blocks<'_>, low: &mut [u32], high: &mut [u32]) {
        portable::look_up(tables, blocks, low, high);
    }

    /// `a·b/2^32 mod q` for odd q < 2^31 and reduced a and b.
    fn montgomery_products(&self, q: u32, a: &[u32], b: &[u32], out: &mut [u32]) {
        portable::montgomery_products(q, a, b, out);
    }

    /// Numbers of one word, from words of up to four bytes; false if one of these is not below the
    /// limit.
    fn mask_words(&self, draws: DrawSpec, bytes: &[u8], out: &mut [u32]) -> bool {
        portable::mask_words(draws, bytes, out)
    }

    /// The same from words of eight bytes, the lower and the upper halves of the numbers apart.
    fn mask_long_words(&self, draws: DrawSpec, bytes: &[u8], low: &mut [u32], high: &mut [u32]) -> bool {
        portable::mask_long_words(draws, bytes, low, high)
    }

    /// Packs `8·n` symbols of 33 to 62 bits that come as lower and upper words.
    fn pack_halves(&self, bits: u32, low: &[u32], high: &[u32], out: &mut [u8]) {
        portable::pack_halves(bits, low, high, out);
    }

    /// Appends symbols of `bits` bits, 8 ≤ bits ≤ 32, to a bit stream that stands at a byte
    /// boundary: `8·n` symbols.
    fn pack_words(&self, bits: u32, elements: &[u32], out: &mut [u8]) {
        portable::pack_words(bits, elements, out);
    }

    /// The reverse of [`Kernels::pack_words`]; returns the largest symbol.
    fn unpack_words(&self, bits: u32, packed: &[u8], elements: &mut [u32]) -> u32 {
        portable::unpack_words(bits, packed, elements)
    }

    /// `Σ weight_n·part_n + constant mod q` for odd q < 2^31; weights in Montgomery form (times
    /// 2^32).
    fn interpolate(&self, q: u32, weights: &[u32], parts: &[&[u32]], constant: u32, out: &mut [u32]) {
        portable::interpolate(q, weights, parts, constant, out);
    }

    /// `(a + b)/2 + constant mod q` for odd q < 2^31: what two servers at opposite points come to.
    fn halve_sums(&self, q: u32, a: &[u32], b: &[u32], constant: u32, out: &mut [u32]) {
        portable::halve_sums(q, a, b, constant, out);
    }

    /// The smallest value, `u32::MAX` of none.
    fn minimum(&self, values: &[u32]) -> u32 {
        portable::minimum(values)
    }

    /// `sum ⊕= record_i` for every set bit i (bit i of byte i/8, lowest first).
    fn xor_selected(&self, records: &[u8], length: usize, subset: &[u8], sum: &mut [u8]) {
        portable::xor_selected(records, length, subset, sum);
    }

    /// `sum ⊕= coefficient_i · record_i` byte by byte in the field whose product tables are given.
    fn gf256_sum(&self, tables: &NibbleTables, records: &[u8], length: usize, coefficients: &[u8], sum: &mut [u8]) {
        portable::gf256_sum(tables, records, length, coefficients, sum);
    }

    /// A sum over all bytes that does as little as possible beside reading them: the limit that
    /// scans are measured by.
    #[cfg_attr(not(feature = "bench"), allow(dead_code))]
    fn read(&self, bytes: &[u8]) -> u64 {
        portable::read(bytes)
    }
}

/// For each factor of GF(2^8), its products with 0..16 and with 16·(0..16).
pub(crate) type NibbleTables = [[u8; 32]; 256];

/// Checks once what the unchecked loads of a kernel rely on.
fn assert_shapes<const L: usize>(dot: &Dot<L>, blocks: Blocks<'_>, planes: Planes<'_>, out: &[u32]) -> usize {
    let rows = out.len() / (L / 2);
    assert!(rows.is_multiple_of(BLOCK_ROWS) && out.len() == rows * (L / 2));
    let per_group = dot.meaning.per_group();
    let needed = |chunk: &Chunk<L>| {
        let last_group = chunk.first_group + chunk.groups.len() / per_group;
        let planes_read =
            chunk.planes.iter().map(|plane| plane.0).chain(chunk.whole_planes.iter().map(|plane| plane.0));
        let last_plane = planes_read.map(|plane| plane + 1).max().unwrap_or(0);
        let groups_fit = chunk.groups.is_empty()
            || (last_group * GROUP_BYTES * BLOCK_ROWS <= blocks.block_bytes
                && rows / BLOCK_ROWS * blocks.block_bytes <= blocks.bytes.len());
        groups_fit && rows <= planes.stride && last_plane * planes.stride <= planes.words.len()
    };
    assert!(dot.chunks.iter().all(needed), "a kernel reads only what it was given");
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dot::limbs16::{Features, PlaneTerm};
    use crate::row_store::RowStore;
    use ifonly_algebra::field::{Field, FieldElement};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn backends_are_found_by_their_names_and_the_last_is_the_best() {
        let names: Vec<String> = Backend::available().iter().map(Backend::to_string).collect();
        assert_eq!(names[0], "portable");
        assert_eq!(names.last(), Some(&Backend::best().to_string()));
        for name in &names {
            assert_eq!(Backend::named(name).map(|backend| backend.to_string()).as_ref(), Some(name));
        }
        assert!(Backend::named("abacus").is_none());
    }

    /// 128 rows of five features, which are two blocks of two groups.
    fn store() -> RowStore {
        RowStore::build(&[255; 5], (0..128u16).map(|row| [row, 255, 2 * row, 9, 200 - row])).unwrap()
    }

    /// `‖y‖²`, a slope and two numbers beside the rows: one whose factor is so small that it stays
    /// whole, and one in bytes.
    fn plan(q: u64, store: &RowStore) -> Dot<NARROW> {
        let field = Field::new(q).unwrap();
        let slope: Vec<FieldElement> = (0..5).map(|k| field.reduce(77_777 * k + 5)).collect();
        let terms = [1, 100_000].map(|factor| PlaneTerm {
            number: usize::from(factor > 1),
            factor: field.reduce(factor),
            below: q,
        });
        Dot::new(&field, store, &Features::Linear { norm: true, slope: &slope }, &terms, FieldElement::ONE).unwrap()
    }

    #[test]
    fn no_kernel_is_given_less_than_it_reads() {
        let dot = plan(262_139, &store());
        let rows = |block_bytes: usize, bytes: usize, stride: usize, words: usize, out: usize| {
            let (bytes, words, out) = (vec![0; bytes], vec![0; words], vec![0; out]);
            let (blocks, planes) = (Blocks { bytes: &bytes, block_bytes }, Planes { words: &words, stride });
            catch_unwind(AssertUnwindSafe(|| assert_shapes(&dot, blocks, planes, &out))).ok()
        };
        assert_eq!(rows(512, 1024, 128, 256, 128), Some(128));
        assert_eq!(rows(768, 1600, 200, 500, 128), Some(128));
        assert_eq!(rows(511, 1024, 128, 256, 128), None);
        assert_eq!(rows(512, 1023, 128, 256, 128), None);
        assert_eq!(rows(512, 1024, 127, 256, 128), None);
        assert_eq!(rows(512, 1024, 128, 255, 128), None);
        assert_eq!(rows(512, 1024, 128, 256, 127), None);
    }

    #[test]
    fn a_pair_of_dot_products_is_both_of_them() {
        let store = store();
        let blocks = Blocks { bytes: store.data(), block_bytes: store.block_bytes() };
        let norms: Vec<u32> = store.levels().map(|row| row.iter().map(|&y| u32::from(y).pow(2)).sum()).collect();
        let words: Vec<u32> = (0..256).map(|i| i * 1_000 + 3).collect();
        let planes = Planes { words: &words, stride: 128 };
        for q in [[262_139, 1_048_573], [2_147_483_647, 262_139]] {
            let [one, other] = q.map(|q| plan(q, &store));
            for backend in Backend::available() {
                let (mut first, mut second, mut alone) = ([7; 128], [7; 128], [7; 128]);
                let pair = DotPair::new([&one, &other]).unwrap();
                backend.kernels().dot_pair(pair, blocks, &norms, [planes; 2], [&mut first, &mut second]);
                for (dot, out) in [(&one, first), (&other, second)] {
                    backend.kernels().dot(&AnyDot::Narrow(dot.clone()), blocks, planes, &mut alone);
                    assert_eq!(out, alone, "{backend}, {q:?}");
                }
            }
        }
    }
}
