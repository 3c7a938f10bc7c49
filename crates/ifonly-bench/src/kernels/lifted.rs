//! The default search: one 32-bit word per row, for two servers (see [`ifonly_algebra::lifted`]).

use super::measure::{BenchPart, interleave};
use super::setup::random_levels;
use super::{BenchClock, BenchLine, BenchOptions, BenchReport, line, random_records};
use crate::BenchError;
use ifonly_algebra::field::{FieldElement, ModulusRule};
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::lifted::{LiftedFormat, LiftedPlan, LiftedSide, LiftedTables};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::shuffle;
use ifonly_scan::records::RecordScanner;
use ifonly_scan::{LiftedQuery, RowStore, Scanner, internals};
use std::hint::black_box;
use std::ops::ControlFlow;

/// Weights of the costs are 1..=MAX_WEIGHT.
const MAX_WEIGHT: u64 = 7;

/// Two servers' tables for the costs and violations of every level of every feature.
pub fn share_tables(
    format: &LiftedFormat,
    costs: &[Vec<u64>],
    violations: &[Vec<u64>],
    random: &mut impl RandomSource,
) -> [LiftedTables; 2] {
    let lengths: Vec<usize> = costs.iter().map(Vec::len).collect();
    let (q, p) = (format.cost_field(), format.gate_field());
    let shares =
        |values: &[Vec<u64>], field: &ifonly_algebra::field::Field, random: &mut dyn FnMut() -> FieldElement| {
            let pairs = values.iter().flatten().map(|&value| {
                let (value, noise) = (field.reduce(value), random());
                (field.add(value, noise), field.sub(value, noise))
            });
            pairs.unzip::<_, _, Vec<FieldElement>, Vec<FieldElement>>()
        };
    let cost = shares(costs, q, &mut || q.sample(random));
    let gate = shares(violations, p, &mut || p.sample(random));
    [
        LiftedTables::new(format, LiftedSide::First, lengths.clone(), &cost.0, &gate.0),
        LiftedTables::new(format, LiftedSide::Second, lengths, &cost.1, &gate.1),
    ]
}

/// Measures all parts of the default search.
pub(super) fn measure(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    let BenchOptions { rows, features, max_level, backend, .. } = *options;
    let mut random = SeededRandom::new(options.seed);
    let levels = random_levels(&mut random, rows * features, max_level);
    let store =
        RowStore::build(&vec![max_level; features], levels.chunks_exact(features)).map_err(BenchError::machine)?;
    let profile = random_levels(&mut random, features, max_level);
    let weights: Vec<u64> = profile.iter().map(|_| 1 + random.below(MAX_WEIGHT)).collect();
    let bound = u64::from(max_level) * weights.iter().sum::<u64>();
    let format = LiftedFormat::for_database(features, bound.into(), ModulusRule::Deployment)
        .ok_or_else(|| BenchError::input("these rows need more than 32 bits per word"))?;
    let tables = |entry: &dyn Fn(usize, u16) -> u64| -> Vec<Vec<u64>> {
        (0..features).map(|k| (0..=max_level as u16).map(|level| entry(k, level)).collect()).collect()
    };
    let costs = tables(&|k, level| weights[k] * u64::from(level.abs_diff(profile[k])));
    // The first feature may change by a sixteenth of the max level.
    let violations = tables(&|k, level| u64::from(k == 0 && u32::from(level.abs_diff(profile[0])) > max_level / 16));
    let tables = share_tables(&format, &costs, &violations, &mut random);
    let transcript = RootKey::new(0, [1; 32]).transcript(&[2; 32]);
    let draws = transcript.lifted(&format);
    let query = |server: usize, shuffled: bool| LiftedQuery {
        tables: &tables[server],
        draws: &draws,
        order_keys: shuffled.then_some(&transcript),
    };
    let one_thread = Scanner::new().with_backend(backend);
    let scanner = one_thread.clone().with_threads(options.threads).map_err(BenchError::machine)?;
    let answer = |scanner: &Scanner, server: usize, shuffled: bool, sink: &mut dyn FnMut(&[u8])| {
        let mut sink = |bytes: &[u8]| {
            sink(bytes);
            ControlFlow::Continue(())
        };
        scanner.answer_lifted(&store, &query(server, shuffled), &mut sink).expect("the tables are those of the rows");
    };
    let answers: [Vec<u8>; 2] = [0, 1].map(|server| {
        let mut bytes = Vec::with_capacity(4 * rows);
        answer(&scanner, server, true, &mut |part| bytes.extend_from_slice(part));
        bytes
    });
    let plan = LiftedPlan { format, offset: FieldElement::ZERO, bound, rows, top: 1 };
    let decode = || internals::decode_lifted(backend, &plan, [&answers[0], &answers[1]]);
    let order = shuffle::permutation(&transcript, rows);
    let found = decode().filter(|(cost, _)| *cost != u64::MAX).map(|(cost, position)| (cost, order[position as usize]));
    let matching = levels.chunks_exact(features).zip(0u32..).filter(|(row, _)| violations[0][usize::from(row[0])] == 0);
    let cost_of = |row: &[u16]| row.iter().zip(&costs).map(|(&level, costs)| costs[usize::from(level)]).sum::<u64>();
    let nearest = matching.map(|(row, number)| (cost_of(row), number)).collect::<Vec<_>>();
    let least = nearest.iter().map(|(cost, _)| *cost).min();
    if found.map(|(cost, _)| cost) != least || found.is_some_and(|found| !nearest.contains(&found)) {
        return Err(BenchError::machine(format!("decoded {found:?}, but the nearest row costs {least:?}")));
    }

    let (records, subset) = random_records(options);
    let record_scanner = RecordScanner::with_backend(backend);
    let discard = |bytes: &[u8]| {
        black_box(bytes);
    };
    let mut parts = vec![
        BenchPart::new("read the rows", || internals::read(backend, store.data())),
        BenchPart::new("table sums", || internals::table_sums(backend, &store, &tables[0])),
        BenchPart::new("whole answer", || answer(&scanner, 0, false, &mut { discard })),
        BenchPart::new("whole answer, shuffled", || answer(&scanner, 0, true, &mut { discard })),
        BenchPart::new("order of the rows alone", || {
            black_box(shuffle::permutation(&transcript, rows));
        }),
        BenchPart::new("decode and nearest", || {
            black_box(decode());
        }),
        BenchPart::new("read the records", || internals::read(backend, &records)),
        BenchPart::new("XOR of half the records", || {
            black_box(record_scanner.xor(&records, options.record_bytes, &subset))
                .expect("the subset fits the records");
        }),
    ];
    if options.threads > 1 {
        parts.push(BenchPart::new("whole answer, one thread", || answer(&one_thread, 0, false, &mut { discard })));
    }
    let clock = options.clock.unwrap_or(if options.threads > 1 { BenchClock::Wall } else { BenchClock::Thread });
    interleave(&mut parts, options.rounds, clock);
    let seconds_of = |name: &str| parts.iter().find(|part| part.name == name).map(BenchPart::seconds);
    let read = parts[0].seconds();
    let read_records = seconds_of("read the records").unwrap_or(read);
    let lines: Vec<BenchLine> = parts
        .iter()
        .map(|part| {
            line(part.name, part.seconds(), rows, if part.name.contains("records") { read_records } else { read })
        })
        .collect();
    Ok(BenchReport {
        rows,
        features,
        max_level,
        row_function: options.row_function,
        bits: u32::BITS,
        servers: 2,
        threads: options.threads,
        backend: backend.to_string(),
        clock,
        speed_up: seconds_of("whole answer, one thread").zip(seconds_of("whole answer")).map(|(one, all)| one / all),
        read_gigabytes_per_second: store.data().len() as f64 / read / 1e9,
        lines,
    })
}
