//! Builds a copy of the workspace with all mutants of one crate that compile.

use crate::splice::{Spliced, splice};
use crate::{Mutant, Outcome};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Appended to the crate's `lib.rs`. `IFONLY_MUTANT` selects a mutant; 0 selects none. If
/// `IFONLY_REACHED` names a file, the program appends every mutation site that it reaches to it.
const CHOICE: &str = r#"
#[inline]
pub(crate) fn mutant_at(site: u32) -> u32 {
    match mutant_choice::CHOSEN.load(std::sync::atomic::Ordering::Relaxed) {
        u32::MAX => mutant_choice::look(site),
        chosen => chosen,
    }
}

mod mutant_choice {
    use std::fs::{File, OpenOptions};
    use std::io::Write;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
    pub(crate) static CHOSEN: AtomicU32 = AtomicU32::new(u32::MAX);
    static SEEN: [AtomicBool; 1 << 16] = [const { AtomicBool::new(false) }; 1 << 16];
    static REACHED: OnceLock<Option<File>> = OnceLock::new();

    /// Allocates only on the first call, because some tests count allocations.
    #[cold]
    #[inline(never)]
    pub(crate) fn look(site: u32) -> u32 {
        let open = |path| OpenOptions::new().append(true).create(true).open(path).unwrap();
        let Some(mut file) = REACHED.get_or_init(|| std::env::var_os("IFONLY_REACHED").map(open)).as_ref() else {
            let chosen = std::env::var("IFONLY_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0);
            CHOSEN.store(chosen, Relaxed);
            return chosen;
        };
        if !SEEN[site as usize].swap(true, Relaxed) {
            file.write_all(&site.to_le_bytes()).unwrap();
        }
        0
    }
}
"#;

/// The executable of one test file.
pub(crate) struct TestProgram {
    pub(crate) path: PathBuf,
    /// The working directory in which cargo runs it.
    pub(crate) package: PathBuf,
}

impl TestProgram {
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

pub(crate) struct MutantBuild {
    pub(crate) programs: Vec<TestProgram>,
    /// The mutation site of each mutant.
    pub(crate) sites: BTreeMap<usize, usize>,
    /// Outcomes that are known without a test run.
    pub(crate) outcomes: BTreeMap<usize, Outcome>,
}

#[derive(Deserialize)]
struct Message {
    message: Option<Diagnostic>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: Option<String>,
    spans: Vec<DiagnosticSpan>,
}

#[derive(Deserialize)]
struct DiagnosticSpan {
    file_name: PathBuf,
    byte_start: usize,
    is_primary: bool,
}

/// Compiles all mutants whose outcome is not known. Mutants are numbered from 1.
pub(crate) fn build(
    root: &Path,
    work_dir: &Path,
    packages: &[String],
    mutants: &[Mutant],
    mut outcomes: BTreeMap<usize, Outcome>,
) -> MutantBuild {
    let copy = work_dir.join("copy");
    let library = mutants[0].file.iter().take(2).collect::<PathBuf>().join("src/lib.rs");
    let files =
        Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().expect("git must be installed").stdout;
    for file in String::from_utf8(files).expect("file names are UTF-8").split_terminator('\0') {
        let (from, is_mutated) = (root.join(file), mutants.iter().any(|mutant| mutant.file == Path::new(file)));
        if from.is_file() && !is_mutated {
            let mut bytes = fs::read(&from).expect("a tracked file is readable");
            if from.ends_with(&library) {
                bytes.extend(CHOICE.bytes());
            }
            write(&copy.join(file), &bytes);
        }
    }

    loop {
        let mut spliced: BTreeMap<&Path, Spliced> = BTreeMap::new();
        for file in mutants.iter().map(|mutant| &*mutant.file).collect::<BTreeSet<_>>() {
            let numbered = (1..).zip(mutants).filter(|(_, mutant)| mutant.file == *file);
            let viable: Vec<_> = numbered.filter(|(number, _)| !outcomes.contains_key(number)).collect();
            let text = splice(&fs::read_to_string(root.join(file)).expect("a source file is readable"), &viable);
            outcomes.extend(text.left_out.iter().map(|&number| (number, Outcome::NotRun)));
            outcomes.extend(text.unviable.iter().map(|&number| (number, Outcome::Unviable)));
            write(&copy.join(file), text.text.as_bytes());
            spliced.insert(file, text);
        }
        let messages = compile(&copy, packages);
        let errors = messages.iter().filter_map(|message| message.message.as_ref()).filter(|it| it.level == "error");
        let before = outcomes.len();
        let mut rendered = String::new();
        for error in errors {
            rendered += error.rendered.as_deref().unwrap_or_default();
            let of = |span: &DiagnosticSpan| spliced.get(&*span.file_name)?.mutant_at(span.byte_start);
            let primary = error.spans.iter().filter(|span| span.is_primary).find_map(of);
            let number = primary.or_else(|| error.spans.iter().find_map(of));
            outcomes.extend(number.map(|number| (number, Outcome::Unviable)));
        }
        if rendered.is_empty() {
            let programs = messages.into_iter().filter_map(|message| {
                let package = message.manifest_path?.parent()?.to_owned();
                Some(TestProgram { path: message.executable?, package })
            });
            let sites = spliced.into_values().flat_map(|text| text.sites).collect();
            return MutantBuild { programs: programs.collect(), sites, outcomes };
        }
        assert!(outcomes.len() > before, "no mutant causes these compiler errors:\n{rendered}");
        eprintln!("{} mutants do not compile or cannot be selected at run time", outcomes.len());
    }
}

/// Writes a file only if its content changed, so that cargo does not recompile unchanged files.
fn write(path: &Path, bytes: &[u8]) {
    if fs::read(path).is_ok_and(|before| before == bytes) {
        return;
    }
    fs::create_dir_all(path.parent().expect("the path has a parent")).expect("the directory can be created");
    fs::write(path, bytes).expect("the copy can be written");
}

fn compile(copy: &Path, packages: &[String]) -> Vec<Message> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--no-run", "--lib", "--tests", "--message-format=json"]).current_dir(copy);
    cargo.args(packages.iter().flat_map(|package| ["-p", package]));
    // Mutants violate many lints.
    cargo.env("CARGO_TARGET_DIR", copy.join("../build")).env("RUSTFLAGS", "--cap-lints=allow");
    let output = cargo.stderr(Stdio::inherit()).output().expect("cargo must be installed");
    let text = String::from_utf8(output.stdout).expect("messages are UTF-8");
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
