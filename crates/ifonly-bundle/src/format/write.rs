//! Writing a bundle, or all parts of one, whole or not at all: into a hidden directory beside the
//! target, then one rename. Rows and records are for the owner's eyes only, like a root key.

use crate::error::BuildError;
use crate::format::{layout, split};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// What is written, and so what may be replaced by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputKind {
    /// A bundle, or what has its checksums.
    Bundle,
    /// The folders of a bundle's parts.
    Parts,
}

impl OutputKind {
    fn is_at(self, target: &Path) -> bool {
        match self {
            OutputKind::Bundle => target.join(layout::CHECKSUMS).is_file(),
            OutputKind::Parts => split::is_split_alone(target),
        }
    }

    fn name(self) -> &'static str {
        match self {
            OutputKind::Bundle => "a bundle",
            OutputKind::Parts => "what a bundle was split into, and that alone",
        }
    }
}

/// A bundle, or the parts of one, in the making. Dropped before [`Staging::commit`], it leaves
/// nothing behind.
pub(crate) struct StagingDir {
    folder: PrivateDir,
    target: PathBuf,
    made: OutputKind,
}

impl StagingDir {
    /// Begins; the target must not exist unless it is to be replaced.
    pub(crate) fn new(target: &Path, made: OutputKind, replace: bool) -> Result<StagingDir, BuildError> {
        check_target(target, made, replace)?;
        let folder = PrivateDir(private_beside(target, "new")?);
        Ok(StagingDir { folder, target: target.into(), made })
    }

    /// Where its files go.
    pub(crate) fn folder(&self) -> &PrivateDir {
        &self.folder
    }

    /// Puts it in its place.
    pub(crate) fn commit(self, replace: bool) -> Result<(), BuildError> {
        self.folder.sync()?;
        check_target(&self.target, self.made, replace)?;
        let old = beside(&self.target, "old");
        let replaced = self.target.exists();
        if replaced {
            let _ = fs::remove_dir_all(&old);
            fs::rename(&self.target, &old).map_err(io("replace", &self.target))?;
        }
        if let Err(error) = fs::rename(&self.folder.0, &self.target).map_err(io("create", &self.target)) {
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
        // After a commit there is nothing under this name any more.
        let _ = fs::remove_dir_all(&self.folder.0);
    }
}

/// A folder that only its owner may look into.
pub(crate) struct PrivateDir(PathBuf);

impl PrivateDir {
    /// A new file in it.
    pub(crate) fn file(&self, name: &str) -> Result<HashingFile, BuildError> {
        let path = self.0.join(name);
        let file = private_file().open(&path).map_err(io("create", &path))?;
        Ok(HashingFile { hashed: BufWriter::with_capacity(1 << 16, HashingWriter::new(file)), path })
    }

    /// A new folder in it.
    pub(crate) fn folder(&self, name: &str) -> Result<PrivateDir, BuildError> {
        let path = self.0.join(name);
        private_directory().create(&path).map_err(io("create", &path))?;
        Ok(PrivateDir(path))
    }

    /// Returns when the names of its files are on the disk.
    pub(crate) fn sync(&self) -> Result<(), BuildError> {
        sync(&self.0)
    }
}

/// A directory for what is needed on the way to a bundle, beside it and as private. It goes when
/// this is dropped.
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

    /// Where it is.
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

/// A new directory beside a target.
fn private_beside(target: &Path, what: &str) -> Result<PathBuf, BuildError> {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(io("create", parent))?;
    let directory = beside(target, what);
    // What a killed process with the same number left behind is of no use to anybody.
    let _ = fs::remove_dir_all(&directory);
    private_directory().create(&directory).map_err(io("create", &directory))?;
    Ok(directory)
}

/// Only the owner may look inside: mode 0700 where there are modes.
fn private_directory() -> DirBuilder {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// A new file that only the owner may read: mode 0600.
fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Refuses a target that exists, and to replace anything but its like.
pub(crate) fn check_target(target: &Path, made: OutputKind, replace: bool) -> Result<(), BuildError> {
    if target.file_name().is_none() {
        let reason = "this is no name for a bundle".into();
        return Err(BuildError::File { path: target.into(), reason });
    }
    if !target.exists() {
        return Ok(());
    }
    if !replace {
        return Err(BuildError::Exists { path: target.into() });
    }
    if !made.is_at(target) {
        let reason = format!("this is not {}, so it is not replaced; choose another name", made.name());
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

/// A file that knows its checksum and length. Hashing comes behind the buffer: large pieces are
/// hashed faster.
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

    /// The checksum and the length, after everything is on the disk.
    pub(crate) fn finish(self) -> Result<(blake3::Hash, u64), BuildError> {
        let hashed = self.hashed.into_inner().map_err(|error| io("write", &self.path)(error.into_error()))?;
        let HashingWriter { to: file, hasher, bytes } = hashed;
        file.sync_all().map_err(io("sync", &self.path))?;
        Ok((hasher.finalize(), bytes))
    }
}

/// The row store's writer speaks of `io` errors; [`BuildError::of_rows`] gives them their path
/// back.
impl Write for HashingFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.hashed.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.hashed.flush()
    }
}

/// Counts and hashes what is written.
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
