//! Common fixtures of the targets: a small table, its bundle, and a temporary folder.

use ifonly_bundle::{BuildOptions, Bundle, build};
use std::path::PathBuf;
use std::sync::LazyLock;

/// A table with numbers, words, dates, quotes, a missing value and a byte order mark.
pub(crate) const CSV: &str = "\u{feff}age,debt,\"the job\",risk,since,ok\n23,0.5,baker,low,2020-01-31,1\n31,,pilot,high,2021-02-28,0\n\
    45,1e2,\"pi,lot\",low,1999-12-31,1\n52,-3,x,medium,2024-02-29,1\n";
/// A schema file with every kind of setting.
pub(crate) const SCHEMA: &str = "target = 'ok'\naccept = ['>=1']\ncontinuous = ['age']\nimmutable = ['age']\nlevels = 50\n\
    [features.debt]\nmin = -5\nmax = 200\ndefault = 0\nquantiser = 'floor'\n[features.risk]\nranks = ['low', 'medium', 'high']\n";

/// The temporary folder of this process.
pub(crate) static WORK_DIR: LazyLock<PathBuf> = LazyLock::new(|| {
    std::env::var_os("IFONLY_FUZZ_DIR").expect("IFONLY_FUZZ_DIR names a folder; fuzz/run sets it").into()
});

/// Build options for a data file and a schema file in the temporary folder.
pub(crate) fn options(data: &str, schema: Option<&str>) -> BuildOptions {
    BuildOptions {
        data: vec![WORK_DIR.join(data)],
        schema: schema.map(|name| WORK_DIR.join(name)),
        output: WORK_DIR.join("out"),
        replace: true,
        ..BuildOptions::default()
    }
}

/// The bundle of the table above.
pub(crate) static BUNDLE: LazyLock<Bundle> = LazyLock::new(|| {
    std::fs::write(WORK_DIR.join("seed.csv"), CSV).expect("the file can be written");
    std::fs::write(WORK_DIR.join("seed.toml"), SCHEMA).expect("the file can be written");
    let options = BuildOptions { output: WORK_DIR.join("seed"), ..options("seed.csv", Some("seed.toml")) };
    build(&options, &mut |_| {}).expect("the table can be built");
    Bundle::open(&options.output).expect("a built bundle opens")
});
