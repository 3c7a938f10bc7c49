//! Baseline searches on rows from a file, for a comparison with other programs:
//! `scan-peer ROWS.u8 FEATURES PROFILE.u8`.
//!
//! Executes one step per line of input, so that a script can alternate between programs:
//!
//! * `read` reads the rows,
//! * `server` computes the answer of one server,
//! * `both` computes the answers of two servers and decodes them.
//!
//! For each step it prints `seconds row distance`. The seconds are CPU time of this thread; `row`
//! and `distance` are `-` if the step does not find a row.
#![forbid(unsafe_code)]

use cpu_time::ThreadTime;
use ifonly_algebra::field::{Field, FieldElement, ModulusRule};
use ifonly_algebra::interpolate::{DecodedWords, InterpolationStream};
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::OsRandom;
use ifonly_algebra::row_function::{OutputExpr, RowFunction, RowFunctionKind, RowProgram, ScanJob};
use ifonly_scan::decode::{Decoder, InterpolationPlan};
use ifonly_scan::{Backend, RowStore, Scanner};
use std::error::Error;
use std::io::{BufRead, Write};
use std::ops::ControlFlow;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, rows, features, profile] = &arguments[..] else {
        return Err("usage: scan-peer ROWS.u8 FEATURES PROFILE.u8".into());
    };
    let features: usize = features.parse()?;
    let rows = std::fs::read(rows)?;
    let profile = std::fs::read(profile)?;
    let levels = rows.chunks_exact(features).map(|row| row.iter().map(|&y| u16::from(y)).collect::<Vec<u16>>());
    let store = RowStore::build(&vec![255; features], levels)?;
    drop(rows);

    let field = Field::above(255 * 255 * features as u128, ModulusRule::Deployment)?;
    let alphas = [FieldElement::ONE, field.neg(FieldElement::ONE)];
    let programs = programs(&field, alphas, &profile);
    let keys = RootKey::new(0, [1; 32]).transcript(&[2; 32]).rows(&field, 1, 1, 1);
    // The client adds ‖x‖². Both Lagrange weights of the points 1 and −1 are 1/2.
    let half = field.inverse(field.reduce(2)).ok_or("q = 2")?;
    let norm = profile.iter().map(|&x| u64::from(x) * u64::from(x)).sum();
    let interpolation =
        InterpolationPlan { field: field.clone(), weights: vec![half; 2], constants: vec![field.reduce(norm)] };
    let scanner = Scanner::new();
    let answer = |server: usize, sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>| {
        let job = ScanJob { field: &field, alpha: alphas[server], kappa: 1, program: &programs[server] };
        scanner.answer(&store, &job, &keys, sink)
    };
    // Reused, because otherwise every step would pay for new pages of memory.
    let mut received = [vec![], vec![]];

    for line in std::io::stdin().lock().lines() {
        let start = ThreadTime::now();
        let found = match line?.trim() {
            "read" => {
                let sum = store.data().as_chunks::<8>().0.iter();
                std::hint::black_box(sum.fold(0u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word))));
                None
            }
            "server" => {
                // A server sends every span at once.
                answer(0, &mut |span| {
                    std::hint::black_box(span);
                    ControlFlow::Continue(())
                })?;
                None
            }
            "both" => {
                // The client decodes while it receives the second answer.
                let mut decoder = Decoder::new(interpolation.clone(), store.rows(), Backend::best());
                let (mut nearest, mut row) = (None, 0);
                let mut visit = |words: DecodedWords<'_>| {
                    let DecodedWords::Narrow(words) = words else { return };
                    let smallest = words.iter().copied().fold(u32::MAX, u32::min);
                    if nearest.is_none_or(|(distance, _)| smallest < distance) {
                        nearest = words.iter().position(|&word| word == smallest).map(|at| (smallest, row + at));
                    }
                    row += words.len();
                };
                received.iter_mut().for_each(Vec::clear);
                for server in [0, 1] {
                    answer(server, &mut |span| {
                        received[server].extend_from_slice(span);
                        let decoded = decoder.advance(&[&received[0], &received[1]], &mut visit);
                        if decoded.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                    })?;
                }
                nearest
            }
            other => return Err(format!("unknown step {other:?}").into()),
        };
        let seconds = start.elapsed().as_secs_f64();
        match found {
            Some((distance, row)) => println!("{seconds} {row} {distance}"),
            None => println!("{seconds} - -"),
        }
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// The row programs of both servers: `‖y‖² + (−2x + α·Z)·y`.
fn programs(field: &Field, alphas: [FieldElement; 2], profile: &[u8]) -> [RowProgram; 2] {
    let mut random = OsRandom::default();
    let noise: Vec<FieldElement> = profile.iter().map(|_| field.sample(&mut random)).collect();
    alphas.map(|alpha| {
        let share = |(&x, &z): (&u8, &FieldElement)| field.mul_add(alpha, z, field.reduce_signed(-2 * i64::from(x)));
        let slope = profile.iter().zip(&noise).map(share).collect();
        let function = RowFunction {
            kind: RowFunctionKind::Linear { norm: FieldElement::ONE, slope },
            constant: FieldElement::ZERO,
        };
        RowProgram::new([function], [OutputExpr::Plain(0)])
    })
}
