//! `cargo run --release -p ifonly-scan --features bench --example bench -- --help`

use clap::Parser;
use ifonly_scan::bench::{BenchArgs, run};

/// Measures a scan and everything around it, as ratios to reading the rows.
#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: BenchArgs,
}

fn main() {
    if let Err(complaint) = run(&Command::parse().args) {
        eprintln!("{complaint}");
        std::process::exit(1);
    }
}
