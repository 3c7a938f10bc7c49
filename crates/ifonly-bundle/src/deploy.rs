//! How a bundle will be served: limits, operators and the schemes that fit them.

use crate::error::BuildError;
use crate::options::{BuildOptions, DeploymentOptions};
use ifonly_core::deployment::Deployment;
use ifonly_core::manifest::{Contents, ManifestError};
use ifonly_core::prime::FieldRule;
use ifonly_core::schema::{Schema, nearest};
use ifonly_core::scheme;

/// The manifest's contents for `rows` accepted rows.
pub(crate) fn contents(
    options: &BuildOptions,
    schema: Schema,
    rows: usize,
    record_length: usize,
) -> Result<Contents, BuildError> {
    let wanted = &options.deployment;
    let stem = options.data.file_stem().unwrap_or_default().to_string_lossy();
    let name = options.name.as_deref().unwrap_or(&stem);
    let mut contents = Contents::new(name, schema, rows, record_length, wanted.servers.unwrap_or(2));
    fn set<T: Clone>(field: &mut T, wanted: &Option<T>) {
        if let Some(value) = wanted {
            *field = value.clone();
        }
    }
    set(&mut contents.dataset.version, &options.version);
    set(&mut contents.threshold, &wanted.threshold);
    set(&mut contents.silent, &wanted.silent);
    set(&mut contents.lying, &wanted.lying);
    set(&mut contents.shuffle, &wanted.shuffle);
    set(&mut contents.verified, &wanted.verified);
    set(&mut contents.weight_limit, &wanted.weight_limit);
    set(&mut contents.immutable_limit, &wanted.immutable_limit);
    set(&mut contents.mask, &wanted.mask);
    set(&mut contents.exponent, &wanted.exponent);
    set(&mut contents.top_limit, &wanted.top_limit);
    contents.cost_limit = wanted.cost_limit.unwrap_or(contents.usual_cost_limit());
    if !wanted.operators.is_empty() {
        contents.operators = wanted.operators.clone();
    }
    if !wanted.epochs.is_empty() {
        contents.epochs = wanted.epochs.clone();
    }
    contents.offer_all();
    choose_schemes(&mut contents, wanted)?;
    Ok(contents)
}

fn choose_schemes(contents: &mut Contents, wanted: &DeploymentOptions) -> Result<(), BuildError> {
    for name in &wanted.schemes {
        if !contents.schemes.iter().any(|offer| offer.name == *name) {
            return Err(not_offered(contents, name));
        }
    }
    if !wanted.schemes.is_empty() {
        contents.schemes.retain(|offer| wanted.schemes.contains(&offer.name));
    }
    let offered = |name: &&str| contents.schemes.iter().any(|offer| offer.name == **name);
    contents.default_scheme = match &wanted.default_scheme {
        Some(name) if offered(&name.as_str()) => name.clone(),
        Some(name) => return Err(not_offered(contents, name)),
        None => {
            // The recommended one, or else the one that tells the user least.
            let preferred = [scheme::DEFAULT.name, "gated-costs", "gated-ranges+", "gated+", "gated-ranges", "gated"];
            let first = contents.schemes.first().map(|offer| offer.name.as_str());
            let chosen = preferred.into_iter().find(offered).or(first);
            chosen.ok_or_else(|| not_offered(contents, scheme::DEFAULT.name))?.to_owned()
        }
    };
    Ok(())
}

/// Why a scheme is not among the offers: let the manifest's own checks say it.
pub(crate) fn not_offered(contents: &Contents, name: &str) -> BuildError {
    let Some(scheme) = scheme::named(name) else {
        let near = nearest(name, scheme::ALL.iter().map(|scheme| scheme.name)).map(str::to_owned);
        return ManifestError::UnknownScheme { name: name.into(), nearest: near }.into();
    };
    let nominal = contents.schema.features().iter().find(|feature| feature.is_nominal());
    if let Some(feature) = nominal.filter(|_| scheme.metric != scheme::Metric::Table) {
        return ManifestError::NeedsTables { scheme: scheme.name, feature: feature.name.clone() }.into();
    }
    match Deployment::new(scheme, contents.params(), FieldRule::Deployment) {
        Err(source) => ManifestError::Deployment { scheme: name.into(), source }.into(),
        Ok(deployment) => {
            let (need, have) = (deployment.servers(), contents.operators.len());
            ManifestError::TooFewOperators { scheme: scheme.name, need, have }.into()
        }
    }
}
