//! The plain bed: frames are injected into the capturer's own interface, as if from the wire.

use super::{Sent, Site, Watch, sending};
use crate::lab::RX_IF;
use crate::traffic::{Out, Traffic};
use crate::{Lab, Result, interface_facts};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A lab, of which only the receiving side is used.
#[derive(Debug)]
pub struct Direct {
    lab: Lab,
    quaff: PathBuf,
}

impl Direct {
    /// In `lab`; `quaff` is the program of ours that generates.
    pub fn new(lab: Lab, quaff: PathBuf) -> Self {
        Self { lab, quaff }
    }

    /// The lab.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }
}

impl Site for Direct {
    fn interface(&self) -> &str {
        RX_IF
    }

    fn command(&self, program: &Path) -> Result<Command> {
        self.lab.command_rx(program)
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.lab.rx().run(|| interface_facts(RX_IF)).unwrap_or_default()
    }

    fn send(&self, traffic: &Traffic, core: usize, watch: Watch<'_>, look: &mut dyn FnMut()) -> Result<Sent> {
        let mut command = self.lab.command_rx(&self.quaff)?;
        command.args(traffic.words(Out::Inject(RX_IF), 1));
        let said = sending::send(vec![command], Some(core), traffic, watch, look)?;
        // What is injected passes no queue: what was confirmed was offered to every socket.
        Ok(said.into())
    }
}
