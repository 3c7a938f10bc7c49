//! The cost of a sealed search: `sealed-cost [ROWS] [BITS] [drawn|keyed]`.
//!
//! Prints the numbers of AND gates, rounds and bytes. Then it runs all three servers in this
//! thread, with random bits from the operating system (`drawn`) or from shared keys (`keyed`).
#![forbid(unsafe_code)]

use cpu_time::ProcessTime;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{OsRandom, RandomSource, SeededRandom};
use ifonly_sealed::{Circuit, Party, PartyRandomness, SealedParams, combine, share, simulate};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse::<usize>());
    let (rows, bits) = (number(100_000)?, number(30)?);
    let keyed = match arguments.next().as_deref() {
        None | Some("drawn") => false,
        Some("keyed") => true,
        Some(_) => return Err("usage: sealed-cost [ROWS] [BITS] [drawn|keyed]".into()),
    };
    let params = SealedParams::new(rows, bits, bits.saturating_sub(4))?;

    let start = ProcessTime::now();
    let circuit = Arc::new(Circuit::new(&params));
    println!("{rows} rows, values of {bits} bits");
    println!("circuit made in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let cost = circuit.cost();
    let per_row = |total: u64| total as f64 / rows as f64;
    println!("{:>10.2} AND gates per row", per_row(cost.ands));
    println!("{:>10} rounds", cost.rounds);
    println!("{:>10.2} bytes sent per row and server, random bits included", per_row(cost.bytes));
    println!("{:>10.2} bytes sent with random bits from keys", per_row(cost.bytes_keyed));
    println!("{:>10.2} bytes of memory per row and server", per_row(cost.memory));

    let mut draw = SeededRandom::new(1);
    let values: Vec<u64> = (0..rows).map(|_| draw.below(1 << bits)).collect();
    let shares = share(bits, &values, &mut draw);
    let mut random = OsRandom::default();
    let start = ProcessTime::now();
    let key = |server: usize| RootKey::new(1, [server as u8; 32]).transcript(&[0; 32]);
    let mut parties = vec![];
    for n in 1..=3 {
        let randomness = if keyed {
            PartyRandomness::Keyed { with_previous: key((n + 1) % 3 + 1), with_next: key(n) }
        } else {
            PartyRandomness::Drawn
        };
        parties.push(Party::new(&circuit, n, randomness, |row| shares[n - 1][row], &mut random)?);
    }
    let mut parties: [Party; 3] = parties.try_into().map_err(|_| "three parties")?;
    let input_sharing = start.elapsed();
    for result in simulate::run(&mut parties, &mut random, |frame| vec![frame]) {
        result?;
    }
    for party in &parties {
        party.selection(0)?;
    }
    let all = start.elapsed();
    let empty_record: [&[u8]; 1] = [&[]];
    let [a, b, c] = parties.map(|party| party.answer(&empty_record));
    let found = combine(&params, [&a?, &b?, &c?])?;
    let nearest = values.iter().copied().filter(|value| value >> bits.saturating_sub(4) == 0).min();
    assert_eq!(found[0].as_ref().map(|found| found.cost), nearest, "the nearest row by brute force");
    println!("all three servers: {:.0} ms of CPU time, {:.0} ms of it for input sharing", ms(all), ms(input_sharing));
    Ok(())
}

fn ms(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
