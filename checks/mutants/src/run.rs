//! Runs every mutant with the tests that reach it.

use crate::build::{MutantBuild, TestProgram};
use crate::{Mutant, Outcome};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time limit of a test with a mutant, as a multiple of its time without. CPU time counts, because
/// other programs may use the machine.
const TIMEOUT_FACTOR: f64 = 8.0;
/// The smallest time limit, in CPU seconds.
const MIN_SECONDS: f64 = 3.0;
/// Wall-clock seconds per CPU second of the limit. A deadlock uses no CPU time.
const WALL_PER_CPU: u64 = 15;
/// Address space of a test in KiB. Some mutants allocate memory without end.
const MAX_MEMORY_KIB: &str = "12000000";
const THREADS: usize = 2;
/// Tests that take longer than this run last.
const QUICK_TEST: Duration = Duration::from_millis(900);

struct Test<'a> {
    program: &'a TestProgram,
    name: String,
    takes: Duration,
    reaches: BTreeSet<usize>,
}

impl Test<'_> {
    /// Records which mutation sites the test reaches and how long it takes.
    fn measure(&mut self, reached: &Path) {
        let _ = fs::remove_file(reached);
        assert!(self.succeeds(3600, "IFONLY_REACHED", reached), "{} fails without a mutant", self.name);
        let numbers = fs::read(reached).unwrap_or_default();
        self.reaches = numbers.as_chunks().0.iter().map(|&number| u32::from_le_bytes(number) as usize).collect();
        let start = Instant::now();
        assert!(self.succeeds(3600, "IFONLY_MUTANT", "0"), "{} fails without a mutant", self.name);
        self.takes = start.elapsed();
        eprintln!("{:8.2} s, {:5} mutation sites: {}", self.takes.as_secs_f64(), self.reaches.len(), self.name);
    }

    /// Whether the test passes within this number of CPU seconds.
    fn succeeds(&self, seconds: u64, variable: &str, value: impl AsRef<std::ffi::OsStr>) -> bool {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("ulimit -t {seconds}; ulimit -v {MAX_MEMORY_KIB}; exec \"$@\""), "sh"])
            .arg(&self.program.path);
        command.args(["--exact", &self.name]).env(variable, value).current_dir(&self.program.package);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a test can be started");
        let start = Instant::now();
        while start.elapsed().as_secs() < seconds * WALL_PER_CPU {
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

pub(crate) fn run(work_dir: &Path, mutants: &[Mutant], built: MutantBuild) -> Vec<Outcome> {
    let tests = tests(work_dir, &built.programs);
    let before = known(work_dir, mutants);
    let known = OpenOptions::new().append(true).create(true).open(work_dir.join("known"));
    let known = known.expect("the work directory is writable");
    let known = Mutex::new(known);
    let note = |number: usize, outcome: &Outcome| {
        let text = serde_json::to_string(&(&mutants[number - 1].name, outcome)).expect("an outcome can be serialised");
        writeln!(lock(&known), "{text}").expect("outcomes can be written");
    };
    let unviable = built.outcomes.iter().filter(|(_, outcome)| **outcome == Outcome::Unviable);
    unviable.filter(|(number, _)| !before.contains_key(number)).for_each(|(&number, outcome)| note(number, outcome));
    let outcomes = Mutex::new(built.outcomes);
    // Slow tests run only with mutants that survive all quick tests.
    let (quick, slow) = tests.split_at(tests.partition_point(|test| test.takes < QUICK_TEST));
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
                let outcome = run_tests(number, tests, built.sites[&number], passed);
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
    outcomes.into_inner().expect("no thread panicked").into_values().collect()
}

/// Final outcomes of earlier runs.
pub(crate) fn known(work_dir: &Path, mutants: &[Mutant]) -> BTreeMap<usize, Outcome> {
    let text = fs::read_to_string(work_dir.join("known")).unwrap_or_default();
    let known: HashMap<String, Outcome> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    (1..).zip(mutants).filter_map(|(number, mutant)| Some((number, known.get(&mutant.name)?.clone()))).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no thread panicked")
}

/// Runs one mutant with the tests that reach its site. `passed` is the number of earlier tests that
/// did not fail with it.
fn run_tests(number: usize, tests: &[Test<'_>], site: usize, passed: usize) -> Outcome {
    let reaching: Vec<&Test<'_>> = tests.iter().filter(|test| test.reaches.contains(&site)).collect();
    let fails = |test: &&&Test<'_>| {
        let limit = MIN_SECONDS.max(test.takes.as_secs_f64() * TIMEOUT_FACTOR) as u64;
        !test.succeeds(limit, "IFONLY_MUTANT", number.to_string())
    };
    match reaching.iter().find(fails) {
        Some(test) => Outcome::Caught(test.name.clone()),
        None => Outcome::Survives(passed + reaching.len()),
    }
}

/// All tests with the mutation sites that they reach, fastest first.
fn tests<'a>(work_dir: &Path, programs: &'a [TestProgram]) -> Vec<Test<'a>> {
    let mut tests = vec![];
    fs::create_dir_all(work_dir.join("tests")).expect("the work directory is writable");
    for program in programs {
        let list =
            Command::new(&program.path).args(["--list", "--format", "terse"]).output().expect("a test can be started");
        for line in String::from_utf8(list.stdout).expect("test names are UTF-8").lines() {
            let Some(name) = line.strip_suffix(": test") else { continue };
            let mut test = Test { program, name: name.to_owned(), takes: Duration::ZERO, reaches: BTreeSet::new() };
            let known = work_dir.join("tests").join(format!("{}-{}", program.name(), name.replace("::", "-")));
            let time = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).ok();
            if time(&known) < time(&program.path) {
                test.measure(&work_dir.join("reached"));
                let text = serde_json::to_vec(&(test.takes, &test.reaches)).expect("the measurement can be serialised");
                fs::write(&known, text).expect("the work directory is writable");
            }
            let known = fs::read(&known).expect("the file was just written");
            (test.takes, test.reaches) = serde_json::from_slice(&known).expect("this program wrote the file");
            tests.push(test);
        }
    }
    tests.sort_by_key(|test| test.takes);
    tests
}
