//! User: find the nearest accepted case.
//!
//!     cargo run --example ask -- '{"income": 1500, "amount": 600, "job": "baker"}' \
//!         http://127.0.0.1:8001 http://127.0.0.1:8002
//!
//! The arguments are the user's profile as JSON and the addresses of the servers. No server learns
//! the profile or the result, unless more servers than the threshold collude.

use ifonly::client::RetryPolicy;
use ifonly::client::transport::http::{self, TlsTrust};
use ifonly::{Client, Pins, ProfileValues, WishList};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [profile, urls @ ..] = arguments.as_slice() else {
        return Err("usage: ask PROFILE URL…".into());
    };

    // `connect` fetches the manifest of every server and compares them. Pins state what the user
    // expects in addition: here that one server alone learns nothing.
    let servers = http::servers(urls, &TlsTrust::system()?, RetryPolicy::default())?;
    let pins = Pins { threshold: Some(1), ..Pins::default() };
    let client = Client::connect(servers, &pins).await?;

    // The user cannot change the job, and wants one result.
    let profile = ProfileValues::from_json(profile)?;
    let wishes = WishList { immutable: vec!["job".into()], ..WishList::default() };
    let answer = client.ask(&profile, &wishes).await?;

    let Some(nearest) = answer.found.first() else {
        println!("No accepted case satisfies the wishes.");
        return Ok(());
    };
    println!("The nearest accepted case differs in:");
    for change in &nearest.changes {
        println!("  {}: {} instead of {}", change.feature, change.theirs, change.yours);
    }
    Ok(())
}
