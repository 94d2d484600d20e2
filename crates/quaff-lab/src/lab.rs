//! A lab: two network namespaces and a link, a veth pair, between them, without background traffic; removed on drop.
//!
//! The sending namespace `NAME-tx` holds `tx0` (198.18.0.1), the receiving one `NAME-rx` holds `rx0`
//! (198.18.0.2; 198.18.0.0/15 is for benchmarks, RFC 2544 appendix C.2.2). Both have no IPv6, permanent ARP
//! entries for each other, no ICMP errors and no offloads: `rx0` counts exactly the frames sent to it. A [`Layout`]
//! may add a second end, and a switch, a tap or a router between the two. This module prints nothing and runs no tools.

mod layout;

use crate::registry::{self, Entry, Found, Hold, Record};
use crate::{Error, Result};
use quaff_os::rtnl::{LinkChange, LinkStats, Rtnl};
use quaff_os::{Netns, Try};
use serde::Serialize;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// One end of a lab's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabEnd {
    /// The interface.
    pub name: &'static str,
    /// Its hardware address, locally administered.
    pub mac: [u8; 6],
    /// Its address in the benchmark network.
    pub ip: Ipv4Addr,
    /// Prefix length of its network.
    pub prefix_bits: u8,
}

/// The end in the sending namespace.
pub const TX: LabEnd = LabEnd::new("tx0", 1);
/// The end in the receiving namespace.
pub const RX: LabEnd = LabEnd::new("rx0", 2);
/// The end in the second sending namespace, for a [`Layout`] with two.
pub const FAR: LabEnd = LabEnd::new("tx1", 3);
/// The ports of the middle namespace, for a [`Layout`] that has one: towards [`TX`], and towards [`FAR`].
pub const MIDDLE_IFS: [&str; 2] = ["a0", "b0"];
/// The port of the middle namespace towards [`RX`], through which copies leave.
pub(crate) const MIRROR_IF: &str = "m0";
/// The two networks of [`Layout::Router`], each one half of the benchmark network (RFC 2544 appendix C.2.2): the
/// router's address, and an unassigned one for a host.
pub const ROUTED: [(Ipv4Addr, Ipv4Addr); 2] = [
    (Ipv4Addr::new(198, 18, 1, 1), Ipv4Addr::new(198, 18, 1, 2)),
    (Ipv4Addr::new(198, 19, 1, 1), Ipv4Addr::new(198, 19, 1, 2)),
];
/// Prefix length of a lab's networks.
const PREFIX_BITS: u8 = 24;
/// The default MTU, bytes: veth refuses a native XDP program if the peer's MTU is above about 3500.
const MTU_DEFAULT: u32 = 3000;
/// Minimum MTU, bytes: that of IPv4 (RFC 791).
const MTU_MIN: u32 = 68;
/// Maximum MTU, bytes, common for jumbo frames.
pub const MTU_MAX: u32 = 9216;
/// Maximum length of a lab's name, bytes.
const NAME_BYTES_MAX: usize = 64;

/// Time limit for both ends to have a carrier.
const LINK_WAIT: Duration = Duration::from_secs(2);
/// sysctls that keep a namespace silent. New interfaces inherit those of `default`.
const SILENCE: [(&str, &str); 9] = [
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/autoconf", "0"),
    // One ICMP error per 23 days, ms: frames to a closed port are not answered.
    ("ipv4/icmp_ratelimit", "2000000000"),
    // A bridge bypasses the firewall.
    ("bridge/bridge-nf-call-arptables", "0"),
    ("bridge/bridge-nf-call-iptables", "0"),
    ("bridge/bridge-nf-call-ip6tables", "0"),
];
/// sysctl trees that a kernel may lack.
const OPTIONAL: [&str; 2] = ["ipv6", "bridge"];

impl LabEnd {
    const fn new(name: &'static str, number: u8) -> Self {
        let mac = [0x02, 0x71, 0x75, 0, 0, number];
        Self { name, mac, ip: Ipv4Addr::new(198, 18, 0, number), prefix_bits: PREFIX_BITS }
    }
}

/// The lab to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabPlan {
    /// `None` chooses an unused name.
    pub name: Option<String>,
    /// MTU of both ends, bytes, [`MTU_MIN`] to [`MTU_MAX`].
    pub mtu: u32,
    /// Transmit and receive queues of each end; in a layout with a middle namespace, of the capturer's link.
    pub queues: u32,
    pub layout: Layout,
}

/// The connection between the senders and the receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Layout {
    /// A sender and a receiver, joined by a link.
    #[default]
    Pair,
    /// Two senders joined by a bridge, which mirrors one of its ports to the receiver.
    Span,
    /// Two senders joined by a tap, which copies both directions to the receiver.
    Tap,
    /// Two ends joined by a bridge without a mirror: the receiving namespace is idle.
    Bridge,
    /// Two ends joined by a router, each in its own network ([`ROUTED`]).
    Router,
    /// Two ends whose links end at [`MIDDLE_IFS`] of the middle namespace. The caller forwards between them.
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
    /// MTU of both ends, bytes.
    pub mtu: u32,
    /// True if it remains until it is taken down.
    pub persistent: bool,
    /// True if a process is using it.
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
    /// MTU of both ends, bytes.
    pub mtu: u32,
    /// The sending namespace, with [`TX`].
    pub tx: Netns,
    /// The second sending namespace, with [`FAR`], if the layout has one.
    pub far: Option<Netns>,
    /// The middle namespace, with [`MIDDLE_IFS`], if the layout has one.
    pub mid: Option<Netns>,
    /// The receiving namespace, with [`RX`].
    pub rx: Netns,
    record: Record,
    /// The registry entry of a lab that this handle removes; `None` once it is removed.
    owned: Option<Entry>,
    /// Locks the lab of another process while this handle uses it.
    _used: Option<Entry>,
}

/// The open namespaces of a lab; [`Layout::Pair`] has neither `far` nor `mid`.
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
            tx: Netns::open(&netns_name(name, "tx"))?,
            far: Netns::open(&netns_name(name, "far")).ok(),
            mid: Netns::open(&netns_name(name, "mid")).ok(),
            rx: Netns::open(&netns_name(name, "rx"))?,
        })
    }
}

impl Lab {
    fn of(name: &str, rooms: Rooms, record: Record, owned: Option<Entry>, used: Option<Entry>) -> Self {
        let Rooms { tx, far, mid, rx } = rooms;
        Self { name: name.to_owned(), mtu: record.mtu, tx, far, mid, rx, record, owned, _used: used }
    }

    /// Removes labs that killed runs have left, then creates a lab. Returns once both ends of the link have a carrier.
    ///
    /// # Errors
    /// An invalid name or MTU, a name that exists, or a request that the kernel refuses.
    pub fn create(plan: &LabPlan) -> Result<Self> {
        if !(MTU_MIN..=MTU_MAX).contains(&plan.mtu) {
            return Err(Error::Mtu { mtu: plan.mtu, min: MTU_MIN, max: MTU_MAX });
        }
        sweep();
        let (name, mut entry) = claim(plan.name.as_deref())?;
        let is_between = plan.layout != Layout::Pair;
        let record = Record { mtu: plan.mtu, persistent: false, pid: std::process::id(), is_between };
        entry.write(&record)?;
        match layout::build(&name, plan) {
            Ok(rooms) => Ok(Self::of(&name, rooms, record, Some(entry), None)),
            Err(error) => {
                // The first error is reported; the next lab removes what is left.
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

    /// Opens the lab in which this process was started; its owner waits for this process and keeps the lab locked.
    pub fn join(name: &str) -> Result<Self> {
        check_name(name)?;
        let record = registry::glance(name).ok_or_else(|| unknown(name))?;
        Ok(Self::of(name, Rooms::open(name)?, record, None, None))
    }

    /// All labs, sorted by name.
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
    pub fn take_down(name: &str) -> Result<()> {
        check_name(name)?;
        match Entry::find(name, Hold::Alone)? {
            Found::None => Err(unknown(name)),
            Found::InUse => Err(in_use(name)),
            Found::Locked(entry) => demolish(name).and_then(|()| entry.remove()),
        }
    }

    /// Reads the counters of an end.
    pub fn stats(&self, end: LabEnd) -> Result<LinkStats> {
        let sender = self.far.as_ref().filter(|_| end == FAR).unwrap_or(&self.tx);
        let netns = if end == RX { &self.rx } else { sender };
        Ok(netns.run(|| {
            let mut rtnl = Rtnl::open()?;
            let link = rtnl.link(end.name)?;
            rtnl.stats(link.index)
        })??)
    }

    /// Keeps the lab when this handle is dropped, until it is [taken down](Self::take_down).
    pub fn keep(mut self) -> Result<LabInfo> {
        self.record.persistent = true;
        if let Some(entry) = &mut self.owned {
            entry.write(&self.record)?;
        }
        self.owned = None;
        Ok(info(&self.name, &self.record, false))
    }

    /// Removes the lab now and reports errors; a lab that this handle did not create is only released.
    pub fn down(mut self) -> Result<()> {
        self.owned.take().map_or(Ok(()), |entry| demolish(&self.name).and_then(|()| entry.remove()))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(entry) = self.owned.take() {
            // On failure the next lab removes it: its file remains, and its lock is free.
            let _ = demolish(&self.name).and_then(|()| entry.remove());
        }
    }
}

/// Takes down labs that killed runs have left. Failures are left for the next sweep.
fn sweep() {
    for name in registry::names().unwrap_or_default() {
        let _ = sweep_one(&name);
    }
}

fn sweep_one(name: &str) -> Result<()> {
    let is_kept = |record: Option<Record>| record.is_some_and(|record| record.persistent) && is_there(name);
    if is_kept(registry::glance(name)) {
        return Ok(());
    }
    let Found::Locked(mut entry) = Entry::find_now(name, Hold::Alone)? else { return Ok(()) };
    // The record may have changed before the lock was taken.
    if is_kept(entry.read()) {
        return Ok(());
    }
    demolish(name)?;
    entry.remove()
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

/// The kernel activates the second end slightly later than the first; frames sent before that are lost.
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
        ("rx", Some(RX)),
        ("tx", Some(TX)),
        ("far", Some(FAR)),
        // Its interfaces were removed with their peers.
        ("mid", None),
    ];
    // Namespaces of other labs are not touched.
    let is_between = registry::glance(name).is_some_and(|record| record.is_between);
    for (which, end) in all.into_iter().take(if is_between { 4 } else { 2 }) {
        let netns = netns_name(name, which);
        if let (Ok(netns), Some(end)) = (Netns::open(&netns), end) {
            // It may have disappeared with its peer, or may never have existed.
            let _ = netns.run(|| {
                let mut rtnl = Rtnl::open()?;
                let link = rtnl.link(end.name)?;
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

fn info(name: &str, record: &Record, in_use: bool) -> LabInfo {
    LabInfo {
        name: name.to_owned(),
        tx: netns_name(name, "tx"),
        rx: netns_name(name, "rx"),
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
    Error::InUse { name: name.to_owned(), users: registry::users(name) }
}

fn is_there(name: &str) -> bool {
    ["tx", "rx"].iter().all(|which| Netns::open(&netns_name(name, which)).is_ok())
}

/// The name of a namespace of a lab.
fn netns_name(name: &str, which: &str) -> String {
    format!("{name}-{which}")
}
