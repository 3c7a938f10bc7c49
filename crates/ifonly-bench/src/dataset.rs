//! Random rows, a random profile, and the cost of the nearest row by brute force.

use crate::BenchError;
use crate::kernels::BenchOptions;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_bundle::Bundle;
use ifonly_client::{Profile, ProfileValues, WishList};
use ifonly_core::cost_check::confirm_under;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::sealed::SealedScheme;
use ifonly_core::scheme::{ConstraintKind, CostModel, Scheme, kind};
use ifonly_core::search::SearchResult;
use ifonly_core::secret_query::SecretQuery;
use ifonly_scan::RowStore;
use ifonly_values::manifest::{Manifest, ManifestFields, OfferedScheme, SchemeEntry};
use ifonly_values::record::{self, Record};
use ifonly_values::schema::{Feature, FeatureKind, Scale, Schema, Value};

/// How an answer lists the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowOrder {
    /// In a new random order for every search, the default of deployments.
    Shuffled,
    /// In the order of the row store.
    Stored,
}

/// Random rows and one query with a known result.
#[derive(Debug)]
pub struct BenchDataset {
    /// A manifest that offers only the measured scheme.
    pub manifest: Manifest,
    /// The profile of the query.
    pub values: ProfileValues,
    /// The wishes of the query: the first feature must not change, if the scheme has constraints.
    pub wishes: WishList,
    /// The profile and the wishes, compiled for the scheme.
    pub secret: SecretQuery,
    levels: Vec<u16>,
    nearest: Option<u64>,
}

impl BenchDataset {
    /// Draws rows and a profile from the seed of the options.
    pub fn make(options: &BenchOptions, scheme: &str, order: RowOrder) -> Result<BenchDataset, BenchError> {
        let unknown = || BenchError::input(format!("unknown scheme {scheme:?}; docs/schemes.md lists all schemes"));
        let scheme = kind::find(scheme).ok_or_else(unknown)?;
        let (max_level, columns) = (options.max_level, options.features);
        let kind = FeatureKind::from(Scale::whole_numbers(0, max_level.into()).map_err(BenchError::input)?);
        let features = (0..columns).map(|k| Feature::new(feature_name(k), kind.clone())).collect();
        let schema = Schema::new(features).map_err(BenchError::input)?;
        let mut random = SeededRandom::new(options.seed);
        let mut level = || random.below(u64::from(max_level) + 1) as u16;
        let levels: Vec<u16> = (0..options.rows * columns).map(|_| level()).collect();
        let values = profile_values((0..columns).map(|_| level()));
        let profile = Profile::new(&schema, &values)?;
        let manifest = manifest(options, scheme, order, schema)?;
        let mut wishes = WishList::default();
        if scheme.constraint != ConstraintKind::None {
            wishes.immutable.push(feature_name(0));
        }
        let params = manifest.fields().params();
        let compiled = wishes.for_schema(manifest.schema()).map_err(BenchError::machine)?;
        let compiled = compiled.compile(profile.encoded(), scheme, &params).map_err(BenchError::machine)?;
        let secret = compiled.secret;
        let costs = levels.chunks_exact(columns).filter_map(|row| secret.plain_cost(scheme, &params, row));
        let nearest = if scheme.cost_model == CostModel::Product { costs.max() } else { costs.min() };
        Ok(BenchDataset { manifest, values, wishes, secret, levels, nearest })
    }

    /// The scheme instance of the measured scheme, which must not be the sealed search.
    pub fn instance(&self) -> Result<&std::sync::Arc<SchemeInstance>, BenchError> {
        let scanned = self.manifest.default_scheme().scans();
        scanned.ok_or_else(|| BenchError::machine("servers do not scan in a sealed search"))
    }

    /// The sealed scheme, which must be the measured one.
    pub fn sealed(&self) -> Result<&std::sync::Arc<SealedScheme>, BenchError> {
        self.manifest.sealed().ok_or_else(|| BenchError::machine("the manifest does not offer sealed searches"))
    }

    fn rows(&self) -> impl ExactSizeIterator<Item = &[u16]> {
        self.levels.chunks_exact(self.manifest.schema().features().len())
    }

    /// A new bundle of the rows, in memory of its own.
    pub fn bundle(&self) -> Result<Bundle, BenchError> {
        let length = self.manifest.record_length();
        let mut records = Vec::with_capacity(length * self.manifest.rows());
        let numbers: Vec<String> = (0..=u16::MAX).map(|level| level.to_string()).collect();
        let mut texts: Vec<&str> = vec![];
        for row in self.rows() {
            texts.clear();
            texts.extend(row.iter().map(|&level| numbers[usize::from(level)].as_str()));
            records.extend(record::encode(&texts, length).map_err(BenchError::machine)?);
        }
        let rows = RowStore::build(&self.manifest.schema().max_levels(), self.rows()).map_err(BenchError::machine)?;
        Bundle::in_memory(self.manifest.clone(), rows, records).map_err(BenchError::machine)
    }

    /// The confirmed cost of the row that a search found; `None` if no row matches.
    pub fn confirmed_cost(&self, result: &SearchResult) -> Result<Option<u64>, BenchError> {
        let Some(found) = result.found.first() else { return Ok(None) };
        let schema = self.manifest.schema();
        let record = Record::decode(schema, &found.record).map_err(BenchError::machine)?;
        let levels = record.levels(schema).map_err(BenchError::machine)?;
        let (scheme, params) = (self.manifest.default_scheme().scheme(), self.manifest.fields().params());
        confirm_under(scheme, &params, &self.secret, found, &levels).map(Some).map_err(BenchError::machine)
    }

    /// Compares the cost that a search found with brute force.
    pub fn check(&self, found: Option<u64>) -> Result<(), BenchError> {
        if found == self.nearest {
            Ok(())
        } else {
            let nearest = self.nearest;
            Err(BenchError::machine(format!("the search found cost {found:?}, but brute force finds {nearest:?}")))
        }
    }
}

fn feature_name(k: usize) -> String {
    format!("feature {k}")
}

/// A profile with these levels, which are also its values.
pub fn profile_values(levels: impl IntoIterator<Item = u16>) -> ProfileValues {
    levels.into_iter().enumerate().map(|(k, level)| (feature_name(k), Value::Number(level.into()))).collect()
}

/// The manifest of a deployment for one scheme, with as many servers as the scheme needs.
fn manifest(
    options: &BenchOptions,
    scheme: &'static Scheme,
    order: RowOrder,
    schema: Schema,
) -> Result<Manifest, BenchError> {
    // A record holds its row as text, even if shorter records were requested.
    let text_length = options.features * (2 + options.max_level.to_string().len());
    let record_length = text_length.max(options.record_bytes);
    let mut fields = ManifestFields::new("bench", schema, options.rows, record_length, 1);
    // N = T + 1 where the scheme is linear in the shares, so this gives the requested number N.
    fields.params.threshold = options.servers - 1;
    fields.params.shuffle = order == RowOrder::Shuffled;
    let offered = OfferedScheme::usual(scheme, fields.params()).map_err(BenchError::input)?;
    let servers = u8::try_from(offered.servers()).map_err(BenchError::input)?;
    fields.schemes = vec![SchemeEntry::of(&*offered)];
    fields.default_scheme = scheme.name.into();
    fields.operators = ManifestFields::new("", fields.schema.clone(), 1, 1, servers).operators;
    Manifest::new(fields).map_err(BenchError::input)
}
