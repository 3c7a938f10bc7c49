//! Client state machine of a sealed search: one message to each of three servers, one short answer
//! from each.
//!
//! It has the interface of every [search](ifonly_core::search): `next` returns the messages once,
//! `receive` takes the responses, `finish` returns the result. The lengths of the messages depend
//! on public parameters only. There is no second request, so neither its time nor its presence can
//! leak anything.

use crate::client::{combine, share};
use crate::params::SealedParams;
use ifonly_algebra::random::{OsRandom, RandomSource};
use ifonly_core::candidates::DecodedCost;
use ifonly_core::http_api::{CHECK_LENGTH, Route};
use ifonly_core::scheme::sealed::{SCHEME, SERVERS, SealedScheme};
use ifonly_core::search::{HeaderContext, NearestRow, SearchError, SearchResult, SearchSteps, StepMessages};
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
        write!(f, "SealedSearch({}, ..)", SCHEME.name)
    }
}

impl SearchSteps for SealedSearch {
    fn next(&mut self, random: &mut OsRandom) -> Option<StepMessages> {
        self.next(random)
    }

    fn receive_part(&mut self, server: usize, bytes: &[u8]) {
        self.receive_part(server, bytes);
    }

    fn forget(&mut self, server: usize) {
        self.forget(server);
    }

    fn finish(self: Box<Self>) -> Result<SearchResult, SearchError> {
        (*self).finish()
    }
}

impl SealedSearch {
    /// A search for the `top` nearest rows. Fails before any message exists if the secret query
    /// does not match the schema of the database.
    pub fn new(
        sealed: Arc<SealedScheme>,
        secret: SecretQuery,
        header_context: HeaderContext,
        top: usize,
    ) -> Result<SealedSearch, SecretQueryError> {
        let table = sealed.table(&secret)?;
        Ok(SealedSearch { sealed, header_context, table, top, sent: false, responses: Default::default() })
    }

    /// The messages on the first call; `None` afterwards.
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

    /// Takes complete responses in the order of the messages; `None` for a silent server.
    pub fn receive(&mut self, responses: Vec<Option<Vec<u8>>>) {
        for (server, response) in (1..).zip(responses) {
            self.forget(server);
            self.receive_part(server, &response.unwrap_or_default());
        }
    }

    /// Takes the next bytes of the response of server `server`, counted from 1.
    pub fn receive_part(&mut self, server: usize, bytes: &[u8]) {
        let most = self.response_length() + 1;
        if let Some(response) = server.checked_sub(1).and_then(|index| self.responses.get_mut(index)) {
            // One excess byte is enough to detect a response that is too long.
            let room = most.saturating_sub(response.len()).min(bytes.len());
            response.extend_from_slice(&bytes[..room]);
        }
    }

    /// Discards the bytes received from a server.
    pub fn forget(&mut self, server: usize) {
        if let Some(response) = server.checked_sub(1).and_then(|index| self.responses.get_mut(index)) {
            response.clear();
        }
    }

    /// The result, or the reason why there is none.
    pub fn finish(self) -> Result<SearchResult, SearchError> {
        if !self.sent {
            return Err(SearchError::Unfinished);
        }
        let servers_with = |wanted: &dyn Fn(usize) -> bool| -> Vec<usize> {
            (1..)
                .zip(&self.responses)
                .filter(|(_, response)| wanted(response.len()))
                .map(|(server, _)| server)
                .collect()
        };
        let (silent, length) = (servers_with(&|length| length == 0), self.response_length());
        if !silent.is_empty() {
            return Err(SearchError::Missing { servers: silent });
        }
        let malformed = servers_with(&|have| have != length);
        if !malformed.is_empty() {
            return Err(SearchError::Malformed { servers: malformed });
        }
        let parts: [(&[u8], &[u8]); SERVERS] =
            std::array::from_fn(|index| self.responses[index].split_at(CHECK_LENGTH));
        if let Some(second) = (1..SERVERS).find(|&index| parts[index].0 != parts[0].0) {
            return Err(SearchError::KeyCheck { first: 1, second: second + 1 });
        }
        let inconsistent = |error| match error {
            crate::SealedError::Answers(reason) => SearchError::Inconsistent(reason),
            _ => SearchError::Inconsistent("the parameters of the search are out of range"),
        };
        let params = params_for(&self.sealed, self.top, self.header_context.record_length).map_err(inconsistent)?;
        let ranks = combine(&params, parts.map(|(_, answer)| answer)).map_err(inconsistent)?;
        let (mut found, mut is_doubtful) = (vec![], false);
        for near in ranks.into_iter().flatten() {
            match self.header_context.open_record(&near.record) {
                Ok(record) => found.push(NearestRow { position: None, cost: DecodedCost::Exactly(near.cost), record }),
                Err(_) => is_doubtful = true,
            }
        }
        Ok(SearchResult { found, matching_rows: None, lying_servers: vec![], is_doubtful })
    }

    fn response_length(&self) -> usize {
        self.sealed.response_length(self.top, self.header_context.record_length)
    }
}

/// Parameters of a sealed search for this scheme, number of rows to find and record length.
pub fn params_for(sealed: &SealedScheme, top: usize, record_length: usize) -> Result<SealedParams, crate::SealedError> {
    let params = SealedParams::new(sealed.params().rows, sealed.bits(), sealed.cost_bits())?;
    params.top(top)?.floor(sealed.floor())?.record_bytes(SealedScheme::encoded_record_length(record_length))
}
