//! `vectors/refusals.json`: every refused message gets its problem name.
//!
//! The servers of this file have root keys that no bundle derives, so this test calls the protocol
//! and the problem documents in the order of `http/routes.rs`, without a network.

use ifonly_algebra::field::ModulusRule;
use ifonly_algebra::keys::RootKey;
use ifonly_core::params::Params;
use ifonly_core::scheme;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::server_protocol::{Refusal, ServerProtocol};
use ifonly_core::transcript::Message;
use ifonly_server::http::problem::Problem;
use serde_json::Value;

fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap()
}

fn number(value: &Value) -> u32 {
    value.as_u64().unwrap() as u32
}

fn instance(deployed: &Value) -> SchemeInstance {
    let max_levels = deployed["params"]["max_levels"].as_array().unwrap().iter().map(number).collect();
    let params = Params::new(max_levels, number(&deployed["params"]["rows"]) as usize);
    let scheme = scheme::named(deployed["scheme"].as_str().unwrap()).unwrap();
    SchemeInstance::new(scheme, params, ModulusRule::Deployment).unwrap()
}

fn check(protocol: &ServerProtocol, path: &str, body: &[u8]) -> Result<(), Problem> {
    let limit = protocol.longest_message();
    if body.len() > limit {
        return Err(Problem::TooLarge { limit });
    }
    let message = Message::decode(body).map_err(Refusal::from)?;
    let expected = message.header.kind.route().path();
    if expected != path {
        return Err(Problem::WrongPath { path: expected });
    }
    Ok(protocol.check(message).map(drop)?)
}

#[test]
fn refused_messages_have_the_problem_names_of_the_test_vectors() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/refusals.json");
    let vectors: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let digest: [u8; 32] = bytes(&vectors["manifest_digest"]).try_into().unwrap();
    let instances: Vec<SchemeInstance> = vectors["schemes"].as_array().unwrap().iter().map(instance).collect();
    let key = |key: &Value| RootKey::new(number(&key["key_epoch"]), bytes(&key["root_key"]).try_into().unwrap());
    let keys: Vec<RootKey> = vectors["root_keys"].as_array().unwrap().iter().map(key).collect();
    let refusals = vectors["refusals"].as_array().unwrap();
    assert!(!refusals.is_empty());
    for refusal in refusals {
        let index = number(&refusal["server"]) as u8;
        let protocol = ServerProtocol::new(index, digest, instances.clone(), keys.clone(), 4);
        let problem = check(&protocol, refusal["path"].as_str().unwrap(), &bytes(&refusal["message"])).unwrap_err();
        assert_eq!(refusal["problem"], problem.kind().name(), "{}", refusal["faults"]);
    }
}
