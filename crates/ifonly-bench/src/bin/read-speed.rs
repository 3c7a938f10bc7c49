//! Decodes the answers of one search as a client does, for a tool that counts instructions:
//! `read-speed CASE ROWS K TIMES`.
//!
//! In the case `nothing` no row matches. In `half` every second row matches. In `lie` every second
//! row matches, and its cost is impossible. `bench/reading.py` requires equal counts.
#![forbid(unsafe_code)]

use ifonly_algebra::field::{FieldElement, ModulusRule};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::wire;
use ifonly_core::params::Params;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::{self, ConstraintKind, CostModel};
use ifonly_core::search::{HeaderContext, Search};
use ifonly_core::secret_query::SecretQuery;
use ifonly_core::transcript::MessageKind;
use ifonly_scan::decode::KernelInterpolator;
use std::error::Error;
use std::hint::black_box;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, case, rows, k, times] = &arguments[..] else {
        return Err("usage: read-speed nothing|half|lie ROWS K TIMES".into());
    };
    let (half, lie) = match case.as_str() {
        "nothing" => (false, false),
        "half" => (true, false),
        "lie" => (true, true),
        other => return Err(format!("unknown case {other:?}").into()),
    };
    let scheme = scheme::smallest(CostModel::Squared, ConstraintKind::Zeros);
    let instance = SchemeInstance::new(scheme, Params::new(vec![200; 4], rows.parse()?), ModulusRule::Deployment)?;
    let (field, bound) = (instance.field(), 4 * 200 * 200);
    let random = &mut SeededRandom::new(1);
    let mut elements = vec![];
    for row in 0..instance.params().rows {
        let (gate, other, near) = (field.sample_nonzero(random), field.sample(random), random.below(bound));
        let cost = field.reduce(if lie { near + bound } else { near });
        let matches = half && row % 2 == 0;
        elements.extend([if matches { FieldElement::ZERO } else { gate }, if matches { cost } else { other }]);
    }
    let check = vec![0; MessageKind::Phase(0).lead()];
    // If all servers send the same answer, interpolation returns it.
    let answer = [&check[..], &wire::pack(field, &elements)].concat();
    let fetch = instance.record_fetch(64);
    let record = vec![0; MessageKind::Record.lead() + fetch.stripe_length()];
    let header_context = HeaderContext { digest: [0; 32], epoch: 0, record_length: 64, signer: None };
    for _ in 0..times.parse::<usize>()? {
        let mut sent = 0;
        let secret = SecretQuery::new(vec![0; 4]);
        let search =
            Search::nearest(instance.clone(), secret, header_context, k.parse()?)?.interpolated_by(&KernelInterpolator);
        // Every run draws the same random numbers.
        let end = search.run(&mut SeededRandom::new(2), |_, _| {
            sent += 1;
            Some(if sent <= instance.servers() { answer.clone() } else { record.clone() })
        });
        let _ = black_box(end);
    }
    Ok(())
}
