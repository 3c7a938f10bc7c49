//! Error messages of builds from invalid data. Every case also checks that no files are left
//! behind.

mod common;

use common::*;
use ifonly_bundle::BuildOptions;

fn assert_contains(error: &str, parts: &[&str]) {
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

fn accept(target: &str, values: &[&str]) -> impl FnOnce(&mut BuildOptions) {
    let (target, values) = (target.to_owned(), values.iter().map(|value| value.to_string()).collect());
    move |options| (options.target, options.accept) = (Some(target), values)
}

fn plain(_: &mut BuildOptions) {}

#[test]
fn missing_values_are_reported_with_row_and_column() {
    let error = refused("a,b\n1,x\n2,\n3,NA\n4,y\n", "", plain);
    assert_contains(&error, &["data.csv, line 3, column \"b\"", "missing", "2 accepted rows", "default", "exclude"]);
    let error = refused("a,b,ok\n1,x,1\n2,y,\n3,z,0\n", "", accept("ok", &["1"]));
    assert_contains(&error, &["line 3, column \"ok\"", "target is missing"]);
    let error = refused("a,b,ok\n1,x,1\n2,y,NA\n3,z,0\n", "", accept("ok", &["!=0"]));
    assert_contains(&error, &["line 3, column \"ok\"", "target is missing"]);
}

#[test]
fn invalid_values_are_reported_with_row_and_column() {
    let error = refused("a,b\n1,x\n2,y\nmany,z\n", "continuous = ['a']", plain);
    assert_contains(&error, &["data.csv, line 4, column \"a\"", "\"many\" is not a number"]);
    let error = refused("a,b\n1,x\n2,y\n3,z\n", "[features.b]\ncategories = ['x', 'y']", plain);
    assert_contains(&error, &["line 4, column \"b\"", "\"z\" is not permitted", "\"x\", \"y\""]);
    let error = refused("a,b\n1,x\n2,y\n\"4\n\",q\n3,z\n", "[features.b]\nranks = ['x', 'y', 'q']", plain);
    assert_contains(&error, &["line 6, column \"b\""]);
    let error = refused("a,b,q\n1,x,3\n2,y,good\n3,y,4\n", "", accept("q", &[">=4"]));
    assert_contains(&error, &["line 3, column \"q\"", "\"good\" is not a number"]);
}

#[test]
fn ragged_rows_and_open_quotes_are_reported_with_their_line() {
    let error = refused("a,b\n1,x\n2\n", "", plain);
    assert_contains(&error, &["data.csv, line 3", "1 field instead of 2"]);
    let error = refused("a,b\n1,x\n2,y,z\n", "", plain);
    assert_contains(&error, &["line 3", "3 fields instead of 2"]);
    // Line numbers are the same with CRLF line ends.
    let error = refused("a,b\r\n1,x\r\n2\r\n", "", plain);
    assert_contains(&error, &["line 3", "1 field instead of 2"]);
    let error = refused("a,b\r\n1,x\r\n\r\n2,y\r\nmany,z\r\n", "continuous = ['a']", plain);
    assert_contains(&error, &["line 5, column \"a\"", "\"many\" is not a number"]);
    let endless = format!("a,b\n1,\"{}", "x,\n".repeat(8 << 20));
    let error = refused(endless, "", plain);
    assert_contains(&error, &["data.csv", "longer than 16 MiB", "quote"]);
}

#[test]
fn a_value_that_is_too_long_is_reported_with_row_and_column() {
    let csv = format!("a,b\n1,x\n2,{}\n3,x\n", "y".repeat(5000));
    let error = refused(&csv, "[features.b]\ncategories = ['x', 'z']", plain);
    assert_contains(&error, &["line 3, column \"b\""]);
    assert!(error.len() < 500, "{error}");
    let numbers = format!("a\n1\n2\n{}3\n4\n", "0".repeat(5000));
    assert_contains(&refused(numbers, "continuous = ['a']", plain), &["line 4, column \"a\"", "too long"]);
}

#[test]
fn files_that_are_not_tables_are_refused() {
    assert_contains(&refused("", "", plain), &["data.csv", "empty"]);
    assert_contains(&refused("\n\n", "", plain), &["data.csv", "empty"]);
    assert_contains(&refused("a,b\n", "", plain), &["no rows"]);
    assert_contains(&refused("a,b,a\n1,2,3\n", "", plain), &["two columns are named \"a\""]);
    assert_contains(&refused([0xff, 0xfe, b'a', 0], "", plain), &["UTF-16"]);
    assert_contains(&refused([b'a', 0, 1, 2], "", plain), &["neither CSV nor Parquet"]);
    assert_contains(&refused(b"a,b\n1,x\n2,\xff\n", "", plain), &["line 3, column \"b\"", "UTF-8"]);
    assert_contains(
        &refused("a", "", |options| options.data = vec!["/nonexistent/data.csv".into()]),
        &["cannot read", "data.csv"],
    );
}

#[test]
fn unknown_names_come_with_a_suggestion() {
    let csv = "income,approved\n1,yes\n2,no\n5,yes\n";
    assert_contains(
        &refused(csv, "", accept("aproved", &["yes"])),
        &["target", "\"aproved\"", "did you mean \"approved\""],
    );
    assert_contains(&refused(csv, "", accept("xyz", &["yes"])), &["\"xyz\"", "it has \"income\", \"approved\""]);
    assert_contains(
        &refused(csv, "[features.incom]\nlevels = 3", plain),
        &["features.incom", "did you mean \"income\""],
    );
    assert_contains(&refused(csv, "levls = 3", plain), &["schema.toml", "levls"]);
    assert_contains(
        &refused(csv, "", accept("approved", &["maybe"])),
        &["no row is accepted", "maybe", "\"yes\" (2 rows)"],
    );
    assert_contains(&refused(csv, "", accept("approved", &[])), &["accept is missing", "\"no\" (1 row)"]);
    assert_contains(&refused(csv, "", |options| options.accept = vec!["yes".into()]), &["accept needs a target"]);
    assert_contains(&refused(csv, "", accept("approved", &[">=yes"])), &["\"yes\" is not a number"]);
}

#[test]
fn contradictory_settings_are_refused() {
    let csv = "a,b\n1,x\n2,y\n4,z\n";
    assert_contains(&refused(csv, "[features.a]\nlevels = 0", plain), &["\"a\"", "levels"]);
    assert_contains(&refused(csv, "[features.a]\nlevels = 70000", plain), &["\"a\"", "65535"]);
    assert_contains(&refused(csv, "[features.a]\nmin = 5\nmax = 2", plain), &["\"a\"", "in order"]);
    assert_contains(&refused(csv, "[features.b]\nranks = ['x', 'x']", plain), &["\"b\"", "twice"]);
    assert_contains(&refused(csv, "[features.b]\ncategories = ['x']", plain), &["\"b\"", "2 to"]);
    assert_contains(&refused(csv, "[features.a]\nmax = 9\ndefault = 99", plain), &["\"a\"", "default"]);
    let names: Vec<String> = (0..70).map(|k| format!("c{k}")).collect();
    let wide = format!("{}\n{}\n{}\n", names.join(","), ["0"; 70].join(","), ["1"; 70].join(","));
    let settings = format!("levels = 65535\nscale = 'paper'\ncontinuous = ['{}']", names.join("', '"));
    assert_contains(&refused(wide, &settings, plain), &["levels in all features", "4194304"]);
    assert_contains(&refused(csv, "exclude = ['a', 'b']", plain), &["all columns were excluded"]);
    assert_contains(&refused("a\n1\n1\n", "", plain), &["all columns were excluded", "constant"]);
}

#[test]
fn impossible_deployments_are_refused() {
    let csv = "a,b\n1,3\n2,9\n4,7\n";
    assert_contains(
        &refused(csv, "", |o| o.deployment.schemes = vec!["two-phase".into()]),
        &["two-phase needs 3 servers", "the number of servers is 2"],
    );
    assert_contains(&refused(csv, "", |o| o.deployment.schemes = vec!["gatd".into()]), &["did you mean \"gated\""]);
    assert_contains(&refused(csv, "", |o| o.deployment.terms.threshold = Some(2)), &["gated-tables needs 3 servers"]);
    assert_contains(&refused(csv, "", |o| o.deployment.terms.weight_limit = Some(0)), &["weight_limit = 0"]);
    let tables = |o: &mut BuildOptions| {
        o.deployment.terms.cost_limit = Some(u64::MAX);
        o.deployment.schemes = vec!["table".into()];
    };
    assert_contains(&refused(csv, "", tables), &["scheme table", "62"]);
    assert_contains(&refused(csv, "", |o| o.deployment.terms.top_limit = Some(0)), &["top_limit"]);
    assert_contains(&refused(csv, "", |o| o.deployment.servers = Some(0)), &["the number of servers is 0"]);
    let labels = "a,b\n1,x\n2,y\n4,z\n";
    assert_contains(
        &refused(labels, "", |o| o.deployment.default_scheme = Some("gated".into())),
        &["gated", "\"b\"", "one_hot"],
    );
}
