//! A client does the same work whatever it decodes. The time until its next request must not reveal
//! decoded values to a server, in particular not to one that lies in order to measure the
//! difference.

use super::common::for_all_schemes;
use crate::aont;
use crate::field::ModulusRule;
use crate::keys::RootKey;
use crate::memory::MemoryServer;
use crate::params::Params;
use crate::random::{RandomSource, SeededRandom};
use crate::row_function::Rows;
use crate::scheme::ConstraintKind;
use crate::scheme::instance::SchemeInstance;
use crate::search::{Search, SearchError, SearchResult, StepMessages};
use crate::secret_query::SecretQuery;
use crate::transcript::MessageKind;

const ROWS: usize = 700;

/// The work of each step of a search in which server 1 adds `lie` to every element of its answers,
/// and the result of the search.
fn work(
    instance: &SchemeInstance,
    servers: &[MemoryServer],
    secret: SecretQuery,
    k: usize,
    lie: u64,
) -> (Vec<u64>, Result<SearchResult, SearchError>) {
    let random = &mut SeededRandom::new(2);
    let mut search = Search::nearest(instance.clone(), secret, servers[0].header_context(), k).unwrap();
    let (mut steps, mut phase) = (vec![], 0);
    while let Some(StepMessages { messages, .. }) = search.next(random) {
        steps.push(search.work());
        let mut responses: Vec<Vec<u8>> =
            messages.iter().zip(servers).map(|(message, server)| server.respond(message).unwrap()).collect();
        if phase < instance.phases() && lie > 0 {
            let (check, body) = responses[0].split_at(MessageKind::Phase(phase as u8).lead());
            let mut elements = instance.unpack_answer(phase, body).unwrap();
            let outputs = instance.outputs(phase);
            for (index, element) in elements.iter_mut().enumerate() {
                let field = instance.output_field(index % outputs);
                *element = field.add(*element, field.reduce(lie));
            }
            responses[0] = [check, &instance.pack_answer(&elements)].concat();
        }
        phase += 1;
        search.receive(responses.into_iter().map(Some).collect());
    }
    steps.push(search.work());
    (steps, search.finish())
}

#[test]
fn decoding_takes_the_same_work_for_every_query_result_and_lie() {
    for_all_schemes(|scheme| {
        let mut random = SeededRandom::new(3);
        let max_levels = vec![30, 4, 30];
        let rows: Vec<Vec<u16>> = (0..ROWS)
            .map(|_| max_levels.iter().map(|&range| random.below(u64::from(range)) as u16).collect())
            .collect();
        let rows = Rows::new(&max_levels, &rows).unwrap();
        let params = Params { cost_limit: 900, ..Params::new(max_levels, ROWS) };
        let instance = SchemeInstance::new(scheme, params, ModulusRule::Deployment).unwrap();
        let key = RootKey::new(1, [3; 32]);
        let servers: Vec<MemoryServer> =
            (1..=instance.servers() as u8).map(|index| MemoryServer::new(index, &instance, &key, &rows)).collect();
        for k in [1, 5] {
            let (mut found, mut empty, mut impossible) = (0, 0, 0);
            let mut expected: Option<Vec<u64>> = None;
            let unconstrained = SecretQuery::new(vec![3, 2, 9]);
            let mut queries = vec![unconstrained.clone()];
            if scheme.constraint != ConstraintKind::None {
                queries.push(unconstrained.clone().immutable(vec![false, true, false]));
                // No row has the highest level of the first feature.
                queries.push(SecretQuery::new(vec![30, 4, 30]).immutable(vec![true; 3]));
            }
            for secret in queries {
                for lie in [0, 1, instance.field().q() / 2] {
                    let (steps, end) = work(&instance, &servers, secret.clone(), k, lie);
                    match end {
                        Ok(result) if result.is_doubtful => impossible += 1,
                        Ok(result) if result.found.is_empty() => empty += 1,
                        Ok(_) => found += 1,
                        Err(other) => panic!("{}: {other}", scheme.name),
                    }
                    // All rows are read, and every encoded record is decoded completely.
                    let record = (servers[0].header_context().record_length + aont::OVERHEAD) as u64;
                    let last = steps.len() - 1;
                    assert!(steps[last - k] > instance.phases() as u64 * ROWS as u64, "{}", scheme.name);
                    assert!(steps[last - k..].windows(2).all(|pair| pair[1] == pair[0] + record), "{}", scheme.name);
                    assert_eq!(*expected.get_or_insert(steps.clone()), steps, "{}, k = {k}, lie {lie}", scheme.name);
                }
            }
            assert!(found > 0, "{}", scheme.name);
            assert!(empty > 0 || scheme.constraint == ConstraintKind::None, "{}", scheme.name);
            let any_value_is_possible = instance.field().q() <= (scheme.bound)(instance.params()) as u64 + 1;
            assert!(
                impossible > 0 || any_value_is_possible || scheme.constraint != ConstraintKind::None,
                "{}",
                scheme.name
            );
        }
    });
}
