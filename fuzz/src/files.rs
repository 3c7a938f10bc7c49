//! Targets for files: tables, schema files, row stores and bundles.

use crate::world::{BUNDLE, CSV, SCHEMA, WORK_DIR, options};
use ifonly_bundle::{BuildOptions, Bundle, build};
use ifonly_scan::RowStore;
use ifonly_values::record::Record;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs;
use std::sync::Arc;

/// Builds a bundle. If that succeeds, the bundle must open and its records must match its rows.
fn check(options: &BuildOptions) {
    if build(options, &mut |_| {}).is_err() {
        return;
    }
    let bundle = Bundle::open(&options.output).expect("a built bundle opens");
    let schema = bundle.manifest().schema();
    for (record, levels) in bundle.texts().zip(bundle.rows().levels()) {
        let record = Record::decode(schema, record).expect("the record decodes under the schema");
        assert_eq!(record.levels(schema).expect("the values are valid under the schema"), levels);
    }
}

pub(crate) fn schemas(bytes: &[u8]) {
    let (data, schema) = ("schema-target.csv", "schema-target.toml");
    if !WORK_DIR.join(data).exists() {
        fs::write(WORK_DIR.join(data), CSV).expect("the file can be written");
    }
    fs::write(WORK_DIR.join(schema), bytes).expect("the file can be written");
    check(&options(data, Some(schema)));
}

pub(crate) fn schema_seeds() -> Vec<Vec<u8>> {
    vec![SCHEMA.into(), "target = 'ok'\naccept = ['1']\n[features.since]\nscale = 'round'\n".into()]
}

/// A CSV table. The first byte selects the file extension, hence the compression.
pub(crate) fn csv(bytes: &[u8]) {
    let Some((extension, bytes)) = bytes.split_first() else { return };
    let name = ["data.csv", "data.csv.gz", "data.csv.zst"][usize::from(*extension) % 3];
    fs::write(WORK_DIR.join(name), bytes).expect("the file can be written");
    check(&options(name, None));
}

pub(crate) fn csv_seeds() -> Vec<Vec<u8>> {
    let plain = |text: &str| [&[0], text.as_bytes()].concat();
    vec![plain(CSV), plain("a;b\n1;2\n3;4\n"), plain("x\ty\n\"1,5\"\tja\n\"2,5\"\tnein\n")]
}

pub(crate) fn parquet(bytes: &[u8]) {
    fs::write(WORK_DIR.join("data.parquet"), bytes).expect("the file can be written");
    check(&options("data.parquet", None));
}

pub(crate) fn parquet_seeds() -> Vec<Vec<u8>> {
    let codecs =
        [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::GZIP(Default::default()), Compression::LZ4_RAW];
    codecs.map(|codec| small_parquet(codec).expect("the Parquet file can be written")).into()
}

fn small_parquet(codec: Compression) -> Result<Vec<u8>, ParquetError> {
    let schema = "message people { required int64 age; optional double debt; required binary job (UTF8); required int32 since (DATE); }";
    let properties = Arc::new(WriterProperties::builder().set_compression(codec).build());
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(parse_message_type(schema)?), properties)?;
    let mut group = writer.next_row_group()?;
    let missing = || ParquetError::General("a column is missing".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<Int64Type>().write_batch(&[20, 30, 60], None, None)?;
    column.close()?;
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<DoubleType>().write_batch(&[0.5, 0.25], Some(&[1, 0, 1]), None)?;
    column.close()?;
    let mut column = group.next_column()?.ok_or_else(missing)?;
    let jobs = ["baker", "pilot", "pilot"].map(ByteArray::from);
    column.typed::<ByteArrayType>().write_batch(&jobs, None, None)?;
    column.close()?;
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<Int32Type>().write_batch(&[0, 18_321, -1], None, None)?;
    column.close()?;
    group.close()?;
    writer.into_inner()
}

pub(crate) fn stores(bytes: &[u8]) {
    let Ok(store) = RowStore::from_bytes(bytes.to_vec()) else { return };
    for levels in store.levels() {
        assert!(levels.iter().zip(store.max_levels()).all(|(&level, &max_level)| u32::from(level) <= max_level));
    }
    let mut again = Vec::new();
    store.write_to(&mut again).expect("writing to memory succeeds");
    assert_eq!(again, bytes, "a database has exactly one encoding");
}

pub(crate) fn store_seeds() -> Vec<Vec<u8>> {
    let bytes = |max_levels: &[u32], rows: &[&[u16]]| {
        let mut bytes = Vec::new();
        let store = RowStore::build(max_levels, rows).expect("the rows are valid");
        store.write_to(&mut bytes).expect("writing to memory succeeds");
        bytes
    };
    vec![bytes(&[9, 1], &[&[3, 1], &[9, 0]]), bytes(&[1000, 255, 3], &[&[999, 255, 3]])]
}

/// Three files, each preceded by its length in two bytes. The checksums are correct, because wrong
/// ones would only test the checksums.
pub(crate) fn bundles(bytes: &[u8]) {
    let folder = WORK_DIR.join("bundle");
    fs::create_dir_all(&folder).expect("the folder can be created");
    let (mut rest, mut checksums) = (bytes, String::new());
    for name in ["manifest.json", "rows", "records"] {
        let Some((length, after)) = rest.split_first_chunk::<2>() else { return };
        let (file, after) = after.split_at(usize::from(u16::from_le_bytes(*length)).min(after.len()));
        fs::write(folder.join(name), file).expect("the file can be written");
        checksums += &format!("{}  {name}\n", blake3::hash(file).to_hex());
        rest = after;
    }
    fs::write(folder.join("checksums"), checksums).expect("the file can be written");
    #[cfg(unix)]
    for name in ["rows", "records", "checksums"] {
        use std::os::unix::fs::PermissionsExt;
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(folder.join(name), private).expect("the mode can be changed");
    }
    if let Ok(bundle) = Bundle::open(&folder) {
        let schema = bundle.manifest().schema();
        for record in bundle.records() {
            // Opening a bundle does not compare records with rows; clients do that.
            if let Ok(record) = Record::decode(schema, record) {
                let _ = record.levels(schema);
            }
        }
        assert_eq!(bundle.rows().levels().len(), bundle.manifest().rows());
    }
}

pub(crate) fn bundle_seeds() -> Vec<Vec<u8>> {
    let _ = BUNDLE.manifest();
    let file = |name: &str| {
        let bytes = fs::read(WORK_DIR.join("seed").join(name)).expect("the seed bundle has this file");
        [&(bytes.len() as u16).to_le_bytes(), bytes.as_slice()].concat()
    };
    vec![["manifest.json", "rows", "records"].map(file).concat()]
}
