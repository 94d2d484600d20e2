//! The lab of a command: the link of a new one, or the only one that is up.

use crate::flags::{MtuArg, of};
use quaff_lab::{Lab, LabPlan};

const MTU: &str =
    "MTU of a new link [default: 3000], at most 9216; above about 3500 it does not support native XDP";

/// Options of the link between the two namespaces.
#[derive(Debug, clap::Args)]
#[command(mut_args(of("mtu", |arg| arg.help(MTU))))]
pub(super) struct LinkArgs {
    #[command(flatten)]
    mtu: MtuArg,
}

impl LinkArgs {
    pub(super) fn mtu(&self) -> u32 {
        self.mtu.unwrap_or(LabPlan::default().mtu)
    }
}

/// The name of the only persistent lab; an error that ends in `choice` if there are several.
pub(super) fn only_lab(choice: &str) -> anyhow::Result<Option<String>> {
    let mut names: Vec<_> =
        Lab::list()?.into_iter().filter(|lab| lab.persistent).map(|lab| lab.name).collect();
    anyhow::ensure!(names.len() <= 1, "{} labs are up ({}); {choice}", names.len(), names.join(", "));
    Ok(names.pop())
}
