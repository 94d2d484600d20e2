//! A lab: two network namespaces and a veth pair between them, without background traffic; removed on drop.
//!
//! The sending namespace `NAME-tx` holds `tx0` (198.18.0.1), the receiving one `NAME-rx` holds `rx0`
//! (198.18.0.2; 198.18.0.0/15 is for benchmarks, RFC 2544 appendix C.2.2). Both have no IPv6, permanent ARP
//! entries for each other, no ICMP errors and no offloads: `rx0` counts exactly what was sent to it. A [`Layout`]
//! may add a second end, and a switch, a tap or a router between the two. This module prints and runs nothing.

mod layout;

use crate::registry::{self, Entry, Found, Hold, Record};
use crate::{Error, Result};
use quaff_os::ethtool::{Card, Change};
use quaff_os::rtnl::{LinkChange, LinkStats};
use quaff_os::rtnl::{Rtnl, VethEnd, VethPlan};
use quaff_os::{Netns, Try};
use serde::Serialize;
use std::ffi::OsStr;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

/// The interface in the sending namespace.
pub const TX_IF: &str = "tx0";
/// The interface in the other sending namespace of a [`Layout`] that has two.
pub const FAR_IF: &str = "tx1";
/// The ports in the middle of a [`Layout`] that has one: towards [`TX_IF`], and towards [`FAR_IF`].
pub const MIDDLE_IFS: [&str; 2] = ["a0", "b0"];
/// The interface in the receiving namespace.
pub const RX_IF: &str = "rx0";
/// The hardware address of [`TX_IF`]: locally administered.
pub const TX_MAC: [u8; 6] = [0x02, 0x71, 0x75, 0x00, 0x00, 0x01];
/// The hardware address of [`RX_IF`].
pub const RX_MAC: [u8; 6] = [0x02, 0x71, 0x75, 0x00, 0x00, 0x02];
/// The address of [`TX_IF`].
pub const TX_IP: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The address of [`RX_IF`].
pub const RX_IP: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// The addresses of the router of [`Layout::Router`], one for each end: each side has one half of the benchmark
/// network (RFC 2544 appendix C.2.2).
pub const ROUTER_IPS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 1, 1), Ipv4Addr::new(198, 19, 1, 1)];
/// Unassigned addresses of [`Layout::Router`], one at each end.
pub const ROUTED_IPS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 1, 2), Ipv4Addr::new(198, 19, 1, 2)];
/// Prefix length of the networks of a lab.
pub const PREFIX_BITS: u8 = 24;
/// The default MTU. Veth refuses a native XDP program when the peer's MTU is above
/// about 3500.
const MTU_DEFAULT: u32 = 3000;
/// The smallest MTU: the minimum of IPv4 (RFC 791).
const MTU_MIN: u32 = 68;
/// The largest MTU, a common one for jumbo frames.
pub const MTU_MAX: u32 = 9216;
/// The longest name of a lab.
const NAME_BYTES_MAX: usize = 64;

/// Time limit until both ends have a carrier.
const LINK_WAIT: Duration = Duration::from_secs(2);
/// Settings that keep a namespace silent. New interfaces inherit those of `default`.
const SILENCE: [(&str, &str); 9] = [
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/autoconf", "0"),
    // One ICMP error each 23 days, ms: frames to a closed port are not answered.
    ("ipv4/icmp_ratelimit", "2000000000"),
    // A bridge bypasses the firewall.
    ("bridge/bridge-nf-call-arptables", "0"),
    ("bridge/bridge-nf-call-iptables", "0"),
    ("bridge/bridge-nf-call-ip6tables", "0"),
];
/// Parts that a kernel may lack.
const OPTIONAL: [&str; 2] = ["ipv6", "bridge"];

/// The lab to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabPlan {
    /// `None` chooses an unused name.
    pub name: Option<String>,
    /// The MTU of both ends, bytes, [`MTU_MIN`] to [`MTU_MAX`].
    pub mtu: u32,
    /// Transmit and receive queues of each end.
    pub queues: u32,
    pub layout: Layout,
}

/// The connection between the senders and the receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Layout {
    /// A sender, a receiver, and a link.
    #[default]
    Pair,
    /// Two senders through a bridge, which mirrors one of its ports to the receiver.
    Span,
    /// Two senders through a tap, which copies both directions to the receiver.
    Tap,
    /// Two ends through a bridge without a mirror: the receiving namespace is idle.
    Bridge,
    /// Two ends through a router, each in its own network ([`ROUTER_IPS`]).
    Router,
    /// Two ends whose links end in [`MIDDLE_IFS`] of the namespace in the middle. The caller forwards between them.
    Apart,
}

impl Default for LabPlan {
    fn default() -> Self {
        Self { name: None, mtu: MTU_DEFAULT, queues: 1, layout: Layout::Pair }
    }
}

/// The state of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LabInfo {
    pub name: String,
    /// The sending namespace.
    pub tx: String,
    /// The receiving namespace.
    pub rx: String,
    /// The MTU of both ends, bytes.
    pub mtu: u32,
    /// It remains until it is taken down.
    pub persistent: bool,
    /// A process uses it now.
    pub in_use: bool,
    /// The process that created it.
    pub pid: u32,
}

/// A handle on a lab.
///
/// A lab that this handle created is removed on drop, unless it was [kept](Lab::keep); one that it
/// [attached](Lab::attach) to or [joined](Lab::join) remains.
#[derive(Debug)]
pub struct Lab {
    pub name: String,
    /// The MTU of both ends, bytes.
    pub mtu: u32,
    /// The sending namespace, with [`TX_IF`].
    pub tx: Netns,
    /// The other sending namespace, with [`FAR_IF`], of a layout that has two.
    pub far: Option<Netns>,
    /// The namespace between these two, with [`MIDDLE_IFS`].
    pub mid: Option<Netns>,
    /// The receiving namespace, with [`RX_IF`].
    pub rx: Netns,
    record: Record,
    /// The entry of a lab that this handle removes; `None` once that is done.
    owned: Option<Entry>,
    /// Locks the lab of another process while this handle uses it.
    _used: Option<Entry>,
}

/// The namespaces of a lab; [`Layout::Pair`] has neither `far` nor `mid`.
#[derive(Debug)]
struct Rooms {
    tx: Netns,
    far: Option<Netns>,
    mid: Option<Netns>,
    rx: Netns,
}

impl Rooms {
    fn open(name: &str) -> Result<Self> {
        Ok(Self {
            tx: Netns::open(&tx_name(name))?,
            far: Netns::open(&far_name(name)).ok(),
            mid: Netns::open(&mid_name(name)).ok(),
            rx: Netns::open(&rx_name(name))?,
        })
    }
}

impl Lab {
    fn of(name: &str, rooms: Rooms, record: Record, owned: Option<Entry>, used: Option<Entry>) -> Self {
        let Rooms { tx, far, mid, rx } = rooms;
        Self { name: name.to_owned(), mtu: record.mtu, tx, far, mid, rx, record, owned, _used: used }
    }

    /// Removes the labs that killed runs have left behind, then creates a lab. Returns when both ends of the link
    /// have a carrier.
    ///
    /// # Errors
    /// An invalid name or MTU; a name that is taken; a request that the kernel refuses.
    pub fn create(plan: &LabPlan) -> Result<Self> {
        if !(MTU_MIN..=MTU_MAX).contains(&plan.mtu) {
            return Err(Error::Mtu { mtu: plan.mtu, min: MTU_MIN, max: MTU_MAX });
        }
        sweep();
        let (name, mut entry) = claim(plan.name.as_deref())?;
        let is_between = plan.layout != Layout::Pair;
        let record = Record { mtu: plan.mtu, persistent: false, pid: std::process::id(), is_between };
        entry.write(&record)?;
        match build(&name, plan) {
            Ok(rooms) => Ok(Self::of(&name, rooms, record, Some(entry), None)),
            Err(error) => {
                // The first error is reported; the next lab sweeps the leftovers.
                let _ = demolish(&name).and_then(|()| entry.remove());
                Err(error)
            }
        }
    }

    /// Opens an existing lab, which cannot be taken down while this handle exists.
    pub fn attach(name: &str) -> Result<Self> {
        check_name(name)?;
        match Entry::find(name, Hold::Shared)? {
            Found::None => Err(unknown(name)),
            Found::InUse => Err(in_use(name)),
            Found::Locked(mut entry) => {
                let record = entry.read().unwrap_or_default();
                Ok(Self::of(name, Rooms::open(name)?, record, None, Some(entry)))
            }
        }
    }

    /// Opens the lab that this process was started in; the owner, which waits for this process, keeps it locked.
    pub fn join(name: &str) -> Result<Self> {
        check_name(name)?;
        let record = registry::glance(name).ok_or_else(|| unknown(name))?;
        Ok(Self::of(name, Rooms::open(name)?, record, None, None))
    }

    /// A command that runs in the sending namespace.
    pub fn command_tx(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        Ok(self.tx.command(program)?)
    }

    /// A command that runs in the receiving namespace.
    pub fn command_rx(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        Ok(self.rx.command(program)?)
    }

    /// The counters of [`TX_IF`].
    pub fn stats_tx(&self) -> Result<LinkStats> {
        stats(&self.tx, TX_IF)
    }

    /// The counters of [`RX_IF`].
    pub fn stats_rx(&self) -> Result<LinkStats> {
        stats(&self.rx, RX_IF)
    }

    /// Keeps the lab after this handle is dropped, until it is [taken down](down).
    pub fn keep(mut self) -> Result<LabInfo> {
        self.record.persistent = true;
        if let Some(entry) = &mut self.owned {
            entry.write(&self.record)?;
        }
        self.owned = None;
        Ok(info(&self.name, &self.record, false))
    }

    /// Removes the lab now and reports errors; only releases a lab that this handle did not create.
    pub fn down(mut self) -> Result<()> {
        self.owned.take().map_or(Ok(()), |entry| demolish(&self.name).and_then(|()| entry.remove()))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(entry) = self.owned.take() {
            // If this fails, the next lab sweeps it: the file remains, and its lock is free.
            let _ = demolish(&self.name).and_then(|()| entry.remove());
        }
    }
}

/// All labs, by name.
pub fn list() -> Result<Vec<LabInfo>> {
    let mut labs = Vec::new();
    for name in registry::names()? {
        let in_use = matches!(Entry::find_now(&name, Hold::Alone)?, Found::InUse);
        if let Some(record) = registry::glance(&name) {
            labs.push(info(&name, &record, in_use));
        }
    }
    Ok(labs)
}

/// Takes down a lab that is not in use.
pub fn down(name: &str) -> Result<()> {
    check_name(name)?;
    match Entry::find(name, Hold::Alone)? {
        Found::None => Err(unknown(name)),
        Found::InUse => Err(in_use(name)),
        Found::Locked(entry) => demolish(name).and_then(|()| entry.remove()),
    }
}

/// Takes down the labs that killed runs have left behind; returns their names. Those that cannot be taken down now
/// are left for the next sweep.
pub fn sweep() -> Vec<String> {
    let names = registry::names().unwrap_or_default();
    names.into_iter().filter(|name| sweep_one(name).unwrap_or(false)).collect()
}

fn sweep_one(name: &str) -> Result<bool> {
    let is_kept = |record: Option<Record>| record.is_some_and(|record| record.persistent) && is_there(name);
    if is_kept(registry::glance(name)) {
        return Ok(false);
    }
    let Found::Locked(mut entry) = Entry::find_now(name, Hold::Alone)? else { return Ok(false) };
    // The record may have changed before the lock was taken.
    if is_kept(entry.read()) {
        return Ok(false);
    }
    demolish(name)?;
    entry.remove()?;
    Ok(true)
}

fn claim(name: Option<&str>) -> Result<(String, Entry)> {
    if let Some(name) = name {
        check_name(name)?;
        return match Entry::make(name)? {
            Some(entry) => Ok((name.to_owned(), entry)),
            None => Err(Error::Taken(name.to_owned())),
        };
    }
    loop {
        let name = format!("quaff-{:08x}", RandomState::new().build_hasher().finish() as u32);
        if let Some(entry) = Entry::make(&name)? {
            return Ok((name, entry));
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let good = name.len() <= NAME_BYTES_MAX
        && name.chars().all(letter)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if good { Ok(()) } else { Err(Error::Name { name: name.to_owned(), max: NAME_BYTES_MAX }) }
}

fn build(name: &str, plan: &LabPlan) -> Result<Rooms> {
    if plan.layout != Layout::Pair {
        return layout::build(name, plan);
    }
    let tx = Netns::create(&tx_name(name))?;
    let rx = Netns::create(&rx_name(name))?;
    for netns in [&tx, &rx] {
        netns.run(silence)??;
    }
    Rtnl::open()?.create_veth(&VethPlan {
        ends: [
            VethEnd { name: TX_IF, netns: tx.as_fd(), mac: TX_MAC },
            VethEnd { name: RX_IF, netns: rx.as_fd(), mac: RX_MAC },
        ],
        mtu: plan.mtu,
        queues: plan.queues,
    })?;
    tx.run(|| set_up_end(TX_IF, TX_IP, (RX_IP, RX_MAC)))??;
    rx.run(|| set_up_end(RX_IF, RX_IP, (TX_IP, TX_MAC)))??;
    tx.run(|| wait_until_running(TX_IF))??;
    rx.run(|| wait_until_running(RX_IF))??;
    Ok(Rooms { tx, far: None, mid: None, rx })
}

/// Disables background traffic in the calling thread's namespace, before it has a link.
fn silence() -> Result<()> {
    for (key, value) in SILENCE {
        match fs::write(format!("/proc/sys/net/{key}"), value) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && OPTIONAL.iter().any(|part| key.starts_with(part)) => {}
            written => written.trying(|| format!("set /proc/sys/net/{key} to {value}"))?,
        }
    }
    let mut rtnl = Rtnl::open()?;
    let lo = rtnl.link("lo")?;
    rtnl.change(lo.index, LinkChange::Up(true))?;
    Ok(())
}

fn set_up_end(name: &str, address: Ipv4Addr, (peer, peer_mac): (Ipv4Addr, [u8; 6])) -> Result<()> {
    let mut rtnl = Rtnl::open()?;
    let link = rtnl.link(name)?;
    Card::change(name, Change::OffloadsOff)?;
    rtnl.change(link.index, LinkChange::Address(address, PREFIX_BITS))?;
    rtnl.change(link.index, LinkChange::Up(true))?;
    rtnl.change(link.index, LinkChange::Neighbour(peer, peer_mac))?;
    Ok(())
}

/// The kernel activates the first end slightly later than the second; frames sent before that are lost.
fn wait_until_running(name: &str) -> Result<()> {
    let mut rtnl = Rtnl::open()?;
    let begun = Instant::now();
    while !rtnl.link(name)?.running {
        if begun.elapsed() > LINK_WAIT {
            let late = io::Error::from(io::ErrorKind::TimedOut);
            return Err(quaff_os::Error::new(format!("bring {name} up"), late).into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Takes down all existing parts of a lab, the link first, so that remaining processes neither send nor receive.
fn demolish(name: &str) -> Result<()> {
    let all = [
        (rx_name(name), Some(RX_IF)),
        (tx_name(name), Some(TX_IF)),
        (far_name(name), Some(FAR_IF)),
        // Its interfaces were removed with their peers.
        (mid_name(name), None),
    ];
    // Other namespaces of that name are not touched.
    let is_between = registry::glance(name).is_some_and(|record| record.is_between);
    for (netns, end) in all.into_iter().take(if is_between { 4 } else { 2 }) {
        if let (Ok(netns), Some(end)) = (Netns::open(&netns), end) {
            // It may be gone with its peer, or may never have existed.
            let _ = netns.run(|| {
                let mut rtnl = Rtnl::open()?;
                let link = rtnl.link(end)?;
                rtnl.change(link.index, LinkChange::Delete)
            });
        }
        match Netns::delete(&netns) {
            Err(error) if error.errno.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

fn stats(netns: &Netns, name: &str) -> Result<LinkStats> {
    Ok(netns.run(|| {
        let mut rtnl = Rtnl::open()?;
        let link = rtnl.link(name)?;
        rtnl.stats(link.index)
    })??)
}

fn info(name: &str, record: &Record, in_use: bool) -> LabInfo {
    LabInfo {
        name: name.to_owned(),
        tx: tx_name(name),
        rx: rx_name(name),
        mtu: record.mtu,
        persistent: record.persistent,
        in_use,
        pid: record.pid,
    }
}

fn unknown(name: &str) -> Error {
    Error::Unknown { name: name.to_owned(), known: registry::names().unwrap_or_default() }
}

fn in_use(name: &str) -> Error {
    let pid = registry::glance(name).filter(|record| !record.persistent).map(|record| record.pid);
    Error::InUse { name: name.to_owned(), pid }
}

fn is_there(name: &str) -> bool {
    Netns::open(&tx_name(name)).is_ok() && Netns::open(&rx_name(name)).is_ok()
}

fn tx_name(name: &str) -> String {
    format!("{name}-tx")
}

fn far_name(name: &str) -> String {
    format!("{name}-far")
}

fn mid_name(name: &str) -> String {
    format!("{name}-mid")
}

fn rx_name(name: &str) -> String {
    format!("{name}-rx")
}
