//! Operator: run one server for a bundle.
//!
//!     cargo run -- keygen -o root.key
//!     cargo run --example serve -- loans.bundle 1 root.key 127.0.0.1:8001
//!     cargo run --example serve -- loans.bundle 2 root.key 127.0.0.1:8002
//!
//! The first command creates the root key that all servers share. Run the servers in two terminals.
//! The arguments are the bundle, the index of the server (from 1), the root key and the address.
//! The server speaks plain HTTP, so the address should be on loopback. `ifonly serve` adds TLS,
//! tokens, metrics and reloads.

use ifonly::server::auth::account_tokens::AccountTokens;
use ifonly::server::config::Limits;
use ifonly::server::http::routes::AppState;
use ifonly::server::{LoadedBundle, key_file};
use ifonly::{Bundle, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bundle, index, key, address] = arguments.as_slice() else {
        return Err("usage: serve BUNDLE INDEX KEY ADDRESS".into());
    };

    // All servers of a deployment have the same bundle and the same root key.
    let bundle = Bundle::open(bundle.as_ref())?;
    let key = key_file::load(key.as_ref())?;
    let loaded = LoadedBundle::new(&bundle, index.parse()?, vec![key])?;

    // No tokens: every client may search. No origins: web pages may not.
    let app = AppState::new(loaded, AccountTokens::new(vec![], None)?, Limits::default(), vec![]);
    let server = Server::bind(app, address.parse()?, None, None).await?;
    println!("listening on http://{}", server.address());

    // A program would stop on a signal. `run` then lets running answers finish.
    server.run(std::future::pending()).await;
    Ok(())
}
