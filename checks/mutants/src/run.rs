//! Every mutant meets the tests that reach it.

use crate::build::{Built, Program};
use crate::{Mutant, Outcome};
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A mutant that takes so many times as long as its test never ends.
const PATIENCE: u32 = 10;
/// At least so long, because the machine may do other things.
const LEAST: Duration = Duration::from_secs(4);
/// KiB of addresses that a test may have: some mutants allocate without end.
const MEMORY: &str = "12000000";
const THREADS: usize = 2;

struct Test<'a> {
    program: &'a Program,
    name: String,
    takes: Duration,
    reaches: BTreeSet<usize>,
}

impl Test<'_> {
    /// Whether it passes, `None` after the time limit.
    fn passes(&self, limit: Duration, variable: &str, value: impl AsRef<std::ffi::OsStr>) -> Option<bool> {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v {MEMORY}; exec \"$@\""), "sh"]).arg(&self.program.path);
        command.args(["--exact", &self.name]).env(variable, value).current_dir(&self.program.package);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a test starts");
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("a test can be waited for") {
                return Some(status.success());
            }
            if start.elapsed() > limit {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

pub(crate) fn run(desk: &Path, mutants: &[Mutant], built: Built) -> Vec<Outcome> {
    let tests = tests(desk, &built.programs);
    // A place has the number of its first mutant.
    let mut places = HashMap::new();
    let mut first = HashMap::new();
    for (number, mutant) in (1..).zip(mutants).filter(|(number, _)| !built.outcomes.contains_key(number)) {
        let inserted = matches!(&*mutant.genre, "FnValue" | "MatchArm" | "StructField");
        let key = (&mutant.file, &mutant.genre, mutant.span.start.line, mutant.span.start.column);
        places.insert(number, if inserted { number } else { *first.entry(key).or_insert(number) });
    }
    let path = desk.join("caught");
    let before = fs::read_to_string(&path).unwrap_or_default();
    let before: HashMap<&str, &str> = before.lines().filter_map(|line| line.split_once('\t')).collect();
    let caught = Mutex::new(OpenOptions::new().append(true).create(true).open(&path).expect("a file for outcomes"));
    let (next, outcomes) = (AtomicUsize::new(1), Mutex::new(built.outcomes));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(mutant) = mutants.get(number - 1) else { break };
                    let Some(place) = places.get(&number) else { continue };
                    let outcome = match before.get(&*mutant.name) {
                        Some(test) => Outcome::Caught(test.to_string()),
                        None => meet(number, &tests, *place),
                    };
                    if let (Outcome::Caught(test), false) = (&outcome, before.contains_key(&*mutant.name)) {
                        let mut caught = caught.lock().expect("nobody panics here");
                        writeln!(caught, "{}\t{test}", mutant.name).expect("outcomes are written");
                    } else if let Outcome::Survives(tests) = outcome {
                        eprintln!("{number} survives {tests} tests: {}", mutant.name);
                    }
                    outcomes.lock().expect("nobody panics here").insert(number, outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("nobody panics here").into_values().collect()
}

fn meet(number: usize, tests: &[Test<'_>], place: usize) -> Outcome {
    let reaching: Vec<&Test<'_>> = tests.iter().filter(|test| test.reaches.contains(&place)).collect();
    let fails = |test: &&&Test<'_>| {
        let limit = LEAST.max(test.takes * PATIENCE);
        test.passes(limit, "IFONLY_MUTANT", number.to_string()) != Some(true)
    };
    match reaching.iter().find(fails) {
        Some(test) => Outcome::Caught(test.name.clone()),
        None => Outcome::Survives(reaching.len()),
    }
}

/// All tests, quick ones first, with what they reach.
fn tests<'a>(desk: &Path, programs: &'a [Program]) -> Vec<Test<'a>> {
    let mut tests = vec![];
    for program in programs {
        let list = Command::new(&program.path).args(["--list", "--format", "terse"]).output().expect("a test starts");
        for line in String::from_utf8(list.stdout).expect("names in UTF-8").lines() {
            let Some(name) = line.strip_suffix(": test") else { continue };
            let (takes, reaches) = (Duration::ZERO, BTreeSet::new());
            let mut test = Test { program, name: name.to_owned(), takes, reaches };
            let reached = desk.join("reached");
            let _ = fs::remove_file(&reached);
            let forever = Duration::from_secs(3600);
            assert_eq!(test.passes(forever, "IFONLY_REACHED", &reached), Some(true), "{name} fails without a mutant");
            let numbers = fs::read(&reached).unwrap_or_default();
            test.reaches = numbers.as_chunks().0.iter().map(|&number| u32::from_le_bytes(number) as usize).collect();
            let start = Instant::now();
            assert_eq!(test.passes(forever, "IFONLY_MUTANT", "0"), Some(true), "{name} fails without a mutant");
            test.takes = start.elapsed();
            eprintln!("{:8.2} s, {:5} places: {name}", test.takes.as_secs_f64(), test.reaches.len());
            tests.push(test);
        }
    }
    tests.sort_by_key(|test| test.takes);
    tests
}
