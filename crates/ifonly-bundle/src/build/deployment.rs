//! How a bundle will be served: limits, operators and the schemes that fit them.

use crate::error::BuildError;
use crate::input::table_set;
use crate::options::{BuildOptions, DeploymentOptions};
use ifonly_algebra::field::ModulusRule;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::sealed::SealedScheme;
use ifonly_core::scheme::{self, Scheme, sealed};
use ifonly_values::manifest::{ManifestError, ManifestFields, Operator, SchemeEntry};
use ifonly_values::schema::{Schema, nearest};

/// The manifest's contents for `rows` accepted rows.
pub(crate) fn contents(
    options: &BuildOptions,
    schema: Schema,
    rows: usize,
    record_length: usize,
) -> Result<ManifestFields, BuildError> {
    let wanted = &options.deployment;
    let usual = table_set::dataset_name(options);
    let name = options.name.as_deref().unwrap_or(&usual);
    let mut contents = ManifestFields::new(name, schema, rows, record_length, wanted.servers.unwrap_or(2));
    if let Some(version) = &options.version {
        contents.dataset.version = version.clone();
    }
    wanted.terms.apply(&mut contents.terms);
    if wanted.terms.cost_limit.is_none() {
        contents.terms.cost_limit = contents.usual_cost_limit();
    }
    if !wanted.operators.is_empty() {
        contents.operators = wanted.operators.iter().zip(1..).map(operator).collect();
    }
    if !wanted.epochs.is_empty() {
        contents.key_epochs = wanted.epochs.clone();
    }
    contents.offer_all();
    choose_schemes(&mut contents, wanted)?;
    Ok(contents)
}

fn operator((text, place): (&String, usize)) -> Operator {
    // The manifest refuses more servers than a byte can count.
    let index = u8::try_from(place).unwrap_or(u8::MAX);
    match text.split_once('=') {
        Some((name, url)) => Operator { index, name: name.into(), url: Some(url.into()) },
        None => Operator { index, name: text.clone(), url: None },
    }
}

fn choose_schemes(contents: &mut ManifestFields, wanted: &DeploymentOptions) -> Result<(), BuildError> {
    let named = || wanted.schemes.iter().chain(&wanted.default_scheme);
    for name in named() {
        if !contents.schemes.iter().any(|offer| offer.name == *name) {
            return Err(not_offered(contents, name));
        }
    }
    // Only what is named goes beyond the gated family and the sealed search.
    let little = |name: &str| name == sealed::SCHEME.name || scheme::named(name).is_some_and(Scheme::is_gated);
    let usual = |offer: &SchemeEntry| wanted.schemes.is_empty() && little(&offer.name);
    contents.schemes.retain(|offer| usual(offer) || named().any(|name| *name == offer.name));
    contents.default_scheme = match &wanted.default_scheme {
        Some(name) => name.clone(),
        // One record per search, whoever asks, is the best promise to the institution; three
        // operators can give it.
        None if contents.schemes.iter().any(|offer| offer.name == sealed::SCHEME.name) => {
            sealed::SCHEME.name.to_owned()
        }
        None => {
            let offers = contents.schemes.iter().filter_map(|offer| scheme::named(&offer.name));
            scheme::preferred(offers).ok_or_else(|| not_offered(contents, scheme::DEFAULT.name))?.name.to_owned()
        }
    };
    Ok(())
}

/// Why a scheme is not among the offers: let the manifest's own checks say it.
pub(crate) fn not_offered(contents: &ManifestFields, name: &str) -> BuildError {
    if name == sealed::SCHEME.name {
        return match SealedScheme::new(contents.params()) {
            Err(source) => ManifestError::Deployment { scheme: name.into(), source }.into(),
            Ok(_) => {
                let (need, have) = (sealed::SERVERS, contents.operators.len());
                ManifestError::TooFewOperators { scheme: sealed::SCHEME.name, need, have }.into()
            }
        };
    }
    let Some(scheme) = scheme::named(name) else {
        let near = nearest(name, scheme::ALL.iter().map(|scheme| scheme.name)).map(str::to_owned);
        return ManifestError::UnknownScheme { name: name.into(), nearest: near }.into();
    };
    let nominal = contents.schema.features().iter().find(|feature| feature.is_nominal());
    if let Some(feature) = nominal.filter(|_| !scheme.carries_costs(scheme::CostModel::Table)) {
        return ManifestError::NeedsTables { scheme: scheme.name, feature: feature.name.clone() }.into();
    }
    match SchemeInstance::new(scheme, contents.params(), ModulusRule::Deployment) {
        Err(source) => ManifestError::Deployment { scheme: name.into(), source }.into(),
        Ok(deployment) => {
            let (need, have) = (deployment.servers(), contents.operators.len());
            ManifestError::TooFewOperators { scheme: scheme.name, need, have }.into()
        }
    }
}
