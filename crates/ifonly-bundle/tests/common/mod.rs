//! Shared helpers: temporary directories with small data files, and builds of them.
#![allow(dead_code, unreachable_pub)]

use ifonly_bundle::{BuildError, BuildOptions, BuildReport, Bundle, build, save_key};
use ifonly_core::signature::{BundleId, SigningKey};
use ifonly_values::record::Record;
use std::path::{Path, PathBuf};

/// A directory that is removed at the end of the test.
pub struct TestDir {
    directory: tempfile::TempDir,
}

impl TestDir {
    pub fn new() -> TestDir {
        TestDir { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), contents).unwrap();
        self.path(name)
    }

    /// Everything in the directory, hidden or not.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn options(&self, data: &Path) -> BuildOptions {
        // A fixed id, so that tests can compare the bytes of bundles.
        let bundle_id = Some(BundleId([0x5a; 16]));
        BuildOptions { data: vec![data.into()], output: self.path("bundle"), bundle_id, ..BuildOptions::default() }
    }

    /// Options for a CSV file with these contents and, unless empty, this schema file.
    pub fn csv(&self, contents: impl AsRef<[u8]>, schema: &str) -> BuildOptions {
        let mut options = self.options(&self.write("data.csv", contents));
        options.schema = (!schema.is_empty()).then(|| self.write("schema.toml", schema));
        options
    }
}

pub fn build_quietly(options: &BuildOptions) -> Result<BuildReport, BuildError> {
    build(options, &mut |_| {})
}

/// Writes a signing key, the same for all tests, and returns its path.
pub fn signing_key(dir: &TestDir) -> PathBuf {
    let path = dir.path("key");
    save_key(&path, &SigningKey::new(&[8; 32])).unwrap();
    path
}

/// Builds a bundle from a CSV text with the key of [`signing_key`], and opens it.
pub fn bundle(csv: impl AsRef<[u8]>, schema: &str) -> (BuildReport, Bundle) {
    let dir = TestDir::new();
    let options = BuildOptions { signing_key: Some(signing_key(&dir)), ..dir.csv(csv, schema) };
    let report = build_quietly(&options).unwrap_or_else(|error| panic!("{error}"));
    (report, Bundle::open(&options.output).unwrap())
}

/// The error message of a build that must fail, without the path of the directory. Checks that no
/// files are left behind.
pub fn refused(csv: impl AsRef<[u8]>, schema: &str, change: impl FnOnce(&mut BuildOptions)) -> String {
    let dir = TestDir::new();
    let mut options = dir.csv(csv, schema);
    change(&mut options);
    let before = dir.names();
    let error = match build_quietly(&options) {
        Err(error) => error.to_string(),
        Ok(report) => panic!("built:\n{report}"),
    };
    assert_eq!(dir.names(), before, "files were left behind");
    error.replace(&format!("{}/", dir.directory.path().display()), "")
}

pub fn levels(bundle: &Bundle) -> Vec<Vec<u16>> {
    bundle.rows().levels().collect()
}

/// Checks that every record encodes to the stored row, and that its signature is valid.
pub fn check_records(bundle: &Bundle) {
    let schema = bundle.manifest().schema();
    assert_eq!(bundle.records().len(), bundle.manifest().rows());
    for (row, text) in bundle.rows().levels().zip(bundle.texts()) {
        assert_eq!(Record::decode(schema, text).unwrap().levels(schema).unwrap(), row);
    }
    let signer = bundle.manifest().signer().expect("a build signs");
    for record in bundle.records() {
        let (text, signature) = record.split_last_chunk().unwrap();
        assert!(signer.signed(text, signature));
    }
}

/// The path of a data file outside the repository, if it exists.
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if !path.exists() {
        println!("skipped: {} does not exist", path.display());
        return None;
    }
    Some(path)
}
