//! `quaff capture`.

use crate::exit::Exit;

/// capture
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<Exit> {
    anyhow::bail!("not built yet")
}
