//! The kernels, each in a portable, an AVX2 and an AVX-512 form with the same results, and the choice between them at run time.

/// Kernels that differ between vector widths only in the instructions that they are compiled for.
#[cfg(target_arch = "x86_64")]
macro_rules! vector_kernels {
    ($features:literal, $vector:ty) => {
        #[target_feature(enable = $features)]
        pub(crate) fn mask_long_words(
            bytes: &[u8],
            mask: u64,
            limit: u64,
            shift: u64,
            low: &mut [u32],
            high: &mut [u32],
        ) -> bool {
            portable::mask_long_words(bytes, mask, limit, shift, low, high)
        }

        #[target_feature(enable = $features)]
        pub(crate) fn montgomery_products(q: u32, a: &[u32], b: &[u32], out: &mut [u32]) {
            // SAFETY: this function enables the instructions of the vector.
            unsafe { modular::montgomery_products::<$vector>(q, a, b, out) }
        }

        #[target_feature(enable = $features)]
        pub(crate) fn interpolate(q: u32, weights: &[u32], parts: &[&[u32]], constant: u32, out: &mut [u32]) {
            // SAFETY: this function enables the instructions of the vector.
            unsafe { modular::interpolate::<$vector>(q, weights, parts, constant, out) }
        }

        #[target_feature(enable = $features)]
        pub(crate) fn halve_sums(q: u32, a: &[u32], b: &[u32], constant: u32, out: &mut [u32]) {
            // SAFETY: this function enables the instructions of the vector.
            unsafe { modular::halve_sums::<$vector>(q, a, b, constant, out) }
        }

        #[target_feature(enable = $features)]
        pub(crate) fn minimum(values: &[u32]) -> u32 {
            portable::minimum(values)
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

use crate::bytes::ByteDot;
use crate::dot::{Chunk, Dot, Kind, NARROW};
use crate::table::PlaneTables;

/// Which instructions the kernels may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// Plain Rust for every machine.
    Portable,
    /// 256-bit vectors of x86-64 (with FMA, which every machine with AVX2 that matters has).
    Avx2,
    /// 512-bit vectors of x86-64 with products and look-ups of bytes (VNNI and VBMI: Ice Lake, Zen 4 and later).
    Avx512,
}

impl Backend {
    /// All of them, the fastest last.
    const ALL: [Backend; 3] = [Backend::Portable, Backend::Avx2, Backend::Avx512];

    /// All backends that this machine can run, the fastest last.
    pub fn available() -> Vec<Backend> {
        Backend::ALL.into_iter().filter(|backend| backend.runs_here()).collect()
    }

    /// The fastest one that this machine can run.
    pub fn best() -> Backend {
        Backend::ALL.into_iter().rfind(|backend| backend.runs_here()).unwrap_or(Backend::Portable)
    }

    /// Whether this machine can run it.
    pub fn runs_here(self) -> bool {
        match self {
            Backend::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 => {
                Backend::Avx2.runs_here()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vbmi")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Backend::Avx2 | Backend::Avx512 => false,
        }
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Backend::Portable => "portable",
            Backend::Avx2 => "avx2",
            Backend::Avx512 => "avx512",
        })
    }
}

/// A backend that this machine has been seen to support, so that calling its kernels is sound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels(Backend);

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

/// Two plans that [`Kernels::dot_pair`] takes: one chunk each, over the same groups of one byte per level, with `‖y‖²`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'a> {
    dots: [&'a Dot<NARROW>; 2],
}

impl<'a> Pair<'a> {
    pub(crate) fn new(dots: [&'a Dot<NARROW>; 2]) -> Option<Pair<'a>> {
        let [groups, others] = dots.map(|dot| match &dot.chunks[..] {
            [chunk] if dot.kind == Kind::BytesNorm => chunk.groups.len(),
            _ => 0,
        });
        (groups > 0 && groups == others).then_some(Pair { dots })
    }
}

/// Calls the same function of the chosen backend.
macro_rules! dispatch {
    ($self:ident, $function:ident $(::<$generic:tt>)? ($($argument:expr),*)) => {
        match $self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` holds Avx2 only after the machine was found to have it.
            Backend::Avx2 => unsafe { avx2::$function $(::<$generic>)? ($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` holds Avx512 only after the machine was found to have it.
            Backend::Avx512 => unsafe { avx512::$function $(::<$generic>)? ($($argument),*) },
            _ => portable::$function $(::<$generic>)? ($($argument),*),
        }
    };
}

impl Kernels {
    pub(crate) fn new(backend: Backend) -> Option<Kernels> {
        backend.runs_here().then_some(Kernels(backend))
    }

    pub(crate) fn best() -> Kernels {
        Kernels(Backend::best())
    }

    pub(crate) fn backend(self) -> Backend {
        self.0
    }

    /// Whether [`Kernels::byte_dot`] and [`Kernels::look_up`] are there.
    pub(crate) fn multiplies_bytes(self) -> bool {
        self.0 == Backend::Avx512
    }

    /// Rows per tile: the numbers of a simple query stay in the first cache level and its rows in the second, and the steps of a
    /// tile are long enough that their beginnings do not count. With AVX-512 tiles are short, because memory is the limit and
    /// would stand still while long runs of pads are made.
    pub(crate) fn tile_rows(self) -> usize {
        if self.0 == Backend::Avx512 { 256 } else { 1920 }
    }

    /// Blocks that the cipher makes at a time where it is fast. A tile asks for a whole number of these, even if it needs
    /// less: what is left over is made one by one, slower than all of them together.
    pub(crate) fn cipher_blocks(self) -> usize {
        if self.0 == Backend::Avx512 { 64 } else { 8 }
    }

    /// Evaluates `dot` for the rows of `out`, whole blocks, as [`Kernels::dot`] does. Only where
    /// [`Kernels::multiplies_bytes`].
    pub(crate) fn byte_dot(self, dot: &ByteDot, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` holds Avx512 only after the machine was found to have it.
            Backend::Avx512 => unsafe { avx512::byte_dot(dot, blocks, planes, out) },
            other => unreachable!("{other} has no products of bytes: {dot:?} {blocks:?} {planes:?} {}", out.len()),
        }
    }

    /// Sums of entries for the rows of `low`, whole blocks, reduced; the upper words to `high` if that is not empty. Only
    /// where [`Kernels::multiplies_bytes`].
    pub(crate) fn look_up(self, tables: &PlaneTables, blocks: Blocks<'_>, low: &mut [u32], high: &mut [u32]) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` holds Avx512 only after the machine was found to have it.
            Backend::Avx512 => unsafe { avx512::look_up(tables, blocks, low, high) },
            other => unreachable!("{other} has no look-ups of bytes: {tables:?} {blocks:?} {}", low.len() + high.len()),
        }
    }

    /// Whether [`Kernels::dot_pair`] is there.
    pub(crate) fn takes_pairs(self) -> bool {
        self.0 == Backend::Avx2
    }

    /// Evaluates two plans as [`Kernels::dot`] does, with `‖y‖²` of every row from `norms`. Only where
    /// [`Kernels::takes_pairs`].
    pub(crate) fn dot_pair(
        self,
        pair: Pair<'_>,
        blocks: Blocks<'_>,
        norms: &[u32],
        planes: [Planes<'_>; 2],
        out: [&mut [u32]; 2],
    ) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` holds Avx2 only after the machine was found to have it.
            Backend::Avx2 => unsafe { avx2::dot_pair(pair, blocks, norms, planes, out) },
            other => {
                unreachable!("{other} takes no pairs: {pair:?} {blocks:?} {planes:?} {} {}", norms.len(), out.len())
            }
        }
    }

    /// Evaluates `dot` for the rows `0..out.len()/(L/2)`, whole blocks; a number is one plane (narrow) or a low and a high
    /// plane (wide), one after the other in `out`.
    pub(crate) fn dot<const L: usize>(self, dot: &Dot<L>, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
        dispatch!(self, dot::<L>(dot, blocks, planes, out))
    }

    /// `a·b/2^32 mod q` for odd q < 2^31 and reduced a and b.
    pub(crate) fn montgomery_products(self, q: u32, a: &[u32], b: &[u32], out: &mut [u32]) {
        dispatch!(self, montgomery_products(q, a, b, out))
    }

    /// Little-endian words of `bytes`, masked and then shifted by `shift`; false if a masked word is not below `limit`.
    pub(crate) fn mask_words(
        self,
        width: usize,
        bytes: &[u8],
        mask: u32,
        limit: u32,
        shift: u32,
        out: &mut [u32],
    ) -> bool {
        dispatch!(self, mask_words(width, bytes, mask, limit, shift, out))
    }

    /// The same for words of 8 bytes, the lower and the upper halves of the results apart.
    pub(crate) fn mask_long_words(
        self,
        bytes: &[u8],
        mask: u64,
        limit: u64,
        shift: u64,
        low: &mut [u32],
        high: &mut [u32],
    ) -> bool {
        dispatch!(self, mask_long_words(bytes, mask, limit, shift, low, high))
    }

    /// Packs `8·n` symbols of 33 to 62 bits that come as lower and upper words.
    pub(crate) fn pack_halves(self, bits: u32, low: &[u32], high: &[u32], out: &mut [u8]) {
        dispatch!(self, pack_halves(bits, low, high, out))
    }

    /// Appends symbols of `bits` bits, 8 ≤ bits ≤ 32, to a bit stream that stands at a byte boundary: `8·n` symbols.
    pub(crate) fn pack_words(self, bits: u32, symbols: &[u32], out: &mut [u8]) {
        dispatch!(self, pack_words(bits, symbols, out))
    }

    /// The reverse of [`Kernels::pack_words`]; returns the largest symbol.
    pub(crate) fn unpack_words(self, bits: u32, packed: &[u8], symbols: &mut [u32]) -> u32 {
        dispatch!(self, unpack_words(bits, packed, symbols))
    }

    /// `Σ weight_n·part_n + constant mod q` for odd q < 2^31; weights in Montgomery form (times 2^32).
    pub(crate) fn interpolate(self, q: u32, weights: &[u32], parts: &[&[u32]], constant: u32, out: &mut [u32]) {
        dispatch!(self, interpolate(q, weights, parts, constant, out))
    }

    /// `(a + b)/2 + constant mod q` for odd q < 2^31: what two servers at opposite points come to.
    pub(crate) fn halve_sums(self, q: u32, a: &[u32], b: &[u32], constant: u32, out: &mut [u32]) {
        dispatch!(self, halve_sums(q, a, b, constant, out))
    }

    /// The smallest value, `u32::MAX` of none.
    pub(crate) fn minimum(self, values: &[u32]) -> u32 {
        dispatch!(self, minimum(values))
    }

    /// `sum ⊕= record_i` for every set bit i (bit i of byte i/8, lowest first).
    pub(crate) fn xor_selected(self, records: &[u8], length: usize, subset: &[u8], sum: &mut [u8]) {
        dispatch!(self, xor_selected(records, length, subset, sum))
    }

    /// `sum ⊕= coefficient_i · record_i` byte by byte in the field whose product tables are given.
    pub(crate) fn gf256_sum(
        self,
        tables: &[[u8; 32]; 256],
        records: &[u8],
        length: usize,
        coefficients: &[u8],
        sum: &mut [u8],
    ) {
        dispatch!(self, gf256_sum(tables, records, length, coefficients, sum))
    }

    /// A sum over all bytes that does as little as possible beside reading them: the limit that scans are measured by.
    #[cfg_attr(not(feature = "bench"), allow(dead_code))]
    pub(crate) fn read(self, bytes: &[u8]) -> u64 {
        dispatch!(self, read(bytes))
    }
}

/// Checks once what the unchecked loads of a kernel rely on.
fn assert_shapes<const L: usize>(dot: &Dot<L>, blocks: Blocks<'_>, planes: Planes<'_>, out: &[u32]) -> usize {
    let rows = out.len() / (L / 2);
    assert!(rows.is_multiple_of(crate::store::BLOCK_ROWS) && out.len() == rows * (L / 2));
    let per_group = dot.kind.per_group();
    let needed = |chunk: &Chunk<L>| {
        let last_group = chunk.first_group + chunk.groups.len() / per_group;
        let planes_read =
            chunk.planes.iter().map(|plane| plane.0).chain(chunk.whole_planes.iter().map(|plane| plane.0));
        let last_plane = planes_read.map(|plane| plane + 1).max().unwrap_or(0);
        let groups_fit = chunk.groups.is_empty()
            || (last_group * 4 * crate::store::BLOCK_ROWS <= blocks.block_bytes
                && rows / crate::store::BLOCK_ROWS * blocks.block_bytes <= blocks.bytes.len());
        groups_fit && rows <= planes.stride && last_plane * planes.stride <= planes.words.len()
    };
    assert!(dot.chunks.iter().all(needed), "a kernel reads only what it was given");
    rows
}
