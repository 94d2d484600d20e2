//! A dry run of a capture: all that can be checked and reported without receiving a packet or creating a file. It opens
//! the files that are read, and a packet socket that receives nothing.

use crate::cores::{Irq, Nic, Topology};
use crate::filter::{FilterPlace, FrameFilter, explain};
use crate::plan::{CapturePlan, ReadPlan, Spread, stall_seconds};
use crate::source::{Declaration, Sources};
use crate::{Error, Result};
use quaff_file::write::Output;
use quaff_os::{Stop, disk, probe};
use serde::Serialize;
use std::path::Path;

/// Rates, bits/s, and sizes of frames, bytes, for which the longest stall of a disk is reported.
const STALLS: [(f64, u32); 4] = [(1e9, 1514), (1e9, 64), (10e9, 1514), (10e9, 64)];

/// The result of a dry run: the plan with the sizes that it has on this machine.
#[derive(Debug, Clone, Serialize)]
pub struct DryRun {
    pub interfaces: Vec<PlannedInterface>,
    /// The files that are read.
    pub files: Vec<String>,
    /// Path, folder or `stdout`.
    pub outputs: Vec<String>,
    pub live_copy: Option<String>,
    pub format: &'static str,
    pub filter: Option<String>,
    pub inner: Option<String>,
    /// The regular expression that the payload of packets has to match.
    pub pattern: Option<String>,
    pub snaplen: u32,
    /// Bytes of the kernel's ring of each interface; `None` for files.
    pub ring_bytes: Option<u64>,
    pub buffer_bytes: u64,
    pub chunk_bytes: u64,
    pub flush_seconds: f64,
    /// Longest stalls by rate; empty for files, because reading them waits for the output.
    pub stalls: Vec<Stall>,
    /// Warnings for the user.
    pub notes: Vec<String>,
}

/// One interface.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedInterface {
    pub name: String,
    /// The core of its first lane.
    pub cpu: Option<usize>,
    /// The NUMA node of its card; `None` where the machine has one node.
    pub node: Option<usize>,
    pub lanes: Vec<PlannedLane>,
    /// The place of the filter on inner frames.
    #[serde(skip)]
    pub inner_place: Option<FilterPlace>,
}

/// One lane of an interface.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedLane {
    pub cpu: Option<usize>,
    /// The NUMA node of its core, where the machine has several: its buffers are there.
    pub node: Option<usize>,
    /// The packets that it receives, and their interrupts, if known.
    pub receives: String,
}

/// The longest stall of the output without loss.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Stall {
    pub bits_per_second: f64,
    pub frame_bytes: u32,
    pub seconds: f64,
}

/// Checks everything in a plan that can be checked without a change: the interfaces, the permission to capture, the
/// filters, the files that are read, and whether the output can be written.
pub fn dry_run(plan: &CapturePlan) -> Result<DryRun> {
    let outputs: Vec<_> = std::iter::once(&plan.output).chain(&plan.live_copy).collect();
    let mut notes: Vec<_> = plan.turn_note().into_iter().collect();
    match plan.input.read.as_ref().is_some_and(has_stream) {
        // The packets of a stream can be read only once.
        true => drop(
            plan.input.filter.as_deref().map(|filter| FrameFilter::new(filter, "`filter`")).transpose()?,
        ),
        false => {
            let stop = Stop::default();
            let prepared =
                Sources::prepare(&plan.input, &outputs, plan.write.format, Declaration::AsDescribed, &stop)?;
            notes.extend(prepared.open(&plan.input, &stop)?.notes);
        }
    }
    let places = explain(&plan.input)?;
    if plan.input.read.is_none() {
        probe::packet_socket()?;
    }
    outputs.iter().try_for_each(|output| check_output(output))?;
    let place = |name: &str| places.iter().find(|(of, _)| of == name).map(|(_, place)| place.clone());
    let topology = Topology::here().ok();
    let interfaces = plan.input.interfaces.iter().map(|interface| {
        let nic = Nic::read(Path::new("/"), &interface.name);
        PlannedInterface {
            name: interface.name.clone(),
            cpu: interface.cpus.first().copied().flatten(),
            node: nic.node,
            lanes: planned_lanes(&interface.cpus, plan.input.spread_rule(), &nic, topology.as_ref()),
            inner_place: place(&interface.name),
        }
    });
    let is_live = plan.input.read.is_none();
    let stall = |(bits_per_second, frame_bytes): (f64, u32)| {
        let seconds = stall_seconds(plan, bits_per_second, f64::from(frame_bytes));
        Stall { bits_per_second, frame_bytes, seconds }
    };
    let lanes = plan.input.lanes();
    let buffer_bytes =
        if is_live { plan.write.buffers(lanes) * plan.write.chunk_bytes } else { plan.write.buffer_bytes };
    let files = plan.input.read.iter().flat_map(|read| &read.files);
    Ok(DryRun {
        interfaces: interfaces.collect(),
        files: files.map(|file| file.display().to_string()).collect(),
        outputs: names(&plan.output),
        live_copy: plan.live_copy.as_ref().and_then(|output| names(output).pop()),
        format: plan.write.format.extension(),
        filter: plan.input.filter.clone(),
        inner: plan.input.inner.as_ref().map(|inner| inner.expression.clone()),
        pattern: plan.input.edit.pattern.as_ref().map(|pattern| pattern.text().to_owned()),
        snaplen: plan.input.snaplen,
        ring_bytes: is_live.then(|| (plan.input.blocks_per_ring() * plan.input.block_bytes) as u64),
        buffer_bytes: buffer_bytes as u64,
        chunk_bytes: plan.write.chunk_bytes as u64,
        flush_seconds: plan.write.flush.as_secs_f64(),
        stalls: if is_live { STALLS.map(stall).into() } else { Vec::new() },
        notes,
    })
}

/// The lanes of an interface.
fn planned_lanes(
    cpus: &[Option<usize>],
    spread: Spread,
    nic: &Nic,
    topology: Option<&Topology>,
) -> Vec<PlannedLane> {
    let lane = |(number, cpu): (usize, &Option<usize>)| PlannedLane {
        cpu: *cpu,
        node: cpu.and_then(|core| topology?.local_node(core)),
        receives: receives(number, cpus.len(), spread, &nic.irqs),
    };
    cpus.iter().enumerate().map(lane).collect()
}

/// The packets of lane `number` of `lanes`, and their interrupts.
fn receives(number: usize, lanes: usize, spread: Spread, irqs: &[Irq]) -> String {
    let share = match spread {
        _ if lanes == 1 => "all packets".to_owned(),
        Spread::Hash => "its share of the flows".to_owned(),
        Spread::Addresses => "its share of the pairs of addresses".to_owned(),
        Spread::Cpu => format!("what cores n × {lanes} + {number} receive"),
        Spread::Queue => format!("queues n × {lanes} + {number}, by the driver's numbers"),
    };
    let is_of_lane =
        |irq: &&Irq| spread != Spread::Cpu || irq.cores.iter().any(|core| core % lanes == number);
    let words = |irq: &Irq| {
        let cores: Vec<_> = irq.cores.iter().map(ToString::to_string).collect();
        format!("{} on core {}", irq.number, cores.join(", "))
    };
    let irqs: Vec<_> = irqs.iter().filter(is_of_lane).map(words).collect();
    match irqs.len() {
        0 => share,
        1 => format!("{share}; interrupt {}", irqs[0]),
        _ => format!("{share}; interrupts {}", irqs.join("; ")),
    }
}

/// Returns whether stdin or a pipe is read.
fn has_stream(read: &ReadPlan) -> bool {
    read.files.iter().any(|file| file.as_os_str() == "-" || file.exists() && !file.is_file())
}

fn names(output: &Output) -> Vec<String> {
    match output {
        Output::Stdout => vec!["stdout".into()],
        Output::Pipe(pipe) => vec![pipe.program.into()],
        Output::File(path) => vec![path.display().to_string()],
        folders => folders.folders().iter().map(|folder| folder.dir.display().to_string()).collect(),
    }
}

/// Returns an error if an output could not be created or written.
fn check_output(output: &Output) -> Result<()> {
    match output {
        Output::Stdout | Output::Pipe(_) => Ok(()),
        Output::File(path) if path.is_dir() => Err(Error::Plan(format!("{} is a folder", path.display()))),
        Output::File(path) if path.exists() => Ok(disk::check_writable(path)?),
        Output::File(path) => Ok(disk::check_writable(parent(path))?),
        folders => folders.folders().iter().try_for_each(|folder| {
            // A missing folder is created, but none above it.
            let there = if folder.dir.exists() { &folder.dir } else { parent(&folder.dir) };
            Ok(disk::check_writable(there)?)
        }),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
