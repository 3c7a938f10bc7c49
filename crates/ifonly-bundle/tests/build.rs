//! Builds from valid data: levels, records, schema, deployment, keys and warnings.

mod common;

use common::*;
use ifonly_bundle::{
    BuildOptions, BuildProgress, BuildStage, Bundle, DeploymentOptions, build, load_key, save_key, summarise,
};
use ifonly_core::params::ParamOptions;
use ifonly_core::signature::{BundleId, SigningKey};
use ifonly_values::record::Record;
use ifonly_values::schema::{FeatureKind, Value};

const LOANS: &str = "\
id,income,debt,job,risk,branch,approved
1,1000,0.5,teacher,low,1,yes
2,2000,0.25,baker,high,1,no
3,3000,0.75,baker,medium,1,yes
4,1500,0,pilot,low,1,yes
";

fn loans() -> BuildOptions {
    BuildOptions { target: Some("approved".into()), accept: vec!["yes".into()], ..BuildOptions::default() }
}

#[test]
fn accepted_rows_are_quantised_and_their_records_have_the_original_values() {
    let dir = TestDir::new();
    let options = BuildOptions { data: vec![dir.write("loans.csv", LOANS)], output: dir.path("b"), ..loans() };
    let report = build_quietly(&options).unwrap();
    let bundle = Bundle::open(&options.output).unwrap();
    // Bounds come from all rows: incomes 1000 to 3000 in steps of 500, debts in quarters.
    assert_eq!(bundle.manifest().schema().max_levels(), [4, 3, 2, 2]);
    assert_eq!(levels(&bundle), [[0, 2, 2, 0], [4, 3, 0, 1], [1, 0, 1, 0]]);
    assert_eq!((report.rows_read, report.rows_accepted), (4, 3));
    check_records(&bundle);
    let record = Record::decode(bundle.manifest().schema(), bundle.texts().nth(1).unwrap()).unwrap();
    assert_eq!(record.value("income"), Some("3000"));
    assert_eq!(record.value("job"), Some("baker"));
    assert_eq!(record.value("approved"), None);
    let excluded: Vec<&str> = report.left_out.iter().map(|excluded| excluded.column.as_str()).collect();
    assert_eq!(excluded, ["id", "branch"]);
    assert_eq!(bundle.manifest().fields().dataset.name, "loans");
    assert_eq!(bundle.rows().rows(), 3);
    assert!(report.to_string().contains("3 of 4 rows accepted"), "{report}");
}

#[test]
fn a_mask_scheme_gets_its_d_min_closure_and_accuracy() {
    let dir = TestDir::new();
    // One feature, accepted 0 and 9. From 1 the gap is 63, from 4 it is 9, so D_c has only 1.
    let data = "id,age,ok\na,0,yes\nb,9,yes\nc,1,no\nd,4,no\n";
    let build_with = |scheme: &str, d_min| {
        let options = BuildOptions {
            data: vec![dir.write("ages.csv", data)],
            output: dir.path(&format!("{scheme}-{d_min}")),
            target: Some("ok".into()),
            accept: vec!["yes".into()],
            deployment: DeploymentOptions {
                schemes: vec![scheme.into()],
                terms: ParamOptions { d_min: Some(d_min), ..ParamOptions::default() },
                ..DeploymentOptions::default()
            },
            ..BuildOptions::default()
        };
        build_quietly(&options).unwrap()
    };
    let report = build_with("mask", 9);
    let masks = report.masks.clone().unwrap();
    assert_eq!((masks.samples, masks.d_min, masks.distinct), (2, Some(9), Some(9)));
    assert_eq!((masks.in_closure.as_deref(), masks.exact_share), (Some(&[0][..]), 1.0));
    assert!(report.to_string().contains("rejected row 1"), "{report}");
    // Masks above the gap of 9 make some answers wrong.
    let share = build_with("mask", 40).masks.unwrap().exact_share;
    assert!((0.5..1.0).contains(&share), "{share}");
    assert_eq!(build_with("baseline", 1).masks, None);
}

#[test]
#[cfg(unix)]
fn only_the_owner_can_read_a_bundle() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TestDir::new();
    let options = BuildOptions { data: vec![dir.write("loans.csv", LOANS)], output: dir.path("b"), ..loans() };
    build_quietly(&options).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&options.output), 0o700);
    let files: Vec<_> = std::fs::read_dir(&options.output).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 4);
    assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");
}

#[test]
fn without_a_target_every_row_is_accepted() {
    let (report, bundle) = bundle("a,b\n1,x\n2,y\n5,x\n1,x\n", "");
    assert_eq!((report.rows_accepted, bundle.manifest().rows()), (4, 4));
    // Duplicate rows are kept.
    assert_eq!(levels(&bundle), [[0, 0], [1, 100], [4, 0], [0, 0]]);
}

#[test]
fn accept_conditions_compare_numbers() {
    let csv = "quality,a\n3,1\n5,2\n6,3\n9,4\n";
    for (accept, rows) in
        [(vec![">=5"], 3), (vec![">5"], 2), (vec!["3", "9.0"], 2), (vec!["<4", ">8"], 2), (vec!["!=3"], 3)]
    {
        let dir = TestDir::new();
        let mut options = dir.csv(csv, "");
        options.target = Some("quality".into());
        options.accept = accept.iter().map(|text| text.to_string()).collect();
        assert_eq!(build_quietly(&options).unwrap().rows_accepted, rows, "{accept:?}");
    }
}

#[test]
fn the_same_input_key_and_bundle_id_give_the_same_bytes() {
    let dir = TestDir::new();
    let data = dir.write("loans.csv", LOANS);
    let sign = Some(dir.path("key"));
    save_key(&dir.path("key"), &SigningKey::new(&[8; 32])).unwrap();
    for name in ["one", "two"] {
        build_quietly(&BuildOptions {
            data: vec![data.clone()],
            output: dir.path(name),
            signing_key: sign.clone(),
            bundle_id: Some(BundleId([3; 16])),
            ..loans()
        })
        .unwrap();
    }
    for file in ["manifest.json", "rows", "records", "checksums"] {
        let read = |name: &str| std::fs::read(dir.path(name).join(file)).unwrap();
        assert_eq!(read("one"), read("two"), "{file}");
    }
    assert_eq!(dir.names(), ["key", "loans.csv", "one", "two"]);
}

/// A server that kept an earlier bundle replays its records. Name, version, schema and key are
/// equal, so only the bundle id tells the two bundles apart.
#[test]
fn a_record_of_an_earlier_bundle_is_not_valid_in_a_later_one() {
    let dir = TestDir::new();
    let data = dir.write("loans.csv", LOANS);
    let key = signing_key(&dir);
    let built = |name: &str| {
        let (data, output) = (vec![data.clone()], dir.path(name));
        let options = BuildOptions { data, output, signing_key: Some(key.clone()), bundle_id: None, ..loans() };
        build_quietly(&options).unwrap();
        Bundle::open(&options.output).unwrap()
    };
    let (earlier, later) = (built("earlier"), built("later"));
    let (before, after) = (earlier.manifest().fields(), later.manifest().fields());
    assert_eq!((&before.dataset, &before.schema, before.signer), (&after.dataset, &after.schema, after.signer));
    assert_ne!(before.bundle_id, after.bundle_id);
    let verifier = later.manifest().signer().unwrap();
    let valid = |record: &[u8]| {
        let (text, signature) = record.split_last_chunk().unwrap();
        verifier.signed(text, signature)
    };
    assert!(later.records().all(valid));
    assert!(!earlier.records().any(valid), "a replayed record is accepted");
}

#[test]
fn a_signing_key_is_created_beside_the_bundle_reused_and_never_inside_it() {
    let dir = TestDir::new();
    let mut options = dir.csv(LOANS, "");
    let first = build_quietly(&options).unwrap();
    assert!(first.key_is_new && first.signing_key == dir.path("bundle.signing.key"), "{first}");
    assert!(first.to_string().contains("never copy this key to a server"), "{first}");
    let key = load_key(&first.signing_key).unwrap();
    assert_eq!(first.manifest.fields().signer, Some(key.public()));
    let secret: String = key.expose().iter().map(|byte| format!("{byte:02x}")).collect();
    for file in ["manifest.json", "rows", "records", "checksums"] {
        let bytes = std::fs::read(options.output.join(file)).unwrap();
        for needle in [&key.expose()[..], secret.as_bytes()] {
            assert!(!bytes.windows(needle.len()).any(|window| window == needle), "{file} contains the key");
        }
    }
    options.replace = true;
    let second = build_quietly(&options).unwrap();
    assert!(!second.key_is_new);
    assert_eq!(second.manifest.digest(), first.manifest.digest());
    check_records(&Bundle::open(&options.output).unwrap());
    // A named key that does not exist is an error, found before the data is read.
    options.signing_key = Some(dir.path("missing.key"));
    assert!(build_quietly(&options).unwrap_err().to_string().contains("no such signing key file"));
}

#[test]
fn the_csv_dialect_does_not_change_the_bundle() {
    let plain = "a,b\n1,x\n2,\"y\"\n4,z\n";
    let (_, expected) = bundle(plain, "");
    for (what, text) in [
        ("crlf", plain.replace('\n', "\r\n")),
        ("mark", format!("\u{feff}{plain}")),
        ("semicolons", plain.replace(',', ";")),
        ("tabs", plain.replace(',', "\t")),
        ("spaces", plain.replace('"', "").replace(',', " , ")),
        ("no last newline", plain.trim_end().into()),
        ("empty lines", plain.replace('\n', "\n\n")),
        ("quoted header", plain.replace("a,b", "\"a\",\"b\"")),
    ] {
        let (_, bundle) = bundle(&text, "");
        assert_eq!(levels(&bundle), levels(&expected), "{what}");
        assert!(bundle.texts().eq(expected.texts()), "{what}");
    }
    let (_, quoted) = bundle("a,b\n1,\"x, \"\"y\"\"\nz\"\n2,w\n3,w\n", "");
    let record = Record::decode(quoted.manifest().schema(), quoted.texts().next().unwrap()).unwrap();
    assert_eq!(record.value("b"), Some("x, \"y\"\nz"));
}

#[test]
fn a_schema_file_overrides_the_inferred_schema() {
    let schema = r#"
        target = "ok"
        accept = [1]
        continuous = ["age"]
        categorical = ["zip"]
        immutable = ["age", "race"]
        exclude = ["note"]
        [features.age]
        min = 20
        max = 60
        levels = 4
        quantiser = "floor"
        unit = "years"
        [features.race]
        one_hot = true
        range = 7
        [features.grade]
        ranks = ["C", "B", "A"]
        default = "C"
        description = "school grade"
    "#;
    let csv = "age,zip,race,grade,note,ok\n29,1,X,A,hm,1\n15,2,Y,,ha,1\n70,3,Z,B,ho,1\n30,3,Z,B,hi,0\n";
    let (report, bundle) = bundle(csv, schema);
    let schema = bundle.manifest().schema();
    let names: Vec<&str> = schema.features().iter().map(|feature| feature.name.as_str()).collect();
    assert_eq!(names, ["age", "zip", "race=X", "race=Y", "race=Z", "grade"]);
    assert_eq!(levels(&bundle), [[0, 0, 7, 0, 0, 2], [0, 1, 0, 7, 0, 0], [4, 2, 0, 0, 7, 1]]);
    let age = &schema.features()[0];
    assert_eq!((age.unit.clone(), age.suggest_immutable), (Some("years".into()), true));
    assert!(schema.feature("race=Y").unwrap().suggest_immutable && !schema.feature("grade").unwrap().suggest_immutable);
    assert_eq!(report.features[0].clamped, 2);
    assert!(report.warnings().iter().any(|warning| warning.contains("2 values outside 20 to 60 years")));
    check_records(&bundle);
    // The zip codes are nominal, so only table schemes can compare them.
    let offered: Vec<&str> = bundle.manifest().schemes().iter().map(|offered| offered.scheme().name).collect();
    assert_eq!(offered, ["gated-costs", "gated-tables"]);
}

#[test]
fn a_listed_missing_word_is_a_category_of_a_one_hot_column() {
    let csv = "age,job\n20,baker\n30,NA\n40,pilot\n";
    let (_, bundle) = bundle(csv, "[features.job]\ncategories = ['baker', 'pilot', 'NA']\none_hot = true\n");
    assert_eq!(
        levels(&bundle).iter().map(|row| row[1..].to_vec()).collect::<Vec<_>>(),
        [[100, 0, 0], [0, 0, 100], [0, 100, 0]]
    );
    let schema = bundle.manifest().schema();
    let columns = schema.columns();
    let missing = |text: &str| schema.is_missing(&columns[1], &text.into());
    assert!(missing("") && missing("null") && !missing("NA") && !missing("baker"));
}

#[test]
fn a_missing_value_is_encoded_as_the_default_and_is_missing_in_the_record() {
    let (_, bundle) =
        bundle("a,b\n1,x\n?,y\n3,NA\n5,x\n", "[features.a]\ndefault = 2\n[features.b]\ndefault = 'unknown'\n");
    assert_eq!(bundle.manifest().schema().feature("b").unwrap().words(), ["x", "y", "unknown"]);
    assert_eq!(levels(&bundle), [[0, 0], [1, 1], [2, 2], [4, 0]]);
    check_records(&bundle);
    let record = Record::decode(bundle.manifest().schema(), bundle.texts().nth(1).unwrap()).unwrap();
    assert_eq!(record.value("a"), Some(""));
}

#[test]
fn a_word_that_is_listed_as_a_category_is_not_missing() {
    let (_, bundle) = bundle("a,b\n1,NA\n2,EU\n3,NA\n", "[features.b]\ncategories = ['NA', 'EU']\n");
    assert_eq!(levels(&bundle), [[0, 0], [1, 100], [2, 0]]);
}

#[test]
fn rejected_rows_widen_the_bounds_and_may_have_missing_values() {
    let dir = TestDir::new();
    let mut options = dir.csv("a,b,ok\n1,x,1\n2,y,1\n9,,0\n", "");
    (options.target, options.accept) = (Some("ok".into()), vec!["1".into()]);
    build_quietly(&options).unwrap();
    let manifest = Bundle::manifest_of(&options.output).unwrap();
    assert!(
        matches!(&manifest.schema().features()[0].kind, FeatureKind::Numeric { scale, .. } if scale.bounds() == (1.0, 9.0) && scale.max_level() == 8)
    );
}

#[test]
fn wide_features_take_two_bytes() {
    let csv: String = "a\n".to_owned() + &(0..1000).map(|n| format!("{}\n", n * n % 997)).collect::<String>();
    let (report, bundle) = bundle(csv, "levels = 1000\n");
    assert_eq!(bundle.manifest().schema().max_levels(), [996]);
    // A header, and 16 blocks of 64 rows with one group of 4 bytes per row.
    assert_eq!(report.sizes.rows, 64 + 16 * 256);
    assert!(bundle.rows().levels().zip(0..).all(|(row, n)| row == [(n * n % 997) as u16]));
}

#[test]
fn deployment_options_appear_in_the_manifest() {
    let dir = TestDir::new();
    let mut options = dir.csv("a,b\n1,5\n2,6\n3,9\n", "");
    options.deployment = DeploymentOptions {
        servers: Some(4),
        terms: ParamOptions { weight_limit: Some(3), top_limit: Some(7), ..ParamOptions::default() },
        key_epochs: vec![5, 4],
        schemes: vec!["two-phase+".into(), "gated".into()],
        ..DeploymentOptions::default()
    };
    options.version = Some("2026-11".into());
    let fields = build_quietly(&options).unwrap().manifest.fields().clone();
    assert_eq!((fields.params.weight_limit, fields.params.top_limit, fields.operators.len()), (3, 7, 4));
    // Two features share a cost of 28 bits.
    assert_eq!((fields.params.cost_limit >> 26, fields.default_scheme.as_str()), (1, "gated"));
    assert_eq!((fields.key_epochs, fields.dataset.version.as_str()), (vec![5, 4], "2026-11"));
    assert_eq!(fields.schemes.len(), 2);
}

#[test]
fn non_gated_schemes_are_offered_only_by_name_and_with_a_warning() {
    let dir = TestDir::new();
    let mut options = dir.csv("a,b\n1,5\n2,6\n3,9\n", "");
    options.deployment.servers = Some(4);
    let report = build_quietly(&options).unwrap();
    assert!(report.manifest.instances().all(|instance| instance.scheme().is_gated()));
    assert!(
        !report.warnings().iter().any(|warning| warning.contains("reveals more than the gated schemes")),
        "{report}"
    );
    (options.replace, options.deployment.default_scheme) = (true, Some("two-phase".into()));
    let report = build_quietly(&options).unwrap();
    assert!(report.manifest.instance("two-phase").is_ok() && report.manifest.sealed().is_some());
    let warning = report.warnings().into_iter().find(|warning| warning.contains("two-phase reveals more")).unwrap();
    assert!(warning.contains("one row order") && warning.contains("all rows not before search 1"), "{warning}");
}

#[test]
fn fault_tolerance_and_verified_answers_warn_what_a_cheating_client_gets() {
    let dir = TestDir::new();
    let mut options = dir.csv("a,b\n1,5\n2,6\n3,9\n", "");
    (options.replace, options.deployment.servers) = (true, Some(4));
    options.deployment.schemes = vec!["gated-tables".into()];
    let mut cheat = |silent, lying, verified| {
        let terms = ParamOptions {
            silent: Some(silent),
            lying: Some(lying),
            verified: Some(verified),
            ..ParamOptions::default()
        };
        options.deployment.terms = terms;
        let report = build_quietly(&options).unwrap();
        let summary = summarise(&report.manifest);
        let tables = summary.schemes.iter().find(|scheme| scheme.name == "gated-tables").unwrap();
        let (bits, records) = (tables.cheat_bits / u64::from(tables.bits), tables.cheat_records);
        let warned = report.warnings().iter().any(|warning| warning.contains("help clients that break the protocol"));
        assert!(summary.to_string().contains(&format!("{} bits of every row", tables.cheat_bits)), "{summary}");
        (bits, records, warned)
    };
    assert_eq!(cheat(0, 0, false), (1, 1, false));
    assert_eq!(cheat(1, 0, false), (3, 2, true));
    assert_eq!(cheat(0, 1, false), (5, 3, true));
    assert_eq!(cheat(0, 0, true), (3, 1, true));
}

#[test]
fn a_recommended_scheme_that_cannot_be_offered_gives_a_warning() {
    let dir = TestDir::new();
    let mut options = dir.csv("a,b\n1,5\n2,6\n3,9\n", "");
    options.deployment.terms.cost_limit = Some(u64::MAX);
    let report = build_quietly(&options).unwrap();
    assert_eq!(report.manifest.fields().default_scheme, "gated-ranges+");
    assert!(report.to_string().contains("warning: the default scheme is gated-ranges+"), "{report}");
}

#[test]
fn progress_covers_all_stages_and_reaches_the_total() {
    let dir = TestDir::new();
    let csv: String = "a\n".to_owned() + &(0..10_000).map(|n| format!("{}\n", n * 7 % 1009)).collect::<String>();
    let options = dir.csv(csv, "");
    let mut reports: Vec<BuildProgress> = vec![];
    build(&options, &mut |progress| reports.push(progress)).unwrap();
    for stage in [BuildStage::Learning, BuildStage::Encoding, BuildStage::Signing] {
        let of_stage: Vec<&BuildProgress> = reports.iter().filter(|progress| progress.stage == stage).collect();
        assert!(of_stage.len() >= 4 && of_stage.windows(2).all(|pair| pair[0].done <= pair[1].done));
        assert!(of_stage.last().is_some_and(|last| last.done == last.total && last.total > 0));
    }
}

#[test]
fn a_bundle_is_replaced_only_on_request() {
    let dir = TestDir::new();
    let mut options = dir.csv("a,b\n1,5\n2,6\n3,9\n", "");
    build_quietly(&options).unwrap();
    dir.write("data.csv", "a,b\n1,5\n2,6\n3,9\n4,4\n");
    assert!(build_quietly(&options).unwrap_err().to_string().contains("already exists"));
    assert_eq!(Bundle::open(&options.output).unwrap().manifest().rows(), 3);
    options.replace = true;
    build_quietly(&options).unwrap();
    assert_eq!(Bundle::open(&options.output).unwrap().manifest().rows(), 4);
    // A failed build does not change the old bundle.
    dir.write("data.csv", "a,b\n1,5\n2\n");
    build_quietly(&options).unwrap_err();
    assert_eq!(Bundle::open(&options.output).unwrap().manifest().rows(), 4);
    assert_eq!(dir.names(), ["bundle", "bundle.signing.key", "data.csv"]);
    // A directory that is not a bundle is never replaced.
    std::fs::create_dir(dir.path("other")).unwrap();
    options.output = dir.path("other");
    assert!(build_quietly(&options).unwrap_err().to_string().contains("not a bundle"));
}

#[test]
fn a_client_can_encode_a_profile_with_the_manifest_alone() {
    let (_, bundle) = bundle("age,job\n20,baker\n30,pilot\n60,pilot\n", "");
    let json = bundle.manifest().json().to_owned();
    let manifest = ifonly_values::manifest::Manifest::from_json(json.as_bytes()).unwrap();
    let encoded = manifest
        .schema()
        .encode(|column| Some(if column == "age" { Value::from(50.0) } else { Value::from("baker") }))
        .unwrap();
    assert_eq!(encoded.iter().map(|encoded| encoded.level).collect::<Vec<_>>(), [3, 0]);
    let summary = summarise(&manifest);
    assert!(summary.to_string().contains("gated-tables*"), "{summary}");
    assert_eq!(serde_json::to_value(&summary).unwrap()["manifest"]["rows"], 3);
}

#[test]
fn other_rows_under_the_same_version_give_a_warning() {
    let dir = TestDir::new();
    let mut options = dir.csv("a,b\n1,5\n2,6\n3,9\n", "");
    options.replace = true;
    let reused = |options: &BuildOptions| {
        let report = build_quietly(options).unwrap();
        report.warnings().iter().any(|warning| warning.contains("other rows under the same name and version"))
    };
    assert!(!reused(&options) && !reused(&options));
    // The same levels with another text.
    dir.write("data.csv", "a,b\n1,5\n2,6\n3.0,9\n");
    assert!(reused(&options));
    dir.write("data.csv", "a,b\n1,5\n2,6\n3,9\n4,4\n");
    options.version = Some("2".into());
    assert!(!reused(&options));
}

#[cfg(unix)]
#[test]
fn bundles_that_all_users_can_read_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TestDir::new();
    let options = dir.csv("a,b\n1,5\n2,6\n3,9\n", "");
    build_quietly(&options).unwrap();
    Bundle::split(&options.output, 2, &dir.path("parts"), false).unwrap();
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let opened = |directory: &std::path::Path| {
        let error = if directory.ends_with("part-1") {
            ifonly_bundle::BundlePart::open(directory, None).err()
        } else {
            Bundle::open(directory).err()
        };
        error.map(|error| error.to_string())
    };
    for directory in [options.output.clone(), dir.path("parts/part-1")] {
        for file in ["rows", "records", "checksums"] {
            let path = directory.join(file);
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "as it was written");
            mode(&path, 0o640);
            assert_eq!(opened(&directory), None, "the group may read");
            mode(&path, 0o644);
            let error = opened(&directory).expect("the file is refused");
            assert!(error.contains(file) && error.contains("chmod -R o= "), "{error}");
            mode(&path, 0o600);
        }
        assert_eq!(opened(&directory), None);
    }
}

/// A bundle for three operators gives one record per search and nothing else.
#[test]
fn three_operators_offer_the_sealed_search_alone_with_one_record() {
    let built = |change: &dyn Fn(&mut BuildOptions)| {
        let dir = TestDir::new();
        let mut options = dir.csv(LOANS, "");
        change(&mut options);
        build_quietly(&options).unwrap()
    };
    let offered = |report: &ifonly_bundle::BuildReport| {
        let fields = report.manifest.fields();
        let names: Vec<String> = fields.schemes.iter().map(|entry| entry.name.clone()).collect();
        (names.join(" "), fields.params.top_limit)
    };
    let sealed = built(&|options| options.deployment.servers = Some(3));
    assert_eq!(offered(&sealed), ("sealed".into(), 1));
    let warned = |report: &ifonly_bundle::BuildReport, words: &str| {
        report.warnings().iter().any(|warning| warning.contains("need no token") && warning.contains(words))
    };
    assert!(warned(&sealed, "with sealed a client that breaks the protocol gets 0 bits of every row and 1 record"));
    let named = built(&|options| {
        options.deployment.servers = Some(3);
        options.deployment.schemes = vec!["sealed".into(), "gated-tables".into()];
        options.deployment.terms.top_limit = Some(4);
    });
    assert_eq!(offered(&named), ("gated-tables sealed".into(), 4));
    assert!(warned(&named, "with gated-tables a client"), "{named}");
    let two = built(&|_| {});
    assert!(offered(&two).0.contains("gated-tables") && offered(&two).1 == 10, "{two}");
}
