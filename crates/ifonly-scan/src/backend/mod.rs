//! The kernels: a trait with portable default methods, and one folder for each instruction set that
//! implements some of them faster. All backends give the same results bit for bit. The available
//! backends are detected at run time.
//!
//! To add a backend, add a folder with a type that only its `find` function constructs, an `impl
//! Kernels` with the faster methods, and a line in [`BACKENDS`]. Tests and `ifonly bench` then
//! include it.

/// Compiles common code for the instructions that the backend's function `compiled` enables.
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

/// The kernels that the vector backends of x86-64 share.
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
        fn long_sums(&self, lookups: &Lookups<u64>, blocks: RowBlocks<'_>, sums: &mut [u64]) {
            compiled!(lookups.add_to(blocks, |_| true, sums));
        }
        fn decode_lifted(
            &self,
            constants: &DecodeConstants,
            first: &[[u8; 4]],
            second: &[[u8; 4]],
            values: &mut [u32; decode::BLOCK],
        ) -> BlockSummary {
            compiled!(constants.decode_block(first, second, values))
        }
        fn lifted_words(
            &self,
            constants: &GateConstants,
            sums: [&[u32; BLOCK_ROWS]; 2],
            draws: &[u32; DRAW_WORDS],
            out: &mut [u32; BLOCK_ROWS],
        ) -> bool {
            compiled!(constants.words_of_block(sums[0], sums[1], draws, out))
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
use crate::dot::limbs16::{AnyDot, Chunk, Dot};
use crate::dot::lookup::PlaneTables;
use crate::lifted::decode::{self, BlockSummary, DecodeConstants};
use crate::lifted::gate::{DRAW_WORDS, GateConstants};
use crate::lifted::lookups::{Lookups, RowBlocks, WordLookups};
use crate::row_store::{BLOCK_ROWS, GROUP_BYTES};

/// All backends, the fastest last. Each function returns its kernels if this machine supports them.
const BACKENDS: &[fn() -> Option<&'static dyn Kernels>] = &[
    portable::find,
    #[cfg(target_arch = "x86_64")]
    avx2::find,
    #[cfg(target_arch = "x86_64")]
    avx512::find,
];

/// Kernels that this machine supports.
#[derive(Clone, Copy, Debug)]
pub struct Backend(&'static dyn Kernels);

impl Backend {
    /// All backends that this machine supports, the fastest last.
    pub fn available() -> Vec<Backend> {
        BACKENDS.iter().filter_map(|find| find()).map(Backend).collect()
    }

    /// The fastest backend that this machine supports.
    pub fn best() -> Backend {
        BACKENDS.iter().rev().find_map(|find| find()).map_or(Backend(&portable::Portable), Backend)
    }

    /// The backend with this name: `portable`, `avx2` or `avx512`. `None` if this machine does not
    /// support it.
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

/// The rows that a kernel processes: consecutive whole blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) block_bytes: usize,
}

/// Planes of words beside the rows: plane p is `words[p·stride..][..rows]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planes<'a> {
    pub(crate) words: &'a [u32],
    pub(crate) stride: usize,
}

/// How field elements are drawn from a keystream. Words of `width` bytes, little-endian, are
/// masked, must be below the limit, and are then shifted by adding `shift`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrawSpec {
    pub(crate) width: usize,
    pub(crate) mask: u64,
    pub(crate) limit: u64,
    pub(crate) shift: u64,
}

/// The operations that process many rows at a time.
pub(crate) trait Kernels: std::fmt::Debug + Send + Sync {
    /// Name of the backend on the command line.
    fn name(&self) -> &'static str;

    /// Rows per tile. The planes of a simple query fit the first cache level and its rows the
    /// second, and a tile is long enough that the fixed cost of a step does not matter.
    fn tile_rows(&self) -> usize {
        1920
    }

    /// Blocks that the cipher computes together at full speed. A tile requests a multiple of this
    /// number, even if it needs fewer: single blocks at the end would take longer than a full
    /// batch.
    fn cipher_blocks(&self) -> usize {
        8
    }

    /// Whether [`Kernels::byte_dot`] and [`Kernels::look_up`] are faster than their alternatives.
    fn prefers_bytes(&self) -> bool {
        false
    }

    /// Evaluates `dot` for whole blocks of rows. The result in `out` is one plane (narrow), or a
    /// low plane followed by a high plane (wide).
    fn dot(&self, dot: &AnyDot, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
        match dot {
            AnyDot::Narrow(dot) => portable::dot(dot, blocks, planes, out),
            AnyDot::Wide(dot) => portable::dot(dot, blocks, planes, out),
        }
    }

    /// Like [`Kernels::dot`], in byte limbs.
    fn byte_dot(&self, dot: &ByteDot, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
        portable::byte_dot(dot, blocks, planes, out);
    }

    /// Computes the reduced sums of table entries for whole blocks of rows. The lower words go to
    /// `low`, the upper words to `high` unless that is empty.
    fn look_up(&self, tables: &PlaneTables, blocks: Blocks<'_>, low: &mut [u32], high: &mut [u32]) {
        portable::look_up(tables, blocks, low, high);
    }

    /// Whether [`Kernels::word_sums`] can look up single bytes ([`WordLookups::planes`]).
    fn looks_up_bytes(&self) -> bool {
        false
    }

    /// Sums one table entry per feature, for whole blocks of at most 1024 rows
    /// ([`TILE_ROWS`](crate::lifted::lookups::TILE_ROWS)). The lower words go to `low`, the upper
    /// words to `high`.
    fn word_sums(&self, lookups: &WordLookups, blocks: RowBlocks<'_>, low: &mut [u32], high: &mut [u32]) {
        lookups.sum_with_loads(blocks, low, high);
    }

    /// Adds up table entries of 64 bits for whole blocks of rows; sums wrap.
    fn long_sums(&self, lookups: &Lookups<u64>, blocks: RowBlocks<'_>, sums: &mut [u64]) {
        lookups.add_to(blocks, |_| true, sums);
    }

    /// Computes the words of one block of a lifted answer; see [`GateConstants::words_of_block`].
    fn lifted_words(
        &self,
        constants: &GateConstants,
        sums: [&[u32; BLOCK_ROWS]; 2],
        draws: &[u32; DRAW_WORDS],
        out: &mut [u32; BLOCK_ROWS],
    ) -> bool {
        constants.words_of_block(sums[0], sums[1], draws, out)
    }

    /// Decodes one block of two lifted answers; see [`DecodeConstants::decode_block`].
    fn decode_lifted(
        &self,
        constants: &DecodeConstants,
        first: &[[u8; 4]],
        second: &[[u8; 4]],
        values: &mut [u32; decode::BLOCK],
    ) -> BlockSummary {
        constants.decode_block(first, second, values)
    }

    /// `a·b/2^32 mod q` for odd q < 2^31 and reduced a and b.
    fn montgomery_products(&self, q: u32, a: &[u32], b: &[u32], out: &mut [u32]) {
        portable::montgomery_products(q, a, b, out);
    }

    /// Draws field elements of one word from keystream words of up to four bytes. Returns false if
    /// a keystream word is not below the limit.
    fn mask_words(&self, draws: DrawSpec, bytes: &[u8], out: &mut [u32]) -> bool {
        portable::mask_words(draws, bytes, out)
    }

    /// Like [`Kernels::mask_words`], from words of eight bytes; the lower and upper halves are
    /// separate.
    fn mask_long_words(&self, draws: DrawSpec, bytes: &[u8], low: &mut [u32], high: &mut [u32]) -> bool {
        portable::mask_long_words(draws, bytes, low, high)
    }

    /// Packs `8·n` field elements of 33 to 62 bits, given as lower and upper words.
    fn pack_halves(&self, bits: u32, low: &[u32], high: &[u32], out: &mut [u8]) {
        portable::pack_halves(bits, low, high, out);
    }

    /// Packs `8·n` field elements of `bits` bits, 8 ≤ bits ≤ 32, into a bit stream that starts at a
    /// byte boundary.
    fn pack_words(&self, bits: u32, elements: &[u32], out: &mut [u8]) {
        portable::pack_words(bits, elements, out);
    }

    /// The inverse of [`Kernels::pack_words`]; returns the largest element.
    fn unpack_words(&self, bits: u32, packed: &[u8], elements: &mut [u32]) -> u32 {
        portable::unpack_words(bits, packed, elements)
    }

    /// `Σ weight_n·part_n + constant mod q` for odd q < 2^31; weights in Montgomery form (times
    /// 2^32).
    fn interpolate(&self, q: u32, weights: &[u32], parts: &[&[u32]], constant: u32, out: &mut [u32]) {
        portable::interpolate(q, weights, parts, constant, out);
    }

    /// `(a + b)/2 + constant mod q` for odd q < 2^31: interpolation for two servers at opposite
    /// points.
    fn halve_sums(&self, q: u32, a: &[u32], b: &[u32], constant: u32, out: &mut [u32]) {
        portable::halve_sums(q, a, b, constant, out);
    }

    /// `sum ⊕= record_i` for every set bit i (bit i of byte i/8, lowest first).
    fn xor_selected(&self, records: &[u8], length: usize, subset: &[u8], sum: &mut [u8]) {
        portable::xor_selected(records, length, subset, sum);
    }

    /// `sum ⊕= coefficient_i · record_i` byte by byte, in the field with the given product tables.
    fn gf256_sum(&self, tables: &NibbleTables, records: &[u8], length: usize, coefficients: &[u8], sum: &mut [u8]) {
        portable::gf256_sum(tables, records, length, coefficients, sum);
    }

    /// A sum over all bytes with as little work as possible besides reading: the upper bound for
    /// the speed of a scan.
    #[cfg_attr(not(feature = "internals"), allow(dead_code))]
    fn read(&self, bytes: &[u8]) -> u64 {
        portable::read(bytes)
    }
}

/// For each factor of GF(2^8), its products with 0..16 and with 16·(0..16).
pub(crate) type NibbleTables = [[u8; 32]; 256];

/// Checks the sizes that the unchecked loads of a kernel rely on. Returns the number of rows.
fn assert_sizes<const L: usize>(dot: &Dot<L>, blocks: Blocks<'_>, planes: Planes<'_>, out: &[u32]) -> usize {
    let rows = out.len() / (L / 2);
    assert!(rows.is_multiple_of(BLOCK_ROWS) && out.len() == rows * (L / 2));
    let per_group = dot.encoding.per_group();
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
    assert!(dot.chunks.iter().all(needed), "a kernel must not read beyond its input");
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dot::limbs16::{Features, NARROW, PlaneTerm};
    use crate::row_store::RowStore;
    use ifonly_algebra::field::{Field, FieldElement};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn backends_are_found_by_name_and_the_last_is_the_best() {
        let names: Vec<String> = Backend::available().iter().map(Backend::to_string).collect();
        assert_eq!(names[0], "portable");
        assert_eq!(names.last(), Some(&Backend::best().to_string()));
        for name in &names {
            assert_eq!(Backend::named(name).map(|backend| backend.to_string()).as_ref(), Some(name));
        }
        assert!(Backend::named("abacus").is_none());
    }

    /// 128 rows of five features: two blocks of two groups.
    fn store() -> RowStore {
        RowStore::build(&[255; 5], (0..128u16).map(|row| [row, 255, 2 * row, 9, 200 - row])).unwrap()
    }

    /// `‖y‖²`, a slope and two planes: one whose factor is so small that it is not split into
    /// bytes, and one that is split.
    fn plan(q: u64, store: &RowStore) -> Dot<NARROW> {
        let field = Field::new(q).unwrap();
        let slope: Vec<FieldElement> = (0..5).map(|k| field.reduce(77_777 * k + 5)).collect();
        let terms = [1, 100_000].map(|factor| PlaneTerm {
            register: usize::from(factor > 1),
            factor: field.reduce(factor),
            below: q,
        });
        Dot::new(&field, store, &Features::Linear { norm: true, slope: &slope }, &terms, FieldElement::ONE).unwrap()
    }

    #[test]
    fn inputs_that_are_too_short_for_a_kernel_are_rejected() {
        let dot = plan(262_139, &store());
        let rows = |block_bytes: usize, bytes: usize, stride: usize, words: usize, out: usize| {
            let (bytes, words, out) = (vec![0; bytes], vec![0; words], vec![0; out]);
            let (blocks, planes) = (Blocks { bytes: &bytes, block_bytes }, Planes { words: &words, stride });
            catch_unwind(AssertUnwindSafe(|| assert_sizes(&dot, blocks, planes, &out))).ok()
        };
        assert_eq!(rows(512, 1024, 128, 256, 128), Some(128));
        assert_eq!(rows(768, 1600, 200, 500, 128), Some(128));
        assert_eq!(rows(511, 1024, 128, 256, 128), None);
        assert_eq!(rows(512, 1023, 128, 256, 128), None);
        assert_eq!(rows(512, 1024, 127, 256, 128), None);
        assert_eq!(rows(512, 1024, 128, 255, 128), None);
        assert_eq!(rows(512, 1024, 128, 256, 127), None);
    }
}
