//! A split: one feed to several outputs, as a switch bundles links. The same lanes as a capture's, with
//! a stage at the end that says whose each frame is, and a packer, a buffer and a writer for each member.
//!
//! ```text
//!                               ┌ packer → chunk ─ ring →│ writer → file, pipe, command
//!   source → stages → whose? ───┼ packer → chunk ─ ring →│ writer → interface
//!                               └ …
//! ```
//!
//! A member that goes away (its interface is down, its reader has gone, its disk is full) is replaced:
//! its share goes to the others, and theirs does not move.

mod member;
mod plan;
mod report;
mod spread;

pub use plan::{Goal, MemberPlan, SplitPlan};
pub use report::{Largest, MemberReport, PeakReport, Report, Skipped};

use super::offline::{self, is_live, refuse_followed_pipe, refuse_own_output};
use super::{
    End, Setting, Status, find_link, give_up, join, kind_of, offload_notes, packer, setting, stages,
    start_lanes,
};
use crate::gauge::LaneGauges;
use crate::inner::{InnerFilter, kernel_filter};
use crate::lane::{Inlet, Reader};
use crate::plan::ReadPlan;
use crate::pool::{Arrived, LanePool, Pool, PoolPlan};
use crate::source::files::Offline;
use crate::stage::split::{Knowledge, Presence, Split as Sorter};
use crate::stage::{Quota, Stage};
use crate::tally::{BeforeSocket, InputTally, LaneTally};
use crate::{Error, Result};
use member::{Member, Opened};
use quaff_file::interfaces::Interfaces;
use quaff_file::write::plan::Format;
use quaff_file::write::target::Target;
use quaff_os::clock::steady_ns;
use quaff_os::cpu;
use quaff_os::machine::SoftnetMeter;
use quaff_os::rtnl::Link;
use quaff_os::stop::{Reason, Stop};
use quaff_wire::linktype::ETHERNET;
use spread::{Nowhere, Spread};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A frame is sent from an interface after this time, unless that is late.
const SEND_FLUSH: Duration = Duration::from_millis(1);
/// One part in so many of a core makes buffers ready that nothing has asked for yet.
const TRICKLE: u32 = 1000;

/// A split that runs.
pub struct Split {
    plan: SplitPlan,
    stop: Stop,
    lanes: Vec<JoinHandle<Result<LaneTally>>>,
    gauges: Vec<Arc<LaneGauges>>,
    /// None where nothing is written.
    members: Vec<Member>,
    pool: Option<Pool>,
    knowledge: Arc<Knowledge>,
    /// What each lane lost for want of buffer, by member.
    lost: Receiver<Vec<u64>>,
    input: Option<Receiver<InputTally>>,
    filters: Vec<InnerFilter>,
    notes: Vec<String>,
    started_ns: u64,
    /// `None` for files.
    softnet: Option<SoftnetMeter>,
}

/// What all parts of a run are made from.
struct Parts {
    plan: SplitPlan,
    stop: Stop,
    opened: Vec<Opened>,
    settings: Vec<Setting>,
    gauges: Vec<Arc<LaneGauges>>,
    knowledge: Arc<Knowledge>,
    pool: Option<Pool>,
    /// One for each lane and member: those of a lane one behind the other.
    pools: Vec<LanePool>,
    tell: Sender<Vec<u64>>,
}

impl Split {
    /// Starts it: when this returns, every packet that arrives is sorted.
    pub fn start(plan: SplitPlan, stop: Stop) -> Result<Self> {
        let plan = plan.validate()?;
        if plan.capture.read.is_some() {
            Self::start_offline(plan, stop)
        } else {
            Self::start_live(plan, stop)
        }
    }

    fn start_live(plan: SplitPlan, stop: Stop) -> Result<Self> {
        let capture = &plan.capture;
        let links = capture.interfaces.iter().map(find_link).collect::<Result<Vec<_>>>()?;
        if let Some(link) = links.iter().find(|link| plan.sends() && kind_of(link) != ETHERNET) {
            return Err(Error::Plan(format!(
                "{}: its frames have no Ethernet header to be sent with",
                link.name
            )));
        }
        let filter = |link: &Link| kernel_filter(capture, &link.name, kind_of(link), None);
        let filters = links.iter().map(filter).collect::<Result<Vec<_>>>()?;
        let gauges: Vec<Arc<LaneGauges>> = links.iter().map(|_| Arc::default()).collect();
        let mut notes: Vec<_> = links.iter().flat_map(offload_notes).collect();
        let opened = open_members(&plan, false, &stop)?;
        let stdout = Target::process(null()?, Format::Pcapng);
        let common = setting(capture, links.clone(), None, &stdout);
        let of_member = |member: &Opened| setting(&member.plan, links.clone(), None, &member.outlet);
        // All of them speak of the same interfaces.
        let settings = opened.iter().map(of_member).map(|own| own.with(&common.interfaces)).collect();
        let (mut parts, lost) = Parts::new(plan, stop, opened, settings, gauges)?;
        notes.extend(parts.notes());
        let status = Status {
            lanes: parts.gauges.clone(),
            writer: Arc::default(),
            ring_blocks: parts.plan.capture.blocks_per_ring() as u64,
            pool_buffers: 0,
        };
        let (mut lanes, stop, capture) = (Vec::new(), parts.stop.clone(), parts.plan.capture.clone());
        let sorters = parts.sorters(&common.interfaces)?;
        let (ends, inlets) = parts.spreads();
        let started = if parts.plan.is_dry() {
            let ends: Vec<End<Nowhere>> =
                sorters.into_iter().map(|sorter| (Nowhere::default(), Some(sorter))).collect();
            start_lanes(&mut lanes, &capture, &common, filters, ends, &status, &stop)
        } else {
            let ends: Vec<End<Spread>> = ends.into_iter().zip(sorters.into_iter().map(Some)).collect();
            start_lanes(&mut lanes, &capture, &common, filters, ends, &status, &stop)
        };
        if let Err(error) = started {
            drop(inlets); // So that no lane waits for a writer that will not be.
            return Err(give_up(error, lanes, &stop));
        }
        parts.run(lanes, inlets, (None, Vec::new(), notes), lost)
    }

    fn start_offline(plan: SplitPlan, stop: Stop) -> Result<Self> {
        let capture = &plan.capture;
        let read = capture.read.clone().unwrap_or_default();
        let filter = capture.filter.as_deref().map(InnerFilter::new).transpose()?;
        for member in &plan.members {
            refuse_own_output(&read, &plan.capture_of(member, true).output)?;
        }
        refuse_followed_pipe(&read)?;
        let gauges = vec![Arc::<LaneGauges>::default()];
        let (interfaces, is_at_once, core) = (Interfaces::default(), !is_live(&read), read.cpu);
        let format = if plan.sends() { Format::Pcap } else { capture.format };
        let source = open_files(read, format, &interfaces, &stop, &gauges[0])?;
        let first_ns = source.first_ns();
        if plan.sends() && interfaces.get(0).is_some_and(|first| first.linktype != ETHERNET.linktype) {
            return Err(Error::Plan(format!(
                "{}: its frames have no Ethernet header to be sent with",
                source.name()
            )));
        }
        let opened = open_members(&plan, is_at_once, &stop)?;
        let of_member =
            |member: &Opened| offline::setting(&member.plan, interfaces.clone(), first_ns, &member.outlet);
        let settings = opened.iter().map(of_member).collect();
        let filters: Vec<_> = filter.iter().cloned().collect();
        let common =
            offline::setting(capture, interfaces.clone(), first_ns, &Target::process(null()?, format));
        let common = Setting { filter, ..common };
        let (mut parts, lost) = Parts::new(plan, stop, opened, settings, gauges)?;
        let notes = parts.notes();
        let capture = &parts.plan.capture;
        let quota = capture.count.map(Quota::new);
        let (stop, gauges) = (parts.stop.clone(), parts.gauges[0].clone());
        let mut stages = stages(capture, &common, false, gauges.clone(), quota.as_ref(), &stop);
        stages.extend(parts.sorters(&interfaces)?);
        let (tell, input) = channel();
        let (ends, inlets) = parts.spreads();
        let lane = match ends.into_iter().next().filter(|_| !parts.plan.is_dry()) {
            Some(packer) => offline::start_lane(Reader { source, stages, packer, stop, gauges }, core, tell)?,
            None => {
                let packer = Nowhere::default();
                offline::start_lane(Reader { source, stages, packer, stop, gauges }, core, tell)?
            }
        };
        parts.run(vec![lane], inlets, (Some(input), filters, notes), lost)
    }

    /// What the user should know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Packets and bytes on the wire that came so far.
    pub fn came(&self) -> (u64, u64) {
        let sum = |of: fn(&LaneGauges) -> u64| self.gauges.iter().map(|lane| of(lane)).sum();
        (sum(|lane| lane.received.get()), sum(|lane| lane.wire_bytes.get()))
    }

    /// Each member: its name, whether it is there, packets that it has taken.
    pub fn members(&self) -> impl Iterator<Item = (&str, bool, u64)> {
        let of = |member: &'_ Member| (member.presence.is_here(), member.gauges.written.get());
        self.members.iter().map(move |member| (member.name.as_str(), of(member).0, of(member).1))
    }

    /// Whether all threads have ended by themselves. When the last member has gone for good, that is
    /// the end of the run.
    pub fn is_over(&self) -> bool {
        let is_gone = |member: &Member| member.presence.stop.raised();
        if !self.members.is_empty() && self.members.iter().all(is_gone) && !self.stop.raised() {
            self.stop.raise(Reason::OutputClosed);
        }
        self.stop.raised()
            && self.lanes.iter().all(JoinHandle::is_finished)
            && self.members.iter().all(Member::is_finished)
    }

    /// Waits for the end (somebody has raised the stop) and sums up. What failed is in the report.
    pub fn finish(self) -> Report {
        let mut failure = None;
        let mut note = |error: Error| {
            failure.get_or_insert(error);
        };
        let lanes: Vec<_> =
            self.lanes.into_iter().filter_map(|lane| join(lane).map_err(&mut note).ok()).collect();
        let before_socket = BeforeSocket::new(&lanes, self.softnet);
        let mut ended: Vec<_> = self.members.into_iter().map(Member::finish).collect();
        ended.iter_mut().filter_map(|ended| ended.failure.take()).for_each(&mut note);
        let mut notes = self.notes;
        notes.extend(self.pool.and_then(Pool::finish));
        notes.extend(self.filters.iter().flat_map(InnerFilter::notes));
        let seconds = (steady_ns() - self.started_ns) as f64 / 1e9;
        let input = self.input.and_then(|input| input.recv().ok());
        let of_lanes: Vec<_> = self.lost.try_iter().collect();
        let end = report::End {
            lanes,
            members: ended,
            lost: of_lanes,
            input,
            failure,
            before_socket,
            notes,
            seconds,
        };
        report::sum_up(&self.plan, &self.knowledge.balance(), self.stop.reason(), end)
    }
}

impl Parts {
    fn new(
        plan: SplitPlan,
        stop: Stop,
        opened: Vec<Opened>,
        settings: Vec<Setting>,
        gauges: Vec<Arc<LaneGauges>>,
    ) -> Result<(Self, Receiver<Vec<u64>>)> {
        let (pool, pools) = match plan.is_dry() {
            true => (None, Vec::new()),
            false => {
                let (pool, pools) = start_pool(&plan, &gauges, &stop)?;
                (Some(pool), pools)
            }
        };
        let knowledge = Arc::new(Knowledge::new(plan.members.len()));
        let (tell, lost) = channel();
        Ok((Self { plan, stop, opened, settings, gauges, knowledge, pool, pools, tell }, lost))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<_> =
            self.opened.iter().filter_map(|member| member.outlet.note()).take(1).collect();
        notes.extend(self.pool.iter().flat_map(Pool::notes));
        notes
    }

    /// The last stage of each lane.
    fn sorters(&self, interfaces: &Interfaces) -> Result<Vec<Box<dyn Stage>>> {
        let presences = |_| self.opened.iter().map(|member| member.presence().clone()).collect::<Vec<_>>();
        let anywhere = vec![Presence::default(); self.plan.members.len()];
        let bundle = self.plan.bundle()?;
        let sorter = |lane| -> Box<dyn Stage> {
            let members = if self.plan.is_dry() { anywhere.clone() } else { presences(lane) };
            let (sorting, knowledge) = (self.plan.sorting.clone(), self.knowledge.clone());
            Box::new(Sorter::new(sorting, bundle.clone(), members, knowledge, interfaces.clone()))
        };
        Ok((0..self.gauges.len()).map(sorter).collect())
    }

    /// What each lane packs with, and each member's ends of all lanes.
    fn spreads(&mut self) -> (Vec<Spread>, Vec<Vec<Inlet>>) {
        let mut inlets: Vec<_> = self.opened.iter().map(|_| Vec::new()).collect();
        let mut pools = std::mem::take(&mut self.pools).into_iter();
        let mut spreads = Vec::new();
        for lane in 0..self.gauges.len() {
            let mut packers = Vec::new();
            for (number, (member, setting)) in self.opened.iter().zip(&self.settings).enumerate() {
                let Some(pool) = pools.next() else { continue };
                let (packer, inlet) =
                    packer(&member.plan, setting, lane, pool, &member.outlet, &member.wakeup);
                packers.push(packer);
                inlets[number].push(inlet);
            }
            spreads.push(Spread::new(packers, self.tell.clone()));
        }
        (spreads, inlets)
    }

    /// Starts the writers; then all of it runs.
    fn run(
        self,
        lanes: Vec<JoinHandle<Result<LaneTally>>>,
        inlets: Vec<Vec<Inlet>>,
        (input, filters, notes): (Option<Receiver<InputTally>>, Vec<InnerFilter>, Vec<String>),
        lost: Receiver<Vec<u64>>,
    ) -> Result<Split> {
        let mut members = Vec::new();
        let mut left = self.opened.into_iter().zip(&self.settings).zip(inlets);
        while let Some(((opened, setting), inlets)) = left.next() {
            match opened.start(setting, inlets) {
                Ok(member) => members.push(member),
                Err(error) => {
                    drop(left); // So that no lane waits for a writer that will not be.
                    let error = give_up(error, lanes, &self.stop);
                    members.into_iter().map(Member::finish).for_each(drop);
                    return Err(error);
                }
            }
        }
        let Self { plan, stop, gauges, knowledge, pool, .. } = self;
        let started_ns = steady_ns();
        let softnet = plan.capture.read.is_none().then(SoftnetMeter::open).and_then(|meter| meter.ok());
        Ok(Split {
            plan,
            stop,
            lanes,
            gauges,
            members,
            pool,
            knowledge,
            lost,
            input,
            filters,
            notes,
            started_ns,
            softnet,
        })
    }
}

impl Setting {
    /// With the interfaces of another, which are the same.
    fn with(mut self, interfaces: &Interfaces) -> Self {
        self.interfaces = interfaces.clone();
        self.heading.interfaces = interfaces.clone();
        self
    }
}

fn open_members(plan: &SplitPlan, is_at_once: bool, stop: &Stop) -> Result<Vec<Opened>> {
    if plan.is_dry() {
        return Ok(Vec::new());
    }
    (0..plan.members.len()).map(|number| member::open(plan, number, is_at_once, stop)).collect()
}

fn open_files(
    read: ReadPlan,
    format: Format,
    interfaces: &Interfaces,
    stop: &Stop,
    gauges: &Arc<LaneGauges>,
) -> Result<Offline> {
    Offline::open(read, format, interfaces.clone(), stop.clone(), gauges.clone())
}

/// What stands for an output where nothing is written.
fn null() -> Result<std::fs::File> {
    let path = "/dev/null";
    std::fs::OpenOptions::new().write(true).open(path).map_err(|errno| Error::path("write to", path, errno))
}

fn start_pool(plan: &SplitPlan, gauges: &[Arc<LaneGauges>], stop: &Stop) -> Result<(Pool, Vec<LanePool>)> {
    let (capture, members) = (plan.capture_of(&plan.members[0], false), plan.members.len());
    let shares = gauges.len() * members;
    let pool = PoolPlan {
        buffers_per_lane: capture.buffers_per_lane(),
        buffer_bytes: capture.chunk_bytes,
        ready_buffers: capture.populate_bytes / shares / capture.chunk_bytes,
        trickle: TRICKLE,
        busy_cores: capture.interfaces.iter().filter_map(|interface| interface.cpu).collect(),
    };
    let arrived = |share: usize| -> Arrived {
        let gauges = gauges[share / members].clone();
        Box::new(move || gauges.wire_bytes.get())
    };
    Pool::start(pool, (0..shares).map(arrived).collect(), stop.clone())
}

/// User and system time of this process, s.
fn cpu_seconds() -> f64 {
    let (user_ns, system_ns) = cpu::process_ns();
    (user_ns + system_ns) as f64 / 1e9
}
