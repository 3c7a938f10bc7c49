//! Runs one kernel several times on little data, for a tool that counts instructions:
//! `kernel-repeat KERNEL BACKEND ROWS TIMES`.
//!
//! Two counts with different TIMES have the same setup; `bench/instructions.py` subtracts it.
#![forbid(unsafe_code)]

use ifonly_algebra::field::{Field, FieldElement, ModulusRule};
use ifonly_algebra::interpolate::InterpolationStream;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::row_function::{OutputExpr, RowFunction, RowFunctionKind, RowProgram, ScanJob};
use ifonly_algebra::{shuffle, wire};
use ifonly_scan::decode::{Decoder, InterpolationPlan};
use ifonly_scan::records::RecordScanner;
use ifonly_scan::{Backend, RowStore, Scanner};
use std::error::Error;
use std::hint::black_box;

const FEATURES: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, kernel, backend, rows, times] = &arguments[..] else {
        return Err("usage: kernel-repeat KERNEL BACKEND ROWS TIMES".into());
    };
    let backend = Backend::named(backend).ok_or("this machine does not support the backend")?;
    let (rows, times): (usize, usize) = (rows.parse()?, times.parse()?);
    let mut random = SeededRandom::new(1);
    let max_level = if kernel.starts_with("u16") { 1000 } else { 255 };
    let levels: Vec<u16> = (0..rows * FEATURES).map(|_| random.below(max_level + 1) as u16).collect();
    let store = RowStore::build(&[max_level as u32; FEATURES], levels.chunks_exact(FEATURES))?;
    let bits = if kernel.ends_with("61-bit") { 61 } else { 24 };
    let field = Field::above((1 << (bits - 1)) + 1, ModulusRule::Deployment)?;
    let mut elements = |count: usize| -> Vec<FieldElement> { (0..count).map(|_| field.sample(&mut random)).collect() };
    let mut function = |kind: &str| RowFunction {
        kind: match kind {
            "linear" => RowFunctionKind::Linear { norm: FieldElement::ONE, slope: elements(FEATURES) },
            "squares" => RowFunctionKind::Polynomial(vec![elements(FEATURES), elements(FEATURES)]),
            _ => RowFunctionKind::Table((0..FEATURES).map(|_| elements(max_level as usize + 1)).collect()),
        },
        constant: FieldElement::ONE,
    };
    let gated = [OutputExpr::Blinded(0), OutputExpr::Hidden { cost: 1, gate: 0 }];
    let program = match kernel.as_str() {
        "squares" => RowProgram::new([function("squares")], [OutputExpr::Plain(0)]),
        "table" => RowProgram::new([function("table")], [OutputExpr::Plain(0)]),
        "gated" => RowProgram::new([function("squares"), function("squares")], gated),
        "gated-table" => RowProgram::new([function("table"), function("table")], gated),
        _ => RowProgram::new([function("linear")], [OutputExpr::Plain(0)]),
    };
    let transcript = RootKey::new(0, [1; 32]).transcript(&[2; 32]);
    let keys = transcript.rows(&field, program.outputs.len(), 1, 1);
    let job = ScanJob { field: &field, alpha: FieldElement::ONE, kappa: 1, program: &program };
    let scanner = Scanner::new().with_backend(backend);
    let records = RecordScanner::with_backend(backend);

    match kernel.as_str() {
        "linear" | "squares" | "table" | "gated" | "gated-table" | "linear-61-bit" | "u16-linear" => {
            for _ in 0..times {
                black_box(scanner.answer_to_vec(&store, &job, &keys)?);
            }
        }
        "order" => (0..times).for_each(|_| {
            black_box(shuffle::permutation(&transcript, rows));
        }),
        "decode-2" | "decode-3" => {
            let servers = if kernel == "decode-2" { 2 } else { 3 };
            // The Lagrange weights of the points 1 and −1, and of 1, −1 and 2.
            let inverse = |n| field.inverse(field.reduce(n)).ok_or("q is too small");
            let third = inverse(3)?;
            let weights =
                if servers == 2 { vec![inverse(2)?; 2] } else { vec![FieldElement::ONE, third, field.neg(third)] };
            let elements: Vec<FieldElement> = (0..rows as u64).map(|element| field.reduce(element)).collect();
            let answer = wire::pack(&field, &elements);
            for _ in 0..times {
                let interpolation = InterpolationPlan {
                    field: field.clone(),
                    weights: weights.clone(),
                    constants: vec![FieldElement::ONE],
                };
                let mut decoder = Decoder::new(interpolation, rows, backend);
                let decoded = decoder.advance(&vec![&answer[..]; servers], &mut |values| {
                    black_box(values);
                });
                decoded.map_err(|_| "the answer is not a packing of field elements")?;
            }
        }
        "xor" | "gf256" => {
            let bytes = vec![0x5A; rows * 64];
            let selection = vec![0x96; if kernel == "xor" { rows.div_ceil(8) } else { rows }];
            for _ in 0..times {
                let sum = match kernel.as_str() {
                    "xor" => records.xor(&bytes, 64, &selection)?,
                    _ => records.gf256(&bytes, 64, &selection)?,
                };
                black_box(sum);
            }
        }
        other => return Err(format!("unknown kernel {other:?}").into()),
    }
    Ok(())
}
