//! What comes back to one step of a search, in any pieces and from all servers at once.
//!
//! Where nothing can be corrected, values are decoded as soon as every server's bytes are there.
//! The bytes are kept until the step ends all the same: a response's checksum comes last, so that a
//! transport may find out at its end that it was damaged and ask again. Then that server's bytes
//! are [forgotten](Reception::forget) and decoding starts again with those of the others.

use crate::candidates::{CandidateFilter, Candidates, ImpossibleValue};
use crate::http_api::CHECK_LENGTH;
use crate::interpolate::{InterpolationStream, MalformedAnswer};
use crate::search::SearchError;
use crate::transcript::Ticket;
use crate::vote::Plurality;
use zeroize::Zeroizing;

/// Answers that become candidates as they arrive.
pub(crate) struct StreamingDecoder {
    interpolating: Box<dyn InterpolationStream>,
    sieve: CandidateFilter,
    unreadable: bool,
}

impl StreamingDecoder {
    pub(crate) fn new(interpolating: Box<dyn InterpolationStream>, sieve: CandidateFilter) -> StreamingDecoder {
        StreamingDecoder { interpolating, sieve, unreadable: false }
    }

    /// Reads what `answers` have beyond what was read before.
    pub(crate) fn advance(&mut self, answers: &[&[u8]]) {
        if !self.unreadable {
            let sieve = &mut self.sieve;
            let read = self.interpolating.advance(answers, &mut |words| sieve.take(words));
            self.unreadable = read == Err(MalformedAnswer);
        }
    }

    /// The candidates of whole answers; `None` if one could not be read.
    pub(crate) fn finish(self) -> Option<(Candidates, Option<ImpossibleValue>)> {
        (!self.unreadable).then(|| self.sieve.finish())
    }
}

/// The responses to one step, whole or on their way. Together they hold the values that the user
/// learns, so they are wiped.
pub(crate) struct StepResponses {
    length: usize,
    lead: usize,
    responses: Vec<Zeroizing<Vec<u8>>>,
    live: Option<StreamingDecoder>,
}

impl StepResponses {
    /// For `responders` responses of `length` bytes each, of which `lead` come before the answer.
    pub(crate) fn new(responders: usize, length: usize, lead: usize, live: Option<StreamingDecoder>) -> StepResponses {
        StepResponses { length, lead, responses: (0..responders).map(|_| Zeroizing::default()).collect(), live }
    }

    /// A whole response of a server, counted from 1.
    pub(crate) fn whole(&mut self, server: usize, response: Vec<u8>) {
        let mut response = Zeroizing::new(response);
        response.truncate(self.length + 1);
        if let Some(place) = self.place(server) {
            *place = response;
        }
    }

    /// The next bytes of a server, counted from 1.
    pub(crate) fn part(&mut self, server: usize, bytes: &[u8]) {
        // One byte too many shows that the response is too long; more than one is not kept.
        let most = self.length + 1;
        let Some(place) = self.place(server) else { return };
        if place.capacity() == 0 {
            // At once, so that no copy is left behind by growing.
            place.reserve_exact(most);
        }
        let taken = bytes.len().min(most.saturating_sub(place.len()));
        place.extend_from_slice(&bytes[..taken]);
    }

    /// Reads what can be read by now.
    pub(crate) fn advance(&mut self) {
        let Some(live) = &mut self.live else { return };
        let body = |response: &'_ Zeroizing<Vec<u8>>| response.len().clamp(self.lead, self.length.max(self.lead));
        let bodies: Option<Vec<&[u8]>> =
            self.responses.iter().map(|response| response.get(self.lead..body(response))).collect();
        if let Some(bodies) = bodies {
            live.advance(&bodies);
        }
    }

    /// Takes back what a server said; `live` starts from the beginning.
    pub(crate) fn forget(&mut self, server: usize, live: Option<StreamingDecoder>) {
        if let Some(place) = self.place(server) {
            *place = Zeroizing::default();
            self.live = live;
        }
    }

    pub(crate) fn take_live(&mut self) -> Option<StreamingDecoder> {
        self.live.take()
    }

    /// The ticket that most servers gave, whatever else they said; what a search shows depends on
    /// nothing but their words.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        let leads: Vec<&[u8]> = self.responses.iter().filter_map(|response| response.get(..self.lead)).collect();
        let (_, ticket) = leads[Plurality::of(&leads)?.first].split_at_checked(CHECK_LENGTH)?;
        ticket.try_into().ok()
    }

    /// The answers themselves, and who was left out (counted from 1) because their key-check value
    /// or their ticket is another than most have, as long as the deployment bears so many silent
    /// and lying servers.
    pub(crate) fn bodies(&self, borne: usize) -> Result<(ResponseBodies<'_>, Vec<usize>), SearchError> {
        let parts: Vec<Option<(&[u8], &[u8])>> =
            self.responses.iter().map(|response| response.split_at_checked(self.lead)).collect();
        let spoke: Vec<usize> = (0..parts.len()).filter(|&place| parts[place].is_some()).collect();
        let leads: Vec<&[u8]> = parts.iter().flatten().map(|(lead, _)| *lead).collect();
        let mut bodies: ResponseBodies<'_> = parts.iter().map(|part| part.map(|(_, body)| body)).collect();
        let Some(vote) = Plurality::of(&leads) else { return Ok((bodies, vec![])) };
        if let Some(second) = vote.too_odd(borne) {
            return Err(SearchError::KeyCheck { first: spoke[vote.first] + 1, second: spoke[second] + 1 });
        }
        let odd: Vec<usize> = vote.odd.iter().map(|&place| spoke[place]).collect();
        odd.iter().for_each(|&place| bodies[place] = None);
        Ok((bodies, odd.into_iter().map(|place| place + 1).collect()))
    }

    fn place(&mut self, server: usize) -> Option<&mut Zeroizing<Vec<u8>>> {
        self.responses.get_mut(server.checked_sub(1)?)
    }
}

/// One entry per responder, in order; `None` for silence.
pub(crate) type ResponseBodies<'r> = Vec<Option<&'r [u8]>>;
