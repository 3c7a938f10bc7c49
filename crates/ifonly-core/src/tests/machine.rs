//! A search as a machine: in what pieces responses come, and in what order it is called, changes
//! nothing but what was said.

use crate::field::ModulusRule;
use crate::http_api::{CHECK_LENGTH, Route};
use crate::keys::RootKey;
use crate::memory::MemoryServer;
use crate::params::Params;
use crate::random::SeededRandom;
use crate::row_function::Rows;
use crate::scheme;
use crate::scheme::instance::SchemeInstance;
use crate::search::{Search, SearchError, SearchResult, StepMessages};
use crate::secret_query::SecretQuery;
use std::sync::Arc;

struct World {
    instance: Arc<SchemeInstance>,
    servers: Vec<MemoryServer>,
}

impl World {
    fn new(scheme: &str, silent: usize, lying: usize) -> World {
        let rows = Rows::new(&[9, 9], [[1, 2], [8, 8], [4, 0], [3, 4]]).unwrap();
        let params = Params { silent, lying, ..Params::new(vec![9, 9], rows.iter().len()) };
        let instance = SchemeInstance::new(scheme::named(scheme).unwrap(), params, ModulusRule::Deployment).unwrap();
        let key = RootKey::new(1, [3; 32]);
        let servers = (1..=instance.servers() as u8).map(|n| MemoryServer::new(n, &instance, &key, &rows)).collect();
        World { instance: instance.into(), servers }
    }

    fn start(&self) -> Search {
        Search::nearest(self.instance.clone(), SecretQuery::new(vec![3, 3]), self.servers[0].header_context(), 2)
            .unwrap()
    }

    fn responses(&self, outgoing: &StepMessages) -> Vec<Vec<u8>> {
        self.servers.iter().zip(&outgoing.messages).map(|(server, message)| server.respond(message).unwrap()).collect()
    }

    /// A search whose responses are handed over by `give`.
    fn search(&self, mut give: impl FnMut(&mut Search, Vec<Vec<u8>>)) -> Result<SearchResult, SearchError> {
        let mut random = SeededRandom::new(40);
        let mut search = self.start();
        while let Some(outgoing) = search.next(&mut random) {
            let responses = self.responses(&outgoing);
            assert!(responses.iter().all(|response| response.len() == outgoing.response_length));
            give(&mut search, responses);
        }
        search.finish()
    }
}

fn whole(search: &mut Search, responses: Vec<Vec<u8>>) {
    search.receive(responses.into_iter().map(Some).collect());
}

type Summary = (Vec<(Option<usize>, Vec<u8>)>, Option<usize>, Vec<usize>);

fn summary(outcome: SearchResult) -> Summary {
    let found = outcome.found.iter().map(|found| (found.position, found.record.clone()));
    (found.collect(), outcome.matching_rows, outcome.lying_servers)
}

#[test]
fn every_phase_and_every_record_is_asked_for_though_nobody_ever_answers() {
    for scheme in ["gated", "two-phase"] {
        let world = World::new(scheme, 0, 0);
        let mut random = SeededRandom::new(41);
        let mut search = world.start();
        let routes: Vec<Route> = std::iter::from_fn(|| Some(search.next(&mut random)?.route)).collect();
        let mut expected = vec![Route::Answer; world.instance.phases()];
        expected.extend([Route::Record; 2]);
        assert_eq!(routes, expected);
        assert!(search.next(&mut random).is_none());
        assert!(matches!(search.finish(), Err(SearchError::Decode(_))));
    }
}

#[test]
fn bytes_may_come_in_any_pieces_and_be_taken_back() {
    for (scheme, silent, lying) in [("gated", 0, 0), ("two-phase", 0, 0), ("gated", 1, 0), ("gated", 0, 1)] {
        let world = World::new(scheme, silent, lying);
        let expected = summary(world.search(whole).unwrap());
        assert_eq!(expected.0.len(), 2);
        let in_pieces = world.search(|search, responses| {
            let longest = responses.iter().map(Vec::len).max().unwrap();
            for place in (0..longest).step_by(3) {
                for (server, response) in (1..).zip(&responses) {
                    search.receive_part(server, &response[place..response.len().min(place + 3)]);
                }
            }
        });
        assert_eq!(summary(in_pieces.unwrap()), expected);
        let taken_back = world.search(|search, responses| {
            for (server, response) in (1..).zip(&responses) {
                search.receive_part(server, &vec![0xa5; response.len() + 1]);
                search.forget(server);
                search.receive_part(server, response);
            }
        });
        assert_eq!(summary(taken_back.unwrap()), expected);
    }
}

#[test]
fn what_is_taken_back_and_not_repeated_is_silence() {
    let world = World::new("gated", 1, 0);
    let outcome = world.search(|search, responses| {
        whole(search, responses);
        search.forget(1);
    });
    assert!(summary(outcome.unwrap()).2.is_empty());
    let world = World::new("gated", 0, 0);
    let fault = world.search(|search, responses| {
        whole(search, responses);
        search.forget(1);
    });
    assert!(matches!(fault, Err(SearchError::Decode(_))), "{fault:?}");
}

#[test]
fn too_many_bytes_are_not_kept_and_do_not_pass() {
    let world = World::new("gated", 0, 0);
    let fault = world.search(|search, responses| {
        let long = responses[0].iter().copied().chain([0; 1000]).collect::<Vec<u8>>();
        search.receive_part(1, &long);
        search.receive_part(1, &long);
        search.receive_part(2, &responses[1]);
    });
    assert_eq!(fault.unwrap_err(), SearchError::Malformed { servers: vec![1] });
}

#[test]
fn no_order_of_calls_panics_and_half_a_search_has_no_outcome() {
    let world = World::new("two-phase", 0, 0);
    let mut random = SeededRandom::new(42);
    let mut search = world.start();
    // Before anything was asked, and for servers that there are not.
    search.receive(vec![Some(vec![1; 40]); 3]);
    search.receive_part(1, &[1; CHECK_LENGTH]);
    search.forget(1);
    search.next(&mut random).unwrap();
    for server in [0, 4, usize::MAX] {
        search.receive_part(server, &[1; 40]);
        search.forget(server);
    }
    search.receive(vec![None; 200]);
    search.receive(vec![]);
    assert!(matches!(world.start().finish(), Err(SearchError::Unfinished)));
    let mut search = world.start();
    for _ in 0..world.instance.phases() + 2 {
        let outgoing = search.next(&mut random).unwrap();
        whole(&mut search, world.responses(&outgoing));
    }
    assert!(matches!(search.finish(), Err(SearchError::Unfinished)), "the last responses were not read");
}
