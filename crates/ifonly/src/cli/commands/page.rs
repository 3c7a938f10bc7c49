//! `ifonly page`: the page for people, told whom to ask.

use crate::cli::connection_args::PinArgs;
use crate::cli::exit::{CommandError, CommandOutcome};
use crate::cli::render;
use crate::local::page::Page;
use std::path::PathBuf;

/// The page on which people ask, for a host that is neither the institution nor an operator.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Build(Box<BuildArgs>),
}

/// Write the page's files for these servers into a folder; any host of static files will do.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: ifonly page build site --server https://a.example --server https://b.example --threshold 1
docs/web.md says how to host it, and why not at an operator.")]
struct BuildArgs {
    /// A new folder.
    folder: PathBuf,
    /// A server's address; give all of them.
    #[arg(long = "server", value_name = "URL", required = true)]
    servers: Vec<String>,
    #[command(flatten)]
    pins: PinArgs,
    /// Where the built page is, if not beside the program or in its workspace.
    #[arg(long, value_name = "DIR")]
    page_dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let Command::Build(args) = &args.command;
    let page = Page::find(args.page_dir.as_deref())?.configured(&args.servers, &args.pins.pins(), None)?;
    page.write(&args.folder)?;
    render::out(&format!(
        "{} has the page. Every server must allow the origin at which you host it ([cors] in its configuration).\n",
        args.folder.display()
    ))?;
    Ok(CommandOutcome::Fine)
}
