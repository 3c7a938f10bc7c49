//! `ifonly demo --page`: the demo in a browser. The page has its own listener, like the page of a
//! real deployment, whose host is not an operator.

use crate::cli::commands::demo::{Args, DemoDataset, serve};
use crate::cli::exit::{CommandError, CommandOutcome};
use crate::cli::render;
use crate::local::page::{Page, PageTexts};
use crate::local::{demo_loans, page};
use ifonly_bundle::Bundle;
use ifonly_client::Pins;
use std::net::Ipv4Addr;
use std::path::Path;
use tokio::net::TcpListener;

/// The host of the demo's page, for its texts.
const HOST: &str = "ifonly demo, on this machine";

/// What the servers and the page of a demo need.
struct Shown {
    bundle: Bundle,
    texts: PageTexts,
    /// What the terminal says about the data.
    description: String,
}

pub(crate) async fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    // A missing page is reported before the slow generation of data.
    let page = Page::find(args.page_dir.as_deref())?;
    let Shown { bundle, texts, description } = match &args.bundle {
        Some(directory) => own(directory)?,
        None => generated(args)?,
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(CommandError::machine)?;
    let origin = format!("http://{}", listener.local_addr().map_err(CommandError::machine)?);
    let running = serve(&bundle, &[&origin]).await?;
    let servers = running.urls();
    let page = page.configured(servers, &Pins::default(), &texts)?;
    if args.json {
        crate::cli::exit::out_json(&serde_json::json!({ "page": origin, "servers": servers }))?
    } else {
        let mut text = description;
        for (server, number) in servers.iter().zip(1..) {
            text += &format!("Server {number}: {server}\n");
        }
        text += &format!("Page: {origin}/ (stop with Ctrl-C)\n");
        render::out(&text)?;
    }
    page::host(listener, page).await.map_err(CommandError::machine)?;
    Ok(CommandOutcome::Success)
}

/// A bundle of the user's own.
fn own(directory: &Path) -> Result<Shown, CommandError> {
    let bundle = Bundle::open(directory).map_err(CommandError::input)?;
    let rows = render::count(bundle.manifest().rows() as u64, "accepted row");
    let description = format!(
        "{}: {rows}. All servers run in this process, so this is a trial without protection.\n",
        directory.display()
    );
    let texts = PageTexts { host: Some(HOST.into()), ..PageTexts::default() };
    Ok(Shown { bundle, texts, description })
}

fn generated(args: &Args) -> Result<Shown, CommandError> {
    let dataset = DemoDataset::generate(args)?;
    let columns = dataset.bundle.manifest().schema().columns();
    let example: serde_json::Map<String, serde_json::Value> = columns
        .iter()
        .zip(dataset.applicant.texts())
        .map(|(column, text)| (column.name.to_owned(), text.into()))
        .collect();
    let texts =
        PageTexts { host: Some(HOST.into()), institution: Some("Example Bank".into()), example: Some(example.into()) };
    let rows = render::count(args.rows.into(), "accepted loan application");
    let description =
        format!("A lender has {rows} (generated, seed {}).\n  Its rule: {}.\n", args.seed(), demo_loans::RULE);
    Ok(Shown { bundle: dataset.bundle, texts, description })
}
