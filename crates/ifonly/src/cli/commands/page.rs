//! `ifonly page`: the web page, configured for the servers of one deployment.

use crate::cli::connection_args::{PinArgs, TrialArgs};
use crate::cli::exit::{CommandError, CommandOutcome};
use crate::cli::render;
use crate::local::page::{Page, PageTexts};
use ifonly_client::Pins;
use std::path::PathBuf;

/// Build the web page for users. Its host should be neither the institution nor an operator.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Build(Box<BuildArgs>),
}

/// Write the files of the page into a folder, configured for these servers.
///
/// Any web server for static files can host the folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: ifonly page build site --server https://a.example --server https://b.example --threshold 1
docs/web.md explains how to host the page, and why no operator should.")]
struct BuildArgs {
    /// Folder to write; must be new or empty.
    folder: PathBuf,
    /// Address of a server; repeat the flag for all servers.
    #[arg(long = "server", value_name = "URL", required = true)]
    servers: Vec<String>,
    #[command(flatten)]
    pins: PinArgs,
    #[command(flatten)]
    trial: TrialArgs,
    /// Name of the page's host, such as a consumer office, for the texts of the page.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Name of the institution that decided, for the texts of the page.
    #[arg(long, value_name = "NAME")]
    institution: Option<String>,
    /// Folder of a built page; default: the page of the program, or of its workspace.
    #[arg(long, value_name = "DIR")]
    page_dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let Command::Build(args) = &args.command;
    let texts = PageTexts { host: args.host.clone(), institution: args.institution.clone(), example: None };
    let pins = Pins { allow_same_host: args.trial.allow_same_host, ..args.pins.pins() };
    let page = Page::find(args.page_dir.as_deref())?.configured(&args.servers, &pins, &texts)?;
    page.write(&args.folder)?;
    render::out(&format!(
        "wrote the page to {}; every server must allow the origin of its host ([cors] in the server's configuration)\n",
        args.folder.display()
    ))?;
    Ok(CommandOutcome::Success)
}
