//! The bytes of a file where they are: mapped into memory, or read into aligned memory where there
//! is no map.
//!
//! A mapped file is neither copied nor held twice: the pages are those of the system's cache, all
//! processes that map it share them, and what nobody touches need not be in memory. It starts on a
//! huge page's boundary, so that systems that keep files in huge pages can map them so.
//!
//! **The file must stay as it is while it is mapped.** A file that somebody cuts short ends the
//! process (SIGBUS) when a page behind its end is read, and whoever overwrites it changes bytes
//! that have been checked. Bundles are therefore never written to: a new one is put in place by
//! renaming, and the old file lives until its last map is gone.

use super::AlignedBytes;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;

/// The first bytes of a file, as many as were asked for. They start at a multiple of 64.
pub struct FileBytes(Source);

enum Source {
    #[cfg(unix)]
    Mapped(mapped::Map),
    Read {
        bytes: AlignedBytes,
        length: usize,
    },
}

impl FileBytes {
    /// The first `length` bytes of a file. A shorter file is an error, before anything is mapped or
    /// allocated.
    pub fn open(file: &File, length: usize) -> io::Result<FileBytes> {
        if file.metadata()?.len() < length as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        #[cfg(unix)]
        if let Some(map) = mapped::Map::new(file, length) {
            return Ok(FileBytes(Source::Mapped(map)));
        }
        FileBytes::read(file, length)
    }

    /// Lets go of bytes that are not needed for a while: where they are mapped, this process has
    /// them no longer, and reads them from the file again when somebody wants them.
    pub fn release(&self, bytes: Range<usize>) {
        #[cfg(unix)]
        if let Source::Mapped(map) = &self.0 {
            map.let_go(bytes);
        }
        #[cfg(not(unix))]
        let _ = bytes;
    }

    /// The same without a map.
    fn read(mut file: &File, length: usize) -> io::Result<FileBytes> {
        let mut bytes = AlignedBytes::try_zeroed(length).ok_or(io::ErrorKind::OutOfMemory)?;
        file.read_exact(&mut bytes.as_mut()[..length])?;
        Ok(FileBytes(Source::Read { bytes, length }))
    }
}

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            #[cfg(unix)]
            Source::Mapped(map) => map.bytes(),
            Source::Read { bytes, length } => &bytes.as_ref()[..*length],
        }
    }
}

impl std::fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileBytes({})", self.as_ref().len())
    }
}

#[cfg(unix)]
mod mapped {
    use crate::memory::{HUGE_PAGE, advise_huge_pages};
    use std::fs::File;
    use std::ops::Range;
    use std::os::fd::AsRawFd;
    use std::ptr;

    /// A read-only map, inside a reservation that is long enough to start it where huge pages do.
    pub(super) struct Map {
        reserved: *mut libc::c_void,
        reserved_length: usize,
        start: *const u8,
        length: usize,
    }

    // SAFETY: the pages are only ever read, and the addresses belong to this value alone until it
    // is dropped.
    unsafe impl Send for Map {}
    // SAFETY: as above.
    unsafe impl Sync for Map {}

    impl Map {
        /// `None` where the system refuses, as it does for an empty map and on some file systems.
        pub(super) fn new(file: &File, length: usize) -> Option<Map> {
            let reserved_length = length.checked_add(HUGE_PAGE)?;
            if length == 0 {
                return None;
            }
            let (none, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE);
            // SAFETY: asks for fresh addresses, which nothing else uses; nothing can be read there
            // yet.
            let reserved = unsafe { libc::mmap(ptr::null_mut(), reserved_length, none, flags, -1, 0) };
            if reserved == libc::MAP_FAILED {
                return None;
            }
            // From here on, dropping gives the addresses back.
            let mut map = Map { reserved, reserved_length, start: ptr::null(), length: 0 };
            let place = reserved.wrapping_byte_add(reserved.align_offset(HUGE_PAGE));
            let (read, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_FIXED);
            // SAFETY: replaces addresses of the reservation only: it has HUGE_PAGE bytes more than
            // the map, and the next boundary is less than that away. The descriptor is open; the
            // map outlives it.
            let start = unsafe { libc::mmap(place, length, read, flags, file.as_raw_fd(), 0) };
            if start == libc::MAP_FAILED {
                return None;
            }
            advise_huge_pages(start.cast(), length);
            (map.start, map.length) = (start.cast_const().cast(), length);
            Some(map)
        }

        pub(super) fn bytes(&self) -> &[u8] {
            // SAFETY: `length` readable bytes start here and stay until `self` is dropped. That
            // nobody changes them is what the module asks of whoever keeps the file; the language
            // has no way to make sure.
            unsafe { std::slice::from_raw_parts(self.start, self.length) }
        }

        pub(super) fn let_go(&self, bytes: Range<usize>) {
            // Whole pages of any size that systems have.
            const PAGES: usize = 1 << 16;
            let (first, end) = (bytes.start.next_multiple_of(PAGES), bytes.end.min(self.length) / PAGES * PAGES);
            if first < end {
                let place = self.start.wrapping_add(first).cast_mut().cast();
                // SAFETY: inside the map, whose pages nobody writes to: what is read there later
                // comes from the file again, with the same bytes. A refusal costs only memory.
                unsafe { libc::madvise(place, end - first, libc::MADV_DONTNEED) };
            }
        }
    }

    impl Drop for Map {
        fn drop(&mut self) {
            // SAFETY: exactly what was reserved, with the file's pages inside; `self` was the last
            // to point there.
            unsafe { libc::munmap(self.reserved, self.reserved_length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file_of(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf, File) {
        let desk = tempfile::tempdir().unwrap();
        let path = desk.path().join("bytes");
        File::create(&path).unwrap().write_all(bytes).unwrap();
        let file = File::open(&path).unwrap();
        (desk, path, file)
    }

    #[test]
    fn a_file_has_its_bytes_mapped_or_read_at_an_aligned_place() {
        // Less than a page, whole pages, and more than a huge page with a rest.
        for length in [0, 1, 4096, 8192, (2 << 20) + 77] {
            let bytes: Vec<u8> = (0..length).map(|place| (place * 7 % 251) as u8).collect();
            let (_desk, _, file) = file_of(&bytes);
            for part in [length, length / 2] {
                for opened in [FileBytes::open(&file, part).unwrap(), FileBytes::read(&reopened(&file), part).unwrap()]
                {
                    assert!(opened.as_ref() == &bytes[..part], "{part} of {length}");
                    assert!(part == 0 || opened.as_ref().as_ptr().addr().is_multiple_of(64));
                    // Bytes that were let go, and some that are not there, are as they were.
                    opened.release(0..part / 2);
                    opened.release(part / 3..part + 99);
                    assert!(opened.as_ref() == &bytes[..part], "{part} of {length}");
                }
            }
            assert_eq!(FileBytes::open(&file, length + 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    /// From the beginning: a read moves on, a map does not.
    fn reopened(file: &File) -> File {
        use std::io::Seek;
        let mut file = file.try_clone().unwrap();
        file.rewind().unwrap();
        file
    }

    #[cfg(unix)]
    #[test]
    fn a_map_outlives_the_name_and_the_descriptor_of_its_file() {
        let (desk, path, file) = file_of(&[9; 10_000]);
        let opened = FileBytes::open(&file, 10_000).unwrap();
        assert!(matches!(opened.0, Source::Mapped(_)));
        drop(file);
        std::fs::rename(&path, desk.path().join("old")).unwrap();
        std::fs::write(&path, [1; 10_000]).unwrap();
        std::fs::remove_file(desk.path().join("old")).unwrap();
        assert!(opened.as_ref().iter().all(|&byte| byte == 9));
    }
}
