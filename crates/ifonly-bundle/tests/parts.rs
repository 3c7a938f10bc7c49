//! However the data is cut, whoever works on the parts, and in which order: the bundle has the
//! bytes that one process writes.

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

/// Rows in which most of what inference asks depends on more than one row.
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
        for place in 0..NAMES.len() {
            let texts: Vec<ByteArray> =
                rows[start..start + length].iter().map(|row| ByteArray::from(row[place].as_str())).collect();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        start += length;
    }
    assert_eq!(start, rows.len());
    writer.close().unwrap();
}

/// As what travels between processes arrives.
fn sent<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

#[derive(Clone, Copy, PartialEq)]
enum Signed {
    ByWorkers,
    AtLast,
}

/// Builds in parts of about so many bytes, each step as if by another process, and every part's
/// second pass twice.
fn in_parts(options: &BuildOptions, bytes: u64, by: Signed) -> Result<(BuildReport, usize), BuildError> {
    let watch = &mut |_: BuildProgress| ControlFlow::Continue(());
    let build = Build::new(options.clone(), BuildInputs::default(), watch)?;
    let parts: Vec<TablePart> = sent(&build.work().parts(bytes));
    let work: BuildTask = sent(build.work());
    // The last part first: what was learnt is put together in order, whenever it came.
    let mut learnt: Vec<TableStats> = vec![];
    for part in parts.iter().rev() {
        learnt.insert(0, sent(&work.collect_stats(part, watch)?));
    }
    let all = learnt.into_iter().reduce(|mut before, behind| {
        before.merge(behind);
        before
    });
    let plan: EncodingPlan = sent(&build.plan(&all.expect("there are parts"))?);
    let workplace = build.scratch_dir()?;
    let mut tallies: Vec<LevelCounts> = vec![];
    for (number, part) in parts.iter().enumerate() {
        let files = PartFiles::new(workplace.directory(), number);
        work.encode(&plan, part, &files, watch)?;
        tallies.push(sent(&work.encode(&plan, part, &files, watch)?));
    }
    if by == Signed::ByWorkers {
        let manifest = build.manifest(&plan, &tallies)?;
        let key = load_key(&build.lend_key(&workplace)?)?;
        for (number, tally) in tallies.iter().enumerate() {
            let files = PartFiles::new(workplace.directory(), number);
            files.sign(&SigningJob::new(&manifest, &key)?, tally.rows(), watch)?;
        }
    }
    Ok((build.assemble(&plan, &tallies, &workplace, watch)?, parts.len()))
}

fn files(bundle: &Path) -> Vec<Vec<u8>> {
    ["manifest.json", "rows", "records", "checksums"].map(|file| std::fs::read(bundle.join(file)).unwrap()).to_vec()
}

fn options(desk: &Desk, data: Vec<PathBuf>, missing: &str, output: &str) -> BuildOptions {
    let schema = desk.write("schema.toml", format!("missing = '{missing}'\n"));
    BuildOptions {
        data,
        output: desk.path(output),
        name: Some("people".into()),
        signing_key: Some(desk.path("key")),
        schema: Some(schema),
        target: Some("ok".into()),
        accept: vec!["yes".into()],
        ..BuildOptions::default()
    }
}

/// Lengths that are a random cut of `whole`.
fn cut(whole: usize, seed: &mut u64) -> Vec<usize> {
    let mut lengths = vec![];
    let mut left = whole;
    while left > 0 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let length = (1 + (*seed >> 33) as usize % 190).min(left);
        lengths.push(length);
        left -= length;
    }
    lengths
}

#[test]
fn every_cut_gives_the_bytes_of_one_process() {
    let desk = Desk::new();
    signing_key(&desk);
    let rows = rows(700);
    let mut seed = 20_261_117;
    for missing in ["drop", "median"] {
        let whole = desk.write("whole.csv", csv(&rows));
        let one = options(&desk, vec![whole], missing, &format!("one {missing}"));
        let report = build(&one, &mut |_| {}).unwrap();
        let right = files(&one.output);
        for round in 0..4 {
            let before = seed;
            let mut data = vec![];
            let mut start = 0;
            for (number, length) in cut(rows.len(), &mut seed).into_iter().enumerate() {
                let these = &rows[start..start + length];
                let path = desk.path(&format!("{round}-{number}"));
                match number % 2 {
                    0 => std::fs::write(&path, csv(these)).unwrap(),
                    _ => write_parquet(&path, these, &cut(length, &mut seed)),
                }
                data.push(path);
                start += length;
            }
            for (bytes, by) in [(1, Signed::ByWorkers), (4000, Signed::AtLast), (u64::MAX, Signed::ByWorkers)] {
                let mut these = options(&desk, data.clone(), missing, "parts");
                these.replace = true;
                let (found, parts) = in_parts(&these, bytes, by).unwrap();
                assert!(files(&these.output) == right, "{missing}, {bytes} bytes a part, {parts} parts, seed {before}");
                assert_eq!(found.to_string(), report.to_string(), "seed {before}");
            }
        }
    }
    assert!(!desk.names().iter().any(|name| name.starts_with('.')), "{:?}", desk.names());
}

#[test]
fn row_groups_are_parts_of_one_file() {
    let desk = Desk::new();
    signing_key(&desk);
    let rows = rows(300);
    write_parquet(&desk.path("people.parquet"), &rows, &[100, 1, 99, 64, 36]);
    let one = options(&desk, vec![desk.path("people.parquet")], "drop", "one");
    build(&one, &mut |_| {}).unwrap();
    let mut several = options(&desk, vec![desk.path("people.parquet")], "drop", "parts");
    let (_, parts) = in_parts(&several, 1, Signed::ByWorkers).unwrap();
    assert_eq!(parts, 5);
    assert!(files(&one.output) == files(&several.output));
    // Rows are counted from the start of their file, whoever reads them.
    let mut bad = rows;
    bad[250][1] = "many".into();
    write_parquet(&desk.path("people.parquet"), &bad, &[100, 100, 100]);
    several.output = desk.path("bad");
    let error = in_parts(&several, 1, Signed::AtLast).unwrap_err().to_string();
    assert!(error.contains("people.parquet, row 251, column \"age\": \"many\" is not a number"), "{error}");
    assert!(!desk.path("bad").exists() && !desk.names().iter().any(|name| name.starts_with('.')), "{:?}", desk.names());
}

#[test]
fn a_mask_does_not_leave_its_process() {
    let desk = Desk::new();
    let data = desk.write("data.csv", csv(&rows(30)));
    let mask = ifonly_bundle::AcceptMask { rows: vec![true; 30], definition: "everybody".into() };
    let inputs = BuildInputs { mask: Some(mask), ..BuildInputs::default() };
    let mut options = desk.options(&data);
    options.missing = Some(ifonly_bundle::MissingPolicy::Drop);
    let build = Build::new(options, inputs, &mut |_| ControlFlow::Continue(())).unwrap();
    // Without it everybody else would accept everybody.
    assert!(serde_json::to_string(build.work()).is_err());
}

#[test]
fn data_that_changes_between_the_passes_is_noticed() {
    let desk = Desk::new();
    signing_key(&desk);
    let data = desk.write("data.csv", csv(&rows(100)));
    let options = options(&desk, vec![data], "drop", "bundle");
    let watch = &mut |_: BuildProgress| ControlFlow::Continue(());
    let build = Build::new(options, BuildInputs::default(), watch).unwrap();
    let (work, part): (BuildTask, TablePart) = (sent(build.work()), sent(&build.work().whole()));
    let plan = build.plan(&work.collect_stats(&part, watch).unwrap()).unwrap();
    desk.write("data.csv", csv(&rows(99)));
    let workplace = build.scratch_dir().unwrap();
    let tally = work.encode(&plan, &part, &PartFiles::new(workplace.directory(), 0), watch).unwrap();
    let error = build.assemble(&plan, &[tally], &workplace, watch).unwrap_err().to_string();
    assert!(error.contains("changed while it was being read"), "{error}");
}
