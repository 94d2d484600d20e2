//! The programs that pass each frame of a port to the other one, and count it: at tc, or at XDP. They never look at a
//! frame.

use crate::{Error, Result};
use quaff_os::bpf::{Alu, ArrayMap, Asm, Helper, Program, Reg};
use quaff_os::rtnl::{Link, LinkChange, Rtnl};
use quaff_os::xdp::{XdpTap, forwards_by_xdp, takes_redirected};

/// The part of the kernel that forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarder {
    /// tc, after packet sockets.
    Tc,
    /// An XDP program in the driver, which copies frames to a ring of so many bytes for each port, rounded down to a
    /// power of two.
    Xdp { ring_bytes: usize },
}

/// Counters, a cache line apart, so that cores do not wait for each other. Cores share one if there are more.
const COUNTERS: usize = 64;
/// Words of 8 bytes from one counter to the next, as a shift and as a number.
const LINE_SHIFT: i32 = 6;
const LINE_WORDS: usize = 8;
/// Ethernet header and two VLAN tags: what a frame may have beyond the MTU.
const OVER_MTU_BYTES: usize = 14 + 8;
/// Least and most bytes of the ring of a port: most as offsets in it, which is mapped twice, have 32 bits.
const RING_BYTES: std::ops::RangeInclusive<usize> = 1 << 16..=1 << 30;

/// A loaded program. It stays attached when this is dropped.
#[derive(Debug)]
pub(super) enum Redirect {
    Tc { program: Program, counts: ArrayMap },
    Xdp(XdpTap),
}

impl Redirect {
    /// Loads the program that sends frames of `from` by `to`, whose MTU is the same.
    pub(super) fn load(forwarder: Forwarder, to: &Link) -> Result<Self> {
        match forwarder {
            Forwarder::Tc => Self::load_tc(to.index),
            Forwarder::Xdp { ring_bytes } => {
                let ring_bytes = ring_bytes.clamp(*RING_BYTES.start(), *RING_BYTES.end());
                let frame_bytes = to.mtu as usize + OVER_MTU_BYTES;
                // A power of two.
                Ok(Self::Xdp(XdpTap::load(to.index, frame_bytes, 1 << ring_bytes.ilog2())?))
            }
        }
    }

    fn load_tc(to: u32) -> Result<Self> {
        let counts = ArrayMap::new("quaff_tap", COUNTERS * LINE_WORDS)?;
        let mut asm = Asm::default();
        asm.call(Helper::GetSmpProcessorId);
        asm.alu64(Alu::And, Reg::R0, COUNTERS as i32 - 1);
        asm.alu64(Alu::Lsh, Reg::R0, LINE_SHIFT);
        asm.ld_map_value(Reg::R1, &counts, 0);
        asm.alu64(Alu::Add, Reg::R1, Reg::R0);
        asm.mov64(Reg::R2, 1);
        asm.atomic_fetch_add64(Reg::R1, 0, Reg::R2);
        asm.mov64(Reg::R1, to as i32);
        asm.mov64(Reg::R2, 0);
        asm.call(Helper::Redirect);
        asm.exit();
        Ok(Self::Tc { program: Program::load_tc("quaff_tap", asm)?, counts })
    }

    /// Attaches it to `from`; in the place of that of an earlier tap if there `is_one`.
    pub(super) fn attach(&self, rtnl: &mut Rtnl, from: &Link, to: &Link, is_one: bool) -> Result<()> {
        match self {
            Self::Tc { program, .. } => {
                if !is_one {
                    rtnl.change(from.index, LinkChange::Clsact)?;
                }
                rtnl.change(from.index, LinkChange::ReplaceOnIngress(program, &name(to.index)))?;
            }
            Self::Xdp(tap) => {
                let change = match is_one {
                    true => LinkChange::ReplaceXdp(&tap.program),
                    false => LinkChange::Xdp(Some(&tap.program)),
                };
                rtnl.change(from.index, change).map_err(|error| advise(error, from))?;
            }
        }
        Ok(())
    }

    /// Attaches it to the first port again, after another program has removed it, beside what that has attached since.
    pub(super) fn restore(&self, rtnl: &mut Rtnl, (from, to): (&Link, &Link)) -> Result<()> {
        let is_attached = match self {
            Self::Tc { .. } => rtnl.has_ingress(from.index)?,
            Self::Xdp(_) => false,
        };
        self.attach(rtnl, from, to, is_attached)
    }

    /// Frames that it has passed on.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Tc { counts, .. } => (0..COUNTERS).map(|core| counts.load(core * LINE_WORDS)).sum(),
            Self::Xdp(tap) => tap.forwarded(),
        }
    }
}

/// Refuses a port that does not send what an XDP program redirects to it. Some drivers can only while they have a
/// program themselves, so this is asked after both are attached.
pub(super) fn check_sends_redirected(link: &Link) -> Result<()> {
    if takes_redirected(link.index)? {
        return Ok(());
    }
    let name = &link.name;
    let why = match link.kind.as_str() {
        "veth" => {
            format!("the other end of its veth needs 'ethtool -K PEER gro on' or an XDP program; {name}")
        }
        _ => format!("its driver does not support that; {name}"),
    };
    Err(Error::Plan(format!(
        "{name} does not send frames that an XDP program redirects to it: {why} can be tapped with `forward` kernel"
    )))
}

/// Returns whether `from` has a redirect to `to`.
pub(super) fn exists(rtnl: &mut Rtnl, from: &Link, to: &Link) -> Result<bool> {
    // Looked up again: the program may be younger than `from`, or gone.
    Ok(forwards_by_xdp(&rtnl.link(&from.name)?, to.index)
        || rtnl.filters(from.index)?.contains(&listed(to.index)))
}

/// Removes the redirect of the frames that `from` receives, and `clsact` unless other programs have attached something
/// to it.
pub(super) fn detach(rtnl: &mut Rtnl, from: &Link, to: &Link) -> Result<()> {
    // Looked up again: the program may be younger than `from`.
    if forwards_by_xdp(&rtnl.link(&from.name)?, to.index) {
        return Ok(rtnl.change(from.index, LinkChange::Xdp(None))?);
    }
    if !rtnl.has_ingress(from.index)? {
        return Ok(());
    }
    let (own, filters) = (listed(to.index), rtnl.filters(from.index)?);
    match filters.iter().any(|filter| *filter != own) {
        true if filters.contains(&own) => rtnl.change(from.index, LinkChange::IngressOff)?,
        true => {}
        false => rtnl.change(from.index, LinkChange::ClsactOff)?,
    }
    Ok(())
}

fn advise(error: quaff_os::Error, port: &Link) -> Error {
    let name = &port.name;
    Error::from(error.advise(format!(
        "the driver of {name} may run no XDP programs, or not with this MTU ({}) or number of queues: `forward` kernel needs \
         none of that",
        port.mtu
    )))
}

/// The name of the filter that sends frames by interface `to`.
fn name(to: u32) -> String {
    format!("quaff-tap-{to}")
}

/// The same, as the kernel lists it.
pub(super) fn listed(to: u32) -> String {
    format!("bpf {}", name(to))
}
