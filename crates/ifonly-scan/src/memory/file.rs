//! The bytes of a file, mapped into memory, or read into aligned memory if mapping is not possible.
//!
//! A mapped file is neither copied nor held twice. Its pages belong to the page cache of the
//! system, all processes that map the file share them, and pages that no process touches need not
//! be in memory. The map starts on a huge-page boundary, so that systems that keep files in huge
//! pages can use them.
//!
//! **The file must not change while it is mapped.** If a process truncates the file, reading a page
//! beyond its end kills this process (SIGBUS). If a process overwrites the file, bytes that have
//! been checked change. Bundles are therefore never modified: a new bundle replaces the old one by
//! renaming, and the old file exists until its last map is closed.

use super::AlignedBytes;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;

/// The first bytes of a file. They start at a multiple of 64.
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
    /// Opens the first `length` bytes of a file. A shorter file is an error, which is detected
    /// before anything is mapped or allocated.
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

    /// Releases bytes that are not needed for a while. If they are mapped, they no longer count
    /// towards the memory of this process, and the next access reads them from the file again.
    pub fn release(&self, bytes: Range<usize>) {
        #[cfg(unix)]
        if let Source::Mapped(map) = &self.0 {
            map.release(bytes);
        }
        #[cfg(not(unix))]
        let _ = bytes;
    }

    /// Like [`FileBytes::open`], without a map.
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

    /// A read-only map inside an address range that is long enough to start the map on a huge-page
    /// boundary.
    pub(super) struct Map {
        reserved: *mut libc::c_void,
        reserved_length: usize,
        start: *const u8,
        length: usize,
    }

    // SAFETY: the pages are only read, and the addresses belong to this value alone until it is
    // dropped.
    unsafe impl Send for Map {}
    // SAFETY: as above.
    unsafe impl Sync for Map {}

    impl Map {
        /// `None` if the system refuses, as for an empty map and on some file systems.
        pub(super) fn new(file: &File, length: usize) -> Option<Map> {
            let reserved_length = length.checked_add(HUGE_PAGE)?;
            if length == 0 {
                return None;
            }
            let (none, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE);
            // SAFETY: reserves fresh addresses, which nothing else uses and which are not readable
            // yet.
            let reserved = unsafe { libc::mmap(ptr::null_mut(), reserved_length, none, flags, -1, 0) };
            if reserved == libc::MAP_FAILED {
                return None;
            }
            // From here on, dropping `map` releases the addresses.
            let mut map = Map { reserved, reserved_length, start: ptr::null(), length: 0 };
            let address = reserved.wrapping_byte_add(reserved.align_offset(HUGE_PAGE));
            let (read, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_FIXED);
            // SAFETY: replaces only addresses of the reservation, which is HUGE_PAGE bytes longer
            // than the map; the next boundary is less than that away. The descriptor is open; the
            // map outlives it.
            let start = unsafe { libc::mmap(address, length, read, flags, file.as_raw_fd(), 0) };
            if start == libc::MAP_FAILED {
                return None;
            }
            advise_huge_pages(start.cast(), length);
            (map.start, map.length) = (start.cast_const().cast(), length);
            Some(map)
        }

        pub(super) fn bytes(&self) -> &[u8] {
            // SAFETY: `length` readable bytes start here and exist until `self` is dropped. The
            // module requires that no process changes the file; the language cannot enforce this.
            unsafe { std::slice::from_raw_parts(self.start, self.length) }
        }

        pub(super) fn release(&self, bytes: Range<usize>) {
            // A multiple of every common page size.
            const PAGE: usize = 1 << 16;
            let (first, end) = (bytes.start.next_multiple_of(PAGE), bytes.end.min(self.length) / PAGE * PAGE);
            if first < end {
                let address = self.start.wrapping_add(first).cast_mut().cast();
                // SAFETY: inside the map, whose pages are never written: a later read gets the same
                // bytes from the file. A refusal costs only memory.
                unsafe { libc::madvise(address, end - first, libc::MADV_DONTNEED) };
            }
        }
    }

    impl Drop for Map {
        fn drop(&mut self) {
            // SAFETY: exactly the reserved range, including the map; `self` was its last user.
            unsafe { libc::munmap(self.reserved, self.reserved_length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file_of(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf, File) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bytes");
        File::create(&path).unwrap().write_all(bytes).unwrap();
        let file = File::open(&path).unwrap();
        (dir, path, file)
    }

    #[test]
    fn a_file_is_mapped_or_read_at_an_aligned_address() {
        // Less than a page, whole pages, and more than a huge page with a remainder.
        for length in [0, 1, 4096, 8192, (2 << 20) + 77] {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 7 % 251) as u8).collect();
            let (_dir, _, file) = file_of(&bytes);
            for part in [length, length / 2] {
                for opened in [FileBytes::open(&file, part).unwrap(), FileBytes::read(&reopened(&file), part).unwrap()]
                {
                    assert!(opened.as_ref() == &bytes[..part], "{part} of {length}");
                    assert!(part == 0 || opened.as_ref().as_ptr().addr().is_multiple_of(64));
                    // Released bytes are unchanged, also if the range exceeds the file.
                    opened.release(0..part / 2);
                    opened.release(part / 3..part + 99);
                    assert!(opened.as_ref() == &bytes[..part], "{part} of {length}");
                }
            }
            assert_eq!(FileBytes::open(&file, length + 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    /// A handle at the start of the file: reading moves the file position, mapping does not.
    fn reopened(file: &File) -> File {
        use std::io::Seek;
        let mut file = file.try_clone().unwrap();
        file.rewind().unwrap();
        file
    }

    #[cfg(unix)]
    #[test]
    fn a_map_outlives_the_name_and_the_descriptor_of_its_file() {
        let (dir, path, file) = file_of(&[9; 10_000]);
        let opened = FileBytes::open(&file, 10_000).unwrap();
        assert!(matches!(opened.0, Source::Mapped(_)));
        drop(file);
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        std::fs::write(&path, [1; 10_000]).unwrap();
        std::fs::remove_file(dir.path().join("old")).unwrap();
        assert!(opened.as_ref().iter().all(|&byte| byte == 9));
    }
}
