//! What targets begin with: a small table, its bundle, a folder of this process.

use ifonly_bundle::{BuildOptions, Bundle, build};
use std::path::PathBuf;
use std::sync::LazyLock;

/// Numbers, words, a date, quotes, a missing value, a byte order mark.
pub(crate) const CSV: &str = "\u{feff}age,debt,\"the job\",risk,since,ok\n23,0.5,baker,low,2020-01-31,1\n31,,pilot,high,2021-02-28,0\n\
    45,1e2,\"pi,lot\",low,1999-12-31,1\n52,-3,x,medium,2024-02-29,1\n";
/// A schema with every kind of setting.
pub(crate) const SCHEMA: &str = "target = 'ok'\naccept = ['>=1']\ncontinuous = ['age']\nimmutable = ['age']\nlevels = 50\n\
    [features.debt]\nmin = -5\nmax = 200\ndefault = 0\nquantiser = 'floor'\n[features.risk]\nranks = ['low', 'medium', 'high']\n";

/// A folder for files.
pub(crate) static DESK: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::var_os("IFONLY_FUZZ_DESK").expect("fuzz/run names a folder in IFONLY_FUZZ_DESK").into());

/// The options of a build of a data file with a schema file, both in the folder.
pub(crate) fn options(data: &str, schema: Option<&str>) -> BuildOptions {
    BuildOptions {
        data: vec![DESK.join(data)],
        schema: schema.map(|name| DESK.join(name)),
        output: DESK.join("out"),
        replace: true,
        ..BuildOptions::default()
    }
}

/// The bundle of the table above.
pub(crate) static BUNDLE: LazyLock<Bundle> = LazyLock::new(|| {
    std::fs::write(DESK.join("seed.csv"), CSV).expect("a file");
    std::fs::write(DESK.join("seed.toml"), SCHEMA).expect("a file");
    let options = BuildOptions { output: DESK.join("seed"), ..options("seed.csv", Some("seed.toml")) };
    build(&options, &mut |_| {}).expect("the small table is a bundle");
    Bundle::open(&options.output).expect("what was built opens")
});
