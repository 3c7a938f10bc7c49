//! Rows of a bundle as input of `ifonly-lab`, for `ifonly attack` and `ifonly leakage`.

use ifonly_bundle::Bundle;
use ifonly_lab::attack::radix::Target;

/// The bundle as the target of an attack, with every scheme that it offers.
pub fn target(bundle: &Bundle) -> Target {
    let manifest = bundle.manifest();
    Target {
        name: format!("{}, {} rows", manifest.fields().dataset.name, manifest.rows()),
        params: manifest.fields().params(),
        rows: bundle.rows().levels().collect(),
        schemes: manifest.instances().map(|instance| instance.scheme()).collect(),
    }
}

/// The rows of a bundle as levels.
pub fn levels(bundle: &Bundle) -> Vec<Vec<u32>> {
    bundle.rows().levels().map(|row| row.into_iter().map(u32::from).collect()).collect()
}
