//! `--inner`: frames that come out of tunnels have to match an expression. Decides where that is
//! looked at: in the kernel for tunnels whose headers have a fixed length, after decapsulation for
//! everything, so that both ways keep the same packets.

use crate::plan::{CapturePlan, InnerPlan, SNAPLEN_MAX};
use crate::{Error, Result};
use quaff_os::filter::{self, FilterError};
use quaff_os::packet::{self, accept};
use quaff_os::rtnl;
use quaff_wire::filter::{Insn, Program, Relocation, TunnelLayout, TunnelLayouts, relocate};
use quaff_wire::linktype::{self, ETHERNET, LinkType, RAW};
use quaff_wire::tunnel;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// LINKTYPE_IEEE802_11.
const IEEE802_11: u16 = 105;

/// An expression on inner frames, to be compiled for whatever kinds of link they have.
#[derive(Debug, Clone)]
pub struct InnerFilter {
    expression: Arc<str>,
    /// Programs for the link types that tunnels carry.
    ready: Arc<[(u16, Program)]>,
    /// Link types of frames that came and that the expression cannot be asked of.
    unsuited: Arc<Mutex<BTreeSet<u16>>>,
}

impl InnerFilter {
    /// Checks that the expression means something for a kind of frame that tunnels carry.
    pub fn new(expression: &str) -> Result<Self> {
        let (mut ready, mut refused) = (Vec::new(), None);
        for linktype in [ETHERNET.linktype, RAW.linktype, IEEE802_11] {
            match compile(expression, linktype) {
                Ok(program) => ready.push((linktype, program)),
                Err(error) => drop(refused.get_or_insert(error)),
            }
        }
        match refused {
            Some(error) if ready.is_empty() => Err(error),
            _ => Ok(Self { expression: expression.into(), ready: ready.into(), unsuited: Arc::default() }),
        }
    }

    /// The program for frames of a link type (LINKTYPE_*); `None` when the expression means nothing
    /// there, which is remembered.
    pub fn program(&self, linktype: u16) -> Option<Program> {
        let ready = self.ready.iter().find(|(of, _)| *of == linktype).map(|(_, program)| program.clone());
        let program = ready.or_else(|| compile(&self.expression, linktype).ok());
        if program.is_none() {
            self.unsuited.lock().unwrap_or_else(PoisonError::into_inner).insert(linktype);
        }
        program
    }

    /// What to say at the end.
    pub fn notes(&self) -> Vec<String> {
        let unsuited = self.unsuited.lock().unwrap_or_else(PoisonError::into_inner);
        let note = |linktype: &u16| {
            let name = match *linktype {
                linktype if linktype == ETHERNET.linktype => "Ethernet frames".to_owned(),
                linktype if linktype == RAW.linktype => "bare IP packets".to_owned(),
                linktype => format!("frames of link type {linktype}"),
            };
            format!("`inner` '{}' means nothing for {name}, which are dropped", self.expression)
        };
        unsuited.iter().map(note).collect()
    }
}

fn compile(expression: &str, linktype: u16) -> Result<Program> {
    let insns = filter::compile_offline(linktype::dlt_of(linktype), expression, SNAPLEN_MAX)?;
    let refuse = |refused: quaff_wire::filter::ProgramError| {
        let (expression, message) = (expression.to_owned(), refused.to_string());
        let at = expression.find("protochain").unwrap_or(0);
        Error::Filter(FilterError { expression, message, at })
    };
    Program::new(&to_wire(&insns)).map_err(refuse)
}

/// What runs in the kernel for one interface.
#[derive(Debug)]
pub struct KernelFilter {
    /// The program.
    pub insns: Vec<packet::Insn>,
    /// True if it keeps any packets out.
    pub is_filtering: bool,
    /// Where inner frames are looked at, if they are.
    pub inner: Option<Place>,
}

/// Where inner frames are looked at first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the kernel for these tunnels, and after decapsulation for the others.
    Kernel {
        /// The tunnels.
        layouts: Vec<TunnelLayout>,
        /// True if inner frames that may be tunnels themselves are left to decapsulation.
        is_nested: bool,
    },
    /// After decapsulation only, for this reason.
    Decapsulated(String),
}

impl Place {
    /// Returns whether packets of tunnels are kept out before decapsulation sees their sequence numbers.
    pub fn hides_gaps(&self) -> bool {
        matches!(self, Self::Kernel { layouts, .. } if layouts.iter().any(|layout| *layout != TunnelLayout::Vxlan))
    }
}

impl fmt::Display for Place {
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
            f.write_str(" whose inner frame is no tunnel again")?;
        }
        f.write_str("; after decapsulation for everything else")
    }
}

/// The kernel's program for one interface: what `-f` and `--inner` say, as far as it can be decided
/// there.
pub fn kernel_filter(
    plan: &CapturePlan,
    name: &str,
    link: LinkType,
    inner: Option<&InnerFilter>,
) -> Result<KernelFilter> {
    let snaplen = plan.kernel_snaplen();
    let outer = plan.filter.as_ref();
    let outer = outer.map(|expression| filter::compile(name, link.dlt, expression, snaplen)).transpose()?;
    let (place, moved) = match (inner, &plan.inner) {
        (Some(inner), Some(inner_plan)) => match move_out(plan, inner_plan, link, inner, outer.as_deref()) {
            Ok((place, insns)) => (Some(place), Some(insns)),
            Err(why) => (Some(Place::Decapsulated(why)), None),
        },
        _ => (None, None),
    };
    let is_filtering = outer.is_some() || moved.is_some();
    let insns = moved.or(outer).unwrap_or_else(|| vec![accept(snaplen)]);
    Ok(KernelFilter { insns, is_filtering, inner: place })
}

/// The program that decides about inner frames in the kernel, or why there is none.
fn move_out(
    plan: &CapturePlan,
    inner_plan: &InnerPlan,
    link: LinkType,
    inner: &InnerFilter,
    outer: Option<&[packet::Insn]>,
) -> Result<(Place, Vec<packet::Insn>), String> {
    let Some(decap) = &plan.decap else { return Err("nothing is taken off".into()) };
    if inner_plan.user {
        return Err("so it was asked for".into());
    }
    if link != ETHERNET {
        return Err("the interface is no Ethernet".into());
    }
    let of_ethernet = inner.ready.iter().find(|(linktype, _)| *linktype == ETHERNET.linktype);
    let Some((_, program)) = of_ethernet else {
        return Err("the expression means nothing for Ethernet".into());
    };
    let layouts = TunnelLayouts {
        erspan: decap.kinds.contains(tunnel::TunnelKind::Erspan),
        vxlan: decap.kinds.contains(tunnel::TunnelKind::Vxlan),
    };
    let outer = outer.map(to_wire);
    let (matched, depth) = (plan.kernel_snaplen(), decap.depth);
    let moving =
        Relocation { inner: program, outer: outer.as_deref(), layouts, depth, matched, undecided: matched };
    let moved = relocate(&moving).map_err(|error| error.to_string())?;
    let insns: Vec<_> = moved.insns.iter().map(to_kernel).collect();
    filter::check(&insns).map_err(|error| format!("the kernel refuses the program ({})", error.errno))?;
    Ok((Place::Kernel { layouts: moved.layouts, is_nested: depth > 1 }, insns))
}

/// Where inner frames are looked at on each interface of a plan, in words; nothing without `--inner`.
/// An interface that is not there is taken for Ethernet.
pub fn explain(plan: &CapturePlan) -> Result<Vec<(String, Place)>> {
    let Some(inner) = &plan.inner else { return Ok(Vec::new()) };
    let inner = InnerFilter::new(&inner.expression)?;
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
