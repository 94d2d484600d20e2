//! A tap in line: the kernel passes the frames of each port to the other one, while a capture listens on both.
//!
//! ```text
//!          the packet sockets of a capture (frames that arrive)
//!               ▲                                    ▲
//!   eth0 ───────┴─ tc: redirect to eth1 ──────── eth1  tc: redirect to eth0
//! ```
//!
//! Packet sockets see a frame before tc does, so the capture is passive: the redirect is the kernel's, and neither
//! waits for the capture nor ends with it. The same holds for a redirect by XDP, whose program copies frames to a ring.
//! [`Tap::start`] records the settings of the ports and changes them, [`Tap::finish`] restores them in reverse order
//! and counts what passed. This module captures nothing, and never reads a frame.

mod account;
mod follow;
mod lock;
mod ports;
mod redirect;

pub use account::{Direction, Recorded};
pub use redirect::Forwarder;

use crate::doctor::{self, Change, Done, STATE};
use crate::{Error, Result};
use account::Passed;
use follow::Follower;
use lock::PortLocks;
use ports::Existing;
use quaff_os::link_counters::LinkCounters;
use quaff_os::rtnl::{Link, Rtnl};
use redirect::Redirect;
use std::path::{Path, PathBuf};

/// A tap that forwards.
#[derive(Debug)]
pub struct Tap {
    /// Each sends what the other one receives.
    links: [Link; 2],
    /// Previous values of the settings.
    state: PathBuf,
    /// Of the frames that each port receives; empty until they are attached.
    redirects: Vec<Redirect>,
    before: Vec<Before>,
    follower: Option<Follower>,
    /// Nothing has to be undone.
    is_over: bool,
    /// Times that another program has removed a redirect, and a port without one that could not be attached again.
    cuts: u64,
    is_cut: [bool; 2],
    /// Of both ports, until the end of the process.
    _locks: PortLocks,
}

/// The counters of a port at the start.
#[derive(Debug)]
struct Before {
    counters: LinkCounters,
    sent: u64,
    /// At most so many frames have since been sent by the redirect of an earlier tap.
    sent_by_earlier: u64,
}

/// The end of a tap.
#[derive(Debug)]
pub struct Ended {
    /// From the first port to the second, and back.
    pub directions: [Direction; 2],
    /// Settings that do not have their previous values.
    pub left: Vec<Done>,
    /// News of the links since the last call of [`Tap::news`].
    pub news: Vec<String>,
    /// Why a redirect could not be removed.
    pub failures: Vec<String>,
    /// Times that another program has removed a redirect during the run: frames did not pass until it was restored.
    pub cuts: u64,
    /// A redirect is missing at the end, and could not be restored.
    pub is_cut: bool,
}

/// The settings that a tap of these ports changes, in their order; the last step is the redirect.
///
/// # Errors
/// The ports cannot be tapped; the error has the reason and what to do.
pub fn changes(ports: &[String; 2], forwarder: Forwarder) -> Result<Vec<Change>> {
    let (links, _) = ports::check(ports, forwarder, &mut Rtnl::open()?)?;
    ports::changes(&links, forwarder)
}

/// Removes the redirects between two ports that an earlier tap has left, and restores the settings that it had
/// changed. Returns the ports whose redirect was removed, and the settings.
///
/// # Errors
/// A port does not exist, a tap of it runs, or the kernel refuses.
pub fn remove(ports: &[String; 2]) -> Result<(Vec<String>, Vec<Done>)> {
    let mut rtnl = Rtnl::open()?;
    let links = [rtnl.link(&ports[0])?, rtnl.link(&ports[1])?];
    let _locks = PortLocks::take(&links)?;
    let mut removed = Vec::new();
    for (from, to) in [(&links[0], &links[1]), (&links[1], &links[0])] {
        if redirect::exists(&mut rtnl, from, to)? {
            redirect::detach(&mut rtnl, from, to)?;
            removed.push(from.name.clone());
        }
    }
    Ok((removed, doctor::undo(&state_file(&links)?)?))
}

impl Tap {
    /// Sets the ports up and forwards between them. When this returns, frames pass. On an error all changes are undone.
    ///
    /// # Errors
    /// The ports cannot be tapped, or a setting cannot be changed.
    pub fn start(ports: &[String; 2], forwarder: Forwarder) -> Result<Self> {
        let mut rtnl = Rtnl::open()?;
        // First: the redirect of a tap that runs looks like one that was left.
        let locks = PortLocks::take(&[rtnl.link(&ports[0])?, rtnl.link(&ports[1])?])?;
        let (links, existing) = ports::check(ports, forwarder, &mut rtnl)?;
        let state = state_file(&links)?;
        let changes = ports::changes(&links, forwarder)?;
        let mut tap = Self {
            links,
            state,
            redirects: Vec::new(),
            before: Vec::new(),
            follower: None,
            is_over: false,
            cuts: 0,
            is_cut: [false; 2],
            _locks: locks,
        };
        let changed = doctor::fix(&changes, &tap.state)?;
        if let Some((done, why)) = changed.iter().find_map(|done| Some((done, done.refused.as_ref()?))) {
            return Err(Error::Plan(format!("{} could not be changed: {why}", done.what)));
        }
        for link in &tap.links {
            let counters = LinkCounters::open(link, &mut rtnl)?;
            let sent = rtnl.stats(link.index)?.tx_packets;
            tap.before.push(Before { counters, sent, sent_by_earlier: 0 });
        }
        tap.attach(&mut rtnl, forwarder, existing)?;
        if existing == Existing::SameTap {
            for (before, link) in tap.before.iter_mut().zip(&tap.links) {
                before.sent_by_earlier = rtnl.stats(link.index)?.tx_packets.saturating_sub(before.sent);
            }
        }
        tap.follower = Some(Follower::start(&tap.links)?);
        Ok(tap)
    }

    /// Attaches both redirects. A frame that one port receives before the other has its own is forwarded too.
    fn attach(&mut self, rtnl: &mut Rtnl, forwarder: Forwarder, existing: Existing) -> Result<()> {
        for (from, to) in [(0, 1), (1, 0)] {
            let (from, to) = (&self.links[from], &self.links[to]);
            let redirect = Redirect::load(forwarder, to)?;
            redirect.attach(rtnl, from, to, existing == Existing::SameTap)?;
            self.redirects.push(redirect);
        }
        match forwarder {
            Forwarder::Xdp { .. } => self.links.iter().try_for_each(redirect::check_sends_redirected),
            Forwarder::Tc => Ok(()),
        }
    }

    /// The changes of the links since the last call, for the user.
    pub fn news(&self) -> Vec<String> {
        self.follower.as_ref().map_or_else(Vec::new, Follower::news)
    }

    /// Looks at both redirects, and attaches again what another program has removed. Returns a sentence about each.
    pub fn watch(&mut self) -> Vec<String> {
        let Ok(mut rtnl) = Rtnl::open() else { return Vec::new() };
        let mut found = Vec::new();
        for (from, to) in [(0, 1), (1, 0)] {
            let ports = (&self.links[from], &self.links[to]);
            // An interface that is gone or cannot be read now is the recorder's to report.
            let Ok(is_there) = redirect::exists(&mut rtnl, ports.0, ports.1) else { continue };
            let was_cut = std::mem::replace(&mut self.is_cut[from], !is_there);
            if is_there {
                continue;
            }
            self.cuts += u64::from(!was_cut);
            let attached = self.redirects[from].restore(&mut rtnl, ports);
            self.is_cut[from] = attached.is_err();
            let what = format!("another program has removed the redirect of {}", ports.0.name);
            match attached {
                Ok(()) => found.push(format!("{what}; it is restored, and frames in between did not pass")),
                // It is tried again, and said once.
                Err(_) if was_cut => {}
                Err(error) => {
                    found.push(format!("{what}: THE LINE IS CUT, and it cannot be restored: {error}"))
                }
            }
        }
        found
    }

    /// Ends the tap, after the capture: removes the redirect and restores the ports, unless it `stays`. `recorded` is
    /// of the ports in their order.
    pub fn finish(mut self, recorded: [Recorded; 2], stays: bool) -> Result<Ended> {
        let cut = self.watch();
        let news = self.follower.take().map_or_else(Vec::new, Follower::stop);
        let news = cut.into_iter().chain(news).collect();
        let mut rtnl = Rtnl::open()?;
        let failures = if stays { Vec::new() } else { self.detach_all(&mut rtnl) };
        let [there, back] = [self.passed(&mut rtnl, 0, 1), self.passed(&mut rtnl, 1, 0)];
        let names = self.links.each_ref().map(|link| link.name.as_str());
        let [of_first, of_second] = recorded;
        let directions = [
            account::direction([names[0], names[1]], &of_first, &there),
            account::direction([names[1], names[0]], &of_second, &back),
        ];
        self.is_over = true;
        let left = match stays {
            true => Vec::new(),
            false => doctor::undo(&self.state)?.into_iter().filter(|done| done.refused.is_some()).collect(),
        };
        let (cuts, is_cut) = (self.cuts, self.is_cut.contains(&true));
        Ok(Ended { directions, left, news, failures, cuts, is_cut })
    }

    /// The frames from port `from` to port `to` since the start. Counters of a port that is gone stay as they were.
    fn passed(&mut self, rtnl: &mut Rtnl, from: usize, to: usize) -> Passed {
        let (redirect, before) = (&self.redirects[from], &mut self.before[to]);
        before.counters.settle(rtnl);
        let at_least = redirect.count();
        let sent = rtnl.stats(self.links[to].index).map_or(before.sent, |now| now.tx_packets);
        let sent = sent.saturating_sub(before.sent);
        let redirected = [at_least, redirect.count()];
        let drops = before.counters.drops();
        let dropped = drops.qdisc_dropped + drops.tx_dropped;
        let beyond = (sent + dropped).saturating_sub(redirected[1]);
        Passed { redirected, sent: sent - beyond.min(before.sent_by_earlier).min(sent), dropped }
    }

    /// Removes both redirects, the last one first. Returns why one could not be removed.
    fn detach_all(&mut self, rtnl: &mut Rtnl) -> Vec<String> {
        let both = [(&self.links[1], &self.links[0]), (&self.links[0], &self.links[1])];
        let detached = both.into_iter().map(|(from, to)| redirect::detach(rtnl, from, to));
        detached.filter_map(|detached| detached.err()).map(|error| error.to_string()).collect()
    }
}

impl Drop for Tap {
    /// A tap that could not be started, or was not finished.
    fn drop(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        drop(self.follower.take().map(Follower::stop));
        if let Ok(mut rtnl) = Rtnl::open() {
            self.detach_all(&mut rtnl);
        }
        // The error that ended the tap is reported, and the state file stays for `remove`.
        let _ = doctor::undo(&self.state);
    }
}

/// The file with the previous settings of two ports, whichever is named first.
fn state_file(links: &[Link; 2]) -> Result<PathBuf> {
    let netns = doctor::machine::netns_inode()?;
    let [a, b] = links.each_ref().map(|link| link.index);
    Ok(Path::new(STATE).with_file_name(format!("tap-{netns}-{}-{}.json", a.min(b), a.max(b))))
}
