//! A lab: two network namespaces and a link, a veth pair, between them, without background traffic; removed on drop.
//!
//! The sending namespace `NAME-tx` holds `tx0` (198.18.0.1), the receiving one `NAME-rx` holds `rx0`
//! (198.18.0.2; 198.18.0.0/15 is for benchmarks, RFC 2544 appendix C.2.2). Both have no IPv6, permanent ARP
//! entries for each other, no ICMP errors and no offloads: `rx0` counts exactly the frames sent to it. A [`Layout`]
//! may add a second end, and a switch, a tap or a router between the two. This module prints nothing and runs no tools.

mod layout;
mod plan;
mod rooms;

pub(crate) use plan::MIRROR_IF;
pub use plan::{FAR, LabEnd, LabPlan, Layout, MIDDLE_IFS, MTU_MAX, ROUTED, RX, TX};

use crate::owner::Owner;
use crate::registry::{self, Entry, Found, Hold, Record};
use crate::{Error, Result};
use plan::MTU_MIN;
use quaff_os::Netns;
use quaff_os::rtnl::{LinkChange, LinkStats, Rtnl};
use rooms::{Rooms, netns_name};
use serde::Serialize;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

/// Maximum length of a lab's name, bytes.
const NAME_BYTES_MAX: usize = 64;

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
    /// The process to which it belongs: it called `quaff lab up`, still runs, and is no parent of this process.
    pub owner: Option<u32>,
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
        let record = Record {
            mtu: plan.mtu,
            persistent: false,
            pid: std::process::id(),
            is_between,
            owner: Owner::caller(),
        };
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
    // One that is neither kept nor in use was left by a run that is gone. A new one is in use until it is kept.
    let is_owned = record.persistent || in_use;
    let owner = record.owner.as_ref().filter(|owner| is_owned && owner.is_other());
    LabInfo {
        name: name.to_owned(),
        tx: netns_name(name, "tx"),
        rx: netns_name(name, "rx"),
        mtu: record.mtu,
        persistent: record.persistent,
        in_use,
        pid: record.pid,
        owner: owner.map(|owner| owner.pid),
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
