//! Vectors of messages, commitments, τ, keyed randomness of the servers, row orders, encoded
//! records and record queries.

use super::{compare, hex, numbers};
use crate::aont::OVERHEAD;
use crate::field::Field;
use crate::http_api;
use crate::keys::{Purpose, RootKey, TranscriptKeys};
use crate::params::Params;
use crate::random::{RandomSource, SeededRandom};
use crate::row_function::RowRandomness;
use crate::scheme::instance::SchemeInstance;
use crate::server_protocol::ServerProtocol;
use crate::share::EvaluationPoints;
use crate::share_commitment::ShareCommitments;
use crate::shuffle;
use crate::spir::RecordFetch;
use crate::transcript::{Header, Message, MessageKind, SearchRef, messages};
use serde_json::{Value, json};
use zeroize::Zeroizing;

const DIGEST: [u8; 32] = [0xd1; 32];

/// Records every byte.
struct Recorder(SeededRandom, Vec<u8>);

impl RandomSource for Recorder {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
        self.1.extend_from_slice(bytes);
    }
}

/// Fingerprints of root keys as they are in key files.
fn fingerprints() -> Vec<Value> {
    let each = |(epoch, key): (u32, [u8; 32])| {
        let fingerprint = RootKey::new(epoch, key).fingerprint();
        json!({
            "key_epoch": epoch, "root_key": hex(&key), "header": http_api::write_fingerprints(&[fingerprint]),
            "fingerprint": fingerprint.to_string(),
        })
    };
    [(0, [0x42; 32]), (7, [0x42; 32]), (7, [0x43; 32])].into_iter().map(each).collect()
}

fn streams(keys: &TranscriptKeys) -> Vec<Value> {
    let purposes = [
        ("pad 0 1", Purpose::Pad { output: 0, j: 1 }),
        ("pad 1 258", Purpose::Pad { output: 1, j: 258 }),
        ("rho", Purpose::Rho),
        ("sigma", Purpose::Sigma),
        ("mu", Purpose::Mu),
        ("order 0", Purpose::Order { part: 0 }),
        ("order 256", Purpose::Order { part: 256 }),
        ("record pad 1", Purpose::RecordPad { j: 1 }),
        ("key check", Purpose::KeyCheck),
    ];
    let stream = |(name, purpose): (&str, Purpose)| {
        let mut bytes = [0; 40];
        keys.stream(purpose).fill(0, &mut bytes);
        json!({ "purpose": name, "label": hex(&purpose.label()), "bytes": hex(&bytes) })
    };
    purposes.into_iter().map(stream).collect()
}

/// Field elements from words of one, two, three, four and eight bytes. Small fields reject many
/// words.
fn elements(keys: &TranscriptKeys) -> Vec<Value> {
    let fields = [5, 257, 65_537, 16_777_259, 4_294_967_311, (1 << 61) - 1];
    let each = |q: u64| {
        let rows = keys.rows(&Field::new(q).unwrap(), 2, 2, 5);
        let count = |draw: &dyn Fn(usize) -> u64| (0..8).map(draw).collect::<Vec<u64>>();
        json!({
            "q": q,
            "d_min": 5,
            "pad 0 1": count(&|row| rows.pad(0, 1, row).value()),
            "pad 1 2": count(&|row| rows.pad(1, 2, row).value()),
            "rho": count(&|row| rows.rho(row).value()),
            "sigma": count(&|row| rows.sigma(row).value()),
            "mu": count(&|row| rows.mu(row).value()),
        })
    };
    fields.into_iter().map(each).collect()
}

/// Fewer and more than 2^16 rows, and more of a stream than one read.
fn orders(keys: &TranscriptKeys) -> Vec<Value> {
    let each = |rows: usize| {
        let order = shuffle::permutation(keys, rows);
        let bytes: Vec<u8> = order.iter().flat_map(|row| row.to_le_bytes()).collect();
        json!({ "rows": rows, "first": order[..8], "hash": hex(blake3::hash(&bytes).as_bytes()) })
    };
    [10, 5000, 100_000].into_iter().map(each).collect()
}

/// A record query with its draws and the answers of the servers.
fn record_query(
    keys: &TranscriptKeys,
    encoded: &[Vec<u8>],
    faults: (usize, usize, usize),
    servers: usize,
    row: Option<usize>,
) -> Value {
    let (threshold, silent, lying) = faults;
    let params = Params { threshold, silent, lying, ..Params::new(vec![1], encoded.len()) };
    let fetch = RecordFetch::new(&params, servers, encoded[0].len() - OVERHEAD);
    let mut random = Recorder(SeededRandom::new(78), vec![]);
    let queries = fetch.queries(row, &mut random);
    let answers: Vec<Vec<u8>> = (0..fetch.responders())
        .map(|server| {
            let mut product = fetch.inner_product(&queries[server], |position| &encoded[position]);
            fetch.pad(server, keys, &mut product);
            product
        })
        .collect();
    let received: Vec<Option<Vec<u8>>> = answers.iter().cloned().map(Some).collect();
    let decoded = fetch.decode(&received, &mut SeededRandom::new(79)).unwrap().0;
    assert!(row.is_none_or(|row| decoded == encoded[row]));
    // Servers that the fetch does not ask have no query.
    let queries = (0..servers).map(|server| queries.get(server).map(|query| hex(query)));
    json!({
        "servers": servers, "T": threshold, "S": silent, "B": lying, "row": row,
        "draws": hex(&random.1),
        "queries": queries.collect::<Vec<_>>(),
        "answers": answers.iter().map(|answer| hex(answer)).collect::<Vec<_>>(),
    })
}

/// Both phases of a two-phase search: share commitments and ticket of phase 0, and their opening in
/// phase 1.
fn two_phases(root: &RootKey) -> Value {
    let mut random = SeededRandom::new(80);
    let header = |kind, parent| Header {
        scheme: "two-phase".into(),
        kind,
        epoch: 7,
        digest: DIGEST,
        responders: vec![1, 2, 3],
        parent,
    };
    let payloads = |first: u8| (first..first + 3).map(|byte| vec![byte; 4]).collect::<Vec<_>>();
    let committed: Vec<_> = payloads(0x30).into_iter().map(Zeroizing::new).collect();
    let mut first = messages(&header(MessageKind::Phase(0), SearchRef::default()), payloads(0x10), &mut random);
    let share_commitments = ShareCommitments::make(&mut first, &committed, &mut random);
    let tau = first[0].tau();
    let ticket = root.ticket("two-phase", &tau);
    let parent = SearchRef { tau, ticket };
    let mut second = messages(&header(MessageKind::Phase(1), parent), payloads(0x20), &mut random);
    share_commitments.open_in(&mut second);
    let all = |sent: &[Message]| sent.iter().map(|message| hex(&message.encode())).collect::<Vec<_>>();
    json!({
        "committed": committed.iter().map(|part| hex(part)).collect::<Vec<_>>(),
        "first": all(&first), "tau": hex(&tau), "ticket": hex(&ticket),
        "second": all(&second), "second_tau": hex(&second[0].tau()),
    })
}

#[test]
fn transcript_vectors_are_what_the_derivations_give() {
    let header = Header {
        scheme: "baseline".into(),
        kind: MessageKind::Phase(0),
        epoch: 7,
        digest: DIGEST,
        responders: vec![1, 2],
        parent: SearchRef::default(),
    };
    let sent = messages(&header, vec![vec![1, 2, 3], vec![4, 5, 6]], &mut SeededRandom::new(77));
    let root = RootKey::new(7, [0x42; 32]);
    let keys = root.transcript(&sent[0].tau());
    // Rows 0 and 1 have the same text and are encoded with different keys. Records are long enough
    // that 3 of 4 servers are cheaper than 2.
    let records: Vec<Vec<u8>> =
        (0..11).map(|row: u8| format!("row {:02}", row.max(1)).repeat(50).into_bytes()).collect();
    let protocol = ServerProtocol::new(1, DIGEST, [] as [SchemeInstance; 0], vec![root.clone()], records[0].len());
    let encoded = protocol.encode_records(&root, records.iter().map(Vec::as_slice));
    let query = |faults, servers, row| record_query(&keys, &encoded, faults, servers, row);
    compare(
        "transcript",
        &json!({
            "payloads": ["010203", "040506"],
            "messages": sent.iter().map(|message| hex(&message.encode())).collect::<Vec<_>>(),
            "tau": hex(&sent[0].tau()),
            "root_key": hex(&[0x42; 32]),
            "epoch": 7,
            "digest": hex(&DIGEST),
            "fingerprints": fingerprints(),
            "key_check": hex(&keys.check_value()),
            "ticket": hex(&root.ticket("baseline", &sent[0].tau())),
            "two_phases": two_phases(&root),
            "streams": streams(&keys),
            "elements": elements(&keys),
            "orders": orders(&keys),
            "records": records.iter().map(|record| hex(record)).collect::<Vec<_>>(),
            "encoded": encoded.iter().map(|record| hex(record)).collect::<Vec<_>>(),
            "record_queries": [
                query((1, 0, 0), 2, Some(9)),
                query((1, 0, 0), 2, None),
                query((1, 0, 0), 4, Some(10)),
                query((2, 0, 0), 3, Some(0)),
                query((1, 1, 1), 6, Some(3)),
            ],
            "usual_points": {
                "q": 257, "points": numbers(EvaluationPoints::usual(&Field::new(257).unwrap(), 5).unwrap().as_slice()),
            },
        }),
    );
}
