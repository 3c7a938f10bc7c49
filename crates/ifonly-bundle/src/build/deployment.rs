//! The deployment part of a manifest: limits, operators and the schemes to offer.

use crate::error::BuildError;
use crate::input::table_set;
use crate::options::{BuildOptions, DeploymentOptions};
use ifonly_algebra::field::ModulusRule;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::sealed::SealedScheme;
use ifonly_core::scheme::{self, Scheme, sealed};
use ifonly_values::manifest::{ManifestError, ManifestFields, Operator, SchemeEntry};
use ifonly_values::schema::{Schema, nearest};

/// The fields of the manifest for `rows` accepted rows.
pub(crate) fn manifest_fields(
    options: &BuildOptions,
    schema: Schema,
    rows: usize,
    record_length: usize,
) -> Result<ManifestFields, BuildError> {
    let wanted = &options.deployment;
    let default_name = table_set::dataset_name(options);
    let name = options.name.as_deref().unwrap_or(&default_name);
    let mut fields = ManifestFields::new(name, schema, rows, record_length, wanted.servers.unwrap_or(2));
    if let Some(version) = &options.version {
        fields.dataset.version = version.clone();
    }
    wanted.terms.apply(&mut fields.params);
    if wanted.terms.cost_limit.is_none() {
        fields.params.cost_limit = fields.usual_cost_limit();
    }
    if !wanted.operators.is_empty() {
        fields.operators = wanted.operators.iter().zip(1..).map(operator).collect();
    }
    if !wanted.key_epochs.is_empty() {
        fields.key_epochs = wanted.key_epochs.clone();
    }
    fields.offer_all();
    choose_schemes(&mut fields, wanted)?;
    Ok(fields)
}

fn operator((text, number): (&String, usize)) -> Operator {
    // A manifest with more than 255 servers is refused later.
    let index = u8::try_from(number).unwrap_or(u8::MAX);
    match text.split_once('=') {
        Some((name, url)) => Operator { index, name: name.into(), url: Some(url.into()) },
        None => Operator { index, name: text.clone(), url: None },
    }
}

fn choose_schemes(fields: &mut ManifestFields, wanted: &DeploymentOptions) -> Result<(), BuildError> {
    let named = || wanted.schemes.iter().chain(&wanted.default_scheme);
    for name in named() {
        if !fields.schemes.iter().any(|entry| entry.name == *name) {
            return Err(not_offered(fields, name));
        }
    }
    // By default only gated schemes and the sealed search are offered; others must be named.
    let is_default_offer =
        |name: &str| name == sealed::SCHEME.name || scheme::named(name).is_some_and(Scheme::is_gated);
    let is_default = |entry: &SchemeEntry| wanted.schemes.is_empty() && is_default_offer(&entry.name);
    fields.schemes.retain(|entry| is_default(entry) || named().any(|name| *name == entry.name));
    fields.default_scheme = match &wanted.default_scheme {
        Some(name) => name.clone(),
        // A sealed search reveals one record per search even to a client that cheats: the strongest
        // protection of the rows. It needs three operators.
        None if fields.schemes.iter().any(|entry| entry.name == sealed::SCHEME.name) => sealed::SCHEME.name.to_owned(),
        None => {
            let offered = fields.schemes.iter().filter_map(|entry| scheme::named(&entry.name));
            scheme::preferred(offered).ok_or_else(|| not_offered(fields, scheme::DEFAULT.name))?.name.to_owned()
        }
    };
    Ok(())
}

/// The error that explains why a scheme cannot be offered, as the checks of the manifest report it.
pub(crate) fn not_offered(fields: &ManifestFields, name: &str) -> BuildError {
    if name == sealed::SCHEME.name {
        return match SealedScheme::new(fields.params()) {
            Err(source) => ManifestError::Scheme { scheme: name.into(), source }.into(),
            Ok(_) => {
                let (need, have) = (sealed::SERVERS, fields.operators.len());
                ManifestError::TooFewOperators { scheme: sealed::SCHEME.name, need, have }.into()
            }
        };
    }
    let Some(scheme) = scheme::named(name) else {
        let near = nearest(name, scheme::ALL.iter().map(|scheme| scheme.name)).map(str::to_owned);
        return ManifestError::UnknownScheme { name: name.into(), nearest: near }.into();
    };
    let nominal = fields.schema.features().iter().find(|feature| feature.is_nominal());
    if let Some(feature) = nominal.filter(|_| !scheme.carries_costs(scheme::CostModel::Table)) {
        return ManifestError::NeedsTables { scheme: scheme.name, feature: feature.name.clone() }.into();
    }
    match SchemeInstance::new(scheme, fields.params(), ModulusRule::Deployment) {
        Err(source) => ManifestError::Scheme { scheme: name.into(), source }.into(),
        Ok(instance) => {
            let (need, have) = (instance.servers(), fields.operators.len());
            ManifestError::TooFewOperators { scheme: scheme.name, need, have }.into()
        }
    }
}
