//! Connecting to the servers of a deployment, and searching with a profile and wishes.
//!
//! The client fetches the manifests of all servers at once: the current manifest and, within the
//! grace period after a reload, the previous ones. It uses the newest manifest that all responding
//! servers serve. If there is none, the client sends no query; the error names the manifest of each
//! server. No number of tolerated silent or lying servers changes this rule: these numbers are part
//! of the manifest, so colluding servers in the majority could serve a manifest with a smaller
//! threshold T. A user who knows what to expect can [pin](Pins) it; a manifest that does not match
//! a pin is refused.

use crate::answer::Answer;
use crate::answer::explanation::Explanation;
use crate::error::{ClientError, ServerFailure};
use crate::query::profile::{Profile, ProfileValues};
use crate::query::wish_list::WishList;
use crate::search::pacing::Clock;
use crate::search::run::SearchReport;
use crate::search::{pacing, server_assignment};
use crate::transport::{ManifestResponse, Transport};
use bytes::Bytes;
use futures_util::future::join_all;
use ifonly_core::signature::PublicKey;
use ifonly_values::manifest::{Manifest, OfferedScheme, Operator};
use ifonly_values::wishes::{CompiledWishes, WishError, WishNote, Wishes};
use std::sync::Arc;

/// A checked profile and compiled wishes, ready for a search.
pub(crate) struct PreparedSearch<'a> {
    pub(crate) offered: &'a OfferedScheme,
    pub(crate) profile: Profile,
    pub(crate) wishes: Wishes,
    pub(crate) compiled: CompiledWishes,
}

/// Values that the user requires of a manifest. Nothing is pinned by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pins {
    /// The smallest accepted threshold T, the number of servers that may collude and learn nothing.
    pub threshold: Option<usize>,
    /// The digest of the manifest, 64 hexadecimal digits.
    pub manifest: Option<String>,
    /// The public key that signs the records.
    pub signer: Option<PublicKey>,
    /// The operators in the order of their server indices, each as `NAME` or `NAME=ADDRESS`.
    pub operators: Option<Vec<String>>,
}

impl Pins {
    fn check(&self, manifest: &Manifest) -> Result<(), ClientError> {
        let refuse = |what, pinned: String, offered: String| Err(ClientError::Pinned { what, pinned, offered });
        let offered = manifest.fields().params.threshold;
        if let Some(threshold) = self.threshold.filter(|&threshold| offered < threshold) {
            return refuse("threshold", format!("{threshold} or more"), offered.to_string());
        }
        let digest = hex::encode(manifest.digest());
        if let Some(pinned) = self.manifest.as_ref().filter(|pinned| !pinned.eq_ignore_ascii_case(&digest)) {
            return refuse("manifest digest", pinned.clone(), digest);
        }
        let offered = manifest.fields().signer;
        if let Some(signer) = self.signer.filter(|&signer| offered != Some(signer)) {
            let offered = offered.map_or("unsigned records".into(), |signer| signer.to_string());
            return refuse("signer", signer.to_string(), offered);
        }
        let Some(pinned) = &self.operators else { return Ok(()) };
        let offered = manifest.operators();
        let with_address = |operator: &Operator| match &operator.url {
            Some(url) => format!("{}={url}", operator.name),
            None => operator.name.clone(),
        };
        let same = |(pin, operator): (&String, &Operator)| *pin == operator.name || *pin == with_address(operator);
        match pinned.len() == offered.len() && pinned.iter().zip(offered).all(same) {
            true => Ok(()),
            false => {
                let offered: Vec<String> = offered.iter().map(with_address).collect();
                refuse("operators", pinned.join(", "), offered.join(", "))
            }
        }
    }
}

/// The digest of a manifest, or a text if the manifest is invalid.
fn digest(manifest: &[u8]) -> String {
    let digest = Manifest::from_json(manifest).map(|manifest| hex::encode(manifest.digest()));
    digest.unwrap_or_else(|_| "an invalid manifest".into())
}

/// A connection to the servers of one deployment, all of which serve the same manifest.
pub struct Client {
    pub(crate) manifest: Manifest,
    /// The server with index n is at position n − 1; `None` if it is not connected.
    pub(crate) assigned: Vec<Option<Arc<dyn Transport>>>,
    pub(crate) server_failures: Vec<ServerFailure>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({:?}, {:?})", self.manifest.fields().dataset, self.server_failures)
    }
}

impl Client {
    /// Connects to the servers, given in any order, and checks their manifest against the pins.
    pub async fn connect(servers: Vec<Arc<dyn Transport>>, pins: &Pins) -> Result<Client, ClientError> {
        let responses = join_all(servers.iter().map(|server| server.fetch_manifest())).await;
        let mut responding: Vec<(Arc<dyn Transport>, ManifestResponse)> = vec![];
        let mut server_failures = vec![];
        for (server, response) in servers.into_iter().zip(responses) {
            match response {
                Ok(response) => responding.push((server, response)),
                Err(error) => server_failures.push(ServerFailure { server: server.name(), error }),
            }
        }
        let Some((_, first)) = responding.first() else { return Err(ClientError::NoServerReachable(server_failures)) };
        let served_by_all =
            |json: &&Bytes| responding.iter().all(|(_, other)| other.manifests().any(|other| other == *json));
        let Some(json) = first.manifests().find(served_by_all) else {
            let digests = responding.iter().map(|(server, response)| (server.name(), digest(&response.manifest)));
            return Err(ClientError::ManifestsDiffer(digests.collect()));
        };
        let manifest = Manifest::from_json(json)?;
        pins.check(&manifest)?;
        let (assigned, refused) = server_assignment::assign_servers(responding, &manifest)?;
        server_failures.extend(refused);
        let clock = assigned.iter().flatten().find_map(|server| server.clock());
        Ok(Client { manifest, assigned, server_failures, clock })
    }

    /// The manifest that all servers serve.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Servers that could not be connected or claimed a wrong index, and why.
    pub fn failures(&self) -> &[ServerFailure] {
        &self.server_failures
    }

    /// The number of connected servers.
    pub fn servers(&self) -> usize {
        self.assigned.iter().flatten().count()
    }

    /// Searches for the nearest rows that satisfy the wishes.
    ///
    /// If the profile or a wish is invalid, the client runs a [dummy search](Client::dummy_search)
    /// and then returns the error. The servers have already been contacted, and a client that
    /// stops here would reveal that the input is invalid.
    pub async fn ask(&self, values: &ProfileValues, wishes: &WishList) -> Result<Answer, ClientError> {
        let prepared = match self.prepare(values, wishes) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.dummy_search(wishes).await;
                return Err(self.with_alternative(error, values, wishes));
            }
        };
        let PreparedSearch { offered, ref profile, ref compiled, .. } = prepared;
        let report = self.find(offered, compiled.secret.clone(), wishes.top).await;
        if let Err(ClientError::Secret(_)) = report {
            // No message was sent yet, so this error needs a dummy search like any other.
            self.dummy_search(wishes).await;
        }
        let SearchReport { outcome, traffic, server_failures } = report?;
        let mut found = vec![];
        for near in &outcome.found {
            let explanation = Explanation::new(&self.manifest, &prepared, near)?;
            // Servers cannot filter by the number of changes, so the client does.
            if compiled.accepts(explanation.decoded) {
                found.push(explanation);
            }
        }
        Ok(Answer {
            found,
            requested: wishes.top,
            scheme: offered.scheme().name,
            servers: offered.servers(),
            traffic,
            matching_rows: outcome.matching_rows,
            rows: self.manifest.rows(),
            dataset: self.manifest.fields().dataset.clone(),
            lying_servers: outcome.lying_servers,
            server_failures,
            wishes: wishes.in_words(),
            notes: self.notes(values, profile, &compiled.notes),
        })
    }

    /// Checks a profile and wishes, and returns notes about how they are interpreted. Sends
    /// nothing, so a form may call this as often as it likes.
    pub fn check(&self, values: &ProfileValues, wishes: &WishList) -> Result<Vec<String>, ClientError> {
        let prepared = self.prepare(values, wishes).map_err(|error| self.with_alternative(error, values, wishes))?;
        let PreparedSearch { offered, profile, compiled, .. } = prepared;
        self.new_search(offered, compiled.secret.clone(), wishes.top)?;
        Ok(self.notes(values, &profile, &compiled.notes))
    }

    /// Runs a search without a target. Servers cannot distinguish it from any other search with the
    /// same scheme and the same number of records.
    pub async fn dummy_search(&self, wishes: &WishList) {
        let named = wishes.scheme.as_ref().and_then(|name| self.manifest.scheme(name).ok());
        let offered = named.unwrap_or_else(|| self.manifest.default_scheme());
        // The caller reports its own error, so the result does not matter.
        let _ = self.find(offered, pacing::dummy_query(offered.scheme(), offered.params()), wishes.top).await;
    }

    fn prepare(&self, values: &ProfileValues, wishes: &WishList) -> Result<PreparedSearch<'_>, ClientError> {
        let schema = self.manifest.schema();
        let offered = match &wishes.scheme {
            Some(name) => self.manifest.scheme(name).map_err(ClientError::Scheme)?,
            None => self.manifest.default_scheme(),
        };
        let profile = Profile::new(schema, values)?;
        let wishes = wishes.for_schema(schema)?;
        let compiled = wishes.compile(&profile.encoded, offered.scheme(), offered.params())?;
        Ok(PreparedSearch { offered, profile, wishes, compiled })
    }

    /// Adds to an error about an unsupported wish the name of an offered scheme that supports it.
    /// The search for such a scheme takes time, so it runs after everything that servers see.
    fn with_alternative(&self, error: ClientError, values: &ProfileValues, wishes: &WishList) -> ClientError {
        let ClientError::Wish(WishError::NotCarried { scheme, what, instead }) = error else { return error };
        let named = |other: &OfferedScheme| WishList { scheme: Some(other.scheme().name.into()), ..wishes.clone() };
        let able = self.manifest.schemes().iter().find(|other| self.prepare(values, &named(other)).is_ok());
        let instead = able.map_or(instead, |other| other.scheme().name);
        ClientError::Wish(WishError::NotCarried { scheme, what, instead })
    }

    /// Notes for the user: ignored and missing values, interpreted wishes, failed servers.
    fn notes(&self, values: &ProfileValues, profile: &Profile, wishes: &[WishNote]) -> Vec<String> {
        let schema = self.manifest.schema();
        let unknown = values.unknown(schema);
        let ignored = (!unknown.is_empty())
            .then(|| format!("ignored, because the database has no such column: {}", unknown.join(", ")));
        let missing = profile.missing(schema);
        let wishes = missing.iter().chain(wishes).map(ToString::to_string);
        ignored.into_iter().chain(wishes).chain(self.server_failures.iter().map(ToString::to_string)).collect()
    }
}
