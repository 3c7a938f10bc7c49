//! Institution: build a bundle from a CSV file.
//!
//!     cargo run --example build -- loans.bundle
//!
//! The example writes a small CSV file, `loans.csv`, beside the bundle. The bundle holds the
//! accepted rows, encoded for two servers. The bundle must not exist yet.

use ifonly::{BuildOptions, Bundle, build};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let output = PathBuf::from(std::env::args().nth(1).ok_or("usage: build BUNDLE")?);
    let data = output.with_file_name("loans.csv");
    std::fs::write(&data, csv())?;

    let options = BuildOptions {
        data: vec![data],
        output,
        // Only rows that were approved become part of the bundle.
        target: Some("approved".into()),
        accept: vec!["yes".into()],
        ..BuildOptions::default()
    };
    let report = build(&options, &mut |_progress| {})?;
    println!("{report}");

    // Every operator gets a copy of this directory.
    let bundle = Bundle::open(&options.output)?;
    println!("{} holds {} accepted rows", options.output.display(), bundle.manifest().rows());
    Ok(())
}

/// 300 loan applications. An application is approved if the income is more than four times the
/// amount, or more than twice the amount for nurses.
fn csv() -> String {
    let mut text = String::from("income,amount,job,approved\n");
    for number in 0..300 {
        let (income, amount) = (800 + 37 * (number * 7 % 100), 100 + 13 * (number * 11 % 70));
        let job = ["nurse", "baker"][number % 2];
        let factor = if job == "nurse" { 2 } else { 4 };
        let approved = if income > factor * amount { "yes" } else { "no" };
        text += &format!("{income},{amount},{job},{approved}\n");
    }
    text
}
