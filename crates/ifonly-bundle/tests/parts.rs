//! A build in parts gives the same bytes as a build in one process, for every division of the data,
//! any number of workers and any order of the parts.

mod common;

use common::*;
use ifonly_bundle::{
    Build, BuildError, BuildInputs, BuildOptions, BuildProgress, BuildReport, BuildTask, EncodingPlan, LevelCounts,
    PartFiles, SigningJob, TablePart, TableStats, build, load_key,
};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NAMES: [&str; 8] = ["id", "age", "debt", "job", "paid", "born", "code", "ok"];

/// Rows for which most inferred properties depend on more than one row.
fn rows(count: u64) -> Vec<[String; 8]> {
    let row = |n: u64| {
        [
            (1000 + n).to_string(),
            (18 + n * 7 % 60).to_string(),
            if n % 13 == 5 { String::new() } else { format!("{}.{}", n * 31 % 170, n % 10) },
            ["baker", "pilot", "nurse", "clerk"][(n * n % 7 % 4) as usize].to_owned(),
            if n.is_multiple_of(3) { (n * 3).to_string() } else { format!("${},{:03}", 1 + n % 9, n % 1000) },
            format!("19{:02}-{:02}-11", 50 + n % 40, 1 + n % 12),
            format!("{:04}", n % 50),
            if n % 5 == 1 { "no".into() } else { "yes".to_owned() },
        ]
    };
    (0..count).map(row).collect()
}

fn csv(rows: &[[String; 8]]) -> String {
    let line =
        |cells: &[String; 8]| cells.iter().map(|cell| format!("\"{cell}\"")).collect::<Vec<_>>().join(",") + "\n";
    NAMES.join(",") + "\n" + &rows.iter().map(line).collect::<String>()
}

/// A Parquet file of texts with row groups of these lengths.
fn write_parquet(path: &Path, rows: &[[String; 8]], groups: &[usize]) {
    let fields: String = NAMES.iter().map(|name| format!("required binary {name} (UTF8); ")).collect();
    let schema = Arc::new(parse_message_type(&format!("message people {{ {fields} }}")).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(std::fs::File::create(path).unwrap(), schema, properties).unwrap();
    let mut start = 0;
    for length in groups {
        let mut group = writer.next_row_group().unwrap();
        for column in 0..NAMES.len() {
            let texts: Vec<ByteArray> =
                rows[start..start + length].iter().map(|row| ByteArray::from(row[column].as_str())).collect();
            let mut writer = group.next_column().unwrap().unwrap();
            writer.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
            writer.close().unwrap();
        }
        group.close().unwrap();
        start += length;
    }
    assert_eq!(start, rows.len());
    writer.close().unwrap();
}

/// A value after it was sent to another process.
fn sent<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

#[derive(Clone, Copy, PartialEq)]
enum Signed {
    ByWorkers,
    ByAssemble,
}

/// Builds in parts of about this many bytes. Every step runs as if in another process, and the
/// second pass over every part runs twice.
fn in_parts(options: &BuildOptions, bytes: u64, by: Signed) -> Result<(BuildReport, usize), BuildError> {
    let watch = &mut |_: BuildProgress| ControlFlow::Continue(());
    let build = Build::new(options.clone(), BuildInputs::default(), watch)?;
    let parts: Vec<TablePart> = sent(&build.task().parts(bytes));
    let task: BuildTask = sent(build.task());
    // The last part first: statistics are merged in order, independent of the time of their
    // arrival.
    let mut stats: Vec<TableStats> = vec![];
    for part in parts.iter().rev() {
        stats.insert(0, sent(&task.collect_stats(part, watch)?));
    }
    let all = stats.into_iter().reduce(|mut before, next| {
        before.merge(next);
        before
    });
    let plan: EncodingPlan = sent(&build.plan(&all.expect("there are parts"))?);
    let scratch = build.scratch_dir()?;
    let mut counts: Vec<LevelCounts> = vec![];
    for (number, part) in parts.iter().enumerate() {
        let files = PartFiles::new(scratch.directory(), number);
        task.encode(&plan, part, &files, watch)?;
        counts.push(sent(&task.encode(&plan, part, &files, watch)?));
    }
    let (plan, counts) = build.group(plan, counts, &scratch, None)?;
    let (plan, counts): (EncodingPlan, Vec<LevelCounts>) = (sent(&plan), sent(&counts));
    if by == Signed::ByWorkers {
        let manifest = build.manifest(&plan, &counts)?;
        let key = load_key(&build.write_worker_key(&scratch)?)?;
        for (number, count) in counts.iter().enumerate() {
            let files = PartFiles::new(scratch.directory(), number);
            files.sign(&SigningJob::new(&manifest, &key)?, count.rows(), watch)?;
        }
    }
    Ok((build.assemble(&plan, &counts, &scratch, watch)?, parts.len()))
}

fn files(bundle: &Path) -> Vec<Vec<u8>> {
    ["manifest.json", "rows", "records", "checksums"].map(|file| std::fs::read(bundle.join(file)).unwrap()).to_vec()
}

fn options(dir: &TestDir, data: Vec<PathBuf>, missing: &str, output: &str) -> BuildOptions {
    let schema = dir.write("schema.toml", format!("missing = '{missing}'\n"));
    BuildOptions {
        data,
        output: dir.path(output),
        name: Some("people".into()),
        signing_key: Some(dir.path("key")),
        schema: Some(schema),
        target: Some("ok".into()),
        accept: vec!["yes".into()],
        bundle_id: Some(Default::default()),
        ..BuildOptions::default()
    }
}

/// Random lengths with the sum `total`.
fn random_lengths(total: usize, seed: &mut u64) -> Vec<usize> {
    let mut lengths = vec![];
    let mut left = total;
    while left > 0 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let length = (1 + (*seed >> 33) as usize % 190).min(left);
        lengths.push(length);
        left -= length;
    }
    lengths
}

#[test]
fn every_division_into_parts_gives_the_bytes_of_one_process() {
    let dir = TestDir::new();
    signing_key(&dir);
    let rows = rows(700);
    let mut seed = 20_261_117;
    for (missing, group) in [("drop", None), ("median", None), ("median", Some(10))] {
        let whole = dir.write("whole.csv", csv(&rows));
        let output = format!("one {missing} {}", group.unwrap_or(0));
        let one = BuildOptions { group, ..options(&dir, vec![whole], missing, &output) };
        let report = build(&one, &mut |_| {}).unwrap();
        let expected = files(&one.output);
        for round in 0..4 {
            let before = seed;
            let mut data = vec![];
            let mut start = 0;
            for (number, length) in random_lengths(rows.len(), &mut seed).into_iter().enumerate() {
                let these = &rows[start..start + length];
                let path = dir.path(&format!("{round}-{number}"));
                match number % 2 {
                    0 => std::fs::write(&path, csv(these)).unwrap(),
                    _ => write_parquet(&path, these, &random_lengths(length, &mut seed)),
                }
                data.push(path);
                start += length;
            }
            for (bytes, by) in [(1, Signed::ByWorkers), (4000, Signed::ByAssemble), (u64::MAX, Signed::ByWorkers)] {
                let mut these = BuildOptions { group, ..options(&dir, data.clone(), missing, "parts") };
                // A replaced bundle with other rows would add a warning to the report.
                let _ = std::fs::remove_dir_all(&these.output);
                these.replace = true;
                let (found, parts) = in_parts(&these, bytes, by).unwrap();
                assert!(
                    files(&these.output) == expected,
                    "{missing}, {bytes} bytes a part, {parts} parts, seed {before}"
                );
                assert_eq!(found.to_string(), report.to_string(), "seed {before}");
            }
        }
    }
    assert!(!dir.names().iter().any(|name| name.starts_with('.')), "{:?}", dir.names());
}

#[test]
fn row_groups_are_parts_of_one_file() {
    let dir = TestDir::new();
    signing_key(&dir);
    let rows = rows(300);
    write_parquet(&dir.path("people.parquet"), &rows, &[100, 1, 99, 64, 36]);
    let one = options(&dir, vec![dir.path("people.parquet")], "drop", "one");
    build(&one, &mut |_| {}).unwrap();
    let mut several = options(&dir, vec![dir.path("people.parquet")], "drop", "parts");
    let (_, parts) = in_parts(&several, 1, Signed::ByWorkers).unwrap();
    assert_eq!(parts, 5);
    assert!(files(&one.output) == files(&several.output));
    // Errors count rows from the start of the file, not of the part.
    let mut bad = rows;
    bad[250][1] = "many".into();
    write_parquet(&dir.path("people.parquet"), &bad, &[100, 100, 100]);
    several.output = dir.path("bad");
    let error = in_parts(&several, 1, Signed::ByAssemble).unwrap_err().to_string();
    assert!(error.contains("people.parquet, row 251, column \"age\": \"many\" is not a number"), "{error}");
    assert!(!dir.path("bad").exists() && !dir.names().iter().any(|name| name.starts_with('.')), "{:?}", dir.names());
}

#[test]
fn a_mask_does_not_leave_its_process() {
    let dir = TestDir::new();
    let data = dir.write("data.csv", csv(&rows(30)));
    let mask = ifonly_bundle::AcceptMask { rows: vec![true; 30], definition: "all rows".into() };
    let inputs = BuildInputs { mask: Some(mask), ..BuildInputs::default() };
    let mut options = dir.options(&data);
    options.missing = Some(ifonly_bundle::MissingPolicy::Drop);
    let build = Build::new(options, inputs, &mut |_| ControlFlow::Continue(())).unwrap();
    // A worker without the mask would accept every row.
    assert!(serde_json::to_string(build.task()).is_err());
}

#[test]
fn data_that_changes_between_the_passes_is_refused() {
    let dir = TestDir::new();
    signing_key(&dir);
    let data = dir.write("data.csv", csv(&rows(100)));
    let options = options(&dir, vec![data], "drop", "bundle");
    let watch = &mut |_: BuildProgress| ControlFlow::Continue(());
    let build = Build::new(options, BuildInputs::default(), watch).unwrap();
    let (task, part): (BuildTask, TablePart) = (sent(build.task()), sent(&build.task().all_rows()));
    let plan = build.plan(&task.collect_stats(&part, watch).unwrap()).unwrap();
    dir.write("data.csv", csv(&rows(99)));
    let scratch = build.scratch_dir().unwrap();
    let count = task.encode(&plan, &part, &PartFiles::new(scratch.directory(), 0), watch).unwrap();
    let error = build.assemble(&plan, &[count], &scratch, watch).unwrap_err().to_string();
    assert!(error.contains("changed while it was being read"), "{error}");
}
