//! Client state machine: the messages to any two servers are uniform for every query, and
//! inconsistent responses are refused.

use ifonly_algebra::random::{ExhaustiveRandom, RandomSource, SeededRandom};
use ifonly_core::aont::MAX_RECORD;
use ifonly_core::http_api::CHECK_LENGTH;
use ifonly_core::params::Params;
use ifonly_core::scheme::sealed::SealedScheme;
use ifonly_core::search::{HeaderContext, SearchError};
use ifonly_core::secret_query::SecretQuery;
use ifonly_core::transcript::Message;
use ifonly_sealed::SealedSearch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Enumerates all shares. The blindings of commitments, which hide perfectly, come from a seed.
struct EnumeratedShares<'a>(&'a mut ExhaustiveRandom, SeededRandom);

impl RandomSource for EnumeratedShares<'_> {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.1.fill(bytes);
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }
}

/// Counts of the payloads to two servers.
type View = BTreeMap<(Vec<u8>, Vec<u8>), u32>;

fn sealed(max_levels: Vec<u32>, cost_limit: u64) -> Arc<SealedScheme> {
    Arc::new(SealedScheme::new(Params { cost_limit, ..Params::new(max_levels, 5) }).unwrap())
}

fn header_context() -> HeaderContext {
    HeaderContext { digest: [7; 32], epoch: 2, record_length: 4, signer: None }
}

fn messages(sealed: &Arc<SealedScheme>, secret: &SecretQuery, random: &mut impl RandomSource) -> Vec<Message> {
    let mut search = SealedSearch::new(sealed.clone(), secret.clone(), header_context(), 1).unwrap();
    let outgoing = search.next(random).unwrap();
    assert!(search.next(random).is_none(), "there is one step with one message to each server");
    assert_eq!(outgoing.response_length, 16 + 8 + 4 + 24);
    outgoing.messages.iter().map(|message| Message::decode(message).unwrap()).collect()
}

#[test]
fn any_two_servers_receive_every_pair_of_shares_equally_often_for_every_query() {
    // One feature of two levels, costs of 0 or 1: a table of two entries of two bits.
    let sealed = sealed(vec![1], 1);
    assert_eq!((sealed.bits(), sealed.cost_bits()), (2, 1));
    let mut views: Vec<View> = vec![];
    for x in [0, 1] {
        for immutable in [false, true] {
            let secret = SecretQuery::new(vec![x]).immutable(vec![immutable]);
            for (first, second) in [(0, 1), (1, 2), (2, 0)] {
                let (mut all, mut counts) = (ExhaustiveRandom::default(), BTreeMap::new());
                while all.next_run() {
                    let sent = messages(&sealed, &secret, &mut EnumeratedShares(&mut all, SeededRandom::new(1)));
                    let public: Vec<_> =
                        sent.iter().map(|message| (message.header.clone(), message.payload.len())).collect();
                    assert!(public.iter().all(|one| *one == public[0]));
                    *counts.entry((sent[first].payload.clone(), sent[second].payload.clone())).or_insert(0) += 1;
                }
                // Two entries of two bits at each of two servers.
                assert_eq!(counts.len(), 1 << 8);
                assert!(counts.values().all(|&times| times == 1));
                views.push(counts);
            }
        }
    }
    assert!(views.iter().all(|view| *view == views[0]));
}

#[test]
fn a_search_works_with_the_longest_records_that_a_manifest_allows() {
    let (sealed, header_context) =
        (sealed(vec![3, 2], 50), HeaderContext { record_length: MAX_RECORD, ..header_context() });
    let mut search = SealedSearch::new(sealed.clone(), SecretQuery::new(vec![1, 2]), header_context, 1).unwrap();
    let length = search.next(&mut SeededRandom::new(3)).unwrap().response_length;
    assert_eq!(ifonly_sealed::params_for(&sealed, 1, MAX_RECORD).unwrap().answer_bytes(), length - CHECK_LENGTH);
    search.receive(vec![Some(vec![0; length]); 3]);
    assert_eq!(search.finish().map(|outcome| outcome.found.len()), Ok(0), "no row matches");
    assert!(ifonly_sealed::params_for(&sealed, 1, MAX_RECORD + 1).is_err());
}

#[test]
fn missing_malformed_and_inconsistent_responses_are_refused() {
    let sealed = sealed(vec![3, 2], 50);
    let mut random = SeededRandom::new(3);
    let finish = |responses: Vec<Option<Vec<u8>>>, random: &mut SeededRandom| {
        let mut search = SealedSearch::new(sealed.clone(), SecretQuery::new(vec![1, 2]), header_context(), 1).unwrap();
        search.next(random).unwrap();
        search.receive(responses);
        search.finish().map(|outcome| outcome.found.len())
    };
    let empty = vec![0; 52];
    let complete = || vec![Some(empty.clone()), Some(empty.clone()), Some(empty.clone())];
    assert_eq!(finish(complete(), &mut random), Ok(0), "no row matches");
    let mut responses = complete();
    responses[1] = None;
    assert_eq!(finish(responses, &mut random), Err(SearchError::Missing { servers: vec![2] }));
    for length in [1, 51, 53] {
        let mut responses = complete();
        responses[2] = Some(vec![0; length]);
        assert_eq!(finish(responses, &mut random), Err(SearchError::Malformed { servers: vec![3] }));
    }
    let mut responses = complete();
    responses[2].as_mut().unwrap()[3] = 1;
    assert_eq!(finish(responses, &mut random), Err(SearchError::KeyCheck { first: 1, second: 3 }));
    // A bit that no cost has.
    let mut responses = complete();
    responses[0].as_mut().unwrap()[23] = 0x80;
    assert!(matches!(finish(responses, &mut random), Err(SearchError::Inconsistent(_))));
    // A record without the match bit, and an invalid record: an error would tell a lying server
    // whether a row matches.
    for position in [30, 16] {
        let mut responses = complete();
        responses[0].as_mut().unwrap()[position] = 1;
        let mut search = SealedSearch::new(sealed.clone(), SecretQuery::new(vec![1, 2]), header_context(), 1).unwrap();
        search.next(&mut random).unwrap();
        search.receive(responses);
        let result = search.finish().unwrap();
        assert!(result.found.is_empty() && result.is_doubtful);
    }
    let unsent = SealedSearch::new(sealed.clone(), SecretQuery::new(vec![1, 2]), header_context(), 1).unwrap();
    assert_eq!(unsent.finish().map(|_| ()), Err(SearchError::Unfinished));
}
