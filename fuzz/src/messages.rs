//! The target `messages`: the input of a server. It sends the bytes as they are. If they decode as
//! a message, it also sends them with valid commitments, to reach the code behind that check.

use ifonly_algebra::field::ModulusRule;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::SeededRandom;
use ifonly_algebra::row_function::Rows;
use ifonly_core::memory::MemoryServer;
use ifonly_core::params::Params;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::{self, ConstraintKind, CostModel, DecodeRule, Phase};
use ifonly_core::search::{Search, StepMessages};
use ifonly_core::secret_query::SecretQuery;
use ifonly_core::transcript::{Message, messages};
use std::sync::LazyLock;

/// Scheme instances: one and two phases, redundant servers, verified answers.
pub(crate) static INSTANCES: LazyLock<Vec<SchemeInstance>> = LazyLock::new(|| {
    let plain = Params { shuffle: true, ..Params::new(vec![4, 9, 1], 3) };
    let redundant = Params { silent: 1, lying: 1, ..plain.clone() };
    let verified = Params { verified: true, ..plain.clone() };
    let first_with = |property: fn(&Phase) -> bool| {
        let mut all = scheme::ALL.iter().copied();
        all.find(|scheme| scheme.phases.iter().any(property)).expect("there is such a scheme")
    };
    let carrying = first_with(|phase| phase.slots.iter().any(|slot| slot.carried));
    let differences = first_with(|phase| matches!(phase.decode_rule, DecodeRule::Difference));
    let gated = scheme::smallest(CostModel::Squared, ConstraintKind::Zeros);
    [(scheme::DEFAULT, &plain), (carrying, &plain), (differences, &redundant), (gated, &verified)]
        .map(|(scheme, params)| {
            SchemeInstance::new(scheme, params.clone(), ModulusRule::Deployment).expect("the instance is valid")
        })
        .into()
});

/// The servers of each instance.
pub(crate) static SERVERS: LazyLock<Vec<Vec<MemoryServer>>> = LazyLock::new(|| {
    let rows = Rows::new(&[4, 9, 1], [[0, 9, 1], [4, 0, 0], [2, 5, 1]]).expect("the rows are valid");
    let key = RootKey::new(0, [7; 32]);
    let servers = |instance: &SchemeInstance| {
        (1..=instance.servers() as u8).map(|index| MemoryServer::new(index, instance, &key, &rows)).collect()
    };
    INSTANCES.iter().map(servers).collect()
});

/// A search with fixed values.
pub(crate) fn search(number: usize) -> Search {
    let secret = SecretQuery::new(vec![1, 2, 0]);
    Search::new(INSTANCES[number].clone(), secret, SERVERS[number][0].header_context()).expect("the search is valid")
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((&number, bytes)) = bytes.split_first() else { return };
    let servers = &SERVERS[usize::from(number) % SERVERS.len()];
    for server in servers {
        let _ = server.respond(bytes);
    }
    let Ok(message) = Message::decode(bytes) else { return };
    let payloads = message.header.responders.iter().map(|_| message.payload.clone()).collect();
    let again = messages(&message.header, payloads, &mut SeededRandom::new(1));
    for (message, server) in again.iter().zip(servers) {
        let _ = server.respond(&message.encode());
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (number, servers) in SERVERS.iter().enumerate() {
        let (mut search, mut random) = (search(number), SeededRandom::new(1));
        while let Some(StepMessages { messages, .. }) = search.next(&mut random) {
            let with_number = |message: &[u8]| [&[number as u8], message].concat();
            seeds.extend(messages.iter().map(|message| with_number(message)));
            search
                .receive(messages.iter().zip(servers).map(|(message, server)| server.respond(message).ok()).collect());
        }
    }
    seeds
}
