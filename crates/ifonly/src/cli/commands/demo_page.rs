//! `ifonly demo --page`: the same made-up lender, asked from a browser. The page has a listener of
//! its own, as its host would.

use crate::cli::commands::demo::{Args, DemoDataset, serve};
use crate::cli::exit::{CommandError, CommandOutcome};
use crate::cli::render;
use crate::local::page::Page;
use crate::local::{demo_loans, page};
use ifonly_client::Pins;
use std::net::Ipv4Addr;
use tokio::net::TcpListener;

pub(crate) async fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    // What is missing is said before anything is made.
    let page = Page::find(args.page_dir.as_deref())?;
    let world = DemoDataset::make(args)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(CommandError::machine)?;
    let origin = format!("http://{}", listener.local_addr().map_err(CommandError::machine)?);
    let running = serve(&world, &[&origin]).await?;
    let servers = running.urls();
    let columns = world.bundle.manifest().schema().columns();
    let example: serde_json::Map<String, serde_json::Value> = columns
        .iter()
        .zip(world.applicant.texts())
        .map(|(column, text)| (column.name.to_owned(), text.into()))
        .collect();
    let page = page.configured(servers, &Pins::default(), Some(example.into()))?;
    match args.json {
        true => crate::cli::exit::out_json(&serde_json::json!({ "page": origin, "servers": servers }))?,
        false => {
            let rows = render::grouped(args.rows.into());
            let mut text = format!("A lender keeps {rows} accepted loan applications (made up, seed {}).\n", args.seed);
            text += &format!("  Its rule: {}.\n", demo_loans::RULE);
            for (server, number) in servers.iter().zip(1..) {
                text += &format!("Server {number}: {server}\n");
            }
            text += &format!("The page: {origin}/ (Ctrl-C ends it)\n");
            render::out(&text)?;
        }
    }
    page::host(listener, page).await.map_err(CommandError::machine)?;
    Ok(CommandOutcome::Fine)
}
