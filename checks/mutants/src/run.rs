//! Every mutant meets the tests that reach it.

use crate::build::{Built, Program};
use crate::{Mutant, Outcome};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A mutant that takes so many times as long as its test never ends; in seconds of the processor, because the machine may do
/// other things.
const PATIENCE: f64 = 8.0;
/// It has at least so many seconds.
const LEAST: f64 = 3.0;
/// A mutant may also wait for itself, which takes no time of the processor: seconds of the clock for each that it may take.
const WAITING: u64 = 15;
/// KiB of addresses that a test may have: some mutants allocate without end.
const MEMORY: &str = "12000000";
const THREADS: usize = 2;
/// Tests that take longer come last.
const QUICK: Duration = Duration::from_millis(900);

struct Test<'a> {
    program: &'a Program,
    name: String,
    takes: Duration,
    reaches: BTreeSet<usize>,
}

impl Test<'_> {
    /// What it reaches, and how long it takes.
    fn measure(&mut self, reached: &Path) {
        let _ = fs::remove_file(reached);
        assert!(self.passes(3600, "IFONLY_REACHED", reached), "{} fails without a mutant", self.name);
        let numbers = fs::read(reached).unwrap_or_default();
        self.reaches = numbers.as_chunks().0.iter().map(|&number| u32::from_le_bytes(number) as usize).collect();
        let start = Instant::now();
        assert!(self.passes(3600, "IFONLY_MUTANT", "0"), "{} fails without a mutant", self.name);
        self.takes = start.elapsed();
        eprintln!("{:8.2} s, {:5} places: {}", self.takes.as_secs_f64(), self.reaches.len(), self.name);
    }

    /// Whether it passes, in so many seconds.
    fn passes(&self, seconds: u64, variable: &str, value: impl AsRef<std::ffi::OsStr>) -> bool {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("ulimit -t {seconds}; ulimit -v {MEMORY}; exec \"$@\""), "sh"])
            .arg(&self.program.path);
        command.args(["--exact", &self.name]).env(variable, value).current_dir(&self.program.package);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a test starts");
        let start = Instant::now();
        while start.elapsed().as_secs() < seconds * WAITING {
            if let Some(status) = child.try_wait().expect("a test can be waited for") {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = child.kill();
        let _ = child.wait();
        false
    }
}

pub(crate) fn run(desk: &Path, mutants: &[Mutant], built: Built) -> Vec<Outcome> {
    let tests = tests(desk, &built.programs);
    let before = known(desk, mutants);
    let known = OpenOptions::new().append(true).create(true).open(desk.join("known")).expect("the desk takes files");
    let known = Mutex::new(known);
    let note = |number: usize, outcome: &Outcome| {
        let text = serde_json::to_string(&(&mutants[number - 1].name, outcome)).expect("outcomes are JSON");
        writeln!(lock(&known), "{text}").expect("outcomes are written");
    };
    let unviable = built.outcomes.iter().filter(|(_, outcome)| **outcome == Outcome::Unviable);
    unviable.filter(|(number, _)| !before.contains_key(number)).for_each(|(&number, outcome)| note(number, outcome));
    let outcomes = Mutex::new(built.outcomes);
    // Slow tests only see what all quick ones let pass.
    let (quick, slow) = tests.split_at(tests.partition_point(|test| test.takes < QUICK));
    for tests in [quick, slow] {
        let next = AtomicUsize::new(1);
        let work = || {
            while let number = next.fetch_add(1, Ordering::Relaxed)
                && number <= mutants.len()
            {
                let passed = match lock(&outcomes).get(&number) {
                    None => 0,
                    Some(Outcome::Survives(tests)) => *tests,
                    Some(_) => continue,
                };
                let outcome = meet(number, tests, built.places[&number], passed);
                if let Outcome::Caught(_) = outcome {
                    note(number, &outcome);
                }
                lock(&outcomes).insert(number, outcome);
            }
        };
        std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
        let survive = lock(&outcomes).values().filter(|outcome| matches!(outcome, Outcome::Survives(_))).count();
        eprintln!("{survive} mutants survive {} tests", tests.len());
    }
    outcomes.into_inner().expect("nobody panics here").into_values().collect()
}

/// What earlier runs found out for good.
pub(crate) fn known(desk: &Path, mutants: &[Mutant]) -> BTreeMap<usize, Outcome> {
    let text = fs::read_to_string(desk.join("known")).unwrap_or_default();
    let known: HashMap<String, Outcome> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    (1..).zip(mutants).filter_map(|(number, mutant)| Some((number, known.get(&mutant.name)?.clone()))).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics here")
}

/// After so many tests that it passed.
fn meet(number: usize, tests: &[Test<'_>], place: usize, passed: usize) -> Outcome {
    let reaching: Vec<&Test<'_>> = tests.iter().filter(|test| test.reaches.contains(&place)).collect();
    let fails = |test: &&&Test<'_>| {
        let limit = LEAST.max(test.takes.as_secs_f64() * PATIENCE) as u64;
        !test.passes(limit, "IFONLY_MUTANT", number.to_string())
    };
    match reaching.iter().find(fails) {
        Some(test) => Outcome::Caught(test.name.clone()),
        None => Outcome::Survives(passed + reaching.len()),
    }
}

/// All tests, quick ones first, with what they reach.
fn tests<'a>(desk: &Path, programs: &'a [Program]) -> Vec<Test<'a>> {
    let mut tests = vec![];
    fs::create_dir_all(desk.join("tests")).expect("the desk takes folders");
    for program in programs {
        let list = Command::new(&program.path).args(["--list", "--format", "terse"]).output().expect("a test starts");
        for line in String::from_utf8(list.stdout).expect("names in UTF-8").lines() {
            let Some(name) = line.strip_suffix(": test") else { continue };
            let mut test = Test { program, name: name.to_owned(), takes: Duration::ZERO, reaches: BTreeSet::new() };
            let known = desk.join("tests").join(format!("{}-{}", program.name(), name.replace("::", "-")));
            let time = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).ok();
            if time(&known) < time(&program.path) {
                test.measure(&desk.join("reached"));
                let text = serde_json::to_vec(&(test.takes, &test.reaches)).expect("numbers are JSON");
                fs::write(&known, text).expect("the desk takes files");
            }
            let known = fs::read(&known).expect("it was just written");
            (test.takes, test.reaches) = serde_json::from_slice(&known).expect("it was written here");
            tests.push(test);
        }
    }
    tests.sort_by_key(|test| test.takes);
    tests
}
