//! Connecting to the servers of a deployment, and searching with a profile and wishes.
//!
//! The client fetches the manifests of all servers at once: the current manifest and, within the
//! grace period after a reload, the previous ones. It uses the newest manifest that all responding
//! servers serve. If there is none, the client sends no query; the error names the manifest of each
//! server. No number of tolerated silent or lying servers changes this rule: these numbers are part
//! of the manifest, so colluding servers in the majority could serve a manifest with a smaller
//! threshold T. A user who knows what to expect can [pin](Pins) it; a manifest that does not match
//! a pin is refused. Servers with different root keys are refused too ([`crate::search`]).

use crate::error::{ClientError, ServerFailure};
use crate::query::profile::{Profile, ProfileValues};
use crate::query::wish_list::WishList;
use crate::search::pacing::Clock;
use crate::search::run::PreparedSearch;
use crate::search::server_assignment::RespondingServer;
use crate::search::{root_keys, server_assignment};
use crate::transport::credential::CredentialSource;
use crate::transport::{ManifestResponse, ServedManifest, Transport, response};
use futures_util::future::join_all;
use ifonly_algebra::fingerprint::KeyFingerprint;
use ifonly_core::http_api::read_fingerprint;
use ifonly_core::signature::PublicKey;
use ifonly_values::manifest::{Manifest, OfferedScheme, Operator};
use ifonly_values::message::{Coded, CodedMessage};
use ifonly_values::schema::EncodedValue;
use ifonly_values::wishes::{CompiledWishes, WishError, WishNote, Wishes};
use std::sync::Arc;
use std::time::Duration;

/// What servers see of a question, within their limits. What is refused after this must look to
/// the servers like any other question.
#[derive(Clone, Copy)]
pub(crate) struct PublicPart<'a> {
    pub(crate) offered: &'a OfferedScheme,
    /// Rows to find in each search.
    pub(crate) top: usize,
    /// Number of searches.
    pub(crate) ways: usize,
}

/// A checked profile and compiled wishes: what a result is explained with.
pub(crate) struct PreparedQuestion<'a> {
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
    /// Whether two servers may have the same host or certificate key, for trials. One operator then
    /// receives two shares.
    pub allow_same_host: bool,
}

impl Pins {
    /// Checks that no two servers have the same host, because one operator would receive two shares
    /// of a query. Trials on this machine are allowed.
    pub fn check_hosts(&self, addresses: &[String]) -> Result<(), ClientError> {
        let hosts: Vec<String> = addresses.iter().map(|address| response::host(address)).collect();
        if self.allow_same_host || hosts.iter().all(|host| response::is_loopback(host)) {
            return Ok(());
        }
        for (position, host) in hosts.iter().enumerate() {
            if let Some(earlier) = hosts[..position].iter().position(|other| other == host) {
                let (first, second) = (addresses[earlier].clone(), addresses[position].clone());
                return Err(ClientError::SameHost { host: host.clone(), first, second });
            }
        }
        Ok(())
    }

    /// Checks that no two servers have certificates for one key: its owner would receive two shares
    /// of a query. The exceptions are those of [`check_hosts`](Pins::check_hosts).
    fn check_certificate_keys(&self, servers: &[(Arc<dyn Transport>, ManifestResponse)]) -> Result<(), ClientError> {
        let is_local = |server: &Arc<dyn Transport>| {
            server.address().is_some_and(|address| response::is_loopback(&response::host(&address)))
        };
        if self.allow_same_host || servers.iter().all(|(server, _)| is_local(server)) {
            return Ok(());
        }
        for (position, (server, _)) in servers.iter().enumerate() {
            let Some(key) = server.certificate_key() else { continue };
            let has_key = |(other, _): &&(Arc<dyn Transport>, _)| other.certificate_key() == Some(key);
            if let Some((earlier, _)) = servers[..position].iter().find(has_key) {
                return Err(ClientError::SameCertificateKey { first: earlier.name(), second: server.name() });
            }
        }
        Ok(())
    }

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
        if pinned.len() == offered.len() && pinned.iter().zip(offered).all(same) {
            Ok(())
        } else {
            let offered: Vec<String> = offered.iter().map(with_address).collect();
            refuse("operators", pinned.join(", "), offered.join(", "))
        }
    }
}

/// The digest of a manifest, or a text if the manifest is invalid.
fn digest(manifest: &[u8]) -> String {
    let digest = Manifest::from_json(manifest).map(|manifest| hex::encode(manifest.digest()));
    digest.unwrap_or_else(|_| "an invalid manifest".into())
}

/// Why a search could not be prepared.
pub(crate) struct PrepareFailure {
    /// In a box, because a `ClientError` is large and every success would carry its size.
    pub(crate) error: Box<ClientError>,
    /// Whether the tables were compiled before the error was found.
    pub(crate) is_compiled: bool,
}

impl From<ClientError> for PrepareFailure {
    fn from(error: ClientError) -> PrepareFailure {
        PrepareFailure { error: Box::new(error), is_compiled: false }
    }
}

pub(crate) fn compile(
    wishes: &Wishes,
    own: &[EncodedValue],
    offered: &OfferedScheme,
) -> Result<CompiledWishes, WishError> {
    #[cfg(test)]
    tests::COMPILED.set(tests::COMPILED.get() + 1);
    wishes.compile(own, offered.scheme(), offered.params())
}

/// A connection to the servers of one deployment, all of which serve the same manifest. Their root
/// keys have been compared.
pub struct Client {
    pub(crate) manifest: Manifest,
    /// The fingerprint of the servers' current root key.
    key_fingerprint: Option<KeyFingerprint>,
    /// The server with index n is at position n − 1; `None` if it is not connected.
    pub(crate) assigned: Vec<Option<Arc<dyn Transport>>>,
    pub(crate) server_failures: Vec<ServerFailure>,
    /// Indices, from 1, of servers that claimed another index.
    pub(crate) misnumbered: Vec<usize>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// When the manifests arrived, by the clock.
    pub(crate) arrived: Option<Duration>,
    pub(crate) credentials: Option<Arc<dyn CredentialSource>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({:?}, {:?})", self.manifest.fields().dataset, self.server_failures)
    }
}

impl Client {
    /// Connects to the servers, given in any order, and checks their manifest against the pins.
    pub async fn connect(servers: Vec<Arc<dyn Transport>>, pins: &Pins) -> Result<Client, ClientError> {
        pins.check_hosts(&servers.iter().filter_map(|server| server.address()).collect::<Vec<_>>())?;
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
        pins.check_certificate_keys(&responding)?;
        let all_serve =
            |served: &&ServedManifest| responding.iter().all(|(_, other)| other.serves(&served.json).is_some());
        let Some(ServedManifest { json, .. }) = first.manifests().find(all_serve) else {
            let digests = responding.iter().map(|(server, response)| (server.name(), digest(&response.manifest.json)));
            return Err(ClientError::ManifestsDiffer(digests.collect()));
        };
        let manifest = Manifest::from_json(json)?;
        pins.check(&manifest)?;
        let epoch = manifest.header_context().epoch;
        let responding = responding.iter().map(|(server, response)| {
            let fingerprint =
                response.serves(json).and_then(|served| read_fingerprint(&served.key_fingerprints, epoch));
            RespondingServer { server: server.clone(), index: response.index, fingerprint }
        });
        let (assigned, refused, misnumbered) = server_assignment::assign_servers(responding.collect(), &manifest)?;
        server_failures.extend(refused);
        let params = &manifest.fields().params;
        let tolerated = params.silent + params.lying;
        let key_fingerprint = root_keys::compare(assigned.iter().flatten(), epoch, tolerated)?;
        let assigned: Vec<_> = assigned.into_iter().map(|assigned| assigned.map(|assigned| assigned.server)).collect();
        let clock = assigned.iter().flatten().find_map(|server| server.clock());
        let arrived = clock.as_ref().map(|clock| clock.now());
        Ok(Client {
            manifest,
            key_fingerprint,
            assigned,
            server_failures,
            misnumbered,
            clock,
            arrived,
            credentials: None,
        })
    }

    /// Takes the credentials of every search from `source`.
    pub fn with_credentials(self, source: Arc<dyn CredentialSource>) -> Client {
        Client { credentials: Some(source), ..self }
    }

    /// The manifest that all servers serve.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The fingerprint of the servers' current root key, which they publish.
    pub fn key_fingerprint(&self) -> Option<KeyFingerprint> {
        self.key_fingerprint
    }

    /// Servers that could not be connected or claimed a wrong index, and why.
    pub fn failures(&self) -> &[ServerFailure] {
        &self.server_failures
    }

    /// Checks that manifest and root key of all servers have been compared. A search needs this
    /// only of the servers that its scheme uses.
    pub fn check_all_compared(&self) -> Result<(), ClientError> {
        let missing: Vec<usize> = (1..=self.manifest.servers()).filter(|n| self.assigned[n - 1].is_none()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(ClientError::NotCompared { missing, server_failures: self.server_failures.clone() })
    }

    /// The number of connected servers.
    pub fn servers(&self) -> usize {
        self.assigned.iter().flatten().count()
    }

    /// Checks a profile and wishes, and returns notes about how they are interpreted. Sends
    /// nothing, so a form may call this as often as it likes.
    pub fn check(&self, values: &ProfileValues, wishes: &WishList) -> Result<Vec<CodedMessage>, ClientError> {
        let prepared = self.prepare(&self.public_part(wishes)?, values, wishes);
        let (question, _) = prepared.map_err(|failure| *failure.error)?;
        Ok(self.notes(values, &question.profile, &question.compiled.notes))
    }

    /// Compiles tables for a profile of lowest levels and discards them. Compiling takes time in
    /// wide schemas, so without this the first message of a dummy search would depart earlier.
    pub(crate) fn compile_dummy(&self, offered: &OfferedScheme) {
        let schema = self.manifest.schema();
        std::hint::black_box(compile(&Wishes::new(schema), &schema.lowest_levels(), offered).is_ok());
    }

    /// The public part of a question. A scheme that is not offered is replaced by the default,
    /// because the servers already expect a search; [`prepare`](Client::prepare) refuses it.
    pub(crate) fn public_part(&self, wishes: &WishList) -> Result<PublicPart<'_>, ClientError> {
        let ways = wishes.searches()?;
        let named = wishes.scheme.as_ref().and_then(|name| self.manifest.scheme(name).ok());
        let offered = named.unwrap_or_else(|| self.manifest.default_scheme());
        self.check_limits(offered, wishes.top)?;
        Ok(PublicPart { offered, top: wishes.top, ways })
    }

    /// Checks the profile, the wishes and the name of the scheme, and returns the first search.
    pub(crate) fn prepare<'a>(
        &'a self,
        public: &PublicPart<'a>,
        values: &ProfileValues,
        wishes: &WishList,
    ) -> Result<(PreparedQuestion<'a>, PreparedSearch), PrepareFailure> {
        let (schema, offered) = (self.manifest.schema(), public.offered);
        if let Some(name) = &wishes.scheme {
            self.manifest.scheme(name).map_err(ClientError::Scheme)?;
        }
        let profile = Profile::new(schema, values)?;
        let wishes = wishes.for_schema(schema).map_err(ClientError::Wish)?;
        // An error recommends the default scheme if it supports the wishes.
        let others = std::iter::once(self.manifest.default_scheme()).chain(self.manifest.schemes());
        let others = others.map(|other| other.scheme());
        wishes.check_supported(offered.scheme(), others).map_err(ClientError::Wish)?;
        let compiled = compile(&wishes, &profile.encoded, offered).map_err(ClientError::Wish);
        let prepared = compiled.and_then(|compiled| {
            let search = self.new_search(offered, compiled.secret.clone(), public.top)?;
            Ok((PreparedQuestion { offered, profile, wishes, compiled }, search))
        });
        prepared.map_err(|error| PrepareFailure { error: error.into(), is_compiled: true })
    }

    /// Notes for the user: ignored and missing values, interpreted wishes.
    pub(crate) fn notes(&self, values: &ProfileValues, profile: &Profile, wishes: &[WishNote]) -> Vec<CodedMessage> {
        let schema = self.manifest.schema();
        let columns: Vec<String> = values.unknown(schema).into_iter().map(String::from).collect();
        let ignored = (!columns.is_empty()).then_some(WishNote::Ignored { columns });
        ignored.iter().chain(&profile.missing(schema)).chain(wishes).map(Coded::coded).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{Exchange, ResponseSink, ServerRequest, TransportError, TransportFuture};
    use bytes::Bytes;
    use ifonly_values::manifest::ManifestFields;
    use ifonly_values::schema::{Feature, FeatureKind, Quantiser, Scale, Schema};
    use ifonly_values::wishes::Metric;
    use std::cell::Cell;

    thread_local! {
        /// How often this thread has compiled tables.
        pub(super) static COMPILED: Cell<usize> = const { Cell::new(0) };
    }

    /// A server with a manifest that refuses every message.
    struct ManifestOnly(u8, Bytes);

    impl Exchange for ManifestOnly {
        fn name(&self) -> String {
            self.0.to_string()
        }

        fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
            Box::pin(async { Ok(ManifestResponse::of(self.0, self.1.clone())) })
        }

        fn send<'a>(&'a self, _: ServerRequest, _: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
            Box::pin(async { Err(TransportError::ConnectionRefused) })
        }
    }

    #[tokio::test]
    async fn tables_are_compiled_once_before_the_first_message_whether_the_input_is_valid_or_not() {
        let kind = || FeatureKind::from(Scale::levels(0.0, 9.0, 9, Quantiser::Round).unwrap());
        let names: Vec<String> = (0..200).map(|k| format!("f{k}")).collect();
        let schema = Schema::new(names.iter().map(|name| Feature::new(name, kind())).collect()).unwrap();
        let mut fields = ManifestFields::new("wide", schema, 9, 64, 2);
        fields.params.immutable_limit = 1;
        let json = Bytes::from(Manifest::new(fields).unwrap().json().to_owned());
        let servers = [1, 2].map(|index| -> Arc<dyn Transport> { Arc::new(ManifestOnly(index, json.clone())) });
        let client = Client::connect(servers.into(), &Pins::default()).await.unwrap();
        let valid: ProfileValues = names.iter().map(|name| (name.clone(), 3.0)).collect();
        let mut wrong = valid.clone();
        wrong.set("f199", "many");
        let list = |change: &dyn Fn(&mut WishList)| {
            let mut list = WishList::default();
            change(&mut list);
            list
        };
        let usual = WishList::default();
        let impossible = list(&|list| {
            list.immutable.push("f0".into());
            list.ranges.insert("f0".into(), (Some(8.0.into()), None));
        });
        for (case, values, wishes) in [
            ("valid", &valid, &usual),
            ("no values", &ProfileValues::default(), &usual),
            ("not a number", &wrong, &usual),
            ("unknown feature", &valid, &list(&|list| list.immutable.push("g".into()))),
            ("unknown scheme", &valid, &list(&|list| list.scheme = Some("gatet".into()))),
            ("impossible", &valid, &impossible),
            ("no deviation", &valid, &list(&|list| list.metric = Metric::Mad)),
            (
                "two weights",
                &valid,
                &list(&|list| {
                    list.weights.insert("f1".into(), 2.0);
                    list.asymmetric.insert("f1".into(), (3.0, 1.0));
                }),
            ),
        ] {
            COMPILED.set(0);
            assert!(client.ask(values, wishes).await.is_err());
            assert_eq!(COMPILED.get(), 1, "{case}");
            // A compilation before every search, of which there are as many as ways.
            COMPILED.set(0);
            assert!(client.ask(values, &WishList { ways: 3, ..wishes.clone() }).await.is_err());
            assert_eq!(COMPILED.get(), 3, "{case}");
        }
        COMPILED.set(0);
        client.dummy_search(&usual).await;
        assert_eq!(COMPILED.get(), 1);
    }
}
