//! Mutation testing: which changes of a crate's code make a test fail?
//!
//! The mutants are those of `cargo mutants --list` (27.1.0). `cargo mutants` needs one build per
//! mutant. This program compiles all mutants of a crate into one build per test file. Each mutant
//! has a number, and an environment variable selects the mutant at run time.
//!
//! ```text
//! cargo install cargo-mutants --locked
//! cd checks/mutants
//! cargo run -- ifonly-scan                   mutants of the crate against its own tests
//! cargo run -- ifonly-scan ifonly-server     also against the tests of another crate
//! cargo run -- ifonly-scan --only lookup.rs  mutants of some files only
//! ```
//!
//! The program runs every test once, to record which mutants the test reaches and how long it
//! takes. Then it runs every mutant with the tests that reach it, fastest first, until a test
//! fails, aborts or exceeds its time limit. Builds and outcomes are kept in `target/work`. A
//! second run repeats only the mutants that survived, for instance after a test was added. After
//! other changes of the source, remove this directory.
//!
//! A mutant that cannot be selected at run time ([`splice`]) is listed as not run. Test it with
//! `cargo mutants -F`, or review it. A mutant in code that is not compiled for this machine is
//! listed as surviving 0 tests.

mod build;
mod run;
mod splice;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mutant as `cargo mutants` lists it.
#[derive(Deserialize)]
struct Mutant {
    name: String,
    file: PathBuf,
    genre: String,
    replacement: String,
    span: Span,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    return_type: String,
}

#[derive(Deserialize)]
struct Span {
    start: Position,
    end: Position,
}

/// A position in characters; line and column start at 1.
#[derive(Deserialize)]
struct Position {
    line: usize,
    column: usize,
}

impl Span {
    fn bytes(&self, source: &str) -> Range<usize> {
        self.start.byte(source)..self.end.byte(source)
    }
}

impl Position {
    fn byte(&self, source: &str) -> usize {
        let line = source.split_inclusive('\n').nth(self.line - 1).expect("the list was made from this source");
        let before: usize = source.split_inclusive('\n').take(self.line - 1).map(str::len).sum();
        before + line.chars().take(self.column - 1).map(char::len_utf8).sum::<usize>()
    }
}

/// The result for one mutant.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Outcome {
    /// The mutant does not compile.
    Unviable,
    /// The mutant cannot be selected at run time.
    NotRun,
    /// This test failed.
    Caught(String),
    /// All tests that reach the mutant passed; this is their number.
    Survives(usize),
}

impl Outcome {
    fn column(&self) -> usize {
        match self {
            Outcome::Unviable => 1,
            Outcome::Caught(_) => 2,
            Outcome::Survives(_) => 3,
            Outcome::NotRun => 4,
        }
    }
}

fn main() {
    let mut packages: Vec<String> = std::env::args().skip(1).collect();
    let only = packages.iter().position(|argument| argument == "--only").map(|at| packages.split_off(at));
    let only = only.and_then(|rest| rest.get(1).cloned()).unwrap_or_default();
    let Some(package) = packages.first() else {
        eprintln!("Give the name of a crate. The usage is described in checks/mutants/src/main.rs.");
        std::process::exit(2);
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (root, work_dir) = (here.join("../.."), here.join("target/work").join(package));
    let list = Command::new("cargo").args(["mutants", "--list", "--json", "-p", package]).current_dir(&root).output();
    let list = list.expect("cargo must be installed").stdout;
    let mut mutants: Vec<Mutant> = serde_json::from_slice(&list).expect("cargo-mutants 27 must be installed");
    mutants.retain(|mutant| mutant.file.to_string_lossy().contains(&only));

    let built = build::build(&root, &work_dir, &packages, &mutants, run::known(&work_dir, &mutants));
    let outcomes = run::run(&work_dir, &mutants, built);
    let mut table: BTreeMap<&Path, [usize; 5]> = BTreeMap::new();
    for (mutant, outcome) in mutants.iter().zip(&outcomes) {
        let row = table.entry(&mutant.file).or_default();
        row[0] += 1;
        row[outcome.column()] += 1;
        match outcome {
            Outcome::Survives(tests) => println!("survives {tests} tests: {}", mutant.name),
            Outcome::NotRun => println!("not run: {}", mutant.name),
            Outcome::Unviable | Outcome::Caught(_) => {}
        }
    }
    println!("\n| file | mutants | unviable | caught | survive | not run |\n|---|---|---|---|---|---|");
    for (file, row) in table {
        println!("| {} | {} |", file.display(), row.map(|count| count.to_string()).join(" | "));
    }
}
