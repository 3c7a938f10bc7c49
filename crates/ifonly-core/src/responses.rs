//! The responses to one step of a search, received in any pieces and from all servers at once.
//!
//! If no answer is spare, values are decoded as soon as the bytes of every server have arrived. The
//! bytes are kept until the step ends: a response ends with its checksum, so a transport may detect
//! damage only at the end and repeat the request. The bytes of that server are then
//! [discarded](StepResponses::forget), and decoding starts again.

use crate::candidates::{CandidateFilter, Candidates};
use crate::http_api::CHECK_LENGTH;
use crate::interpolate::{InterpolationStream, MalformedAnswer};
use crate::lifted::LiftedDecoder;
use crate::search::SearchError;
use crate::transcript::Ticket;
use crate::vote::Plurality;
use ifonly_algebra::wipe::WipedBytes;

/// Decodes answers to candidates while they arrive.
pub(crate) struct StreamingDecoder {
    reader: AnswerReader,
    malformed: bool,
}

enum AnswerReader {
    /// Values that a filter reads.
    Values { interpolation: Box<dyn InterpolationStream>, filter: Box<CandidateFilter> },
    /// The words of a lifted gate.
    Lifted { decoder: Box<dyn LiftedDecoder> },
}

impl StreamingDecoder {
    pub(crate) fn new(interpolation: Box<dyn InterpolationStream>, filter: CandidateFilter) -> StreamingDecoder {
        StreamingDecoder { reader: AnswerReader::Values { interpolation, filter: filter.into() }, malformed: false }
    }

    pub(crate) fn lifted(decoder: Box<dyn LiftedDecoder>) -> StreamingDecoder {
        StreamingDecoder { reader: AnswerReader::Lifted { decoder }, malformed: false }
    }

    /// Reads the part of `answers` that has not been read before.
    pub(crate) fn advance(&mut self, answers: &[&[u8]]) {
        if !self.malformed {
            let read = match &mut self.reader {
                AnswerReader::Values { interpolation, filter } => {
                    interpolation.advance(answers, &mut |words| filter.take(words))
                }
                AnswerReader::Lifted { decoder } => match *answers {
                    [first, second] => decoder.advance([first, second]),
                    _ => Err(MalformedAnswer),
                },
            };
            self.malformed = read == Err(MalformedAnswer);
        }
    }

    /// The candidates of complete answers; `None` if an answer is malformed.
    pub(crate) fn finish(self) -> Option<Candidates> {
        (!self.malformed).then(|| match self.reader {
            AnswerReader::Values { filter, .. } => filter.finish(),
            AnswerReader::Lifted { decoder } => Candidates::of_lifted(&decoder.finish()),
        })
    }
}

/// The complete or partial responses to one step. Together they determine the values that the user
/// learns, so they are wiped on drop.
pub(crate) struct StepResponses {
    length: usize,
    lead: usize,
    responses: Vec<WipedBytes>,
    decoder: Option<StreamingDecoder>,
}

impl StepResponses {
    /// Expects `responders` responses of `length` bytes each; the first `lead` bytes precede the
    /// answer.
    pub(crate) fn new(
        responders: usize,
        length: usize,
        lead: usize,
        decoder: Option<StreamingDecoder>,
    ) -> StepResponses {
        StepResponses { length, lead, responses: (0..responders).map(|_| WipedBytes::default()).collect(), decoder }
    }

    /// Takes the complete response of a server, counted from 1.
    pub(crate) fn complete(&mut self, server: usize, response: Vec<u8>) {
        let mut response = WipedBytes::from(response);
        response.truncate(self.length + 1);
        if let Some(slot) = self.response_mut(server) {
            *slot = response;
        }
    }

    /// Takes the next bytes of a server, counted from 1.
    pub(crate) fn part(&mut self, server: usize, bytes: &[u8]) {
        // One excess byte is kept, because it shows that the response is too long.
        let most = self.length + 1;
        let Some(slot) = self.response_mut(server) else { return };
        if slot.capacity() == 0 {
            // Reserved at once, because growing would leave unwiped copies.
            slot.reserve_exact(most);
        }
        let taken = bytes.len().min(most.saturating_sub(slot.len()));
        slot.extend_from_slice(&bytes[..taken]);
    }

    /// Decodes what is complete.
    pub(crate) fn advance(&mut self) {
        let Some(decoder) = &mut self.decoder else { return };
        let body = |response: &'_ WipedBytes| response.len().clamp(self.lead, self.length.max(self.lead));
        let bodies: Option<Vec<&[u8]>> =
            self.responses.iter().map(|response| response.get(self.lead..body(response))).collect();
        if let Some(bodies) = bodies {
            decoder.advance(&bodies);
        }
    }

    /// Discards the bytes of a server; `decoder` starts from the beginning.
    pub(crate) fn forget(&mut self, server: usize, decoder: Option<StreamingDecoder>) {
        if let Some(slot) = self.response_mut(server) {
            *slot = WipedBytes::default();
            self.decoder = decoder;
        }
    }

    pub(crate) fn take_decoder(&mut self) -> Option<StreamingDecoder> {
        self.decoder.take()
    }

    /// The ticket of the largest group of servers, whatever their answers are (docs/protocol.md,
    /// 4.4).
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        let leads: Vec<&[u8]> = self.responses.iter().filter_map(|response| response.get(..self.lead)).collect();
        let (_, ticket) = leads[Plurality::of(&leads)?.first].split_at_checked(CHECK_LENGTH)?;
        ticket.try_into().ok()
    }

    /// The answers, and the servers (counted from 1) that were excluded because their lead differs
    /// from that of the largest group. It is an error if more than `tolerated` servers differ
    /// (docs/protocol.md, 5.4).
    pub(crate) fn bodies(&self, tolerated: usize) -> Result<(ResponseBodies<'_>, Vec<usize>), SearchError> {
        let parts: Vec<Option<(&[u8], &[u8])>> =
            self.responses.iter().map(|response| response.split_at_checked(self.lead)).collect();
        let answered: Vec<usize> = (0..parts.len()).filter(|&server| parts[server].is_some()).collect();
        let leads: Vec<&[u8]> = parts.iter().flatten().map(|(lead, _)| *lead).collect();
        let mut bodies: ResponseBodies<'_> = parts.iter().map(|part| part.map(|(_, body)| body)).collect();
        let Some(vote) = Plurality::of(&leads) else { return Ok((bodies, vec![])) };
        if let Some(second) = vote.failure(tolerated) {
            return Err(SearchError::KeyCheck { first: answered[vote.first] + 1, second: answered[second] + 1 });
        }
        let outvoted: Vec<usize> = vote.outvoted.iter().map(|&vote| answered[vote]).collect();
        outvoted.iter().for_each(|&server| bodies[server] = None);
        Ok((bodies, outvoted.into_iter().map(|server| server + 1).collect()))
    }

    fn response_mut(&mut self, server: usize) -> Option<&mut WipedBytes> {
        self.responses.get_mut(server.checked_sub(1)?)
    }
}

/// One answer per responder, in order; `None` if it is missing.
pub(crate) type ResponseBodies<'r> = Vec<Option<&'r [u8]>>;
