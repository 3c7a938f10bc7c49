//! The deployment part of a manifest: limits, operators and the schemes to offer.

use crate::error::{BuildError, COST_BITS};
use crate::input::table_set;
use crate::options::{BuildOptions, DeploymentOptions};
use ifonly_core::scheme::{self, Scheme, kind};
use ifonly_values::manifest::{ManifestError, ManifestFields, OfferedScheme, Operator, SchemeEntry};
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
    fields.params.cost_limit = match (wanted.terms.cost_limit, wanted.cost_bits) {
        (Some(limit), None) => limit,
        (None, None) => fields.usual_cost_limit(),
        (None, Some(bits)) if COST_BITS.contains(&bits.into()) => fields.cost_limit_of_bits(bits),
        (None, Some(bits)) => return Err(BuildError::CostBits { bits }),
        (Some(_), Some(_)) => return Err(BuildError::CostLimitTwice),
    };
    if !wanted.operators.is_empty() {
        fields.operators = wanted.operators.iter().zip(1..).map(operator).collect();
    }
    if !wanted.key_epochs.is_empty() {
        fields.key_epochs = wanted.key_epochs.clone();
    }
    fields.offer_all();
    choose_schemes(&mut fields, wanted)?;
    // A sealed search gives one record, unless the institution allows more.
    if wanted.terms.top_limit.is_none() && fields.schemes.iter().any(is_joint) {
        fields.params.top_limit = 1;
    }
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

/// Whether the servers of a scheme compute the result together.
fn is_joint(entry: &SchemeEntry) -> bool {
    kind::find(&entry.name).is_some_and(Scheme::is_joint)
}

fn choose_schemes(fields: &mut ManifestFields, wanted: &DeploymentOptions) -> Result<(), BuildError> {
    let named = || wanted.schemes.iter().chain(&wanted.default_scheme);
    for name in named() {
        if !fields.schemes.iter().any(|entry| entry.name == *name) {
            return Err(not_offered(fields, name));
        }
    }
    // The sealed search alone, if three operators can run it: every other scheme gives a client
    // that breaks the protocol bits of every row. Otherwise the gated schemes. Others must be
    // named.
    // Only scans tolerate silent or lying servers and verify answers: these settings ask for scans.
    let params = &fields.params;
    let asks_for_scans = params.silent + params.lying > 0 || params.verified;
    let has_joint = fields.schemes.iter().any(is_joint);
    let is_default_offer = |entry: &SchemeEntry| {
        let is_gated = || scheme::named(&entry.name).is_some_and(Scheme::is_gated) && params.floor <= 1;
        is_joint(entry) || (!has_joint || asks_for_scans) && is_gated()
    };
    let is_default = |entry: &SchemeEntry| wanted.schemes.is_empty() && is_default_offer(entry);
    fields.schemes.retain(|entry| is_default(entry) || named().any(|name| *name == entry.name));
    fields.default_scheme = match &wanted.default_scheme {
        Some(name) => name.clone(),
        // A sealed search reveals one record per search even to a client that cheats: the strongest
        // protection of the rows. It needs three operators.
        None => {
            let joint = fields.schemes.iter().find(|entry| is_joint(entry)).and_then(|entry| kind::find(&entry.name));
            let offered = fields.schemes.iter().filter_map(|entry| scheme::named(&entry.name));
            let best = joint.or_else(|| scheme::preferred(offered));
            best.ok_or_else(|| not_offered(fields, scheme::DEFAULT.name))?.name.to_owned()
        }
    };
    Ok(())
}

/// The error that explains why a scheme cannot be offered, as the checks of the manifest report it.
pub(crate) fn not_offered(fields: &ManifestFields, name: &str) -> BuildError {
    let Some(scheme) = kind::find(name) else {
        let near = nearest(name, kind::every().map(|scheme| scheme.name)).map(str::to_owned);
        return ManifestError::UnknownScheme { name: name.into(), nearest: near }.into();
    };
    let nominal = fields.schema.features().iter().find(|feature| feature.is_nominal());
    if let Some(feature) = nominal.filter(|_| !scheme.supports_costs(scheme::CostModel::Table)) {
        return ManifestError::NeedsTables { scheme: scheme.name, feature: feature.name.clone() }.into();
    }
    match OfferedScheme::usual(scheme, fields.params()) {
        Err(source) => ManifestError::Scheme { scheme: name.into(), source }.into(),
        Ok(offered) => {
            let (need, have) = (offered.servers(), fields.operators.len());
            ManifestError::TooFewOperators { scheme: scheme.name, need, have }.into()
        }
    }
}
