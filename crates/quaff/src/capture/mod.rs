//! A capture as a whole: opens everything a plan asks for, runs lanes and writer, sums up.
//!
//! The order is fixed. The output is opened first, since it is what fails most often; then memory is
//! touched; then the lanes start and capture into it; the writer comes last, and only then is an old
//! file of the same name emptied: a capture that cannot start spoils nothing.

mod offline;
pub mod split;

use crate::gauge::LaneGauges;
use crate::inner::{InnerFilter, KernelFilter, Place, kernel_filter};
use crate::lane::{self, Inlet, Packing, Reader, Writer};
use crate::pack::{PackPlan, Packer};
use crate::plan::{CapturePlan, InterfacePlan, RETIRE_MS};
use crate::pool::{Arrived, LanePool, Pool, PoolPlan};
use crate::source::afpacket::{AfPacket, Opening};
use crate::stage::{Decap, Inner, Limit, Load, Quota, Slice, Stage};
use crate::tally::{BeforeSocket, InputTally, LaneTally, Ledger};
use crate::{Error, Result};
use quaff_file::interfaces::Interfaces;
use quaff_file::tally::WriterTally;
use quaff_file::write::WriterGauges;
use quaff_file::write::file::Slots;
use quaff_file::write::header::Heading;
use quaff_file::write::plan::Output;
use quaff_file::write::target::{self, Target};
use quaff_os::clock::{steady_ns, wall_ns};
use quaff_os::machine::SoftnetMeter;
use quaff_os::packet::RingPlan;
use quaff_os::rtnl::Link;
use quaff_os::stop::{Alarm, Reason, Stop};
use quaff_os::wakeup::Wakeup;
use quaff_os::{cpu, rtnl};
use quaff_wire::linktype;
use quaff_wire::pcapng::encode::{Interface, Section};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// Places in the ring to the writer beyond one for each buffer: slot marks, and the end.
const MARKS: usize = 64;

/// One part in so many of a core makes buffers ready that nothing has asked for yet.
const TRICKLE: u32 = 1000;

/// A capture that runs.
pub struct Capture {
    stop: Stop,
    status: Status,
    lanes: Vec<JoinHandle<Result<LaneTally>>>,
    writer: JoinHandle<Result<WriterTally>>,
    pool: Pool,
    writing: String,
    plan: CapturePlan,
    started_ns: u64,
    /// `None` for files.
    softnet: Option<SoftnetMeter>,
    notes: Vec<String>,
    /// Filters that run in user space, for what they have to say.
    filters: Vec<InnerFilter>,
    /// What becomes of files that are read, when that is known.
    input: Option<Receiver<InputTally>>,
}

/// What can be seen of a capture from outside.
#[derive(Clone)]
pub struct Status {
    /// One per interface.
    pub lanes: Vec<Arc<LaneGauges>>,
    /// The writer's.
    pub writer: Arc<WriterGauges>,
    /// Blocks in each kernel ring.
    pub ring_blocks: u64,
    /// Buffers in each lane's buffer.
    pub pool_buffers: u64,
}

/// What the file says about itself, and what goes with it.
struct Setting {
    links: Vec<Link>,
    interfaces: Interfaces,
    /// `-f`, where there is no kernel that could run it.
    filter: Option<InnerFilter>,
    inner: Option<InnerFilter>,
    heading: Heading,
    slots: Slots,
    start_ns: u64,
}

impl Capture {
    /// Starts it: when this returns, every packet that arrives is captured.
    pub fn start(plan: CapturePlan, stop: Stop) -> Result<Self> {
        let plan = plan.validate()?;
        if plan.read.is_some() {
            return offline::start(plan, stop);
        }
        let links = plan.interfaces.iter().map(find_link).collect::<Result<Vec<_>>>()?;
        let inner = plan.inner.as_ref().map(|inner| InnerFilter::new(&inner.expression)).transpose()?;
        let filter = |link: &Link| kernel_filter(&plan, &link.name, kind_of(link), inner.as_ref());
        let filters = links.iter().map(filter).collect::<Result<Vec<_>>>()?;
        let wakeup = Wakeup::new()?;
        let outlet = Target::open(&plan.output, plan.live_copy.as_ref(), plan.format, &wakeup, &stop)?;
        let gauges: Vec<_> = plan.interfaces.iter().map(|_| Arc::default()).collect();
        let (pool, pools) = start_pool(&plan, &gauges, &stop)?;
        let setting = setting(&plan, links, inner.clone(), &outlet);
        let mut notes = pool.notes();
        notes.extend(filters.iter().find_map(gap_note));
        notes.extend(outlet.note());
        notes.extend(setting.links.iter().flat_map(offload_notes));
        let status = Status {
            lanes: gauges,
            writer: Arc::default(),
            ring_blocks: plan.blocks_per_ring() as u64,
            pool_buffers: plan.buffers_per_lane() as u64,
        };
        let mut parts = Vec::new();
        let mut inlets = Vec::new();
        for (lane, pool) in pools.into_iter().enumerate() {
            let (packer, inlet) = packer(&plan, &setting, lane, pool, &outlet, &wakeup);
            parts.push((packer, None));
            inlets.push(inlet);
        }
        let writing = outlet.describe();
        let mut lanes = Vec::new();
        if let Err(error) = start_lanes(&mut lanes, &plan, &setting, filters, parts, &status, &stop) {
            drop(inlets); // So that no lane waits for a writer that will not be.
            return Err(give_up(error, lanes, &stop));
        }
        let softnet = SoftnetMeter::open().ok();
        let writer = start_writer(&plan, &setting, outlet, inlets, &wakeup, &stop, &status);
        let writer = match writer {
            Ok(writer) => writer,
            Err(error) => return Err(give_up(error, lanes, &stop)),
        };
        let (filters, started_ns) = (inner.into_iter().collect(), steady_ns());
        Ok(Self {
            stop,
            status,
            lanes,
            writer,
            pool,
            writing,
            plan,
            started_ns,
            softnet,
            notes,
            filters,
            input: None,
        })
    }

    /// What can be seen from outside.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// How bytes get to disk: `io_uring, O_DIRECT`.
    pub fn writing(&self) -> &str {
        &self.writing
    }

    /// What the user should know: offloads that change frames, memory that could not be locked.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether all threads have ended by themselves.
    pub fn is_over(&self) -> bool {
        self.stop.raised() && self.writer.is_finished()
    }

    /// Waits for the end (somebody has raised the stop) and sums up. What failed is in the ledger.
    pub fn finish(self) -> Ledger {
        let mut failure = None;
        let mut note = |error: Error| {
            failure.get_or_insert(error.to_string());
        };
        let lanes: Vec<_> =
            self.lanes.into_iter().filter_map(|lane| join(lane).map_err(&mut note).ok()).collect();
        let before_socket = BeforeSocket::new(&lanes, self.softnet);
        let writer = join(self.writer).map_err(&mut note).unwrap_or_default();
        // A stream has left it where it is.
        if self.plan.output == Output::Stdout && self.writing != target::STREAM {
            target::leave_stdout();
        }
        let (buffer_bytes, block_bytes) = (self.plan.chunk_bytes as u64, self.plan.block_bytes as u64);
        let mut ledger = Ledger::new(lanes, &writer, buffer_bytes, block_bytes);
        ledger.seconds = (steady_ns() - self.started_ns) as f64 / 1e9;
        ledger.ended_by = self.stop.reason();
        ledger.writing = self.writing;
        ledger.notes = self.notes;
        ledger.notes.extend(self.pool.finish());
        ledger.notes.extend(self.filters.iter().flat_map(InnerFilter::notes));
        ledger.add_before_socket(before_socket);
        let (user_ns, system_ns) = cpu::process_ns();
        ledger.cpu_seconds = (user_ns + system_ns) as f64 / 1e9;
        ledger.input = self.input.and_then(|input| input.recv().ok());
        let input = ledger.input.as_ref();
        let unread = input.and_then(|input| {
            ledger.notes.extend_from_slice(&input.notes);
            input.failure.clone()
        });
        // After a failure the sums cannot hold; without one they must.
        ledger.failure = failure.or_else(|| ledger.check().err()).or(unread);
        ledger.lossless &= ledger.failure.is_none();
        ledger
    }
}

fn start_pool(plan: &CapturePlan, gauges: &[Arc<LaneGauges>], stop: &Stop) -> Result<(Pool, Vec<LanePool>)> {
    let pool = PoolPlan {
        buffers_per_lane: plan.buffers_per_lane(),
        buffer_bytes: plan.chunk_bytes,
        ready_buffers: plan.populate_bytes / plan.lanes() / plan.chunk_bytes,
        trickle: TRICKLE,
        busy_cores: plan.interfaces.iter().filter_map(|interface| interface.cpu).collect(),
    };
    let arrived = |gauges: &Arc<LaneGauges>| -> Arrived {
        let gauges = gauges.clone();
        Box::new(move || gauges.wire_bytes.get())
    };
    Pool::start(pool, gauges.iter().map(arrived).collect(), stop.clone())
}

fn join<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| Err(Error::Defect("a thread panicked".into())))
}

fn find_link(interface: &InterfacePlan) -> Result<Link> {
    let link = rtnl::link(&interface.name)?;
    match linktype::of_arphrd(link.arphrd) {
        Some(_) => Ok(link),
        None => Err(Error::Plan(format!(
            "{}: quaff does not know its kind of link (ARPHRD {}); it knows Ethernet, loopback, IP tunnels and radiotap",
            link.name, link.arphrd
        ))),
    }
}

fn kind_of(link: &Link) -> linktype::LinkType {
    linktype::of_arphrd(link.arphrd).unwrap_or(linktype::ETHERNET)
}

fn gap_note(filter: &KernelFilter) -> Option<String> {
    let is_hidden = filter.inner.as_ref().is_some_and(Place::hides_gaps);
    is_hidden.then(|| {
        "gaps in ERSPAN's sequence numbers are not counted: the kernel keeps packets out; --inner-user counts them"
            .to_owned()
    })
}

fn setting(plan: &CapturePlan, links: Vec<Link>, inner: Option<InnerFilter>, outlet: &Target) -> Setting {
    let section = section();
    let os = section.os.clone();
    let start_ns = wall_ns();
    let interface = |link: &Link| Interface {
        linktype: kind_of(link).linktype,
        snaplen: plan.snaplen,
        name: link.name.clone(),
        description: String::new(),
        filter: plan.filter.clone(),
        mac: (link.mac != [0; 6]).then_some(link.mac),
        speed_bps: speed_bps(&link.name),
        os: os.clone(),
    };
    let interfaces = Interfaces::new(links.iter().map(interface).collect());
    let heading = Heading {
        format: plan.format,
        section,
        interfaces: interfaces.clone(),
        lanes: links.len(),
        known: links.len(),
        start_ns,
        align: outlet.align(),
    };
    let slots = outlet.slots(start_ns);
    Setting { links, interfaces, filter: None, inner, heading, slots, start_ns }
}

/// Who wrote the file, on what.
fn section() -> Section {
    let os = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Section {
        hardware: std::env::consts::ARCH.to_owned(),
        os: format!("Linux {}", os.trim()),
        userappl: concat!("quaff ", env!("CARGO_PKG_VERSION")).to_owned(),
    }
}

fn speed_bps(name: &str) -> Option<u64> {
    let mbps = quaff_os::ethtool::Ethtool::open(name).ok()?.speed_mbps().ok()??;
    Some(u64::from(mbps) * 1_000_000)
}

fn offload_notes(link: &Link) -> Option<String> {
    let card = quaff_os::ethtool::Ethtool::open(&link.name).ok()?;
    let (gro, lro) = (card.gro().unwrap_or(false), card.lro().unwrap_or(false));
    let (what, feature) = match (gro, lro) {
        (false, false) => return None,
        (true, false) => ("GRO is", "gro off"),
        (false, true) => ("LRO is", "lro off"),
        (true, true) => ("GRO and LRO are", "gro off lro off"),
    };
    Some(format!(
        "{what} on at {}: frames may be captured larger than they were on the wire; 'ethtool -K {} {feature}' mends it",
        link.name, link.name
    ))
}

fn packer(
    plan: &CapturePlan,
    setting: &Setting,
    lane: usize,
    pool: LanePool,
    outlet: &Target,
    wakeup: &Wakeup,
) -> (Packer, Inlet) {
    let (outbound, inbound) = rtrb::RingBuffer::new(plan.buffers_per_lane() + MARKS);
    let pack = PackPlan {
        format: plan.format,
        interface: lane as u32,
        align: outlet.align(),
        flush_ns: plan.flush.as_nanos() as u64,
        slot_ns: setting.slots.slot_ns,
        slot_offset_ns: setting.slots.offset_ns,
        start_ns: setting.start_ns,
        grace_ns: 4 * u64::from(RETIRE_MS) * 1_000_000,
        by_packet_time: plan.read.is_some(),
    };
    let slot = pack.slot_of(setting.start_ns);
    let packer = Packer::new(pack, pool.supply, outbound, wakeup.clone());
    (packer, Inlet { inbound, home: pool.home, slot, ended: false })
}

/// The stages of a lane, in the order in which a batch passes them.
fn stages(
    plan: &CapturePlan,
    setting: &Setting,
    hides_gaps: bool,
    gauges: Arc<LaneGauges>,
    quota: Option<&Arc<Quota>>,
    stop: &Stop,
) -> Vec<Box<dyn Stage>> {
    let mut stages: Vec<Box<dyn Stage>> = Vec::new();
    if let Some(filter) = &setting.filter {
        stages.push(Box::new(Inner::new(filter.clone(), setting.interfaces.clone())));
    }
    if let Some(decap) = &plan.decap {
        let decap = Decap::new(decap, plan.format, setting.interfaces.clone(), gauges);
        stages.push(Box::new(if hides_gaps { decap.without_gaps() } else { decap }));
    }
    if let Some(inner) = &setting.inner {
        stages.push(Box::new(Inner::new(inner.clone(), setting.interfaces.clone())));
    }
    if plan.snaplen < crate::plan::SNAPLEN_MAX {
        stages.push(Box::new(Slice { snaplen: plan.snaplen }));
    }
    if !plan.load.is_none() {
        stages.push(Box::new(Load::new(plan.load, crate::plan::SNAPLEN_MAX as usize)));
    }
    if let Some(quota) = quota {
        stages.push(Box::new(Limit::new(quota.clone(), stop.clone())));
    }
    stages
}

/// Starts the writer and waits until it has begun the output.
fn start_writer(
    plan: &CapturePlan,
    setting: &Setting,
    outlet: Target,
    inlets: Vec<Inlet>,
    wakeup: &Wakeup,
    stop: &Stop,
    status: &Status,
) -> Result<JoinHandle<Result<WriterTally>>> {
    let (core, wakeup, stop) = (plan.writer_cpu, wakeup.clone(), stop.clone());
    let (heading, slots, gauges) = (setting.heading.clone(), setting.slots, status.writer.clone());
    let slot = inlets.first().map_or(0, |inlet| inlet.slot);
    let (ready, is_ready) = channel();
    let alarm = stop.clone();
    let thread = spawn("quaff-writer", &alarm, move || {
        let place = core.map_or(Ok(()), cpu::pin).map_err(Error::from);
        let sink = match place.and_then(|()| Ok(outlet.into_sink(heading, slots, &wakeup, &stop, gauges)?)) {
            Ok(sink) => sink,
            Err(error) => {
                let _ = ready.send(Err(error));
                return Ok(WriterTally::default());
            }
        };
        let _ = ready.send(Ok(()));
        let written = lane::write(Writer { inlets, sink, wakeup, slot });
        if let Err(error) = &written {
            stop.raise(Reason::Failed(error.to_string()));
        }
        written
    })?;
    is_ready.recv().map_err(|_| Error::Defect("the writer died at its start".into()))??;
    Ok(thread)
}

/// What a lane ends in: a last stage of its own, and what packs its frames.
type End<P> = (P, Option<Box<dyn Stage>>);

/// Starts all lanes. They capture at once, into the buffer.
fn start_lanes<P: Packing + 'static>(
    lanes: &mut Vec<JoinHandle<Result<LaneTally>>>,
    plan: &CapturePlan,
    setting: &Setting,
    filters: Vec<KernelFilter>,
    ends: Vec<End<P>>,
    status: &Status,
    stop: &Stop,
) -> Result<()> {
    let quota = plan.count.map(Quota::new);
    for (i, ((packer, last), filter)) in ends.into_iter().zip(filters).enumerate() {
        let hides_gaps = filter.inner.as_ref().is_some_and(Place::hides_gaps);
        let ring = RingPlan {
            block_bytes: plan.block_bytes,
            block_count: plan.blocks_per_ring(),
            retire_ms: RETIRE_MS,
            promiscuous: plan.promiscuous,
            filter: filter.insns,
            time_source: plan.time_source,
        };
        let mut stages = stages(plan, setting, hides_gaps, status.lanes[i].clone(), quota.as_ref(), stop);
        stages.extend(last);
        let lane = LaneStart {
            link: setting.links[i].clone(),
            ring,
            core: plan.interfaces[i].cpu,
            real_time: plan.real_time,
            is_filtered: filter.is_filtering,
            number: i as u16,
            snaplen: plan.kernel_snaplen(),
            packer,
            stages,
            gauges: status.lanes[i].clone(),
            stop: stop.clone(),
        };
        lanes.push(lane.start()?);
    }
    Ok(())
}

/// Ends the lanes that run already. Nothing has been written yet, so nothing is spoiled.
fn give_up(error: Error, lanes: Vec<JoinHandle<Result<LaneTally>>>, stop: &Stop) -> Error {
    stop.raise(Reason::Failed(error.to_string()));
    lanes.into_iter().for_each(|lane| drop(lane.join()));
    error
}

/// What a lane's thread begins with.
struct LaneStart<P> {
    link: Link,
    ring: RingPlan,
    core: Option<usize>,
    real_time: Option<i32>,
    is_filtered: bool,
    number: u16,
    snaplen: u32,
    packer: P,
    stages: Vec<Box<dyn Stage>>,
    gauges: Arc<LaneGauges>,
    stop: Stop,
}

impl<P: Packing + 'static> LaneStart<P> {
    /// Starts the thread and waits until it captures.
    fn start(self) -> Result<JoinHandle<Result<LaneTally>>> {
        let (ready, is_ready) = channel();
        let name = format!("quaff-{}", self.link.name);
        let alarm = self.stop.clone();
        let thread = spawn(&name, &alarm, move || {
            let wakeup = Wakeup::new()?;
            self.stop.wake(wakeup.clone());
            let place = self.core.map_or(Ok(()), cpu::pin);
            let place = place.and_then(|()| self.real_time.map_or(Ok(()), cpu::real_time));
            cpu::raise_priority();
            let opening = Opening {
                link: self.link,
                ring: &self.ring,
                is_filtered: self.is_filtered,
                number: self.number,
                snaplen: self.snaplen,
                stop: self.stop.clone(),
                gauges: self.gauges.clone(),
            };
            let source = match place.map_err(Error::from).and_then(|()| AfPacket::open(opening, wakeup)) {
                Ok(source) => source,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return Ok(LaneTally::default());
                }
            };
            let _ = ready.send(Ok(()));
            let (stages, packer, stop, gauges) = (self.stages, self.packer, self.stop.clone(), self.gauges);
            let ended = lane::read(Reader { source, stages, packer, stop, gauges }).and_then(sum_up);
            if let Err(error) = &ended {
                self.stop.raise(Reason::Failed(error.to_string()));
            }
            ended
        })?;
        is_ready.recv().map_err(|_| Error::Defect("a lane died at its start".into()))??;
        Ok(thread)
    }
}

/// One tally from what the source counted and what the lane counted.
fn sum_up((source, lane): (AfPacket, LaneTally)) -> Result<LaneTally> {
    let source = source.finish()?;
    Ok(LaneTally {
        interface: source.interface,
        offered: source.offered,
        nic_dropped: source.nic_dropped,
        kernel_dropped: source.kernel_dropped,
        filtered: source.filtered + lane.filtered,
        truncated: source.truncated,
        oversize: source.oversize,
        ring_freezes: source.ring_freezes,
        ring_high_blocks: source.ring_high_blocks,
        ring_blocks: source.ring_blocks,
        downs: source.downs,
        down_ns: source.down_ns,
        rx_dropped: source.rx_dropped,
        other_protocols: source.other_protocols,
        ..lane
    })
}

fn spawn<T: Send + 'static>(
    name: &str,
    stop: &Stop,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let alarm = Alarm(stop.clone());
    let thread = std::thread::Builder::new().name(name.chars().take(15).collect());
    let started = thread.spawn(move || {
        let _alarm = alarm;
        body()
    });
    started.map_err(|errno| Error::Os(quaff_os::Error::new("start a thread", errno)))
}
