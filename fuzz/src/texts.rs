//! Targets for texts: manifests from servers, the configuration of an operator, the profile of a
//! user.

use crate::world::BUNDLE;
use ifonly_client::{Profile, ProfileValues};
use ifonly_values::manifest::Manifest;

pub(crate) fn manifests(bytes: &[u8]) {
    let Ok(manifest) = Manifest::from_json(bytes) else { return };
    // Clients compare manifests by their bytes, so a manifest has exactly one form.
    assert_eq!(manifest.json().as_bytes(), bytes);
    let again = Manifest::new(manifest.fields().clone()).expect("accepted fields are accepted again");
    assert_eq!(again.digest(), manifest.digest());
}

pub(crate) fn manifest_seeds() -> Vec<Vec<u8>> {
    vec![BUNDLE.manifest().json().as_bytes().to_vec()]
}

#[cfg(feature = "server")]
pub(crate) fn configuration(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(config) = ifonly_server::Config::parse(text) {
        let _ = config.check();
    }
}

#[cfg(feature = "server")]
pub(crate) fn configuration_seeds() -> Vec<Vec<u8>> {
    vec![include_bytes!("../../docs/server.toml").to_vec()]
}

/// The first byte selects the format of the rest.
pub(crate) fn profiles(bytes: &[u8]) {
    let Some((format, bytes)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let values = match format % 4 {
        0 => ProfileValues::from_json(text),
        1 => ProfileValues::from_toml(text),
        2 => ProfileValues::from_csv(text, 1),
        _ => ProfileValues::from_tsv(text, 2),
    };
    if let Ok(values) = values {
        let schema = BUNDLE.manifest().schema();
        if let Ok(profile) = Profile::new(schema, &values) {
            let levels = profile.encoded().iter().map(|encoded| encoded.level);
            assert!(levels.zip(schema.max_levels()).all(|(level, max_level)| level <= max_level));
        }
    }
}

pub(crate) fn profile_seeds() -> Vec<Vec<u8>> {
    [
        "\0{\"age\": 41, \"debt\": -0.5e1, \"the job\": \"baker\", \"risk\": \"low\", \"since\": \"2020-02-29\"}",
        "\u{1}age = 41\ndebt = 1e2\n\"the job\" = \"x\"\nrisk = \"high\"\nsince = \"1970-01-01\"\n",
        "\u{2}age,debt,the job,risk,since\n23,0.5,\"pi,lot\",low,2020-01-31\n",
        "\u{3}age\tdebt\tthe job\trisk\tsince\n1\t2\tx\tlow\t2020-01-01\n23\t0.5\tbaker\tlow\t2020-01-31\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
