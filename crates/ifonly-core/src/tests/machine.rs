//! A search as a state machine: the result does not depend on the pieces in which responses arrive,
//! and no order of calls panics.

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

    /// Runs a search whose responses are passed on by `give`.
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

fn receive_all(search: &mut Search, responses: Vec<Vec<u8>>) {
    search.receive(responses.into_iter().map(Some).collect());
}

type Summary = (Vec<(Option<usize>, Vec<u8>)>, Option<usize>, Vec<usize>);

fn summary(result: SearchResult) -> Summary {
    let found = result.found.iter().map(|found| (found.position, found.record.clone()));
    (found.collect(), result.matching_rows, result.lying_servers)
}

#[test]
fn every_step_is_sent_even_if_no_server_answers() {
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
fn responses_may_arrive_in_any_pieces_and_be_repeated() {
    for (scheme, silent, lying) in [("gated", 0, 0), ("two-phase", 0, 0), ("gated", 1, 0), ("gated", 0, 1)] {
        let world = World::new(scheme, silent, lying);
        let expected = summary(world.search(receive_all).unwrap());
        assert_eq!(expected.0.len(), 2);
        let in_pieces = world.search(|search, responses| {
            let longest = responses.iter().map(Vec::len).max().unwrap();
            for start in (0..longest).step_by(3) {
                for (server, response) in (1..).zip(&responses) {
                    search.receive_part(server, &response[start..response.len().min(start + 3)]);
                }
            }
        });
        assert_eq!(summary(in_pieces.unwrap()), expected);
        let repeated = world.search(|search, responses| {
            for (server, response) in (1..).zip(&responses) {
                search.receive_part(server, &vec![0xa5; response.len() + 1]);
                search.forget(server);
                search.receive_part(server, response);
            }
        });
        assert_eq!(summary(repeated.unwrap()), expected);
    }
}

#[test]
fn discarded_responses_that_are_not_repeated_are_silence() {
    let world = World::new("gated", 1, 0);
    let result = world.search(|search, responses| {
        receive_all(search, responses);
        search.forget(1);
    });
    assert!(summary(result.unwrap()).2.is_empty());
    let world = World::new("gated", 0, 0);
    let result = world.search(|search, responses| {
        receive_all(search, responses);
        search.forget(1);
    });
    assert!(matches!(result, Err(SearchError::Decode(_))), "{result:?}");
}

#[test]
fn responses_that_are_too_long_are_malformed() {
    let world = World::new("gated", 0, 0);
    let result = world.search(|search, responses| {
        let long = responses[0].iter().copied().chain([0; 1000]).collect::<Vec<u8>>();
        search.receive_part(1, &long);
        search.receive_part(1, &long);
        search.receive_part(2, &responses[1]);
    });
    assert_eq!(result.unwrap_err(), SearchError::Malformed { servers: vec![1] });
}

#[test]
fn no_order_of_calls_panics_and_an_unfinished_search_has_no_result() {
    let world = World::new("two-phase", 0, 0);
    let mut random = SeededRandom::new(42);
    let mut search = world.start();
    // Before the first step, and for servers that do not exist.
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
        receive_all(&mut search, world.responses(&outgoing));
    }
    assert!(matches!(search.finish(), Err(SearchError::Unfinished)), "the last responses were not read");
}
