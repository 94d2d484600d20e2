//! The programs that send each frame that a port receives by the other port, and count it: at tc, or at XDP. They never
//! read the contents of a frame.

use crate::{Error, Result};
use nix::libc;
use quaff_os::bpf::{Alu, ArrayMap, Asm, Helper, Program, Reg};
use quaff_os::rtnl::{Link, LinkChange, Rtnl};
use quaff_os::xdp::{XdpTap, forwards_by_xdp, takes_redirected};
use std::ops::RangeInclusive;

/// The hook of the kernel at which frames are forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarder {
    /// tc, which frames reach after packet sockets.
    Tc,
    /// XDP in the driver, with a ring for copies of the frames of each port. `ring_bytes` is rounded down to a power of
    /// two, within [`RING_BYTES`].
    Xdp { ring_bytes: usize },
}

/// Counters of the tc program, a power of two: each in a cache line of its own, so that cores do not wait for each
/// other. Cores of higher numbers share them.
const COUNTERS: usize = 64;
/// Words of 8 bytes from one counter to the next.
const LINE_WORDS: usize = 8;
/// Maximum bytes of a frame beyond the MTU: the Ethernet header and two VLAN tags.
const OVER_MTU_BYTES: usize = 14 + 8;
/// Sizes of a ring, bytes. The maximum is because a ring is mapped twice in a row, and offsets in it have 32 bits.
const RING_BYTES: RangeInclusive<usize> = 1 << 16..=1 << 30;

/// A loaded program. It stays attached when this is dropped.
#[derive(Debug)]
pub(super) enum Redirect {
    Tc { program: Program, counts: ArrayMap },
    Xdp(XdpTap),
}

impl Redirect {
    /// Loads the program that sends frames by port `to`. The MTU of both ports is the same.
    pub(super) fn load(forwarder: Forwarder, to: &Link) -> Result<Self> {
        match forwarder {
            Forwarder::Tc => Self::load_tc(to.index),
            Forwarder::Xdp { ring_bytes } => {
                let ring_bytes = ring_bytes.clamp(*RING_BYTES.start(), *RING_BYTES.end());
                let (frame_bytes, ring_bytes) = (to.mtu as usize + OVER_MTU_BYTES, 1 << ring_bytes.ilog2());
                Ok(Self::Xdp(XdpTap::load(to.index, frame_bytes, ring_bytes)?))
            }
        }
    }

    fn load_tc(to: u32) -> Result<Self> {
        let counts = ArrayMap::new("quaff_tap", COUNTERS * LINE_WORDS)?;
        let mut asm = Asm::default();
        asm.call(Helper::GetSmpProcessorId);
        asm.alu64(Alu::And, Reg::R0, COUNTERS as i32 - 1);
        asm.alu64(Alu::Lsh, Reg::R0, (LINE_WORDS * 8).trailing_zeros() as i32);
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

    /// Attaches it to `from`, or replaces the program of an earlier tap there.
    pub(super) fn attach(&self, rtnl: &mut Rtnl, from: &Link, to: &Link, replaces: bool) -> Result<()> {
        match self {
            Self::Tc { program, .. } => {
                if !replaces {
                    rtnl.change(from.index, LinkChange::Clsact)?;
                }
                rtnl.change(from.index, LinkChange::ReplaceOnIngress(program, &name(to.index)))?;
            }
            Self::Xdp(tap) => {
                let change = match replaces {
                    true => LinkChange::ReplaceXdp(&tap.program),
                    false => LinkChange::Xdp(Some(&tap.program)),
                };
                rtnl.change(from.index, change).map_err(|error| advise(error, &from.name, from.mtu))?;
            }
        }
        Ok(())
    }

    /// Attaches it to `from` again, after another program has removed it. Filters that were attached since stay.
    pub(super) fn restore(&self, rtnl: &mut Rtnl, (from, to): (&Link, &Link)) -> Result<()> {
        let has_clsact = match self {
            Self::Tc { .. } => rtnl.has_ingress(from.index)?,
            Self::Xdp(_) => false,
        };
        self.attach(rtnl, from, to, has_clsact)
    }

    /// Frames that it has forwarded.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Tc { counts, .. } => (0..COUNTERS).map(|core| counts.load(core * LINE_WORDS)).sum(),
            Self::Xdp(tap) => tap.forwarded(),
        }
    }
}

/// Refuses a port that does not send the frames that an XDP program redirects to it. Some drivers send them only while
/// the port has a program of its own, so this is checked after both are attached.
pub(super) fn check_sends_redirected(link: &Link) -> Result<()> {
    if takes_redirected(link.index)? {
        return Ok(());
    }
    let why = match link.kind.as_str() {
        "veth" => "the other end of its veth needs 'ethtool -K PEER gro on' or an XDP program",
        _ => "its driver does not support that",
    };
    Err(Error::Plan(format!(
        "{name} does not send frames that an XDP program redirects to it: {why}; {name} can be tapped with `forward` kernel",
        name = link.name
    )))
}

/// Returns whether `from` has a redirect to `to`.
pub(super) fn exists(rtnl: &mut Rtnl, from: &Link, to: &Link) -> Result<bool> {
    // `from` may be older than the program, or than its end.
    Ok(forwards_by_xdp(&rtnl.link(&from.name)?, to.index)
        || rtnl.filters(from.index)?.contains(&listed(to.index)))
}

/// Removes the redirect of the frames that `from` receives, and `clsact` unless other programs have attached something
/// to it.
pub(super) fn detach(rtnl: &mut Rtnl, from: &Link, to: &Link) -> Result<()> {
    // `from` may be older than the program.
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

/// Adds advice to a failure to attach an XDP program.
fn advise(error: quaff_os::Error, name: &str, mtu: u32) -> Error {
    Error::from(match error.raw() {
        // Attached since the ports were checked.
        libc::EBUSY | libc::EEXIST => {
            error.advise(format!("{name} has another XDP program ('bpftool net' shows it): detach that first"))
        }
        libc::ENODEV | libc::EPERM => error,
        _ => error.advise(format!(
            "the driver of {name} may run no XDP programs, or not with this MTU ({mtu}) or number of queues: `forward` \
             kernel needs none of that"
        )),
    })
}

/// The name of the filter that sends frames by interface `to`.
fn name(to: u32) -> String {
    format!("quaff-tap-{to}")
}

/// The same, as the kernel lists it.
pub(super) fn listed(to: u32) -> String {
    format!("bpf {}", name(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn the_advice_fits_the_reason() {
        let advised = |errno| {
            let error = quaff_os::Error::new("attach", io::Error::from_raw_os_error(errno));
            advise(error, "eth7", 9000).to_string()
        };
        for (errno, expected) in [
            (libc::EBUSY, "eth7 has another XDP program"),
            (libc::EEXIST, "eth7 has another XDP program"),
            (libc::EINVAL, "MTU (9000)"),
            (libc::EOPNOTSUPP, "may run no XDP programs"),
        ] {
            assert!(advised(errno).contains(expected), "{errno}: {}", advised(errno));
        }
        assert!(!advised(libc::ENODEV).contains("MTU"), "the port is gone");
    }
}
