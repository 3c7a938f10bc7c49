//! A Parquet file gives the same bundle as a CSV file with its rows. A damaged file gives an error.

mod common;

use common::*;
use ifonly_bundle::{Bundle, Input};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::properties::WriterPropertiesBuilder;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::path::Path;
use std::sync::Arc;

const CSV: &str = "age,debt,job\n20,0.5,baker\n30,0.25,pilot\n60,,pilot\n44,1,baker\n";

fn write(path: &Path, compression: Compression) {
    let schema = "message people { required int64 age; optional double debt; required binary job (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut writer = SerializedFileWriter::new(std::fs::File::create(path).unwrap(), schema, properties).unwrap();
    // Two row groups, so that the rows of the second must follow those of the first.
    for rows in [0..2usize, 2..4] {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[20, 30, 60, 44][rows.clone()], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let debts = [Some(0.5), Some(0.25), None, Some(1.0)];
        let values: Vec<f64> = debts[rows.clone()].iter().flatten().copied().collect();
        let present: Vec<i16> = debts[rows.clone()].iter().map(|debt| i16::from(debt.is_some())).collect();
        column.typed::<DoubleType>().write_batch(&values, Some(&present), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let jobs: Vec<ByteArray> = ["baker", "pilot", "pilot", "baker"][rows].iter().map(|&job| job.into()).collect();
        column.typed::<ByteArrayType>().write_batch(&jobs, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn parquet_and_csv_give_the_same_bundle() {
    let dir = TestDir::new();
    let schema = "[features.debt]\ndefault = 0.25\n";
    let key = signing_key(&dir);
    let (_, expected) = bundle(CSV, schema);
    for (name, compression) in [
        ("plain.parquet", Compression::UNCOMPRESSED),
        ("snappy.parquet", Compression::SNAPPY),
        ("zstd.pq", Compression::ZSTD(ZstdLevel::default())),
        ("gzip.data", Compression::GZIP(Default::default())),
        ("lz4.parquet", Compression::LZ4_RAW),
    ] {
        let path = dir.path(name);
        write(&path, compression);
        let mut options = dir.options(&path);
        options.schema = Some(dir.write("schema.toml", schema));
        options.output = dir.path(&format!("{name}.bundle"));
        options.name = Some("data".into());
        options.signing_key = Some(key.clone());
        build_quietly(&options).unwrap_or_else(|error| panic!("{name}: {error}"));
        let bundle = Bundle::open(&options.output).unwrap();
        assert_eq!(bundle.manifest().json(), expected.manifest().json(), "{name}");
        assert_eq!(bundle.data_digest(), expected.data_digest(), "{name}");
    }
}

#[test]
fn a_row_of_a_parquet_file_can_be_read_as_a_profile() {
    let dir = TestDir::new();
    let path = dir.path("people.parquet");
    write(&path, Compression::SNAPPY);
    let csv = dir.write("people.csv", CSV);
    let row = |path: &Path, row| Input::open(path, &mut |_| {}).unwrap().row(row);
    for number in 1..=4 {
        assert_eq!(row(&path, number).unwrap(), row(&csv, number).unwrap());
    }
    let error = row(&path, 5).unwrap_err().to_string();
    assert!(error.contains("people.parquet") && error.contains("row 5"), "{error}");
}

#[test]
fn dates_and_timestamps_have_the_texts_of_csv() {
    let dir = TestDir::new();
    let path = dir.path("times.parquet");
    let schema = "message times { required int32 day (DATE); required int64 milli (TIMESTAMP(MILLIS, true)); \
                  required int64 micro (TIMESTAMP(MICROS, false)); required int64 nano (TIMESTAMP(NANOS, true)); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer =
        SerializedFileWriter::new(std::fs::File::create(&path).unwrap(), schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    // 29 February 2024, and a day before 1970.
    let days = [19_782, -2];
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int32Type>().write_batch(&days, None, None).unwrap();
    column.close().unwrap();
    for per_second in [1_000, 1_000_000, 1_000_000_000] {
        let times = days.map(|day| (i64::from(day) * 86_400 + 37_230) * per_second);
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&times, None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    let input = || Input::open(&path, &mut |_| {}).unwrap();
    for (row, day) in [(1, "2024-02-29"), (2, "1969-12-30")] {
        let time = format!("{day} 10:20:30");
        let texts: Vec<String> = input().row(row).unwrap().into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, [day, &time, &time, &time]);
    }
    let report = build_quietly(&dir.options(&path)).unwrap();
    assert_eq!(report.features.len(), 4, "{report}");
}

#[test]
fn lists_are_excluded() {
    let dir = TestDir::new();
    let path = dir.path("lists.parquet");
    let schema = "message lists { required group tags (LIST) { repeated group list { required int64 element; } } \
                  required int64 a; repeated int64 b; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer =
        SerializedFileWriter::new(std::fs::File::create(&path).unwrap(), schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for levels in [(Some(&[1, 1, 1][..]), Some(&[0, 0, 0][..])), (None, None), (Some(&[1, 1, 1]), Some(&[0, 0, 0]))] {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[7, 8, 10], levels.0, levels.1).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    let report = build_quietly(&dir.options(&path)).unwrap();
    let excluded: Vec<&str> = report.left_out.iter().map(|excluded| excluded.column.as_str()).collect();
    assert_eq!((excluded, report.features.len()), (vec!["tags", "b"], 1));
}

#[test]
fn errors_name_the_row_and_the_column() {
    let dir = TestDir::new();
    let path = dir.path("people.parquet");
    write(&path, Compression::SNAPPY);
    let error = build_quietly(&dir.options(&path)).unwrap_err().to_string();
    assert!(error.contains("people.parquet, row 3, column \"debt\": the value is missing"), "{error}");
}

#[test]
fn damaged_files_never_crash_a_build() {
    let dir = TestDir::new();
    let path = dir.path("people.parquet");
    write(&path, Compression::SNAPPY);
    let whole = std::fs::read(&path).unwrap();
    let mut options = dir.options(&path);
    options.schema = Some(dir.write("schema.toml", "[features.debt]\ndefault = 0.25\n"));
    options.replace = true;
    build_quietly(&options).unwrap();
    for garbage in [b"PAR1".to_vec(), b"PAR1PAR1".to_vec(), b"no parquet at all".to_vec(), vec![], vec![0; 100]] {
        std::fs::write(&path, garbage).unwrap();
        let error = build_quietly(&options).unwrap_err().to_string();
        assert!(error.contains("people.parquet: cannot be read as Parquet"), "{error}");
    }
    // A changed byte gives another table or an error; in both cases a complete bundle remains.
    // The hook keeps panics of the library, which become errors, out of the output of the test.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut opened = 0;
    for offset in (0..whole.len()).step_by(7) {
        let mut changed = whole.clone();
        changed[offset] ^= 0x55;
        std::fs::write(&path, changed).unwrap();
        let _ = build_quietly(&options);
        opened += usize::from(Bundle::open(&options.output).is_ok());
    }
    std::panic::set_hook(hook);
    assert_eq!(opened, whole.len().div_ceil(7));
}

/// A table of one column of texts, each `length` bytes long.
fn write_texts(path: &Path, rows: usize, length: usize, properties: WriterPropertiesBuilder) {
    let schema = Arc::new(parse_message_type("message t { required binary note (UTF8); }").unwrap());
    let properties = Arc::new(properties.build());
    let mut writer = SerializedFileWriter::new(std::fs::File::create(path).unwrap(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let value = ByteArray::from(vec![b'x'; length]);
    column.typed::<ByteArrayType>().write_batch(&vec![value; rows], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

/// A small file must not need much memory. With a dictionary, one long value is the value of every
/// row; with compression, a page has few bytes in the file.
#[test]
fn small_files_that_expand_are_refused_before_their_texts_are_made() {
    let dir = TestDir::new();
    let path = dir.path("long.parquet");
    let dictionary = || {
        let properties = WriterProperties::builder().set_dictionary_enabled(true);
        properties.set_dictionary_page_size_limit(8 << 20).set_compression(Compression::ZSTD(ZstdLevel::default()))
    };
    let plain = || dictionary().set_dictionary_enabled(false);
    for (rows, length, properties, words) in [
        (300, 500_000, dictionary(), "long.parquet, row 68, column \"note\": the values of 256 rows have more than"),
        (
            2,
            2_000_000,
            dictionary(),
            "long.parquet, row 1, column \"note\": the value has 2000000 bytes, but the maximum",
        ),
        (1100, 65_536, plain(), "long.parquet: it unpacks to more than 100 times its size"),
    ] {
        write_texts(&path, rows, length, properties);
        assert!(std::fs::metadata(&path).unwrap().len() < 200_000, "the file is small");
        let error = build_quietly(&dir.options(&path)).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
