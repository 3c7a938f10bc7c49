//! The user's side of a sealed search: one message to each of three servers, one short answer from
//! each, and nothing after that.
//!
//! It is led like any other [search](ifonly_core::search): `next` gives the messages once,
//! `receive` takes the responses, `finish` says what was found. What is sent depends on public
//! numbers only, and there is no second request whose time or presence could tell anything.

use crate::client::{combine, share};
use crate::params::SealedParams;
use ifonly_algebra::random::RandomSource;
use ifonly_core::candidates::DecodedCost;
use ifonly_core::http_api::{CHECK_LENGTH, Route};
use ifonly_core::scheme::sealed::{SCHEME, SERVERS, SealedScheme};
use ifonly_core::search::{HeaderContext, NearestRow, SearchError, SearchResult, StepMessages};
use ifonly_core::secret_query::{SecretQuery, SecretQueryError};
use ifonly_core::transcript::messages;
use std::sync::Arc;
use zeroize::Zeroizing;

/// A search in progress.
pub struct SealedSearch {
    sealed: Arc<SealedScheme>,
    header_context: HeaderContext,
    table: Zeroizing<Vec<u64>>,
    top: usize,
    sent: bool,
    responses: [Zeroizing<Vec<u8>>; SERVERS],
}

impl std::fmt::Debug for SealedSearch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Search({}, ..)", SCHEME.name)
    }
}

impl SealedSearch {
    /// A search for the `top` nearest rows. Nothing is sent if the secret does not fit the
    /// database.
    pub fn new(
        sealed: Arc<SealedScheme>,
        secret: SecretQuery,
        header_context: HeaderContext,
        top: usize,
    ) -> Result<SealedSearch, SecretQueryError> {
        let table = sealed.table(&secret)?;
        Ok(SealedSearch { sealed, header_context, table, top, sent: false, responses: Default::default() })
    }

    /// The messages, the first time; `None` from then on.
    pub fn next(&mut self, random: &mut impl RandomSource) -> Option<StepMessages> {
        if std::mem::replace(&mut self.sent, true) {
            return None;
        }
        let shares = share(self.sealed.bits(), &self.table, random).map(Zeroizing::new);
        let payloads = shares.iter().map(|share| self.sealed.payload(self.top, share)).collect();
        let sent = messages(&self.sealed.header(&self.header_context), payloads, random);
        Some(StepMessages {
            route: Route::Answer,
            messages: sent.iter().map(|message| Zeroizing::new(message.encode())).collect(),
            response_length: self.response_length(),
        })
    }

    /// Takes whole responses, one entry per message and in their order; `None` is silence.
    pub fn receive(&mut self, responses: Vec<Option<Vec<u8>>>) {
        for (server, response) in (1..).zip(responses) {
            self.forget(server);
            self.receive_part(server, &response.unwrap_or_default());
        }
    }

    /// Takes the next bytes of a server's response, counted from 1.
    pub fn receive_part(&mut self, server: usize, bytes: &[u8]) {
        let most = self.response_length() + 1;
        if let Some(response) = server.checked_sub(1).and_then(|place| self.responses.get_mut(place)) {
            // One byte too many is enough to know that it is none.
            let room = most.saturating_sub(response.len()).min(bytes.len());
            response.extend_from_slice(&bytes[..room]);
        }
    }

    /// Takes back what came from a server.
    pub fn forget(&mut self, server: usize) {
        if let Some(response) = server.checked_sub(1).and_then(|place| self.responses.get_mut(place)) {
            response.clear();
        }
    }

    /// What was found, or what went wrong.
    pub fn finish(self) -> Result<SearchResult, SearchError> {
        if !self.sent {
            return Err(SearchError::Unfinished);
        }
        let of = |wanted: &dyn Fn(usize) -> bool| -> Vec<usize> {
            (1..)
                .zip(&self.responses)
                .filter(|(_, response)| wanted(response.len()))
                .map(|(server, _)| server)
                .collect()
        };
        let (silent, length) = (of(&|length| length == 0), self.response_length());
        if !silent.is_empty() {
            return Err(SearchError::Missing { servers: silent });
        }
        let malformed = of(&|have| have != length);
        if !malformed.is_empty() {
            return Err(SearchError::Malformed { servers: malformed });
        }
        let parts: [(&[u8], &[u8]); SERVERS] =
            std::array::from_fn(|place| self.responses[place].split_at(CHECK_LENGTH));
        if let Some(second) = (1..SERVERS).find(|&place| parts[place].0 != parts[0].0) {
            return Err(SearchError::KeyCheck { first: 1, second: second + 1 });
        }
        let unfitting = |error| match error {
            crate::SealedError::Answers(reason) => SearchError::Unfitting(reason),
            _ => SearchError::Unfitting("this search is not for this machine"),
        };
        let shape = params_for(&self.sealed, self.top, self.header_context.record_length).map_err(unfitting)?;
        let ranks = combine(&shape, parts.map(|(_, answer)| answer)).map_err(unfitting)?;
        let mut found = vec![];
        for near in ranks.into_iter().flatten() {
            let record = self.header_context.open_record(&near.record)?;
            found.push(NearestRow { position: None, price: DecodedCost::Exactly(near.cost), record });
        }
        Ok(SearchResult { found, matching_rows: None, lying_servers: vec![] })
    }

    fn response_length(&self) -> usize {
        self.sealed.response_length(self.top, self.header_context.record_length)
    }
}

/// The machine's numbers for a search under a manifest.
pub fn params_for(sealed: &SealedScheme, top: usize, record_length: usize) -> Result<SealedParams, crate::SealedError> {
    let shape = SealedParams::new(sealed.params().rows, sealed.bits(), sealed.cost_bits())?;
    shape.top(top)?.record_bytes(SealedScheme::encoded_record_length(record_length))
}
