//! Messages that a server must refuse, with the problem of each; some have two faults, so that the
//! order of the checks is fixed.
//!
//! A fault changes an accepted message byte by byte. The recipient's commitment is then made again,
//! so that it opens, unless the fault concerns the commitment itself. A test of `ifonly-server`
//! compares the problem names with those of its problem documents.

use super::{compare, hex, schemes};
use crate::field::ModulusRule;
use crate::http_api::{ProblemType, Route};
use crate::keys::RootKey;
use crate::params::Params;
use crate::random::SeededRandom;
use crate::row_function::Rows;
use crate::scheme;
use crate::scheme::instance::SchemeInstance;
use crate::search::{HeaderContext, Search};
use crate::secret_query::SecretQuery;
use crate::server_protocol::{Refusal, ServerProtocol};
use crate::transcript::{Message, commit};
use curve25519_dalek::scalar::Scalar;
use serde_json::{Value, json};

const DIGEST: [u8; 32] = [0xd7; 32];
/// With records of 10 bytes, a record fetch of `two-phase` asks 3 servers instead of 2.
const RECORD_LENGTH: usize = 9;
const ROWS: [[u16; 2]; 3] = [[1, 2], [3, 0], [1, 1]];
/// ℓ, little-endian.
const GROUP_ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

fn keys() -> [RootKey; 2] {
    [(5, 0x61), (6, 0x62)].map(|(epoch, byte)| RootKey::new(epoch, [byte; 32]))
}

fn instances() -> [SchemeInstance; 2] {
    ["baseline", "two-phase"].map(|name| {
        let params = Params { shuffle: false, ..Params::new(vec![3, 2], ROWS.len()) };
        SchemeInstance::new(scheme::named(name).unwrap(), params, ModulusRule::Deployment).unwrap()
    })
}

fn protocol(index: u8) -> ServerProtocol {
    ServerProtocol::new(index, DIGEST, instances(), keys().to_vec(), RECORD_LENGTH)
}

/// The messages of one step.
struct Accepted {
    instance: SchemeInstance,
    phase: u8,
    messages: Vec<Vec<u8>>,
}

/// All steps of a search.
fn search(instance: &SchemeInstance, key: &RootKey) -> Vec<Accepted> {
    let context = HeaderContext { digest: DIGEST, epoch: key.epoch(), record_length: RECORD_LENGTH, signer: None };
    let rows = Rows::new(&[3, 2], ROWS).unwrap();
    let records = protocol(1).encode_records(key, ROWS.iter().map(|_| &[7; RECORD_LENGTH][..]));
    let mut search = Search::new(instance.clone(), SecretQuery::new(vec![1, 1]), context).unwrap();
    let mut random = SeededRandom::new(4000 + u64::from(key.epoch()));
    let mut steps = vec![];
    while let Some(step) = search.next(&mut random) {
        let messages: Vec<Vec<u8>> = step.messages.iter().map(|message| message.to_vec()).collect();
        let respond = |(index, message): (u8, &Vec<u8>)| protocol(index).respond(message, &rows, &records).ok();
        search.receive((1..).zip(&messages).map(respond).collect());
        steps.push(Accepted { instance: instance.clone(), phase: messages[0][7], messages });
    }
    search.finish().unwrap();
    steps
}

/// The parts of a message, so that faults can change them. The header is changed in place.
struct Parts {
    header: Vec<u8>,
    server: u8,
    commitments: Vec<[u8; 32]>,
    blinding: [u8; 32],
    share_commitments: Vec<[u8; 32]>,
    first_commitments: Vec<[u8; 32]>,
    share_blinding: Vec<u8>,
    payload: Vec<u8>,
}

impl Parts {
    fn read(bytes: &[u8]) -> Parts {
        let mut rest = bytes;
        let mut take = |count: usize| {
            let (part, tail) = rest.split_at(count);
            rest = tail;
            part.to_vec()
        };
        let several = |bytes: Vec<u8>| bytes.chunks_exact(32).map(|one| one.try_into().unwrap()).collect();
        let mut header = take(93);
        header.extend(take(header[92].into()));
        let responders: usize = take(1)[0].into();
        header.push(responders as u8);
        header.extend(take(responders));
        let server = take(1)[0];
        let commitments = several(take(32 * responders));
        let blinding = take(32).try_into().unwrap();
        let count: usize = take(1)[0].into();
        let share_commitments = several(take(32 * count));
        let count: usize = take(1)[0].into();
        let first_commitments = several(take(32 * count));
        let share_blinding = take(if count > 0 { 32 } else { 0 });
        let payload = rest.to_vec();
        Parts { header, server, commitments, blinding, share_commitments, first_commitments, share_blinding, payload }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.clone();
        bytes.push(self.server);
        bytes.extend(self.commitments.as_flattened());
        bytes.extend(self.blinding);
        bytes.push(self.share_commitments.len() as u8);
        bytes.extend(self.share_commitments.as_flattened());
        bytes.push(self.first_commitments.len() as u8);
        bytes.extend(self.first_commitments.as_flattened());
        bytes.extend(&self.share_blinding);
        bytes.extend(&self.payload);
        bytes
    }

    /// The place of the number of responders.
    fn responders(&self) -> usize {
        93 + usize::from(self.header[92])
    }

    fn set_ticket(&mut self, ticket: [u8; 16]) {
        self.header[76..92].copy_from_slice(&ticket);
    }

    fn apply(&mut self, fault: &str, accepted: &Accepted) {
        let (own, responders) = (usize::from(self.server) - 1, self.responders());
        let field = accepted.instance.field();
        let parent: [u8; 32] = self.header[44..76].try_into().unwrap();
        let [current, other] = keys();
        match fault {
            "magic" => self.header[0] ^= 1,
            "version" => self.header[6] = 2,
            "phase 0" => self.header[7] = 0,
            "phase 2" => self.header[7] = 2,
            "phase 255" => self.header[7] = 255,
            "unknown key epoch" => self.header[8] = 9,
            "other key epoch" => self.header[8] = 6,
            "manifest digest" => self.header[12] ^= 1,
            "parent" => self.header[44] ^= 1,
            "ticket" => self.header[76] ^= 1,
            "no parent" => self.header[44..92].fill(0),
            "no ticket" => self.set_ticket([0; 16]),
            "ticket of two-phase" => self.set_ticket(current.ticket("two-phase", &parent)),
            "ticket of epoch 6" => self.set_ticket(other.ticket(accepted.instance.scheme().name, &parent)),
            "unknown scheme" => self.header[93] = b'x',
            "scheme not UTF-8" => self.header[93] = 0xff,
            "responder 0" => self.header[responders + 1] = 0,
            "responder twice" => self.header[responders + 2] = 1,
            "responder skipped" => *self.header.last_mut().unwrap() += 1,
            "one responder more" => {
                self.header[responders] += 1;
                self.header.push(self.header[responders]);
                self.commitments.push([0; 32]);
            }
            "one responder less" => {
                self.header[responders] -= 1;
                self.header.pop();
                self.commitments.pop();
            }
            "no responders" => {
                self.header.truncate(responders + 1);
                self.header[responders] = 0;
                self.commitments.clear();
            }
            "other server" => self.server = self.server % self.header[responders] + 1,
            "no responder" => self.server = self.header[responders] + 1,
            "commitment" => self.commitments[own][0] ^= 1,
            "blinding" => self.blinding[0] ^= 1,
            "blinding not canonical" => self.blinding = plus_order(&self.blinding),
            "longer payload" => self.payload.push(0),
            "shorter payload" => drop(self.payload.pop()),
            "element not reduced" => self.payload[0] |= (1 << field.bits()) - 1,
            "unused bits" => {
                let bit = match accepted.phase {
                    255 => ROWS.len(),
                    phase => field.bits() as usize * accepted.instance.slot_lengths(phase.into()).iter().sum::<usize>(),
                };
                self.payload[bit / 8] |= 1 << (bit % 8);
            }
            // The lowest bit of the last element changes; q is odd, so it stays reduced.
            "other x" => {
                let bit = field.bits() as usize * (ROWS.len() + 1);
                self.payload[bit / 8] ^= 1 << (bit % 8);
            }
            "no share commitments" => self.share_commitments.clear(),
            "one share commitment more" => self.share_commitments.push([0; 32]),
            "own share commitment" => self.share_commitments[own][0] ^= 1,
            "last share commitment" => self.share_commitments.last_mut().unwrap()[0] ^= 1,
            "first commitment" => self.first_commitments[0][0] ^= 1,
            "no first commitments" => {
                self.first_commitments.clear();
                self.share_blinding.clear();
            }
            "one first commitment" => {
                self.first_commitments = vec![[0; 32]];
                self.share_blinding = vec![0; 32];
            }
            "share blinding" => self.share_blinding[0] ^= 1,
            "share blinding not canonical" => self.share_blinding = plus_order(&self.share_blinding).to_vec(),
            other => panic!("{other}"),
        }
    }

    fn commit_again(&mut self) {
        if let Some(commitment) = self.commitments.get_mut(usize::from(self.server) - 1) {
            let blinding = Scalar::from_canonical_bytes(self.blinding).unwrap();
            *commitment = commit("payload", &self.header, self.server, &self.payload, &blinding);
        }
    }
}

/// The same scalar, not reduced.
fn plus_order(scalar: &[u8]) -> [u8; 32] {
    let mut carry = 0;
    std::array::from_fn(|place| {
        carry = carry / 256 + u16::from(scalar[place]) + u16::from(GROUP_ORDER[place]);
        carry as u8
    })
}

fn faulty(accepted: &Accepted, server: usize, faults: &[&str]) -> Vec<u8> {
    let mut parts = Parts::read(&accepted.messages[server.min(accepted.messages.len()) - 1]);
    let is_cut = |fault: &&&str| fault.starts_with("first ");
    let length = |fault: &str| fault.strip_prefix("first ")?.strip_suffix(" bytes")?.parse::<usize>().ok();
    let changes = || faults.iter().filter(|fault| **fault != "path" && length(fault).is_none());
    changes().for_each(|fault| parts.apply(fault, accepted));
    if !changes().any(|fault| ["commitment", "blinding", "blinding not canonical"].contains(fault)) {
        parts.commit_again();
    }
    let mut bytes = parts.bytes();
    faults.iter().filter(is_cut).filter_map(|fault| length(fault)).for_each(|length| bytes.truncate(length));
    bytes
}

/// The checks of a server, in the order of its HTTP interface.
fn problem(index: u8, route: Route, bytes: &[u8]) -> Option<ProblemType> {
    let protocol = protocol(index);
    if bytes.len() > protocol.longest_message() {
        return Some(ProblemType::TooLarge);
    }
    let message = match Message::decode(bytes) {
        Ok(message) if message.header.kind.route() != route => return Some(ProblemType::WrongPath),
        decoded => decoded.map_err(Refusal::from),
    };
    let refusal = message.and_then(|message| protocol.check(message).map(drop)).err()?;
    Some(match refusal {
        Refusal::Manifest => ProblemType::UnknownManifest,
        Refusal::Epoch(_) => ProblemType::UnknownKeyEpoch,
        Refusal::Scheme(_) => ProblemType::SchemeNotOffered,
        Refusal::Server { .. } => ProblemType::WrongServer,
        Refusal::Version(_) => ProblemType::UnsupportedVersion,
        Refusal::Ticket => ProblemType::WrongTicket,
        _ => ProblemType::Malformed,
    })
}

/// Indices into the accepted steps.
const BASELINE: usize = 0;
const BASELINE_RECORD: usize = 1;
const TWO_PHASE: usize = 2;
const PHASE_1: usize = 3;
const RECORD: usize = 4;

const FAULTS: &[(usize, usize, &[&str])] = &[
    // Magic, version, structure.
    (BASELINE, 1, &["first 0 bytes"]),
    (BASELINE, 1, &["magic"]),
    (BASELINE, 1, &["magic", "version"]),
    (BASELINE, 1, &["first 6 bytes"]),
    (BASELINE, 1, &["version"]),
    (BASELINE, 1, &["version", "first 7 bytes"]),
    (BASELINE, 1, &["version", "manifest digest"]),
    (BASELINE, 1, &["first 100 bytes"]),
    (BASELINE, 1, &["manifest digest", "first 100 bytes"]),
    (PHASE_1, 2, &["manifest digest", "first 300 bytes"]),
    (BASELINE, 1, &["scheme not UTF-8"]),
    (BASELINE, 1, &["scheme not UTF-8", "manifest digest"]),
    (BASELINE, 1, &["responder 0", "manifest digest"]),
    (BASELINE, 1, &["responder twice", "manifest digest"]),
    (BASELINE, 1, &["no responders", "manifest digest"]),
    (BASELINE, 1, &["responder 0", "path"]),
    // Path.
    (BASELINE, 2, &["path"]),
    (BASELINE_RECORD, 2, &["path"]),
    (BASELINE, 2, &["path", "manifest digest"]),
    (BASELINE, 2, &["phase 255"]),
    (BASELINE, 2, &["phase 255", "path"]),
    (BASELINE_RECORD, 2, &["phase 0"]),
    (BASELINE_RECORD, 2, &["phase 0", "path"]),
    // Manifest, scheme.
    (BASELINE, 1, &["manifest digest"]),
    (BASELINE, 1, &["manifest digest", "unknown scheme"]),
    (BASELINE, 1, &["manifest digest", "unknown key epoch"]),
    (BASELINE, 1, &["manifest digest", "other server"]),
    (BASELINE, 1, &["unknown scheme"]),
    (BASELINE, 1, &["unknown scheme", "phase 2"]),
    (BASELINE, 1, &["unknown scheme", "one responder more"]),
    // Phase, responders.
    (BASELINE, 1, &["phase 2"]),
    (BASELINE, 1, &["phase 2", "other server"]),
    (BASELINE, 1, &["one responder more"]),
    (TWO_PHASE, 1, &["one responder less"]),
    (TWO_PHASE, 1, &["responder skipped"]),
    (TWO_PHASE, 1, &["responder skipped", "other server"]),
    (RECORD, 1, &["one responder less", "ticket"]),
    // Server.
    (BASELINE, 1, &["other server"]),
    (BASELINE, 3, &["no responder"]),
    (BASELINE, 1, &["other server", "parent"]),
    (BASELINE, 1, &["other server", "unknown key epoch"]),
    // Parent.
    (BASELINE, 1, &["parent"]),
    (BASELINE, 1, &["ticket"]),
    (BASELINE, 1, &["parent", "unknown key epoch"]),
    (PHASE_1, 1, &["no parent"]),
    (RECORD, 1, &["no parent"]),
    (RECORD, 1, &["no parent", "unknown key epoch"]),
    // Key epoch, ticket.
    (BASELINE, 1, &["unknown key epoch"]),
    (BASELINE, 1, &["unknown key epoch", "longer payload"]),
    (RECORD, 1, &["unknown key epoch", "ticket"]),
    (RECORD, 1, &["ticket"]),
    (RECORD, 1, &["parent"]),
    (RECORD, 1, &["no ticket"]),
    (RECORD, 1, &["other key epoch"]),
    (RECORD, 1, &["ticket of epoch 6"]),
    (BASELINE_RECORD, 1, &["ticket of two-phase"]),
    (RECORD, 1, &["ticket", "shorter payload"]),
    (PHASE_1, 1, &["ticket", "other x"]),
    // Payload.
    (BASELINE, 1, &["longer payload"]),
    (BASELINE, 1, &["shorter payload"]),
    (BASELINE, 1, &["element not reduced"]),
    (BASELINE, 1, &["unused bits"]),
    (PHASE_1, 1, &["longer payload"]),
    (PHASE_1, 1, &["shorter payload"]),
    (BASELINE_RECORD, 1, &["longer payload"]),
    (BASELINE_RECORD, 1, &["shorter payload"]),
    (BASELINE_RECORD, 1, &["unused bits"]),
    (RECORD, 1, &["longer payload"]),
    // Commitment.
    (BASELINE, 1, &["commitment"]),
    (BASELINE, 1, &["blinding"]),
    (BASELINE, 1, &["blinding not canonical"]),
    // Share commitments.
    (TWO_PHASE, 1, &["no share commitments"]),
    (TWO_PHASE, 1, &["one share commitment more"]),
    (TWO_PHASE, 1, &["one first commitment"]),
    (BASELINE, 1, &["one share commitment more"]),
    (BASELINE, 1, &["one first commitment"]),
    (RECORD, 1, &["one share commitment more"]),
    (PHASE_1, 1, &["other x"]),
    (PHASE_1, 1, &["own share commitment"]),
    (PHASE_1, 1, &["last share commitment"]),
    (PHASE_1, 1, &["no share commitments"]),
    (PHASE_1, 1, &["first commitment"]),
    (PHASE_1, 1, &["no first commitments"]),
    (PHASE_1, 1, &["share blinding"]),
    (PHASE_1, 1, &["share blinding not canonical"]),
];

#[test]
fn refusal_vectors_have_the_problem_that_the_first_failed_check_gives() {
    let ([current, other], [baseline, two_phase]) = (keys(), instances());
    let mut accepted = search(&baseline, &current);
    accepted.extend(search(&two_phase, &current));
    accepted.push(search(&baseline, &other).pop().unwrap());
    let route =
        |step: &Accepted, swapped: bool| if (step.phase == 255) != swapped { Route::Record } else { Route::Answer };
    for step in &accepted {
        for (index, message) in (1..).zip(&step.messages) {
            assert_eq!(problem(index, route(step, false), message), None);
        }
    }
    let refusals = FAULTS.iter().map(|&(of, server, faults)| {
        let route = route(&accepted[of], faults.contains(&"path"));
        let message = faulty(&accepted[of], server, faults);
        let problem = problem(server as u8, route, &message).unwrap_or_else(|| panic!("{faults:?} is accepted"));
        json!({
            "step": of, "server": server, "faults": faults,
            "path": route.path(), "message": hex(&message), "problem": problem.name(),
        })
    });
    let deployed = |instance: &SchemeInstance| {
        let scheme = instance.scheme();
        let mut params = schemes::params(scheme, instance.params());
        // Fields without effect on these checks.
        for name in ["shuffle", "verified"] {
            params.as_object_mut().unwrap().remove(name);
        }
        let bound = (scheme.bound)(instance.params()) as u64;
        json!({ "scheme": scheme.name, "params": params, "bound": bound, "q": instance.field().q() })
    };
    let step = |step: &Accepted| {
        let messages: Vec<String> = step.messages.iter().map(|message| hex(message)).collect();
        let epoch = u32::from_le_bytes(step.messages[0][8..12].try_into().unwrap());
        let scheme = step.instance.scheme().name;
        json!({ "scheme": scheme, "phase": step.phase, "key_epoch": epoch, "messages": messages })
    };
    compare(
        "refusals",
        &json!({
            "manifest_digest": hex(&DIGEST),
            "record_length": RECORD_LENGTH,
            "root_keys": [
                { "key_epoch": 5, "root_key": hex(&[0x61; 32]) },
                { "key_epoch": 6, "root_key": hex(&[0x62; 32]) },
            ],
            "schemes": [deployed(&baseline), deployed(&two_phase)],
            "accepted": accepted.iter().map(step).collect::<Vec<_>>(),
            "refusals": refusals.collect::<Vec<Value>>(),
        }),
    );
}
