//! The equipment of a measurement, and the CPU use of an idle capturer.

use super::place::Place;
use crate::Result;
use quaff_lab::topology::Site;
use quaff_os::cpu;
use serde::Serialize;
use std::path::Path;

/// The equipment that all runs of a bench share.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    /// The network in which the capturer runs and frames arrive.
    pub site: &'a dyn Site,
    /// The quaff executable, which counts packets from a capturer's pipe.
    pub quaff: &'a Path,
    /// Folder for the files of runs.
    pub place: &'a Place,
    pub cores: Cores,
}

/// The cores of generator and capturer; different ones if two are usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cores {
    /// The generator's core; the kernel's receive processing runs here, too.
    pub generator: usize,
    pub capturer: usize,
}

impl Cores {
    /// The first two usable cores.
    pub fn pick() -> Result<Self> {
        let allowed = cpu::allowed()?;
        let generator = allowed.first().copied().unwrap_or(0);
        Ok(Self { generator, capturer: allowed.get(1).copied().unwrap_or(generator) })
    }
}
