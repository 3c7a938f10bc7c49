//! Atomic writing of a bundle, or of the parts of a split bundle: all files are written to a hidden
//! directory beside the target, which is then renamed. Only the owner can read the files.

use crate::error::BuildError;
use crate::format::{files, split};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The kind of output. A write may replace only output of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputKind {
    /// A bundle: a directory with a file `checksums`.
    Bundle,
    /// The directories of a split bundle.
    Parts,
}

impl OutputKind {
    fn exists_at(self, target: &Path) -> bool {
        match self {
            OutputKind::Bundle => target.join(files::CHECKSUMS).is_file(),
            OutputKind::Parts => split::is_only_split(target),
        }
    }

    fn name(self) -> &'static str {
        match self {
            OutputKind::Bundle => "a bundle",
            OutputKind::Parts => "only the output of an earlier split",
        }
    }
}

/// Output that is being written. If it is dropped before [`StagingDir::commit`], all files are
/// removed.
pub(crate) struct StagingDir {
    directory: PrivateDir,
    target: PathBuf,
    kind: OutputKind,
}

impl StagingDir {
    /// Creates the hidden directory. The target must not exist unless `replace` is set.
    pub(crate) fn new(target: &Path, kind: OutputKind, replace: bool) -> Result<StagingDir, BuildError> {
        check_target(target, kind, replace)?;
        let directory = PrivateDir(private_beside(target, "new")?);
        Ok(StagingDir { directory, target: target.into(), kind })
    }

    /// The directory for the files.
    pub(crate) fn directory(&self) -> &PrivateDir {
        &self.directory
    }

    /// Renames the directory to the target path.
    pub(crate) fn commit(self, replace: bool) -> Result<(), BuildError> {
        self.directory.sync()?;
        check_target(&self.target, self.kind, replace)?;
        let old = beside(&self.target, "old");
        let replaced = self.target.exists();
        if replaced {
            let _ = fs::remove_dir_all(&old);
            fs::rename(&self.target, &old).map_err(io("replace", &self.target))?;
        }
        if let Err(error) = fs::rename(&self.directory.0, &self.target).map_err(io("create", &self.target)) {
            if replaced {
                let _ = fs::rename(&old, &self.target);
            }
            return Err(error);
        }
        if replaced {
            fs::remove_dir_all(&old).map_err(io("remove", &old))?;
        }
        match self.target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => sync(parent),
            None => Ok(()),
        }
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        // After a commit this path no longer exists, and the removal does nothing.
        let _ = fs::remove_dir_all(&self.directory.0);
    }
}

/// A directory that only its owner can read.
pub(crate) struct PrivateDir(PathBuf);

impl PrivateDir {
    /// Creates a file in the directory.
    pub(crate) fn file(&self, name: &str) -> Result<HashingFile, BuildError> {
        let path = self.0.join(name);
        let file = private_file().open(&path).map_err(io("create", &path))?;
        Ok(HashingFile { hashed: BufWriter::with_capacity(1 << 16, HashingWriter::new(file)), path })
    }

    /// Creates a subdirectory.
    pub(crate) fn subdirectory(&self, name: &str) -> Result<PrivateDir, BuildError> {
        let path = self.0.join(name);
        private_directory().create(&path).map_err(io("create", &path))?;
        Ok(PrivateDir(path))
    }

    /// Flushes the entries of the directory to the disk.
    pub(crate) fn sync(&self) -> Result<(), BuildError> {
        sync(&self.0)
    }
}

/// A private directory beside the bundle for intermediate files of a build. It is removed on drop.
#[cfg(feature = "build")]
#[derive(Debug)]
pub struct ScratchDir {
    directory: PathBuf,
}

#[cfg(feature = "build")]
impl ScratchDir {
    pub(crate) fn new(target: &Path) -> Result<ScratchDir, BuildError> {
        Ok(ScratchDir { directory: private_beside(target, "parts")? })
    }

    /// The path of the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

#[cfg(feature = "build")]
impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Creates a private directory beside a target.
fn private_beside(target: &Path, what: &str) -> Result<PathBuf, BuildError> {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(io("create", parent))?;
    let directory = beside(target, what);
    // Left behind by a killed process with the same process id.
    let _ = fs::remove_dir_all(&directory);
    private_directory().create(&directory).map_err(io("create", &directory))?;
    Ok(directory)
}

/// Builder of directories that only the owner can read: mode 0700 on Unix.
fn private_directory() -> DirBuilder {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Options for a new file that only the owner can read: mode 0600 on Unix.
fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Refuses an invalid target path, and an existing target unless `replace` is set and the target is
/// output of the same kind.
pub(crate) fn check_target(target: &Path, kind: OutputKind, replace: bool) -> Result<(), BuildError> {
    if target.file_name().is_none() {
        let reason = "not a valid bundle path; the path must end with a name".into();
        return Err(BuildError::File { path: target.into(), reason });
    }
    if !target.exists() {
        return Ok(());
    }
    if !replace {
        return Err(BuildError::Exists { path: target.into() });
    }
    if !kind.exists_at(target) {
        let reason = format!("this is not {}, so it is not replaced; choose another path", kind.name());
        return Err(BuildError::File { path: target.into(), reason });
    }
    Ok(())
}

fn beside(target: &Path, what: &str) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{what}-{}", std::process::id()))
}

fn sync(directory: &Path) -> Result<(), BuildError> {
    File::open(directory).and_then(|file| file.sync_all()).map_err(io("sync", directory))
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> BuildError {
    let path = path.to_owned();
    move |source| BuildError::Io { action, path, source }
}

/// A file that computes its checksum and length while it is written. The hash is computed after the
/// buffer, because hashing large chunks is faster.
pub(crate) struct HashingFile {
    hashed: BufWriter<HashingWriter<File>>,
    path: PathBuf,
}

impl HashingFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), BuildError> {
        self.hashed.write_all(bytes).map_err(io("write", &self.path))
    }

    /// Flushes the file to the disk; returns its checksum and length.
    pub(crate) fn finish(self) -> Result<(blake3::Hash, u64), BuildError> {
        let hashed = self.hashed.into_inner().map_err(|error| io("write", &self.path)(error.into_error()))?;
        let HashingWriter { to: file, hasher, bytes } = hashed;
        file.sync_all().map_err(io("sync", &self.path))?;
        Ok((hasher.finalize(), bytes))
    }
}

/// For the writer of the row store. [`BuildError::of_rows`] adds the path to its `io` errors.
impl Write for HashingFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.hashed.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.hashed.flush()
    }
}

/// Counts and hashes the bytes that are written.
pub(crate) struct HashingWriter<W> {
    to: W,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl<W: Write> HashingWriter<W> {
    pub(crate) fn new(to: W) -> HashingWriter<W> {
        HashingWriter { to, hasher: blake3::Hasher::new(), bytes: 0 }
    }

    pub(crate) fn hash(&self) -> blake3::Hash {
        self.hasher.finalize()
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}
