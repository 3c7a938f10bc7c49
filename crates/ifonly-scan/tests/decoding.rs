//! Decoding gives the values of the definition and the first nearest row, for any arrival of the
//! bytes.

use ifonly_algebra::field::{Field, FieldElement, ModulusRule};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::wire;
use ifonly_scan::Backend;
use ifonly_scan::decode::{AnswerStreamError, ArgMin, ArgMinResult, Decoder, InterpolationPlan};

struct Case {
    field: Field,
    outputs: usize,
    interpolation: InterpolationPlan,
    answers: Vec<Vec<u8>>,
    values: Vec<u64>,
}

/// Random answers of `servers` servers. Values are small, so that minima, ties and open gates
/// occur.
fn case(bits: u32, servers: usize, outputs: usize, rows: usize, random: &mut SeededRandom) -> Case {
    let field = Field::above((1 << (bits - 1)) + 1, ModulusRule::Deployment).unwrap();
    // Two servers at the points ±1 have the weights 1/2, for which there is separate code.
    let half = field.inverse(field.reduce(2)).unwrap();
    let halves = servers == 2 && random.below(2) == 0;
    let weights: Vec<FieldElement> =
        (0..servers).map(|_| if halves { half } else { field.reduce(1 + random.below(field.q() - 1)) }).collect();
    let constants: Vec<FieldElement> = (0..outputs).map(|_| field.sample(random)).collect();
    let values: Vec<FieldElement> =
        (0..rows * outputs).map(|_| field.reduce(random.below(field.q()) % (1 << 40) % 50)).collect();
    let mut answers: Vec<Vec<FieldElement>> = vec![vec![]; servers];
    for (i, &value) in values.iter().enumerate() {
        let mut rest = field.sub(value, constants[i % outputs]);
        for server in 1..servers {
            let element = field.sample(random);
            rest = field.sub(rest, field.mul(weights[server], element));
            answers[server].push(element);
        }
        answers[0].push(field.mul(rest, field.inverse(weights[0]).unwrap()));
    }
    Case {
        outputs,
        interpolation: InterpolationPlan { field: field.clone(), weights, constants },
        answers: answers.iter().map(|elements| wire::pack(&field, elements)).collect(),
        values: values.iter().map(|value| value.value()).collect(),
        field,
    }
}

fn nearest_of(case: &Case) -> Option<ArgMinResult> {
    let rows = case.values.chunks_exact(case.outputs).enumerate();
    let candidates = rows.filter(|(_, row)| case.outputs == 1 || row[0] == 0);
    candidates
        .map(|(row, values)| ArgMinResult { row, value: values[case.outputs - 1] })
        .min_by_key(|found| found.value)
}

#[test]
fn values_and_nearest_row_are_correct_for_every_field_and_number_of_servers() {
    let mut random = SeededRandom::new(11);
    for bits in [5, 8, 21, 31, 32, 40, 61] {
        for servers in 1..=5 {
            for (outputs, rows) in [(1, 0), (1, 1), (1, 511), (1, 1600), (2, 1025), (3, 600)] {
                let case = case(bits, servers, outputs, rows, &mut random);
                for backend in Backend::available() {
                    let mut decoder = Decoder::with_backend(case.interpolation.clone(), rows, backend);
                    let mut values = vec![];
                    let mut nearest = if outputs == 1 { ArgMin::plain() } else { ArgMin::gated() };
                    let parts: Vec<&[u8]> = case.answers.iter().map(Vec::as_slice).collect();
                    let mut visit = |run: ifonly_scan::decode::DecodedRun<'_>| {
                        values.extend(run.iter());
                        if outputs < 3 {
                            nearest.visit(run);
                        }
                    };
                    decoder.decode_all(&parts, &mut visit).unwrap();
                    assert_eq!(values, case.values, "{backend}, {bits} bits, {servers} servers");
                    if outputs < 3 {
                        assert_eq!(nearest.found(), nearest_of(&case), "{backend}, {bits} bits, {servers} servers");
                    }
                }
            }
        }
    }
}

#[test]
fn the_nearest_row_is_found_in_any_run_and_the_first_of_equal_rows_wins() {
    for bits in [21, 40] {
        let field = Field::above((1 << (bits - 1)) + 1, ModulusRule::Deployment).unwrap();
        for outputs in [1, 2] {
            // One server whose answer equals the values: an open gate, if there are two outputs,
            // and a cost.
            let constants = vec![FieldElement::ZERO; outputs];
            let interpolation = InterpolationPlan { field: field.clone(), weights: vec![FieldElement::ONE], constants };
            let mut values: Vec<u64> = (0..2000).flat_map(|_| [0, 900].into_iter().skip(2 - outputs)).collect();
            if outputs == 2 {
                // The smallest cost of all, in a row with a closed gate.
                values[2 * 1300..][..2].copy_from_slice(&[1, 0]);
            }
            let planted = [(10, 50, 10), (600, 40, 600), (1100, 30, 1100), (1101, 30, 1100), (1700, 30, 1100)];
            for (row, value, nearest_row) in planted {
                values[row * outputs + outputs - 1] = value;
                let elements: Vec<FieldElement> = values.iter().map(|&value| field.reduce(value)).collect();
                let mut nearest = if outputs == 1 { ArgMin::plain() } else { ArgMin::gated() };
                let answer = wire::pack(&field, &elements);
                let mut decoder = Decoder::new(interpolation.clone(), 2000);
                decoder.decode_all(&[&answer], &mut |run| nearest.visit(run)).unwrap();
                assert_eq!(
                    nearest.found(),
                    Some(ArgMinResult { row: nearest_row, value }),
                    "{bits} bits, {outputs} outputs"
                );
            }
        }
    }
}

#[test]
fn bytes_may_arrive_in_any_pieces_and_a_decoder_can_restart() {
    let mut random = SeededRandom::new(12);
    for servers in [2, 3] {
        for _ in 0..20 {
            let rows = 1 + random.below(3000) as usize;
            let cases = [21, 32, 5].map(|bits| case(bits, servers, 1, rows, &mut random));
            let mut decoder = Decoder::new(cases[0].interpolation.clone(), rows);
            for case in cases {
                decoder.restart(case.interpolation);
                let mut values = vec![];
                let mut at = vec![0; servers];
                let longest = 1 + random.below(12_000);
                while at.iter().zip(&case.answers).any(|(&at, answer)| at < answer.len()) {
                    let server = random.below(servers as u64) as usize;
                    let end = case.answers[server].len().min(at[server] + random.below(longest) as usize);
                    let mut visit = |run: ifonly_scan::decode::DecodedRun<'_>| values.extend(run.iter());
                    decoder.feed(server, &case.answers[server][at[server]..end], &mut visit).unwrap();
                    at[server] = end;
                }
                decoder.finish().unwrap();
                assert_eq!(values, case.values);
            }
        }
    }
}

#[test]
fn errors_for_wrong_lengths_and_numbers_outside_the_field_name_their_server() {
    let mut random = SeededRandom::new(13);
    for bits in [21, 40] {
        let case = case(bits, 2, 1, 1000, &mut random);
        let [first, second] = [&case.answers[0][..], &case.answers[1][..]];
        let decode = |parts: [&[u8]; 2]| Decoder::new(case.interpolation.clone(), 1000).decode_all(&parts, &mut |_| {});
        assert_eq!(decode([first, second]), Ok(()));
        let need = first.len();
        let short = AnswerStreamError::TooShort { server: 1, have: need - 1, need };
        assert_eq!(decode([first, &second[..need - 1]]), Err(short));
        assert_eq!(decode([&[first, &[0]].concat(), second]), Err(AnswerStreamError::TooLong(0)));
        // Element 600 starts at a byte boundary, and the next element is zero.
        let mut outside = vec![0; need];
        outside[600 / 8 * bits as usize..][..8].copy_from_slice(&case.field.q().to_le_bytes());
        assert_eq!(decode([first, &outside]), Err(AnswerStreamError::NotReduced { server: 1, row: 512 }));
        let mut decoder = Decoder::new(case.interpolation.clone(), 1000);
        decoder.feed(0, first, &mut |_| {}).unwrap();
        assert_eq!(decoder.feed(0, &[1], &mut |_| {}), Err(AnswerStreamError::TooLong(0)));
        assert_eq!(decoder.finish().unwrap_err(), AnswerStreamError::TooLong(0));
    }
}
