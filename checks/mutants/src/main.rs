//! Which changes of a crate's code do its tests notice? The mutants are those of `cargo mutants --list` (27.1.0), but all
//! compiled into one build per test file, each behind a number that the environment chooses, instead of one build each.
//!
//! ```text
//! cargo install cargo-mutants --locked
//! cd checks/mutants
//! cargo run -- ifonly-scan                  its mutants against its own tests
//! cargo run -- ifonly-scan ifonly-server    and against those of another crate
//! cargo run -- ifonly-scan --only table.rs  of some files only
//! ```
//!
//! Every test is run once to see which mutants it reaches and how long it takes; then every mutant meets the tests that reach it,
//! quick ones first, until one fails, aborts or takes many times as long. Builds and outcomes stay in `target/desk`: a second
//! run meets again what survived, which is what one wants after adding a test. After other changes of the source, remove it.
//!
//! What cannot be chosen at run time ([`splice`]) is listed as not run, for `cargo mutants -F` or for reading; so is what this
//! machine does not compile, which appears as surviving without a test that reaches it.

mod build;
mod run;
mod splice;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `cargo mutants` says of one.
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

/// From 1 on, in characters.
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
        let line = source.split_inclusive('\n').nth(self.line - 1).expect("the list is of this source");
        let before: usize = source.split_inclusive('\n').take(self.line - 1).map(str::len).sum();
        before + line.chars().take(self.column - 1).map(char::len_utf8).sum::<usize>()
    }
}

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Outcome {
    /// It does not compile.
    Unviable,
    /// Nothing chooses it at run time.
    NotRun,
    /// By this test.
    Caught(String),
    /// So many tests that reach it.
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
        eprintln!("which crate? checks/mutants/src/main.rs has the use");
        std::process::exit(2);
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (root, desk) = (here.join("../.."), here.join("target/desk").join(package));
    let list = Command::new("cargo").args(["mutants", "--list", "--json", "-p", package]).current_dir(&root).output();
    let list = list.expect("cargo runs").stdout;
    let mut mutants: Vec<Mutant> = serde_json::from_slice(&list).expect("cargo mutants 27 is installed");
    mutants.retain(|mutant| mutant.file.to_string_lossy().contains(&only));

    let built = build::build(&root, &desk, &packages, &mutants, run::known(&desk, &mutants));
    let outcomes = run::run(&desk, &mutants, built);
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
