//! `ifonly demo --page`: the demo in a browser. The page has its own listener, like the page of a
//! real deployment, whose host is not an operator.

use crate::cli::commands::demo::{Args, DemoDataset, serve};
use crate::cli::exit::{CommandError, CommandOutcome};
use crate::cli::render;
use crate::local::page::Page;
use crate::local::{demo_loans, page};
use ifonly_client::Pins;
use std::net::Ipv4Addr;
use tokio::net::TcpListener;

pub(crate) async fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    // A missing page is reported before the slow generation of data.
    let page = Page::find(args.page_dir.as_deref())?;
    let dataset = DemoDataset::generate(args)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(CommandError::machine)?;
    let origin = format!("http://{}", listener.local_addr().map_err(CommandError::machine)?);
    let running = serve(&dataset, &[&origin]).await?;
    let servers = running.urls();
    let columns = dataset.bundle.manifest().schema().columns();
    let example: serde_json::Map<String, serde_json::Value> = columns
        .iter()
        .zip(dataset.applicant.texts())
        .map(|(column, text)| (column.name.to_owned(), text.into()))
        .collect();
    let page = page.configured(servers, &Pins::default(), Some(example.into()))?;
    match args.json {
        true => crate::cli::exit::out_json(&serde_json::json!({ "page": origin, "servers": servers }))?,
        false => {
            let rows = render::count(args.rows.into(), "accepted loan application");
            let mut text = format!("A lender has {rows} (generated, seed {}).\n", args.seed);
            text += &format!("  Its rule: {}.\n", demo_loans::RULE);
            for (server, number) in servers.iter().zip(1..) {
                text += &format!("Server {number}: {server}\n");
            }
            text += &format!("Page: {origin}/ (stop with Ctrl-C)\n");
            render::out(&text)?;
        }
    }
    page::host(listener, page).await.map_err(CommandError::machine)?;
    Ok(CommandOutcome::Success)
}
