//! Filter expressions: compiles them for the kernel (`-f`, outer frames) and for frames in user space (files, and
//! `--inner`, frames inside tunnels).
//!
//! A filter on inner frames runs in the kernel for tunnels with headers of fixed length, and after decapsulation
//! for all, so that both keep the same packets.

use crate::plan::{InnerPlan, InputPlan, SNAPLEN_MAX};
use crate::{Error, Result};
use quaff_os::filter::{self, FilterError};
use quaff_os::packet::{self, accept};
use quaff_os::rtnl;
use quaff_wire::filter::{
    Insn, Program, ProgramError, Relocation, Subject, TunnelLayout, WithTag, reads_tag, relocate, with_tag,
};
use quaff_wire::linktype::{self, ETHERNET, LinkType, RAW};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// LINKTYPE_IEEE802_11.
const IEEE802_11: u16 = 105;
/// LINKTYPE_NULL and LINKTYPE_LOOP: loopbacks of macOS and BSD.
const LOOPBACKS: [u16; 2] = [0, 108];
/// Link types with words of their own in expressions: Token Ring, FDDI, Frame Relay, PFLOG, MTP2.
const OTHERS: [u16; 5] = [6, 10, 107, 117, 140];
/// LINKTYPE_ENC: it begins with an address family in the byte order of its writer.
const ENC: u16 = 109;
/// LINKTYPE_LINUX_SLL and LINKTYPE_LINUX_SLL2: captures of `any`.
const LINUX_SLL: [u16; 2] = [113, 276];

/// An expression on frames in user space, compiled for each link type that occurs.
#[derive(Debug, Clone)]
pub(crate) struct FrameFilter {
    /// Its name in messages.
    name: &'static str,
    expression: Arc<str>,
    /// Programs for the usual link types.
    ready: Arc<[(u16, Program)]>,
    occurred: Arc<Mutex<Occurred>>,
}

/// The link types that occurred.
#[derive(Debug, Default)]
struct Occurred {
    /// Link types for which the expression does not compile, with libpcap's reason.
    unsuited: BTreeMap<u16, FilterError>,
    /// The expression compiles for another link type that occurred.
    has_suited: bool,
}

impl FrameFilter {
    /// Compiles the expression for the link types that tunnels carry and the usual ones of files, because names of
    /// hosts can be looked up at the start only; one of them must accept it, or one
    /// that has words of its own.
    pub(crate) fn new(expression: &str, name: &'static str) -> Result<Self> {
        let (mut ready, mut refused) = (Vec::new(), None);
        let usual = [ETHERNET.linktype, RAW.linktype, IEEE802_11];
        for linktype in usual.into_iter().chain(LINUX_SLL).chain(LOOPBACKS) {
            match compile(expression, linktype) {
                Ok(program) => ready.push((linktype, program)),
                Err(error) => drop(refused.get_or_insert(Error::Filter(error))),
            }
        }
        let is_of_others = || OTHERS.iter().any(|linktype| compile(expression, *linktype).is_ok());
        match refused {
            Some(error) if ready.is_empty() && !is_of_others() => Err(error),
            _ => {
                let (expression, ready) = (expression.into(), ready.into());
                Ok(Self { name, expression, ready, occurred: Arc::default() })
            }
        }
    }

    /// The program for frames of a link type (LINKTYPE_*); `None` if the expression does not compile for it, which
    /// [`notes`](Self::notes) reports.
    pub(crate) fn program(&self, linktype: u16) -> Option<FrameProgram> {
        let ready = self.ready.iter().find(|(of, _)| *of == linktype).map(|(_, program)| program.clone());
        let program = ready.map_or_else(|| compile(&self.expression, linktype), Ok);
        let mut occurred = self.occurred();
        match program {
            Ok(program) => {
                occurred.has_suited = true;
                let is_host_order = linktype == ENC;
                let swapped = || compile_for(&self.expression, linktype, true).ok();
                Some(FrameProgram { program, swapped: is_host_order.then(swapped).flatten() })
            }
            Err(error) => {
                occurred.unsuited.insert(linktype, error);
                None
            }
        }
    }

    /// The reason why the expression does not compile for a link type (LINKTYPE_*).
    pub(crate) fn check(&self, linktype: u16) -> Result<()> {
        if self.ready.iter().any(|(of, _)| *of == linktype) {
            return Ok(());
        }
        Ok(compile(&self.expression, linktype).map(drop)?)
    }

    /// The error of a filter that compiled for no link type that occurred.
    pub(crate) fn failure(&self) -> Option<Error> {
        let occurred = self.occurred();
        let (linktype, error) = occurred.unsuited.first_key_value().filter(|_| !occurred.has_suited)?;
        Some(Error::Plan(self.refusal(*linktype, error)))
    }

    fn refusal(&self, linktype: u16, error: &FilterError) -> String {
        let frames = match linktype {
            linktype if linktype == ETHERNET.linktype => "Ethernet frames".to_owned(),
            linktype if linktype == RAW.linktype => "bare IP packets".to_owned(),
            linktype => format!("frames of link type {linktype}"),
        };
        let (name, expression, reason) = (self.name, &self.expression, &error.message);
        format!("{name} '{expression}' does not apply to {frames}: {reason}")
    }

    /// Ignores poisoning: the lists are consistent between any two statements.
    fn occurred(&self) -> MutexGuard<'_, Occurred> {
        self.occurred.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes for the report: link types whose frames were excluded.
    pub(crate) fn notes(&self) -> Vec<String> {
        let occurred = self.occurred();
        let note = |(linktype, error): (&u16, &FilterError)| {
            format!("{}; they are dropped", self.refusal(*linktype, error))
        };
        occurred.unsuited.iter().map(note).collect()
    }
}

/// The program for the frames of one link type.
#[derive(Debug, Clone)]
pub(crate) struct FrameProgram {
    program: Program,
    /// The program for frames that begin with an address family in the other byte order. No link type is the same with
    /// such a header, as it is for LINKTYPE_NULL.
    swapped: Option<Program>,
}

impl FrameProgram {
    /// True if the frame is to be kept.
    #[inline]
    pub(crate) fn wants(&self, subject: &Subject<'_>) -> bool {
        let program = match &self.swapped {
            Some(swapped) if is_swapped(subject.bytes) => swapped,
            _ => &self.program,
        };
        program.run(subject) != 0
    }
}

/// True for an address family in the other byte order: those in use are small numbers.
fn is_swapped(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|family| u32::from_ne_bytes(*family) > u16::MAX.into())
}

/// Compiles an expression for frames in the byte order in which files are written here.
fn compile(expression: &str, linktype: u16) -> Result<Program, FilterError> {
    compile_for(expression, linktype, false)
}

fn compile_for(expression: &str, linktype: u16, is_swapped: bool) -> Result<Program, FilterError> {
    let insns = filter::compile_offline(linktype, is_swapped, expression, SNAPLEN_MAX)?;
    Program::new(&to_wire(&insns)).map_err(|refused| refusal(expression, &refused))
}

/// Why a program that libpcap made is not run.
fn refusal(expression: &str, refused: &ProgramError) -> FilterError {
    let word = match refused {
        ProgramError::Unwritten { .. } => "geneve",
        _ => "protochain",
    };
    let at = expression.find(word);
    let message = match refused {
        ProgramError::Unwritten { .. } if at.is_some() => {
            "what stands after 'geneve' is about the packet inside, also in an alternative to it: put alternatives \
             first, as in 'tcp or geneve'"
                .to_owned()
        }
        ProgramError::Unwritten { .. } => {
            "libpcap makes a program of it that reads what was never written, so that chance would decide: put its parts \
             into another order"
                .to_owned()
        }
        refused => refused.to_string(),
    };
    FilterError { expression: expression.to_owned(), message, at: at.unwrap_or(0) }
}

/// The kernel's filter of one interface.
#[derive(Debug, Clone)]
pub(crate) struct KernelFilter {
    pub insns: Vec<packet::Insn>,
    /// It can reject packets.
    pub is_filtering: bool,
    /// The kernel decides the filter on outer frames for all frames; otherwise it is evaluated again in user space.
    pub is_exact: bool,
    /// The place of the filter on inner frames, if any.
    pub inner: Option<FilterPlace>,
}

/// The place where a filter on inner frames runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterPlace {
    /// In the kernel for these tunnels, and after decapsulation for the others.
    Kernel {
        layouts: Vec<TunnelLayout>,
        /// Inner frames that may themselves be tunnels are decided after decapsulation.
        is_nested: bool,
    },
    /// After decapsulation only, with the reason.
    Decapsulated(String),
}

impl FilterPlace {
    /// Returns whether the kernel rejects tunnel packets before decapsulation sees their sequence numbers.
    pub fn hides_gaps(&self) -> bool {
        matches!(self, Self::Kernel { layouts, .. } if layouts.iter().any(|layout| *layout != TunnelLayout::Vxlan))
    }
}

impl fmt::Display for FilterPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (layouts, is_nested) = match self {
            Self::Decapsulated(why) => return write!(f, "after decapsulation: {why}"),
            Self::Kernel { layouts, is_nested } => (layouts, *is_nested),
        };
        let types =
            [TunnelLayout::Erspan1, TunnelLayout::Erspan2, TunnelLayout::Erspan3, TunnelLayout::Vxlan];
        let names: Vec<_> =
            types.iter().filter(|of| layouts.contains(of)).map(TunnelLayout::to_string).collect();
        write!(f, "in the kernel for {} over plain IPv4", names.join(", "))?;
        if is_nested {
            f.write_str(" without a nested tunnel")?;
        }
        f.write_str("; after decapsulation for everything else")
    }
}

/// Compiles the kernel's program for one interface: the filter on outer frames, and as much of the filter on inner
/// frames as the kernel can decide.
pub(crate) fn kernel_filter(
    plan: &InputPlan,
    name: &str,
    link: LinkType,
    inner: Option<&FrameFilter>,
) -> Result<KernelFilter> {
    let snaplen = plan.kernel_snaplen();
    let outer = plan.filter.as_ref();
    let outer = outer.map(|expression| outer_filter(name, link, expression, snaplen)).transpose()?;
    let is_exact = outer.as_ref().is_none_or(|outer| outer.is_exact);
    let outer = outer.map(|outer| outer.insns);
    let (place, moved) = match (inner, &plan.inner) {
        (Some(inner), Some(inner_plan)) => {
            match relocate_into_kernel(plan, inner_plan, link, inner, outer.as_deref()) {
                Ok((place, insns)) => (Some(place), Some(insns)),
                Err(why) => (Some(FilterPlace::Decapsulated(why)), None),
            }
        }
        _ => (None, None),
    };
    let is_filtering = outer.is_some() || moved.is_some();
    let insns = moved.or(outer).unwrap_or_else(|| vec![accept(snaplen)]);
    Ok(KernelFilter { insns, is_filtering, is_exact, inner: place })
}

/// The kernel's program for a filter on outer frames.
struct OuterFilter {
    insns: Vec<packet::Insn>,
    is_exact: bool,
}

/// Compiles a filter on frames as the file will have them: with the VLAN tag that the kernel removes. An expression on
/// tags and on metadata of the kernel (`inbound`) is left to libpcap.
fn outer_filter(name: &str, link: LinkType, expression: &str, snaplen: u32) -> Result<OuterFilter> {
    let of_kernel = || filter::compile(name, link.dlt, expression, snaplen);
    if link != ETHERNET {
        return Ok(OuterFilter { insns: of_kernel()?, is_exact: true });
    }
    let insns = match filter::compile_offline(link.linktype, false, expression, snaplen) {
        Ok(insns) => insns,
        Err(_) => of_kernel()?,
    };
    let wire = to_wire(&insns);
    match Program::new(&wire) {
        Ok(program) if !reads_tag(&wire) => {
            let WithTag { insns, is_exact } = with_tag(&program, snaplen);
            Ok(OuterFilter { insns: insns.iter().map(to_kernel).collect(), is_exact })
        }
        _ => Ok(OuterFilter { insns, is_exact: true }),
    }
}

/// Relocates the filter on inner frames into the kernel; the error is the reason why that is not possible.
fn relocate_into_kernel(
    plan: &InputPlan,
    inner_plan: &InnerPlan,
    link: LinkType,
    inner: &FrameFilter,
    outer: Option<&[packet::Insn]>,
) -> Result<(FilterPlace, Vec<packet::Insn>), String> {
    let Some(decap) = &plan.decap else { return Err("no tunnels are decapsulated".into()) };
    if inner_plan.user {
        return Err("requested by the plan".into());
    }
    if link != ETHERNET {
        return Err("the interface is not Ethernet".into());
    }
    let of_ethernet = inner.ready.iter().find(|(linktype, _)| *linktype == ETHERNET.linktype);
    let Some((_, program)) = of_ethernet else {
        return Err("the expression does not apply to Ethernet".into());
    };
    let outer = outer.map(to_wire);
    let (matched, kinds, depth) = (plan.kernel_snaplen(), decap.kinds, decap.depth);
    let moving =
        Relocation { inner: program, outer: outer.as_deref(), kinds, depth, matched, undecided: matched };
    let moved = relocate(&moving).map_err(|error| error.to_string())?;
    let insns: Vec<_> = moved.insns.iter().map(to_kernel).collect();
    filter::check(&insns).map_err(|error| format!("the kernel refuses the program ({})", error.errno))?;
    Ok((FilterPlace::Kernel { layouts: moved.layouts, is_nested: depth > 1 }, insns))
}

/// The place of the filter on inner frames for each interface of a plan; empty without such a filter. An unknown
/// interface counts as Ethernet.
pub(crate) fn explain(plan: &InputPlan) -> Result<Vec<(String, FilterPlace)>> {
    let Some(inner) = &plan.inner else { return Ok(Vec::new()) };
    let inner = FrameFilter::new(&inner.expression, "`inner`")?;
    let mut places = Vec::new();
    for interface in &plan.interfaces {
        let link = rtnl::link(&interface.name).ok().and_then(|link| linktype::of_arphrd(link.arphrd));
        let filter = kernel_filter(plan, &interface.name, link.unwrap_or(ETHERNET), Some(&inner))?;
        places.extend(filter.inner.map(|place| (interface.name.clone(), place)));
    }
    Ok(places)
}

/// The instructions of a filter, and the place where they run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompiledFilter {
    /// The interface, and kernel or user space.
    pub place: String,
    /// Its instructions, a line each, as tcpdump prints them.
    pub listing: String,
}

/// The compiled filters of a plan: the kernel's part for each interface, then those in user space.
pub fn compiled_filters(plan: &InputPlan) -> Result<Vec<CompiledFilter>> {
    let inner =
        plan.inner.as_ref().map(|inner| FrameFilter::new(&inner.expression, "`inner`")).transpose()?;
    let (mut compiled, mut is_exact) = (Vec::new(), plan.read.is_none());
    for interface in &plan.interfaces {
        let link = linktype::of_arphrd(rtnl::link(&interface.name)?.arphrd).unwrap_or(ETHERNET);
        let filter = kernel_filter(plan, &interface.name, link, inner.as_ref())?;
        is_exact &= filter.is_exact;
        if filter.is_filtering {
            let place = format!("{}, in the kernel", interface.name);
            compiled.push(CompiledFilter { place, listing: filter::listing(&filter.insns) });
        }
    }
    let outer = plan
        .filter
        .as_deref()
        .filter(|_| !is_exact)
        .map(|outer| FrameFilter::new(outer, "`filter`"))
        .transpose()?;
    for (filter, of) in [(outer, "frames"), (inner, "decapsulated frames")] {
        let usual = |(of, _): &&(u16, Program)| [ETHERNET.linktype, RAW.linktype].contains(of);
        for (linktype, program) in filter.iter().flat_map(|filter| filter.ready.iter()).filter(usual) {
            let insns: Vec<_> = program.insns().iter().map(to_kernel).collect();
            let place = format!("{of} of link type {linktype}, in user space");
            compiled.push(CompiledFilter { place, listing: filter::listing(&insns) });
        }
    }
    Ok(compiled)
}

fn to_wire(insns: &[packet::Insn]) -> Vec<Insn> {
    insns.iter().map(|insn| Insn { code: insn.code, jt: insn.jt, jf: insn.jf, k: insn.k }).collect()
}

/// An instruction as the kernel takes it.
pub(crate) fn to_kernel(insn: &Insn) -> packet::Insn {
    packet::Insn { code: insn.code, jt: insn.jt, jf: insn.jf, k: insn.k }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_testpackets as build;

    /// Loads of the tag beside a frame (linux/filter.h): TCI, presence, TPID.
    const TAG: [u32; 3] = [0xffff_f000 + 44, 0xffff_f000 + 48, 0xffff_f000 + 60];
    /// BPF_LD | BPF_IMM.
    const LOAD_VALUE: u16 = 0;

    /// The decision of the kernel's program about a frame whose tag is beside it.
    fn kernel_wants(insns: &[packet::Insn], frame: &[u8], tag: Option<(u16, u16)>) -> bool {
        let (tpid, tci) = tag.unwrap_or_default();
        let values = [u32::from(tci), u32::from(tag.is_some()), u32::from(tpid)];
        let known = |insn: &Insn| match TAG.iter().position(|place| *place == insn.k) {
            Some(at) => Insn { code: LOAD_VALUE, k: values[at], ..*insn },
            None => *insn,
        };
        let insns: Vec<_> = to_wire(insns).iter().map(known).collect();
        let subject = Subject { bytes: frame, wire_len: frame.len() as u32, tag: None };
        Program::new(&insns).expect("a program").run(&subject) != 0
    }

    #[test]
    fn the_kernel_decides_about_frames_as_the_file_has_them() {
        let ip = |protocol, payload: &[u8]| {
            build::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol, &[], payload)
        };
        let udp = ip(17, &build::udp(1, 53, &[0; 30]));
        let frames = [
            build::ethernet(&[], 0x0800, &udp),
            build::ethernet(&[(0x8100, 7)], 0x0800, &udp),
            build::ethernet(&[], 0x0806, &[1; 46]),
            build::ethernet(&[], 0x0800, &ip(6, &[0; 20])),
        ];
        let expressions = [
            "udp",
            "not udp",
            "ip",
            "udp port 53",
            "vlan",
            "vlan 5",
            "vlan 5 and udp port 53",
            "vlan and vlan 7 and udp",
            "not vlan",
            "len = 76",
            "greater 77",
            "ether[12:2] = 0x8100",
            "ether[14] & 0xf = 0",
            "ether[15] = 5",
            "ether[18] = 0x45",
            "ether broadcast or arp",
            "tcp[13] = 0 or ip[8] > 3",
        ];
        for expression in expressions {
            let kernel = outer_filter("none", ETHERNET, expression, 96).expect("a filter");
            assert!(kernel.is_exact, "{expression}");
            let in_file =
                FrameFilter::new(expression, "`filter`").expect("a filter").program(1).expect("Ethernet");
            for (frame, tag) in frames
                .iter()
                .flat_map(|frame| [None, Some((0x8100, 5)), Some((0x88a8, 0xa005))].map(|tag| (frame, tag)))
            {
                let subject = Subject { bytes: frame, wire_len: frame.len() as u32, tag };
                let wanted = in_file.wants(&subject);
                assert_eq!(
                    kernel_wants(&kernel.insns, frame, tag),
                    wanted,
                    "{expression} {tag:?} {frame:02x?}"
                );
            }
        }
        // Decided in user space.
        let kernel = outer_filter("none", ETHERNET, "ether[10:4] = 0x10000", 96).expect("a filter");
        assert!(!kernel.is_exact && kernel_wants(&kernel.insns, &frames[0], Some((0x8100, 5))));
    }
}
