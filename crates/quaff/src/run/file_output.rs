//! One target, with a packer for each lane and the writer on its own thread.

use super::start_thread;
use crate::Result;
use crate::buffer_pool::LanePool;
use crate::lane::{self, Inlet, Writer};
use crate::output::{PackPlan, Packer};
use crate::plan::{GRACE_NS, WritePlan};
use crate::source::Sources;
use quaff_file::tally::WriterTally;
use quaff_file::write::{Heading, Slots, Target, WriterGauges};
use quaff_os::{Stop, Wakeup};
use quaff_wire::pcapng::{self, Section};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Places in the ring to the writer beyond one for each buffer: slot marks, and the end.
const MARKS: usize = 64;

/// Number of marks that a lane without packets sends in a flush interval.
const MARKS_PER_FLUSH: u64 = 4;

/// A target before the start of its writer.
pub(crate) struct FileOutput {
    target: Target,
    pack: PackPlan,
    heading: Heading,
    slots: Slots,
    wakeup: Wakeup,
    writer_cpu: Option<usize>,
    inlets: Vec<Inlet>,
}

impl FileOutput {
    /// `wakeup` is signalled by the lanes and by the disk of `target`.
    pub(crate) fn new(plan: &WritePlan, sources: &Sources, target: Target, wakeup: Wakeup) -> Self {
        let start_ns = sources.start_ns;
        let heading = Heading {
            format: plan.format,
            section: section(sources.section.as_ref(), plan),
            interfaces: sources.interfaces.clone(),
            lanes: sources.lanes.len(),
            known: sources.interfaces.count().max(usize::from(sources.interfaces.waits_for_packets())),
            start_ns,
            align: target.heading_align(),
            compression: target.compression(),
            absent: BTreeSet::new(),
        };
        let slots = target.slots(start_ns);
        let pack = PackPlan {
            format: plan.format,
            lane: 0,
            own: None,
            spares: None,
            is_shared: false,
            align: target.align(),
            is_past_cache: target.is_read_by_disk(),
            flush_ns: plan.flush.as_nanos() as u64,
            slots: slots.clone(),
            rotate_packets: target.rotate_packets(),
            packet_comment: plan
                .packet_comment
                .as_deref()
                .map(pcapng::comment_option)
                .unwrap_or_default()
                .into(),
            start_ns,
            grace_ns: GRACE_NS,
            by_packet_time: !sources.is_live,
            mark_ns: plan.ordered.then_some(plan.flush.as_nanos() as u64 / MARKS_PER_FLUSH),
            abandoned: Stop::default(),
        };
        Self { target, pack, heading, slots, wakeup, writer_cpu: plan.cpu, inlets: Vec::new() }
    }

    /// The flag that ends the wait of the lanes for a writer that does not return.
    pub(crate) fn abandoned(&self) -> Stop {
        self.pack.abandoned.clone()
    }

    /// The packer of the next lane, with its buffers.
    pub(crate) fn packer(&mut self, pool: LanePool) -> Packer {
        let (outbound, inbound) = rtrb::RingBuffer::new(pool.supply.most + MARKS);
        let (lane, interfaces) = (self.inlets.len(), &self.heading.interfaces);
        let is_spare = interfaces.first_spare().is_some_and(|first| lane >= first);
        let spares = is_spare.then(|| interfaces.clone());
        let own = interfaces.of_lane(lane).filter(|_| !is_spare);
        let known = interfaces.first_spare().unwrap_or(self.heading.lanes);
        let mut others = (0..known).filter(|other| *other != lane).map(|other| interfaces.of_lane(other));
        let is_shared = own.is_some() && others.any(|other| other == own);
        let pack = PackPlan { lane, own, spares, is_shared, ..self.pack.clone() };
        let slot = pack.slots.slot_of(pack.start_ns);
        let packer = Packer::new(pack, pool.supply, outbound, self.wakeup.clone());
        self.inlets.push(Inlet::new(inbound, pool.free_buffers, slot, packer.backlog()));
        packer
    }

    /// Starts the writer and waits until it has begun the target.
    pub(crate) fn start(
        self,
        stop: &Stop,
        gauges: Arc<WriterGauges>,
    ) -> Result<JoinHandle<Result<WriterTally>>> {
        let Self { target, heading, slots, wakeup, inlets, .. } = self;
        let slot = inlets.first().map_or(0, |inlet| inlet.slot);
        let (of_sink, of_disk) = (stop.clone(), wakeup.clone());
        let open = move || Ok(target.into_sink(heading, slots, &of_disk, &of_sink, gauges)?);
        start_thread("quaff-writer", stop, self.writer_cpu, open, move |sink| {
            lane::write(Writer { inlets, sink, wakeup, slot })
        })
    }
}

/// The section header: the program that writes the file, and the machine that captured the packets.
fn section(input: Option<&Section>, plan: &WritePlan) -> Section {
    let this = || Section {
        hardware: std::env::consts::ARCH.to_owned(),
        os: crate::source::os_name(),
        ..Section::default()
    };
    let mut section = input.cloned().unwrap_or_else(this);
    section.userappl = concat!("quaff ", env!("CARGO_PKG_VERSION")).to_owned();
    section.comments.extend(plan.annotation.clone());
    section
}
