//! A split: distributes packets to several outputs, as a switch does over a bundle of links. The lanes of a capture
//! have a last stage that assigns each frame to a member, and a packer, buffers and a writer for each member.
//!
//! ```text
//!                               ┌ packer → chunk ─ ring →│ writer → file, pipe, command
//!   source → stages → assign ───┼ packer → chunk ─ ring →│ writer → interface
//!                               └ …
//! ```
//!
//! A member that ends (its interface is down, its reader has closed the pipe, its disk is full) is replaced:
//! the others take over its share and keep their own.

mod member;
mod plan;
mod report;

pub use plan::{Goal, MemberPlan, SplitPlan};
pub use report::{Largest, MemberReport, PeakReport, Report, Skipped};

use crate::buffer_pool::{LanePool, Pool};
use crate::gauge::{BufferGauges, LaneGauges};
use crate::output::{Discard, Spread};
use crate::run::file_output::FileOutput;
use crate::run::{LaneEnd, Run, Setup, Starting, start_pool};
use crate::sandbox::Rights;
use crate::source::Sources;
use crate::stage::{Knowledge, Presence, Split as Sorter, Stage};
use crate::{Error, Result};
use member::{Member, Opened};
use quaff_file::write::Output;
use quaff_os::sandbox::Limits;
use quaff_os::{Reason, Stop};
use quaff_wire::linktype::ETHERNET;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A running split.
pub struct Split {
    plan: SplitPlan,
    run: Run,
    /// The members; empty in a dry run.
    members: Vec<Member>,
    pool: Option<Pool>,
    /// The gauges of the lanes, and of the buffer of all members, which a dry run does not have.
    pub lanes: Vec<Arc<LaneGauges>>,
    pub buffer: Option<Arc<BufferGauges>>,
    knowledge: Arc<Knowledge>,
    /// Packets that each lane lost because no buffer was free, by member.
    lost: Receiver<Vec<u64>>,
    /// Warnings for the user.
    pub notes: Vec<String>,
}

impl Split {
    /// Starts the split. When this returns, every packet that arrives is assigned.
    pub fn start(plan: SplitPlan, stop: Stop) -> Result<Self> {
        let plan = plan.validate()?;
        let outputs: Vec<_> = plan.members.iter().map(|member| member.goal.output()).collect();
        let SplitPlan { input, write, sandbox, .. } = &plan;
        let folders = outputs.iter().flat_map(Output::folders).map(|dir| dir.dir.clone()).collect();
        let setup = Setup {
            format: plan.format(),
            rights: Rights::of(sandbox.as_ref(), write),
            limits: Limits { write: folders, sends_frames: plan.sends(), ..Limits::default() },
            ..Setup::new(input.clone(), &outputs)
        };
        let starting = Starting::prepare(setup, &stop)?;
        let mut opened = starting.as_user(|| open_members(&plan, starting.is_at_once(), &stop))?;
        let (pool, lane_pools) = match plan.is_dry() {
            true => (None, Vec::new()),
            false => {
                let (pool, lane_pools) = start_pool(input, write, opened.len(), &stop)?;
                (Some(pool), lane_pools)
            }
        };
        let mut ready = starting.open_after(|| opened.iter_mut().for_each(Opened::make_ring))?;
        refuse_headless(&plan, &ready.sources)?;
        ready.run.notes.extend(opened.iter().filter_map(Opened::note).take(1));
        ready.run.notes.extend(pool.iter().flat_map(|pool| pool.notes.clone()));
        let buffer = pool.as_ref().map(|pool| pool.gauges.clone());
        let knowledge = Arc::new(Knowledge::new(plan.members.len()));
        let sorters = sorters(&plan, &ready.sources, &opened, &knowledge)?;
        let mut outputs: Vec<_> = opened.into_iter().map(|member| member.output(&ready.sources)).collect();
        let (lost_of_lane, lost) = channel();
        let ends = ends(sorters, &mut outputs, lane_pools, &lost_of_lane, ready.sources.is_live);
        drop(lost_of_lane);
        let (run, members) = ready.start(ends, || start_members(outputs))?;
        let (lanes, notes) = (run.lanes.clone(), run.notes.clone());
        Ok(Self { plan, run, members, pool, lanes, buffer, knowledge, lost, notes })
    }

    /// The name of each member, its availability, and the packets that it has written.
    pub fn members(&self) -> impl Iterator<Item = (&str, bool, u64)> {
        let of = |member: &'_ Member| (member.presence.is_here(), member.gauges.written.get());
        self.members.iter().map(move |member| (member.name.as_str(), of(member).0, of(member).1))
    }

    /// Returns whether all threads have ended. The end of the last member ends the run.
    pub fn is_over(&self) -> bool {
        let is_gone = |member: &Member| member.presence.stop.raised();
        if !self.members.is_empty() && self.members.iter().all(is_gone) && !self.run.stop.raised() {
            self.run.stop.raise(Reason::OutputClosed);
        }
        // All members are checked, so that those that do not answer are abandoned together.
        self.run.is_over() && self.members.iter().filter(|member| !member.is_finished()).count() == 0
    }

    /// Waits for the end, after the stop, and returns the report, which includes a failure.
    pub fn finish(self) -> Report {
        let mut ended = self.run.join().with_unknown_links();
        let mut members: Vec<_> = self.members.into_iter().map(Member::finish).collect();
        let failures = members.iter_mut().filter_map(|member| member.failure.take());
        ended.failure = ended.failure.into_iter().chain(failures).next();
        ended.notes.extend(self.pool.and_then(Pool::finish));
        let lost = self.lost.try_iter().collect();
        let end = report::SplitEnd { run: ended, members, lost, buffer: self.buffer };
        report::sum_up(&self.plan, &self.knowledge.balance(), end)
    }
}

/// Refuses to send frames without an Ethernet header.
fn refuse_headless(plan: &SplitPlan, sources: &Sources) -> Result<()> {
    let is_headless = |of: &(usize, String)| {
        let interface = sources.interfaces.of_lane(of.0).and_then(|number| sources.interfaces.get(number));
        interface.is_some_and(|interface| interface.linktype != ETHERNET.linktype)
    };
    let mut names = sources.lanes.iter().map(|lane| lane.name.clone()).enumerate();
    match names.find(is_headless).filter(|_| plan.sends()) {
        Some((_, name)) => {
            Err(Error::Plan(format!("{name}: its frames have no Ethernet header to be sent with")))
        }
        None => Ok(()),
    }
}

fn open_members(plan: &SplitPlan, is_at_once: bool, stop: &Stop) -> Result<Vec<Opened>> {
    if plan.is_dry() {
        return Ok(Vec::new());
    }
    (0..plan.members.len()).map(|number| member::open(plan, number, is_at_once, stop)).collect()
}

/// The last stage of each lane.
fn sorters(
    plan: &SplitPlan,
    sources: &Sources,
    opened: &[Opened],
    knowledge: &Arc<Knowledge>,
) -> Result<Vec<Box<dyn Stage>>> {
    let presences: Vec<_> = match plan.is_dry() {
        true => vec![Presence::default(); plan.members.len()],
        false => opened.iter().map(|member| member.presence().clone()).collect(),
    };
    let bundle = plan.bundle()?;
    let sorter = |_| -> Box<dyn Stage> {
        let (sorting, presences) = (plan.sorting.clone(), presences.clone());
        let (knowledge, interfaces) = (knowledge.clone(), sources.interfaces.clone());
        Box::new(Sorter::new(sorting, bundle.clone(), presences, knowledge, interfaces))
    };
    Ok(sources.lanes.iter().map(sorter).collect())
}

/// The ends of all lanes: a sorter, and a packer for each member. The buffers are ordered by lane.
fn ends(
    sorters: Vec<Box<dyn Stage>>,
    outputs: &mut [(FileOutput, member::Starting)],
    pools: Vec<LanePool>,
    lost: &Sender<Vec<u64>>,
    is_live: bool,
) -> Vec<LaneEnd> {
    let mut pools = pools.into_iter();
    let mut end = |sorter| {
        let packers: Vec<_> =
            outputs.iter_mut().zip(&mut pools).map(|((output, _), pool)| output.packer(pool)).collect();
        let output: Box<dyn crate::output::Output> = match packers.is_empty() {
            true => Box::new(Discard::default()),
            false => Box::new(Spread::new(packers, lost.clone(), is_live)),
        };
        LaneEnd { stages: vec![sorter], output, front: None }
    };
    sorters.into_iter().map(&mut end).collect()
}

/// Starts the writers of all members.
fn start_members(outputs: Vec<(FileOutput, member::Starting)>) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    let mut outputs = outputs.into_iter();
    while let Some((output, starting)) = outputs.next() {
        match starting.start(output) {
            Ok(member) => members.push(member),
            Err(error) => {
                // Dropped so that no lane, and thus no writer, waits for the missing writers.
                drop(outputs);
                return Err(error);
            }
        }
    }
    Ok(members)
}
