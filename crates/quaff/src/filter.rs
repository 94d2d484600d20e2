//! Filter expressions: compiles them for the kernel (outer frames) and for frames in user space (files, and
//! frames inside tunnels).
//!
//! A filter on inner frames runs in the kernel for tunnels with headers of fixed length, and after decapsulation
//! for all, so that both keep the same packets.

use crate::plan::{InnerPlan, InputPlan, SNAPLEN_MAX};
use crate::{Error, Result};
use quaff_os::filter::{self, FilterError};
use quaff_os::packet::{self, accept};
use quaff_os::rtnl;
use quaff_wire::filter::{Insn, Program, Relocation, TunnelLayout, relocate};
use quaff_wire::linktype::{self, ETHERNET, LinkType, RAW};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// LINKTYPE_IEEE802_11.
const IEEE802_11: u16 = 105;
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
    /// Those for which the expression does not compile, with libpcap's reason.
    unsuited: BTreeMap<u16, FilterError>,
    /// It does for another one.
    has_suited: bool,
}

impl FrameFilter {
    /// Compiles the expression for the link types that tunnels carry and the usual ones of files, because names of
    /// hosts can be looked up at the start only; one of them must accept it.
    pub(crate) fn new(expression: &str, name: &'static str) -> Result<Self> {
        let (mut ready, mut refused) = (Vec::new(), None);
        for linktype in [ETHERNET.linktype, RAW.linktype, IEEE802_11].into_iter().chain(LINUX_SLL) {
            match compile(expression, linktype) {
                Ok(program) => ready.push((linktype, program)),
                Err(error) => drop(refused.get_or_insert(Error::Filter(error))),
            }
        }
        match refused {
            Some(error) if ready.is_empty() => Err(error),
            _ => {
                let (expression, ready) = (expression.into(), ready.into());
                Ok(Self { name, expression, ready, occurred: Arc::default() })
            }
        }
    }

    /// The program for frames of a link type (LINKTYPE_*); `None` if the expression does not compile for it, which
    /// [`notes`](Self::notes) reports.
    pub(crate) fn program(&self, linktype: u16) -> Option<Program> {
        let ready = self.ready.iter().find(|(of, _)| *of == linktype).map(|(_, program)| program.clone());
        let program = ready.map_or_else(|| compile(&self.expression, linktype), Ok);
        let mut occurred = self.occurred();
        match program {
            Ok(program) => {
                occurred.has_suited = true;
                Some(program)
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

    /// The error of a filter that meant nothing for any frame.
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

fn compile(expression: &str, linktype: u16) -> Result<Program, FilterError> {
    // libpcap's numbers are those of files, but for bare IP.
    let dlt = if linktype == RAW.linktype { RAW.dlt } else { linktype.into() };
    let insns = filter::compile_offline(dlt, expression, SNAPLEN_MAX)?;
    let refuse = |refused: quaff_wire::filter::ProgramError| {
        let (expression, message) = (expression.to_owned(), refused.to_string());
        let at = expression.find("protochain").unwrap_or(0);
        FilterError { expression, message, at }
    };
    Program::new(&to_wire(&insns)).map_err(refuse)
}

/// The kernel's filter of one interface.
#[derive(Debug)]
pub(crate) struct KernelFilter {
    pub insns: Vec<packet::Insn>,
    /// It can reject packets.
    pub is_filtering: bool,
    /// The place of the filter on inner frames, if any.
    pub inner: Option<FilterPlace>,
}

/// The place where a filter on inner frames runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterPlace {
    /// In the kernel for these tunnels, and after decapsulation for the others.
    Kernel {
        layouts: Vec<TunnelLayout>,
        /// Inner frames that may be tunnels themselves are decided after decapsulation.
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
    let outer = outer.map(|expression| filter::compile(name, link.dlt, expression, snaplen)).transpose()?;
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
    Ok(KernelFilter { insns, is_filtering, inner: place })
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
pub fn explain(plan: &InputPlan) -> Result<Vec<(String, FilterPlace)>> {
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

fn to_wire(insns: &[packet::Insn]) -> Vec<Insn> {
    insns.iter().map(|insn| Insn { code: insn.code, jt: insn.jt, jf: insn.jf, k: insn.k }).collect()
}

fn to_kernel(insn: &Insn) -> packet::Insn {
    packet::Insn { code: insn.code, jt: insn.jt, jf: insn.jf, k: insn.k }
}
