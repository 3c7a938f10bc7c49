//! Memory for row stores and row function values, aligned for huge pages; and files as memory.
//!
//! A scan touches every page once. With 4 KiB pages, address translation alone costs a third of the
//! read speed. Large buffers therefore start on a 2 MiB boundary and ask the kernel for 2 MiB
//! pages. If the kernel refuses, only speed is lost.

mod file;

pub use file::FileBytes;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Mutex;

const HUGE_PAGE: usize = 2 << 20;
/// Alignment for every vector load and a cache line.
const LINE: usize = 64;

/// Zeroed bytes at an aligned address.
pub(crate) struct AlignedBytes {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is owned and reached only through `&self` or `&mut self`, as with `Box<[u8]>`.
unsafe impl Send for AlignedBytes {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// `length` zeros.
    pub(crate) fn zeroed(length: usize) -> AlignedBytes {
        AlignedBytes::try_zeroed(length).unwrap_or_else(|| handle_alloc_error(layout_of(length)))
    }

    /// `length` zeros, or `None` if there is not enough memory.
    pub(crate) fn try_zeroed(length: usize) -> Option<AlignedBytes> {
        let layout = layout_of(length);
        // SAFETY: the layout has a non-zero size.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        advise_huge_pages(start.as_ptr(), length);
        // SAFETY: `start` points at `layout.size()` writable bytes. They are written after the
        // advice, so that the first touch already allocates huge pages.
        unsafe { start.as_ptr().write_bytes(0, layout.size()) };
        Some(AlignedBytes { start, layout })
    }

    /// The same bytes followed by zeros up to `length`.
    pub(crate) fn grown(&self, length: usize) -> AlignedBytes {
        let mut bigger = AlignedBytes::zeroed(length);
        let copied = self.layout.size().min(length);
        bigger.as_mut()[..copied].copy_from_slice(&self.as_ref()[..copied]);
        bigger
    }

    /// The bytes as words in the machine's order.
    pub(crate) fn words(&self) -> &[u32] {
        // SAFETY: the start is aligned to a cache line, the length is rounded down, and any bits
        // are a valid word.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.layout.size() / 4) }
    }

    /// The bytes as words in the machine's order.
    pub(crate) fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: as in `words`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.layout.size() / 4) }
    }

    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: `start` points at `layout.size()` initialised bytes that `self` owns exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

fn layout_of(length: usize) -> Layout {
    let alignment = if length >= HUGE_PAGE { HUGE_PAGE } else { LINE };
    Layout::from_size_align(length.max(1), alignment).expect("a row store must fit the address space")
}

impl std::fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBytes({})", self.layout.size())
    }
}

/// Buffers of finished queries for reuse: allocating fresh pages takes as long as filling them.
#[derive(Debug, Default)]
pub(crate) struct BufferPool(Mutex<Vec<AlignedBytes>>);

impl BufferPool {
    /// Largest number of free buffers. More would hold memory after a peak of load.
    const MAX_FREE: usize = 2;

    /// A buffer of at least `length` bytes with undefined content.
    pub(crate) fn take(&self, length: usize) -> AlignedBytes {
        let mut free = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let fits = |bytes: &AlignedBytes| bytes.layout.size() >= length && bytes.layout.size() / 2 <= length;
        match free.iter().position(fits) {
            Some(index) => free.swap_remove(index),
            None => {
                drop(free);
                AlignedBytes::zeroed(length)
            }
        }
    }

    /// Returns buffers to the pool, which keeps the largest.
    pub(crate) fn give_back(&self, buffers: Vec<AlignedBytes>) {
        let mut free = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        free.extend(buffers.into_iter().filter(|bytes| bytes.layout.size() >= HUGE_PAGE));
        free.sort_by_key(|bytes| std::cmp::Reverse(bytes.layout.size()));
        free.truncate(Self::MAX_FREE);
    }
}

/// `out[positions[i]] = items[i]`, for positions in several buckets, each bucket filled in
/// ascending order.
///
/// A store to a new cache line waits for the line and delays all later stores. Each store therefore
/// prefetches the line of a position slightly after its own. The function is not inlined: inlined,
/// the loop would share CPU registers with its caller and take half as long again.
#[inline(never)]
pub(crate) fn scatter<T: Copy>(positions: &[u32], items: &[T], out: &mut [T]) {
    const PREFETCH_ITEMS: usize = 4;
    for (&position, &item) in positions.iter().zip(items) {
        prefetch(out.as_ptr().wrapping_add(position as usize + PREFETCH_ITEMS));
        out[position as usize] = item;
    }
}

/// The bytes of words, in the machine's order.
pub(crate) fn bytes_of(words: &[u32]) -> &[u8] {
    // SAFETY: the words are initialised and have no padding, and bytes need no alignment.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Prefetches the memory at an address. Any address is allowed.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86-64 machine has SSE, and a prefetch accepts any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn prefetch<T>(_address: *const T) {}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `start` points at `layout.size()` initialised bytes that live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout and freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

#[cfg(target_os = "linux")]
fn advise_huge_pages(start: *mut u8, length: usize) {
    let whole_pages = length / HUGE_PAGE * HUGE_PAGE;
    if whole_pages > 0 {
        // SAFETY: the range is inside one live allocation or map; the advice changes no content. A
        // refusal costs only speed.
        unsafe { libc::madvise(start.cast(), whole_pages, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_start: *mut u8, _length: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_readable_as_words_and_large_ones_are_aligned_to_huge_pages() {
        for length in [1, 4, 7, 64, HUGE_PAGE - 1, HUGE_PAGE, HUGE_PAGE + 5] {
            let mut bytes = AlignedBytes::zeroed(length);
            assert_eq!((bytes.words().len(), bytes.words_mut().len()), (length / 4, length / 4));
            let boundary = if length < HUGE_PAGE { LINE } else { HUGE_PAGE };
            assert!(bytes.as_ref().as_ptr().addr().is_multiple_of(boundary), "{length}");
        }
    }

    #[test]
    fn the_two_largest_buffers_are_reused_if_they_fit() {
        let pool = BufferPool::default();
        let lengths = [HUGE_PAGE - 1, 2 * HUGE_PAGE, HUGE_PAGE, 6 * HUGE_PAGE];
        pool.give_back(lengths.map(AlignedBytes::zeroed).into());
        let taken = |length: usize| pool.take(length).layout.size();
        // A buffer of twice the length is not too long.
        assert_eq!(taken(HUGE_PAGE), 2 * HUGE_PAGE);
        assert_eq!(taken(HUGE_PAGE), HUGE_PAGE);
        assert_eq!(taken(HUGE_PAGE - 1), HUGE_PAGE - 1);
        assert_eq!(taken(6 * HUGE_PAGE + 1), 6 * HUGE_PAGE + 1);
        assert_eq!(taken(3 * HUGE_PAGE - 1), 3 * HUGE_PAGE - 1);
        assert_eq!(taken(6 * HUGE_PAGE), 6 * HUGE_PAGE);
        assert!(pool.0.lock().unwrap().is_empty());
    }
}
