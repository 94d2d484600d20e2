//! Opens the sources that a plan names: one for each lane.
//!
//! Interfaces are looked up and their filters compiled here, but their rings are opened on the lanes' own
//! threads, each on its core. Files are opened at once and read up to the first packet, because the header of
//! the output has the start time of the capture.

use super::Source;
use super::afpacket::{AfPacket, Opening};
use super::files::Files;
use super::group::Group;
use super::link::{describe, find_link, kind_of, offload_notes};
use super::live_link::Links;
use super::merge::Merge;
use super::spare::{KindFilters, Mailbox, Spare, SparePlan};
use super::watch::Watch;
use super::xdp::{self, Xdp, XdpGroup};
use crate::filter::{FilterPlace, FrameFilter, KernelFilter, kernel_filter, to_kernel};
use crate::front::FrontPlace;
use crate::gauge::LaneGauges;
use crate::plan::{HotplugPlan, InputPlan, RETIRE_MS, ReadOrder, ReadPlan, Spread};
use crate::{Error, Result};
use quaff_file::write::{Format, Output};
use quaff_file::{Interfaces, OutputReader};
use quaff_os::clock::wall_ns;
use quaff_os::disk::open_unnamed;
use quaff_os::packet::{Fan, Insn, RingPlan, accept};
use quaff_os::rtnl::Link;
use quaff_os::{Stop, Try, Wakeup};
use quaff_wire::filter::by_addresses;
use quaff_wire::linktype;
use quaff_wire::pcapng::{Interface, Section};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kinds of links that an interface may have.
const KINDS: [linktype::LinkType; 3] = [linktype::ETHERNET, linktype::RAW, linktype::RADIOTAP];

/// The sources of a run, one for each lane.
pub(crate) struct Sources {
    /// The interfaces that an output describes.
    pub interfaces: Interfaces,
    /// The machine that captured the files, and what its user wrote about them; `None` for interfaces of this machine.
    pub section: Option<Section>,
    pub lanes: Vec<LaneSource>,
    /// Finds interfaces for the spare lanes, which are the last ones.
    pub watch: Option<Watch>,
    /// The format of the outputs.
    pub format: Format,
    /// Start of the capture: now, or the time of the first packet of the files; ns since 1970.
    pub start_ns: u64,
    /// The filter on outer frames in user space: for files, and where the kernel cannot decide.
    pub(crate) filter: Option<FrameFilter>,
    pub(crate) inner: Option<FrameFilter>,
    /// Interfaces, not files.
    pub is_live: bool,
    /// All packets exist already, so no reader waits for the output.
    pub is_at_once: bool,
    /// Warnings for the user: offloads that change frames, gaps that a filter hides.
    pub notes: Vec<String>,
}

/// The moment at which an interface gets its number in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Declaration {
    /// As soon as it is found.
    AsDescribed,
    /// With its first packet, or for drops that a file records of it, if the reader takes an interface without packets.
    ByPacket(OutputReader),
}

impl Declaration {
    fn list(self, known: Vec<Interface>) -> Interfaces {
        match self {
            Self::AsDescribed => Interfaces::new(known),
            Self::ByPacket(reader) => Interfaces::by_first_packet(known).for_reader(reader),
        }
    }
}

/// Opens a source. Runs on the lane's thread; the wakeup ends a wait of the source.
pub(crate) type OpenSource = Box<dyn FnOnce(Wakeup) -> Result<Box<dyn Source>> + Send>;

/// The source of one lane, and the settings of its thread.
pub(crate) struct LaneSource {
    /// The interface, or the files.
    pub name: String,
    /// Name of its thread, up to 15 characters.
    pub thread: String,
    pub open: OpenSource,
    /// The core to which it is pinned.
    pub core: Option<usize>,
    /// SCHED_FIFO priority.
    pub real_time: Option<i32>,
    /// Raises its priority, because a ring that is not emptied drops packets.
    pub is_urgent: bool,
    /// The run ends with its packets: those of files.
    pub ends_run: bool,
    /// A kernel filter drops tunnel packets before their sequence numbers are checked.
    pub hides_gaps: bool,
    pub gauges: Arc<LaneGauges>,
    /// The work of threads ahead of the lane, which is set before the lane starts; only files have such threads.
    pub front: FrontPlace,
}

impl Sources {
    /// Live ones, without spare lanes and notes.
    fn new(
        interfaces: Interfaces,
        lanes: Vec<LaneSource>,
        (format, start_ns): (Format, u64),
        (filter, inner): (Option<FrameFilter>, Option<FrameFilter>),
    ) -> Self {
        Self {
            interfaces,
            section: None,
            lanes,
            watch: None,
            format,
            start_ns,
            filter,
            inner,
            is_live: true,
            is_at_once: false,
            notes: Vec::new(),
        }
    }

    /// Does what needs privileges or other files than the inputs: finds the interfaces, compiles filters, which may
    /// look up names, and checks that no file is read and written at once. `outputs`, in `format`, are the outputs of
    /// the run.
    pub(crate) fn prepare(
        plan: &InputPlan,
        outputs: &[&Output],
        format: Format,
        declaration: Declaration,
        stop: &Stop,
    ) -> Result<Prepared> {
        let Some(read) = &plan.read else {
            return Ok(Prepared::Interfaces(Box::new(find_interfaces(plan, (format, declaration), stop)?)));
        };
        let filter = plan.filter.as_deref().map(|filter| FrameFilter::new(filter, "`filter`")).transpose()?;
        let inner = inner_filter(plan)?;
        outputs.iter().try_for_each(|output| refuse_own_output(read, output))?;
        refuse_followed_pipe(read)?;
        for path in read.files.iter().filter(|path| path.as_os_str() != "-") {
            let tried = || format!("read {}", path.display());
            // To open a pipe would wait for its writer.
            if path.metadata().trying(tried)?.is_file() {
                File::open(path).trying(tried)?;
            }
        }
        let spill = if read.order == ReadOrder::Reordered { Some(temporary_file(outputs)?) } else { None };
        let files = PreparedFiles { read: read.clone(), format, declaration, filter, inner, spill };
        Ok(Prepared::Files(Box::new(files)))
    }

    pub(crate) fn gauges(&self) -> Vec<Arc<LaneGauges>> {
        self.lanes.iter().map(|lane| lane.gauges.clone()).collect()
    }

    /// The user-space filters, for their notes at the end.
    pub(crate) fn filters(&self) -> Vec<FrameFilter> {
        self.filter.iter().chain(&self.inner).cloned().collect()
    }
}

/// Sources of which no file has been opened yet.
pub(crate) enum Prepared {
    Interfaces(Box<Sources>),
    Files(Box<PreparedFiles>),
}

impl Prepared {
    /// As in [`Sources`].
    pub(crate) fn is_at_once(&self) -> bool {
        matches!(self, Self::Files(files) if !may_grow(&files.read))
    }

    /// The interfaces that are captured; `None` for files.
    pub(crate) fn interfaces(&self) -> Option<&Interfaces> {
        match self {
            Self::Interfaces(sources) => Some(&sources.interfaces),
            Self::Files(_) => None,
        }
    }

    /// Opens the sources.
    pub(crate) fn open(self, plan: &InputPlan, stop: &Stop) -> Result<Sources> {
        match self {
            Self::Interfaces(sources) => Ok(*sources),
            Self::Files(files) => open_files(plan, *files, stop),
        }
    }
}

/// Files that have not been opened yet, and what is to be done with them.
pub(crate) struct PreparedFiles {
    read: ReadPlan,
    format: Format,
    declaration: Declaration,
    filter: Option<FrameFilter>,
    inner: Option<FrameFilter>,
    /// For late packets.
    spill: Option<File>,
}

/// A temporary file without a name, in the folder of the output if that is a file: it has room for what is read.
fn temporary_file(outputs: &[&Output]) -> Result<File> {
    let of_output = outputs.iter().find_map(|output| match output {
        Output::File(path) if !path.exists() || path.is_file() => path.parent(),
        _ => None,
    });
    let folder = of_output.filter(|folder| !folder.as_os_str().is_empty());
    let folder =
        folder.map_or_else(|| of_output.map_or_else(std::env::temp_dir, |_| ".".into()), Path::to_owned);
    let made = open_unnamed(&folder, false).or_else(|_| open_unnamed(&std::env::temp_dir(), false));
    Ok(made.trying(|| format!("make a temporary file in {} and in TMPDIR", folder.display()))?)
}

fn find_interfaces(
    plan: &InputPlan,
    (format, declaration): (Format, Declaration),
    stop: &Stop,
) -> Result<Sources> {
    let links = plan.interfaces.iter().map(find_link).collect::<Result<Vec<_>>>()?;
    refuse_headers(plan, &links)?;
    let inner = inner_filter(plan)?;
    let filter = |link: &Link| kernel_filter(plan, &link.name, kind_of(link), inner.as_ref());
    let filters = links.iter().map(filter).collect::<Result<Vec<_>>>()?;
    let kinds = match &plan.hotplug {
        Some(_) => filters_of_kinds(plan, inner.as_ref())?,
        None => KindFilters::from([]),
    };
    let mut all = filters.iter().chain(kinds.iter().map(|(_, filter)| filter));
    // No kernel filter is in front of AF_XDP.
    let is_exact = all.all(|filter| filter.is_exact) && !plan.via.is_xdp();
    let in_user_space = plan.filter.as_ref().filter(|_| !is_exact);
    let filter = in_user_space.map(|filter| FrameFilter::new(filter, "`filter`")).transpose()?;
    let mut notes: Vec<_> =
        filters.iter().filter(|_| !plan.via.is_xdp()).find_map(gap_note).into_iter().collect();
    let setups = xdp_setups(plan, &links)?;
    notes.extend(setups.iter().flat_map(xdp::Setup::notes));
    notes.extend(links.iter().flat_map(offload_notes));
    let describe = |link| describe(plan, link);
    let places = plan.places();
    let of_lanes = places.iter().map(|(interface, _)| *interface as u16).collect();
    let interfaces = declaration.list(links.iter().map(describe).collect()).with_lanes(of_lanes);
    let least = match &plan.hotplug {
        // It waits for the next one.
        Some(_) => 0,
        None if plan.require_all => places.len(),
        None => 1,
    };
    let known = links.clone();
    let all = Links::new(places.len(), least);
    let groups =
        links.iter().enumerate().map(|(at, link)| group(plan, at, link)).collect::<Result<Vec<_>>>()?;
    let xdp_groups: Vec<_> = links.iter().map(|_| XdpGroup::default()).collect();
    let lanes = places.into_iter().map(|(at, lane)| {
        if let Some(setup) = setups.get(at) {
            return xdp_lane(plan, (setup.clone(), xdp_groups[at].clone()), (at, lane), stop, &all);
        }
        let found = Found { link: links[at].clone(), filter: filters[at].clone(), group: groups[at].clone() };
        live_lane(plan, found, (at, lane), stop, &all)
    });
    let sources = Sources::new(interfaces, lanes.collect(), (format, wall_ns()), (filter, inner));
    let mut sources = Sources { notes, ..sources };
    if let Some(hotplug) = &plan.hotplug {
        add_spares(plan, hotplug, &known, &kinds, &mut sources, stop);
    }
    Ok(sources)
}

/// The kernel's filters for the kinds of links that may come.
fn filters_of_kinds(plan: &InputPlan, inner: Option<&FrameFilter>) -> Result<KindFilters> {
    // No interface has a name with a blank, so none is asked.
    let compile = |kind| Ok((kind, kernel_filter(plan, "a new one", kind, inner)?));
    let all: Vec<Result<_>> = KINDS.into_iter().map(compile).collect();
    match all.iter().any(Result::is_ok) {
        true => Ok(all.into_iter().flatten().collect()),
        false => all.into_iter().collect(),
    }
}

/// Adds the lanes of `hotplug`. `known` are the interfaces that have one.
fn add_spares(
    plan: &InputPlan,
    hotplug: &HotplugPlan,
    known: &[Link],
    filters: &KindFilters,
    sources: &mut Sources,
    stop: &Stop,
) {
    let first = sources.lanes.len();
    sources.interfaces = sources.interfaces.clone().with_spare_lanes(first);
    let mut mailboxes = Vec::new();
    for lane in first..first + hotplug.lanes {
        let (gauges, mailbox) = (Arc::<LaneGauges>::default(), Arc::<Mailbox>::default());
        mailboxes.push(mailbox.clone());
        let spare = SparePlan {
            lane,
            input: plan.clone(),
            ring: ring_plan(plan, vec![accept(plan.kernel_snaplen())]),
            filters: filters.clone(),
            interfaces: sources.interfaces.clone(),
            stop: stop.clone(),
            gauges: gauges.clone(),
            mailbox,
        };
        sources.lanes.push(LaneSource {
            name: String::new(),
            thread: format!("quaff-spare-{}", lane - first),
            open: Box::new(move |wakeup| Ok(Box::new(Spare::open(spare, wakeup)?))),
            core: plan.cpus().last().flatten(),
            real_time: plan.real_time,
            is_urgent: true,
            ends_run: false,
            hides_gaps: filters.iter().any(|(_, filter)| hides_gaps(filter)),
            gauges,
            front: FrontPlace::default(),
        });
    }
    sources.watch = Some(Watch::new(hotplug, known, mailboxes));
}

fn hides_gaps(filter: &KernelFilter) -> bool {
    filter.inner.as_ref().is_some_and(FilterPlace::hides_gaps)
}

fn ring_plan(plan: &InputPlan, filter: Vec<Insn>) -> RingPlan {
    RingPlan {
        block_bytes: plan.block_bytes,
        block_count: plan.blocks_per_ring(),
        retire_ms: RETIRE_MS,
        promiscuous: plan.promiscuous,
        filter,
        time_source: plan.time_source,
    }
}

/// An interface, with what its lanes need.
struct Found {
    link: Link,
    filter: KernelFilter,
    group: Group,
}

/// The group of the lanes of interface `at` of the plan.
fn group(plan: &InputPlan, at: usize, link: &Link) -> Result<Group> {
    let lanes = plan.interfaces[at].cpus.len();
    let (kind, spread) = (kind_of(link), plan.spread_rule());
    let has_ethernet = kind == linktype::ETHERNET;
    if lanes > 1 && spread == Spread::Addresses && !has_ethernet && !linktype::is_bare_ip(kind.linktype) {
        return Err(Error::Plan(format!(
            "{}: addresses are found after Ethernet headers and in bare IP packets only: choose another `spread`, or one lane",
            link.name
        )));
    }
    let fan = match spread {
        Spread::Hash => Fan::Hash,
        Spread::Queue => Fan::Queue,
        Spread::Cpu => Fan::Core,
        Spread::Addresses => Fan::Program(by_addresses(has_ethernet).iter().map(to_kernel).collect()),
    };
    Ok(Group::new(lanes, fan, plan.is_incoming))
}

/// The settings of AF_XDP for each interface; none for other sources.
fn xdp_setups(plan: &InputPlan, links: &[Link]) -> Result<Vec<xdp::Setup>> {
    let links = links.iter().enumerate().filter(|_| plan.via.is_xdp());
    links.map(|(at, link)| xdp::Setup::new(plan, at, link)).collect()
}

/// A lane of AF_XDP, as [`live_lane`].
fn xdp_lane(
    plan: &InputPlan,
    (setup, group): (xdp::Setup, XdpGroup),
    (interface, lane): (usize, usize),
    stop: &Stop,
    links: &Links,
) -> LaneSource {
    let (gauges, name) = (Arc::<LaneGauges>::default(), setup.link.name.clone());
    let opening = xdp::Opening {
        setup,
        group,
        number: interface as u16,
        stop: stop.clone(),
        links: links.clone(),
        gauges: gauges.clone(),
    };
    let open = move |wakeup: Wakeup| -> Result<Box<dyn Source>> { Ok(Box::new(Xdp::open(opening, wakeup)?)) };
    lane_source(plan, (interface, lane), name, Box::new(open), false, gauges)
}

/// A lane, by its interface and its number among those of the interface.
fn live_lane(
    plan: &InputPlan,
    found: Found,
    (interface, lane): (usize, usize),
    stop: &Stop,
    links: &Links,
) -> LaneSource {
    let Found { link, filter, group } = found;
    let gauges = Arc::<LaneGauges>::default();
    let hides_gaps = hides_gaps(&filter);
    let (is_filtered, ring) = (filter.is_filtering, ring_plan(plan, filter.insns));
    let (snaplen, stop, links, shown) = (plan.snaplen, stop.clone(), links.clone(), gauges.clone());
    let name = link.name.clone();
    let open = move |wakeup: Wakeup| -> Result<Box<dyn Source>> {
        let number = interface as u16;
        let opening = Opening {
            link,
            ring: &ring,
            is_filtered,
            group,
            number,
            snaplen,
            stop,
            links,
            gauges: shown,
            came_ns: 0,
        };
        Ok(Box::new(AfPacket::open(opening, wakeup)?))
    };
    lane_source(plan, (interface, lane), name, Box::new(open), hides_gaps, gauges)
}

/// The settings of a lane's thread.
fn lane_source(
    plan: &InputPlan,
    (interface, lane): (usize, usize),
    name: String,
    open: OpenSource,
    hides_gaps: bool,
    gauges: Arc<LaneGauges>,
) -> LaneSource {
    let cpus = &plan.interfaces[interface].cpus;
    LaneSource {
        thread: if cpus.len() > 1 { format!("quaff-{lane}-{name}") } else { format!("quaff-{name}") },
        name,
        open,
        core: cpus[lane],
        real_time: plan.real_time,
        is_urgent: true,
        ends_run: false,
        hides_gaps,
        gauges,
        front: FrontPlace::default(),
    }
}

fn open_files(plan: &InputPlan, prepared: PreparedFiles, stop: &Stop) -> Result<Sources> {
    let PreparedFiles { read, format, declaration, filter, inner, spill } = prepared;
    let (gauges, interfaces) = (Arc::<LaneGauges>::default(), declaration.list(Vec::new()));
    let (core, is_at_once, front) = (read.cpu, !may_grow(&read), FrontPlace::default());
    let name = read.name();
    let (start_ns, section, open): (_, _, OpenSource) = match read.order {
        ReadOrder::AsGiven => {
            let files = Files::open(read, format, interfaces.clone(), stop.clone(), gauges.clone())?;
            let files = files.with_snaplen(plan.snaplen).with_front(front.clone());
            (files.first_ns(), files.section(), Box::new(move |_| Ok(Box::new(files))))
        }
        ReadOrder::ByTime | ReadOrder::Reordered => {
            let merge = Merge::open(read, format, interfaces.clone(), stop.clone(), gauges.clone(), spill)?;
            let merge = merge.with_snaplen(plan.snaplen);
            (merge.first_ns(), merge.section(), Box::new(move |_| Ok(Box::new(merge))))
        }
    };
    filter.as_ref().map_or(Ok(()), |filter| refuse_meaningless(filter, &interfaces))?;
    plan.edit.check_span(Some(start_ns))?;
    let lane = LaneSource {
        name,
        thread: "quaff-read".into(),
        open,
        core,
        real_time: None,
        is_urgent: false,
        ends_run: true,
        hides_gaps: false,
        gauges,
        front,
    };
    let sources = Sources::new(interfaces, vec![lane], (format, start_ns), (filter, inner));
    Ok(Sources { section: Some(section), is_live: false, is_at_once, ..sources })
}

fn inner_filter(plan: &InputPlan) -> Result<Option<FrameFilter>> {
    plan.inner.as_ref().map(|inner| FrameFilter::new(&inner.expression, "`inner`")).transpose()
}

/// Refuses a filter that does not compile for any link type up to the first packet, as tcpdump does.
fn refuse_meaningless(filter: &FrameFilter, interfaces: &Interfaces) -> Result<()> {
    let mut linktypes = (0..=u16::MAX).map_while(|id| interfaces.get(id)).map(|interface| interface.linktype);
    let first = linktypes.next().map_or(Ok(()), |linktype| filter.check(linktype));
    match first {
        Err(_) if linktypes.any(|linktype| filter.check(linktype).is_ok()) => Ok(()),
        first => first,
    }
}

/// Refuses made headers for an interface without Ethernet: its description in the file says what the kernel delivers.
fn refuse_headers(plan: &InputPlan, links: &[Link]) -> Result<()> {
    let is_bare = |link: &&Link| linktype::is_bare_ip(kind_of(link).linktype);
    match links.iter().find(is_bare).filter(|_| plan.edit.ethernet) {
        Some(link) => Err(Error::Plan(format!(
            "{} has bare IP packets: capture them as they are, and give `ethernet` when the file is read",
            link.name
        ))),
        None => Ok(()),
    }
}

/// Returns whether another process may be writing the input.
fn may_grow(read: &ReadPlan) -> bool {
    let is_stream =
        |path: &Path| path.as_os_str() == "-" || !path.metadata().is_ok_and(|meta| meta.is_file());
    read.follow || read.files.iter().any(|path| is_stream(path))
}

/// Refuses an output that would empty, or a retention that would remove, a file that is read.
fn refuse_own_output(read: &ReadPlan, output: &Output) -> Result<()> {
    let identity = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    let is_read = |own: Option<_>| own.is_some() && read.files.iter().any(|path| identity(path) == own);
    let refused = match output {
        Output::File(out) => out.is_file() && is_read(identity(out)),
        Output::Stdout => {
            let stdout = Path::new("/dev/stdout");
            stdout.is_file() && is_read(identity(stdout))
        }
        // Only interfaces are captured into several folders.
        Output::Dirs(_) | Output::Pipe(_) => false,
        Output::Dir(dir) => {
            let folder = identity(&dir.dir);
            let is_in = |path: &PathBuf| {
                path.parent().is_some_and(|parent| {
                    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                    identity(parent) == folder
                })
            };
            if dir.retention.is_any() && read.files.iter().any(is_in) {
                return Err(Error::Plan(format!(
                    "{} holds input files, which retention would remove; choose another `dir`",
                    dir.dir.display()
                )));
            }
            false
        }
    };
    match refused {
        true => Err(Error::Plan("a file cannot be read and written at once: give another output".into())),
        false => Ok(()),
    }
}

/// Refuses to follow a pipe: it is read to its end anyway, and a silent one could not be left.
fn refuse_followed_pipe(read: &ReadPlan) -> Result<()> {
    let is_file =
        |path: &PathBuf| path.as_os_str() != "-" && path.metadata().is_ok_and(|meta| meta.is_file());
    match read.files.iter().find(|path| read.follow && !is_file(path)) {
        Some(path) => {
            Err(Error::Plan(format!("`follow` applies to files only, and {} is not a file", path.display())))
        }
        None => Ok(()),
    }
}

fn gap_note(filter: &KernelFilter) -> Option<String> {
    let is_hidden = filter.inner.as_ref().is_some_and(FilterPlace::hides_gaps);
    is_hidden.then(|| {
        "gaps in ERSPAN sequence numbers are not counted, because the kernel filters packets; `inner-user` counts them"
            .to_owned()
    })
}
