//! Meeting the servers: who is who, do they all offer the same, and is it what was promised?
//!
//! A client asks all servers at once for what they offer: their manifest, and for a while after a
//! reload the ones before it. It takes the newest that all of them offer. If there is none, nothing
//! is asked and the error says who says what, however many silent and lying servers the deployment
//! bears: those numbers stand in the manifest itself, and colluding servers that are the most could
//! write into it that fewer of them learn nothing. Whoever was promised something can [pin](Pins)
//! it: a manifest that offers less is refused.

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

/// A question that can be asked.
pub(crate) struct PreparedSearch<'a> {
    pub(crate) offered: &'a OfferedScheme,
    pub(crate) profile: Profile,
    pub(crate) wishes: Wishes,
    pub(crate) compiled: CompiledWishes,
}

/// What a person was promised, and below which they do not ask. Nothing is pinned by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pins {
    /// So many servers together still learn nothing; the manifest's T must be this or more.
    pub threshold: Option<usize>,
    /// The manifest's digest, as 64 hexadecimal digits.
    pub manifest: Option<String>,
    /// Whose key signed the records.
    pub signer: Option<PublicKey>,
    /// Who runs the servers, in the order of their numbers: a name, or `NAME=ADDRESS`.
    pub operators: Option<Vec<String>>,
}

impl Pins {
    fn check(&self, manifest: &Manifest) -> Result<(), ClientError> {
        let refuse = |what, promised: String, offered: String| Err(ClientError::Pinned { what, promised, offered });
        let offered = manifest.fields().terms.threshold;
        if let Some(threshold) = self.threshold.filter(|&threshold| offered < threshold) {
            return refuse("threshold", format!("{threshold} or more"), offered.to_string());
        }
        let digest = hex::encode(manifest.digest());
        if let Some(pinned) = self.manifest.as_ref().filter(|pinned| !pinned.eq_ignore_ascii_case(&digest)) {
            return refuse("manifest digest", pinned.clone(), digest);
        }
        let offered = manifest.fields().signer;
        if let Some(signer) = self.signer.filter(|&signer| offered != Some(signer)) {
            let offered = offered.map_or("records that nobody signed".into(), |signer| signer.to_string());
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

/// What tells manifests apart, sound or not.
fn digest(manifest: &[u8]) -> String {
    let digest = Manifest::from_json(manifest).map(|manifest| hex::encode(manifest.digest()));
    digest.unwrap_or_else(|_| "none that can be right".into())
}

/// Servers that agree about what they offer, and how to ask them.
pub struct Client {
    pub(crate) manifest: Manifest,
    /// Server n at place n − 1; empty where nobody answered.
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
    /// Meets the servers, given in any order.
    pub async fn connect(servers: Vec<Arc<dyn Transport>>, pins: &Pins) -> Result<Client, ClientError> {
        let greetings = join_all(servers.iter().map(|server| server.greet())).await;
        let mut present: Vec<(Arc<dyn Transport>, ManifestResponse)> = vec![];
        let mut server_failures = vec![];
        for (server, greeting) in servers.into_iter().zip(greetings) {
            match greeting {
                Ok(greeting) => present.push((server, greeting)),
                Err(error) => server_failures.push(ServerFailure { server: server.name(), error }),
            }
        }
        let Some((_, first)) = present.first() else { return Err(ClientError::NobodyThere(server_failures)) };
        let offered_by_all =
            |offer: &&Bytes| present.iter().all(|(_, other)| other.offers().any(|other| other == *offer));
        let Some(offer) = first.offers().find(offered_by_all) else {
            let said = present.iter().map(|(server, greeting)| (server.name(), digest(&greeting.manifest))).collect();
            return Err(ClientError::ManifestsDiffer(said));
        };
        let manifest = Manifest::from_json(offer)?;
        pins.check(&manifest)?;
        let (assigned, odd) = server_assignment::assign_servers(present, &manifest)?;
        server_failures.extend(odd);
        let clock = assigned.iter().flatten().find_map(|server| server.clock());
        Ok(Client { manifest, assigned, server_failures, clock })
    }

    /// What they offer.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Who could not be met, and why.
    pub fn failures(&self) -> &[ServerFailure] {
        &self.server_failures
    }

    /// How many servers were met.
    pub fn servers(&self) -> usize {
        self.assigned.iter().flatten().count()
    }

    /// Asks for the nearest rows that fit the wishes. Servers have been met by now, so they must
    /// not see somebody stop because of a mistake in a profile: a question that cannot be is
    /// followed by a [decoy](Client::decoy), and then by its error.
    pub async fn ask(&self, values: &ProfileValues, wishes: &WishList) -> Result<Answer, ClientError> {
        let question = match self.question(values, wishes) {
            Ok(question) => question,
            Err(error) => {
                self.dummy_search(wishes).await;
                return Err(self.advised(error, values, wishes));
            }
        };
        let PreparedSearch { offered, ref profile, ref compiled, .. } = question;
        let report = self.find(offered, compiled.secret.clone(), wishes.top).await;
        if let Err(ClientError::Secret(_)) = report {
            // Nothing was sent for it, so it is a mistake like any other.
            self.dummy_search(wishes).await;
        }
        let SearchReport { outcome, traffic, server_failures } = report?;
        let mut found = vec![];
        for near in &outcome.found {
            let explanation = Explanation::new(&self.manifest, &question, near)?;
            // "At most k changes" is a preference that servers cannot filter by; the client does.
            if compiled.accepts(explanation.decoded) {
                found.push(explanation);
            }
        }
        Ok(Answer {
            found,
            asked: wishes.top,
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

    /// Whether this question can be, and what the person should know about it. Nothing is sent, so
    /// a form may check as often as it likes.
    pub fn check(&self, values: &ProfileValues, wishes: &WishList) -> Result<Vec<String>, ClientError> {
        let question = self.question(values, wishes).map_err(|error| self.advised(error, values, wishes))?;
        let PreparedSearch { offered, profile, compiled, .. } = question;
        self.machine(offered, compiled.secret.clone(), wishes.top)?;
        Ok(self.notes(values, &profile, &compiled.notes))
    }

    /// A search that looks to the servers like any other with this scheme and this number of
    /// records, and looks for nothing.
    pub async fn dummy_search(&self, wishes: &WishList) {
        let named = wishes.scheme.as_ref().and_then(|name| self.manifest.scheme(name).ok());
        let offered = named.unwrap_or_else(|| self.manifest.default_scheme());
        // Whatever comes of it, the person is told about their mistake.
        let _ = self.find(offered, pacing::nobody(offered.scheme(), offered.params()), wishes.top).await;
    }

    fn question(&self, values: &ProfileValues, wishes: &WishList) -> Result<PreparedSearch<'_>, ClientError> {
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

    /// The error with the name of a scheme that these servers offer, where one could carry the
    /// wishes. Looking for it takes time, so it comes after everything that servers see.
    fn advised(&self, error: ClientError, values: &ProfileValues, wishes: &WishList) -> ClientError {
        let ClientError::Wish(WishError::NotCarried { scheme, what, instead }) = error else { return error };
        let named = |offer: &OfferedScheme| WishList { scheme: Some(offer.scheme().name.into()), ..wishes.clone() };
        let able = self.manifest.schemes().iter().find(|offer| self.question(values, &named(offer)).is_ok());
        let instead = able.map_or(instead, |offer| offer.scheme().name);
        ClientError::Wish(WishError::NotCarried { scheme, what, instead })
    }

    /// What the person should know beside the answer.
    fn notes(&self, values: &ProfileValues, profile: &Profile, wishes: &[WishNote]) -> Vec<String> {
        let schema = self.manifest.schema();
        let unknown = values.unknown(schema);
        let ignored = (!unknown.is_empty()).then(|| format!("the database has no {}; ignored", unknown.join(", ")));
        let missing = profile.missing(schema);
        let wishes = missing.iter().chain(wishes).map(ToString::to_string);
        ignored.into_iter().chain(wishes).chain(self.server_failures.iter().map(ToString::to_string)).collect()
    }
}
