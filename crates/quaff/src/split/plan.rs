//! The plan of a split as plain data, and its checks.

use crate::plan::{InputPlan, SandboxPlan, WritePlan};
use crate::stage::{MEMBERS_MAX, Rendezvous, Sorting, WEIGHTS_MAX};
use crate::{Error, Result};
use quaff_file::write::{Format, Output};
use std::path::PathBuf;
use std::time::Duration;

/// Longest delay of a frame to an interface, unless the interface is late.
const SEND_FLUSH: Duration = Duration::from_millis(1);

/// The input of a split, and the distribution of its packets to outputs.
#[derive(Debug, Clone)]
pub struct SplitPlan {
    pub input: InputPlan,
    /// The settings of all outputs.
    pub write: WritePlan,
    pub sorting: Sorting,
    pub members: Vec<MemberPlan>,
    /// `None` restricts nothing.
    pub sandbox: Option<SandboxPlan>,
}

/// A member of a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberPlan {
    pub goal: Goal,
    /// Its share in relation to the others'.
    pub weight: u64,
}

/// The target of a member's frames.
#[derive(Debug, Clone, PartialEq)]
pub enum Goal {
    /// A file, a pipe or a device.
    File(PathBuf),
    Stdout,
    /// The stdin of a shell command.
    Command(String),
    /// An interface, which sends the frames.
    Interface(String),
    /// None: a dry run. Applies to all members or to none.
    Nowhere,
}

impl Goal {
    /// Returns the path, the command or the interface; `member 3` without one.
    pub(super) fn name(&self, number: usize) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdout => "stdout".into(),
            Self::Command(command) => format!("{command} ({})", number + 1),
            Self::Interface(name) => name.clone(),
            Self::Nowhere => format!("member {}", number + 1),
        }
    }

    /// Returns the file or stdout; stdout for all other goals.
    pub(super) fn output(&self) -> Output {
        match self {
            Self::File(path) => Output::File(path.clone()),
            _ => Output::Stdout,
        }
    }
}

impl SplitPlan {
    /// Returns whether nothing is written.
    pub fn is_dry(&self) -> bool {
        self.members.iter().all(|member| member.goal == Goal::Nowhere)
    }

    /// Returns whether packets go to stdout.
    pub fn takes_stdout(&self) -> bool {
        self.members.iter().any(|member| member.goal == Goal::Stdout)
    }

    /// Checks the plan.
    pub fn validate(mut self) -> Result<Self> {
        let refuse = |words: String| Err(Error::Plan(words));
        if self.members.is_empty() {
            return refuse(
                "no outputs: set `members`, or name outputs with `write`, `output` or `exec`".into(),
            );
        }
        if self.members.len() > MEMBERS_MAX {
            return refuse(format!("{} members: {MEMBERS_MAX} is the most", self.members.len()));
        }
        for (number, member) in self.members.iter().enumerate() {
            let is_same = |other: &MemberPlan| {
                other.goal == member.goal && !matches!(member.goal, Goal::Nowhere | Goal::Command(_))
            };
            if self.members[..number].iter().any(is_same) {
                let name = member.goal.name(number);
                return refuse(format!("{name} is given twice; `weights` gives an output a larger share"));
            }
            let is_source = |name: &String| self.input.interfaces.iter().any(|source| source.name == *name);
            if let Goal::Interface(name) = &member.goal
                && is_source(name)
            {
                return refuse(format!("{name}: frames sent from it would be captured from it again"));
            }
        }
        self.bundle()?;
        self.input.keep_together("a split")?;
        self.input = self.input.validate()?;
        self.write.check(&self.input)?;
        Ok(self)
    }

    /// The assignment of frames to members.
    pub(super) fn bundle(&self) -> Result<Rendezvous> {
        let weights: Vec<_> = self.members.iter().map(|member| member.weight).collect();
        Rendezvous::new(&weights, self.sorting.seed).ok_or_else(|| {
            Error::Plan(format!(
                "`weights` are whole numbers from 1 on, and their sum in lowest terms is at most {WEIGHTS_MAX}"
            ))
        })
    }

    /// Returns whether a member is an interface.
    pub(super) fn sends(&self) -> bool {
        self.members.iter().any(|member| matches!(member.goal, Goal::Interface(_)))
    }

    /// The format in which frames reach the members: pcap where one of them sends.
    pub(super) fn format(&self) -> Format {
        if self.sends() { Format::Pcap } else { self.write.format }
    }

    /// The plan of one member's writer.
    pub(super) fn write_of(&self, member: &MemberPlan, is_at_once: bool) -> WritePlan {
        let plan = self.write.clone();
        let is_file =
            matches!(&member.goal, Goal::File(path) if !path.metadata().is_ok_and(|meta| !meta.is_file()));
        let flush = match &member.goal {
            Goal::Interface(_) => SEND_FLUSH,
            _ if is_at_once && is_file => crate::capture::NEVER,
            _ => plan.flush,
        };
        let format = if matches!(member.goal, Goal::Interface(_)) { Format::Pcap } else { plan.format };
        WritePlan { flush, format, ..plan }
    }
}
