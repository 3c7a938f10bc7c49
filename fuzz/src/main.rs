//! One program with all fuzz targets; `IFONLY_FUZZ` names the one to run. With `IFONLY_FUZZ_SEEDS`
//! it writes the inputs to begin with into that folder and ends. `fuzz/run` compiles it and sets
//! both.
//!
//! A target takes whatever bytes come and must end: a panic, an abort, memory without bound or
//! endless work is a fault. Where more must hold of what was accepted, the target asserts it.

#![no_main]

mod answers;
mod files;
mod messages;
mod texts;
mod world;

use std::path::Path;
use std::sync::OnceLock;

/// A target: its name, what it does with bytes, and inputs to begin with.
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
    Target { name: "profiles", run: texts::profiles, seeds: texts::profile_seeds },
    Target { name: "schemas", run: files::schemas, seeds: files::schema_seeds },
    Target { name: "csv", run: files::csv, seeds: files::csv_seeds },
    Target { name: "parquet", run: files::parquet, seeds: files::parquet_seeds },
    Target { name: "stores", run: files::stores, seeds: files::store_seeds },
    Target { name: "bundles", run: files::bundles, seeds: files::bundle_seeds },
];

static CHOSEN: OnceLock<fn(&[u8])> = OnceLock::new();

fn choose() {
    if let Some(folder) = std::env::var_os("IFONLY_FUZZ_SEEDS") {
        for target in TARGETS {
            let folder = Path::new(&folder).join(target.name);
            std::fs::create_dir_all(&folder).expect("a folder for seeds");
            for (number, seed) in (target.seeds)().iter().enumerate() {
                std::fs::write(folder.join(format!("seed-{number}")), seed).expect("a seed");
            }
            println!("{}", target.name);
        }
        std::process::exit(0);
    }
    let name = std::env::var("IFONLY_FUZZ").unwrap_or_default();
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.unwrap_or_else(|| panic!("IFONLY_FUZZ: there is no target {name:?}; fuzz/run lists them"));
    if target.name == "parquet" {
        // The Parquet library panics on some damaged files, which the product catches; the fuzzer's
        // own hook would end there.
        std::panic::set_hook(Box::new(|_| {}));
    }
    CHOSEN.get_or_init(|| target.run);
}

libfuzzer_sys::fuzz_target!(init: choose(), |bytes: &[u8]| {
    if let Some(run) = CHOSEN.get() {
        run(bytes);
    }
});
