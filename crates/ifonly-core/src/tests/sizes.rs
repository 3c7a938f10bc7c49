//! Announced sizes equal the sizes of what is sent. Limits, estimates and the documentation rely on
//! them.

use crate::decode::DecodeError;
use crate::field::ModulusRule;
use crate::keys::RootKey;
use crate::memory::MemoryServer;
use crate::params::Params;
use crate::random::SeededRandom;
use crate::row_function::Rows;
use crate::scheme::instance::SchemeInstance;
use crate::scheme::sealed::SealedScheme;
use crate::search::{Search, StepMessages};
use crate::secret_query::SecretQuery;
use crate::spir::RecordFetch;
use crate::transcript::{Message, messages};
use crate::{aont, scheme};

fn instance(name: &str, params: Params) -> SchemeInstance {
    SchemeInstance::new(scheme::named(name).unwrap(), params, ModulusRule::Deployment).unwrap()
}

#[test]
fn the_bytes_of_a_search_equal_the_announced_ones() {
    let mut random = SeededRandom::new(21);
    for scheme in scheme::ALL {
        for (silent, top, rows) in [(0, 1, 3), (1, 3, 9)] {
            let instance = instance(scheme.name, Params { silent, ..Params::new(vec![3, 5], rows) });
            let levels: Vec<[u16; 2]> = (0..rows as u16).map(|row| [row % 4, row % 6]).collect();
            let rows = Rows::new(&[3, 5], levels).unwrap();
            let server = MemoryServer::new(1, &instance, &RootKey::new(0, [1; 32]), &rows);
            let header_context = server.header_context();
            let announced = instance.traffic(top, header_context.record_length);
            let mut search = Search::nearest(instance, SecretQuery::new(vec![1, 2]), header_context, top).unwrap();
            let (mut up, mut down, mut longest) = (0, 0, 0);
            // No server answers, which does not change the messages.
            while let Some(StepMessages { messages, response_length, .. }) = search.next(&mut random) {
                up += messages.iter().map(|message| message.len() as u128).sum::<u128>();
                down += (messages.len() * response_length) as u128;
                longest = longest.max(messages.iter().map(|message| message.len()).max().unwrap_or(0));
            }
            assert_eq!((announced.up, announced.down), (up, down), "{}", scheme.name);
            assert_eq!(server.longest_message(), longest, "{}", scheme.name);
        }
    }
}

#[test]
fn the_bytes_of_a_sealed_search_equal_the_announced_ones() {
    let sealed = SealedScheme::new(Params { cost_limit: 100, ..Params::new(vec![3, 1, 2], 9) }).unwrap();
    assert_eq!(SealedScheme::encoded_record_length(20), 20 + aont::OVERHEAD);
    let header_context = crate::search::HeaderContext { digest: [1; 32], epoch: 3, record_length: 20, signer: None };
    let payload = sealed.payload(2, &[0; 9]);
    let sent: Vec<Message> = messages(&sealed.header(&header_context), vec![payload; 3], &mut SeededRandom::new(22));
    let announced = sealed.traffic(2, 20);
    assert_eq!(announced.up, sent.iter().map(|message| message.encode().len() as u128).sum::<u128>());
    // The key-check value, then for each of the two rows a word and an encoded record.
    let response = crate::http_api::CHECK_LENGTH + 2 * (8 + 20 + aont::OVERHEAD);
    assert_eq!((sealed.response_length(2, 20), announced.down), (response, 3 * response as u128));
}

#[test]
fn gains_of_a_cheating_client_equal_those_in_the_documentation() {
    let with = |silent| Params { silent, ..Params::new(vec![3, 3], 5) };
    for (name, silent, elements) in [
        ("baseline", 0, 1),
        ("baseline", 2, 3),
        // ρ hides one of the two outputs of a gated row.
        ("gated", 0, 1),
        ("gated", 1, 3),
        // Phase 0 reveals only whether a value is zero.
        ("two-phase", 0, 1),
        ("two-phase", 1, 2),
    ] {
        assert_eq!(instance(name, with(silent)).cheated_elements(), elements, "{name}, S = {silent}");
    }
    for (servers, threshold, silent, records) in [(2, 1, 0, 1), (4, 1, 0, 1), (5, 1, 2, 2), (6, 2, 2, 2), (5, 1, 3, 4)]
    {
        let params = Params { threshold, silent, ..Params::new(vec![1], 5) };
        assert_eq!(RecordFetch::new(&params, servers, 7).cheated_records(), records, "N = {servers}, T = {threshold}");
    }
}

#[test]
fn a_record_query_has_one_length_and_no_bit_beyond_the_rows() {
    // Rows, servers, servers that are asked, bytes of a record.
    for (rows, servers, asked, length) in [
        (1, 2, 2, 5),
        (7, 2, 2, 5),
        (8, 2, 2, 5),
        (9, 2, 2, 5),
        (16, 2, 2, 5),
        (9, 3, 2, 5),
        (9, 3, 3, 500),
        (3, 4, 4, 500),
    ] {
        let fetch = RecordFetch::new(&Params::new(vec![1], rows), servers, length);
        assert_eq!(fetch.responders(), asked, "{rows} rows");
        let bytes = if asked == 2 { rows.div_ceil(8) } else { rows * (asked - 1) };
        for length in 0..2 * bytes + 2 {
            assert_eq!(fetch.is_query(&vec![0; length]), length == bytes, "{rows} rows, {length} bytes");
        }
        for bit in 0..8 * bytes {
            let mut query = vec![0; bytes];
            query[bit / 8] = 1 << (bit % 8);
            assert_eq!(fetch.is_query(&query), asked > 2 || bit < rows, "{rows} rows, bit {bit}");
        }
        // Answers also have one length, and the error names the server with another.
        let short = vec![Some(vec![0; fetch.stripe_length() - 1]); asked];
        let error = DecodeError::Length { server: 1, have: fetch.stripe_length() - 1, need: fetch.stripe_length() };
        assert_eq!(fetch.decode(&short, &mut SeededRandom::new(1)), Err(error));
    }
}
