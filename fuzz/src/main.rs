//! One program with all fuzz targets. The variable `IFONLY_FUZZ` names the target to run. If
//! `IFONLY_FUZZ_SEEDS` names a folder, the program writes the seed inputs of all targets there and
//! exits. `fuzz/run` compiles the program and sets both variables.
//!
//! A target must accept or refuse any bytes. A panic, an abort, unbounded memory or unbounded time
//! is a fault. Some targets also assert properties of the inputs that they accept.

#![no_main]

mod answers;
mod files;
mod messages;
mod peers;
#[cfg(feature = "server")]
mod servers;
mod texts;
mod world;

use std::path::Path;
use std::sync::OnceLock;

/// A fuzz target: its name, the function under test and its seed inputs.
struct Target {
    name: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
}

const TARGETS: &[Target] = &[
    Target { name: "messages", run: messages::run, seeds: messages::seeds },
    Target { name: "answers", run: answers::run, seeds: answers::seeds },
    Target { name: "manifests", run: texts::manifests, seeds: texts::manifest_seeds },
    #[cfg(feature = "server")]
    Target { name: "configuration", run: texts::configuration, seeds: texts::configuration_seeds },
    Target { name: "peers", run: peers::run, seeds: peers::seeds },
    #[cfg(feature = "server")]
    Target { name: "shards", run: servers::shards, seeds: servers::shard_seeds },
    #[cfg(feature = "server")]
    Target { name: "ledgers", run: servers::ledgers, seeds: servers::ledger_seeds },
    Target { name: "profiles", run: texts::profiles, seeds: texts::profile_seeds },
    Target { name: "schemas", run: files::schemas, seeds: files::schema_seeds },
    Target { name: "csv", run: files::csv, seeds: files::csv_seeds },
    Target { name: "parquet", run: files::parquet, seeds: files::parquet_seeds },
    Target { name: "stores", run: files::stores, seeds: files::store_seeds },
    Target { name: "bundles", run: files::bundles, seeds: files::bundle_seeds },
];

static SELECTED: OnceLock<fn(&[u8])> = OnceLock::new();

fn select_target() {
    if let Some(folder) = std::env::var_os("IFONLY_FUZZ_SEEDS") {
        for target in TARGETS {
            let folder = Path::new(&folder).join(target.name);
            std::fs::create_dir_all(&folder).expect("the folder for seeds can be created");
            for (number, seed) in (target.seeds)().iter().enumerate() {
                std::fs::write(folder.join(format!("seed-{number}")), seed).expect("the seed can be written");
            }
            println!("{}", target.name);
        }
        std::process::exit(0);
    }
    let name = std::env::var("IFONLY_FUZZ").unwrap_or_default();
    let target = TARGETS.iter().find(|target| target.name == name);
    let target =
        target.unwrap_or_else(|| panic!("IFONLY_FUZZ: unknown target {name:?}; `fuzz/run --list` lists the targets"));
    if target.name == "parquet" {
        // The Parquet library panics on some damaged files, and ifonly-bundle catches these panics.
        // libFuzzer's own panic hook would abort.
        std::panic::set_hook(Box::new(|_| {}));
    }
    SELECTED.get_or_init(|| target.run);
}

libfuzzer_sys::fuzz_target!(init: select_target(), |bytes: &[u8]| {
    if let Some(run) = SELECTED.get() {
        run(bytes);
    }
});
