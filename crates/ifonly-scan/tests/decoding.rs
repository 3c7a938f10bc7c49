//! Decoding gives the values of the definition, for any arrival of the bytes.

use ifonly_algebra::field::{Field, FieldElement, ModulusRule};
use ifonly_algebra::interpolate::{DecodedWords, InterpolationStream, MalformedAnswer};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::wire;
use ifonly_scan::Backend;
use ifonly_scan::decode::{Decoder, InterpolationPlan};

struct Case {
    field: Field,
    interpolation: InterpolationPlan,
    answers: Vec<Vec<u8>>,
    values: Vec<u64>,
}

/// Random answers of `servers` servers.
fn case(bits: u32, servers: usize, outputs: usize, rows: usize, random: &mut SeededRandom) -> Case {
    let field = Field::above((1 << (bits - 1)) + 1, ModulusRule::Deployment).unwrap();
    // Two servers at the points ±1 have the weights 1/2, for which there is separate code.
    let half = field.inverse(field.reduce(2)).unwrap();
    let halves = servers == 2 && random.below(2) == 0;
    let weights: Vec<FieldElement> =
        (0..servers).map(|_| if halves { half } else { field.reduce(1 + random.below(field.q() - 1)) }).collect();
    let constants: Vec<FieldElement> = (0..outputs).map(|_| field.sample(random)).collect();
    let values: Vec<FieldElement> = (0..rows * outputs).map(|_| field.sample(random)).collect();
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
        interpolation: InterpolationPlan { field: field.clone(), weights, constants },
        answers: answers.iter().map(|elements| wire::pack(&field, elements)).collect(),
        values: values.iter().map(|value| value.value()).collect(),
        field,
    }
}

/// Passes answers to the decoder and appends the values of new rows.
fn advance(decoder: &mut Decoder, answers: &[&[u8]], values: &mut Vec<u64>) -> Result<(), MalformedAnswer> {
    decoder.advance(answers, &mut |words| match words {
        DecodedWords::Narrow(words) => values.extend(words.iter().map(|&word| u64::from(word))),
        DecodedWords::Wide(words) => values.extend(words),
    })
}

#[test]
fn values_are_correct_for_every_field_and_number_of_servers() {
    let mut random = SeededRandom::new(11);
    for bits in [5, 8, 21, 31, 32, 40, 61] {
        for servers in 1..=5 {
            for (outputs, rows) in [(1, 0), (1, 1), (1, 511), (1, 1600), (2, 1025), (3, 600)] {
                let case = case(bits, servers, outputs, rows, &mut random);
                for backend in Backend::available() {
                    let mut decoder = Decoder::new(case.interpolation.clone(), rows, backend);
                    let mut values = vec![];
                    let answers: Vec<&[u8]> = case.answers.iter().map(Vec::as_slice).collect();
                    assert_eq!(advance(&mut decoder, &answers, &mut values), Ok(()));
                    assert_eq!(values, case.values, "{backend}, {bits} bits, {servers} servers");
                }
            }
        }
    }
}

#[test]
fn bytes_may_arrive_in_any_pieces_and_every_row_is_decoded_once() {
    let mut random = SeededRandom::new(12);
    for servers in [2, 3] {
        for number in 0..60 {
            let rows = 1 + random.below(3000) as usize;
            let case = case([21, 32, 5][number % 3], servers, 1 + number % 2, rows, &mut random);
            let mut decoder = Decoder::new(case.interpolation.clone(), rows, Backend::best());
            let (mut values, mut at) = (vec![], vec![0; servers]);
            let longest = 1 + random.below(12_000);
            while at.iter().zip(&case.answers).any(|(&at, answer)| at < answer.len()) {
                let server = random.below(servers as u64) as usize;
                at[server] = case.answers[server].len().min(at[server] + random.below(longest) as usize);
                let received: Vec<&[u8]> = at.iter().zip(&case.answers).map(|(&at, answer)| &answer[..at]).collect();
                assert_eq!(advance(&mut decoder, &received, &mut values), Ok(()));
                assert_eq!(values, case.values[..values.len()]);
            }
            assert_eq!(values, case.values);
        }
    }
}

#[test]
fn numbers_outside_the_field_are_malformed_and_incomplete_answers_are_not() {
    let mut random = SeededRandom::new(13);
    for bits in [21, 40] {
        let case = case(bits, 2, 1, 1000, &mut random);
        let [first, second] = [&case.answers[0][..], &case.answers[1][..]];
        let decode = |answers: [&[u8]; 2]| {
            let (mut decoder, mut values) = (Decoder::new(case.interpolation.clone(), 1000, Backend::best()), vec![]);
            advance(&mut decoder, &answers, &mut values).map(|()| values.len())
        };
        assert_eq!(decode([first, second]), Ok(1000));
        // Only the first run of 512 rows is complete.
        assert_eq!(decode([first, &second[..second.len() - 1]]), Ok(512));
        // Element 600 starts at a byte boundary, and the next element is zero.
        let mut outside = vec![0; second.len()];
        outside[600 / 8 * bits as usize..][..8].copy_from_slice(&case.field.q().to_le_bytes());
        assert_eq!(decode([first, &outside]), Err(MalformedAnswer));
    }
}
