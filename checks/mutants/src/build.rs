//! A copy of the workspace with all mutants of one crate, without those that do not compile.

use crate::splice::{Spliced, splice};
use crate::{Mutant, Outcome};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Appended to the crate's `lib.rs`. Number 0 is no mutant; with `IFONLY_REACHED`, every place that is reached is written there.
const CHOICE: &str = r#"
#[inline]
pub(crate) fn mutant_at(place: u32) -> u32 {
    match mutant_choice::CHOSEN.load(std::sync::atomic::Ordering::Relaxed) {
        u32::MAX => mutant_choice::look(place),
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

    /// Allocates only the first time, for tests that count.
    #[cold]
    #[inline(never)]
    pub(crate) fn look(place: u32) -> u32 {
        let open = |path| OpenOptions::new().append(true).create(true).open(path).unwrap();
        let Some(mut file) = REACHED.get_or_init(|| std::env::var_os("IFONLY_REACHED").map(open)).as_ref() else {
            let chosen = std::env::var("IFONLY_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0);
            CHOSEN.store(chosen, Relaxed);
            return chosen;
        };
        if !SEEN[place as usize].swap(true, Relaxed) {
            file.write_all(&place.to_le_bytes()).unwrap();
        }
        0
    }
}
"#;

/// The program of a test file.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Where cargo runs it.
    pub(crate) package: PathBuf,
}

impl Program {
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

pub(crate) struct Built {
    pub(crate) programs: Vec<Program>,
    /// Where each mutant is chosen.
    pub(crate) places: BTreeMap<usize, usize>,
    /// What is known without running anything.
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

/// Mutants are numbered from 1 on; those whose outcome is known are left out.
pub(crate) fn build(
    root: &Path,
    desk: &Path,
    packages: &[String],
    mutants: &[Mutant],
    mut outcomes: BTreeMap<usize, Outcome>,
) -> Built {
    let copy = desk.join("copy");
    let library = mutants[0].file.iter().take(2).collect::<PathBuf>().join("src/lib.rs");
    let files = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().expect("git runs").stdout;
    for file in String::from_utf8(files).expect("names in UTF-8").split_terminator('\0') {
        let (from, is_mutated) = (root.join(file), mutants.iter().any(|mutant| mutant.file == Path::new(file)));
        if from.is_file() && !is_mutated {
            let mut bytes = fs::read(&from).expect("a file that git knows");
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
            let text = splice(&fs::read_to_string(root.join(file)).expect("a source file"), &viable);
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
                Some(Program { path: message.executable?, package })
            });
            let places = spliced.into_values().flat_map(|text| text.places).collect();
            return Built { programs: programs.collect(), places, outcomes };
        }
        assert!(outcomes.len() > before, "none of these is a mutant's:\n{rendered}");
        eprintln!("{} mutants do not compile or cannot be chosen", outcomes.len());
    }
}

/// A file that is as it was keeps its time, so that nothing is compiled again for it.
fn write(path: &Path, bytes: &[u8]) {
    if fs::read(path).is_ok_and(|before| before == bytes) {
        return;
    }
    fs::create_dir_all(path.parent().expect("inside the desk")).expect("a place for the copy");
    fs::write(path, bytes).expect("the copy is written");
}

fn compile(copy: &Path, packages: &[String]) -> Vec<Message> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--no-run", "--lib", "--tests", "--message-format=json"]).current_dir(copy);
    cargo.args(packages.iter().flat_map(|package| ["-p", package]));
    // Mutants are full of what lints forbid.
    cargo.env("CARGO_TARGET_DIR", copy.join("../build")).env("RUSTFLAGS", "--cap-lints=allow");
    let output = cargo.stderr(Stdio::inherit()).output().expect("cargo runs");
    let text = String::from_utf8(output.stdout).expect("messages in UTF-8");
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
