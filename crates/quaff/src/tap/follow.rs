//! Hands the link state of one port on to the other: a cable that is pulled on one side is pulled on the other one too.
//!
//! A port that has lost its carrier has the other one set down, until the carrier is back. Then the other port gets
//! some time to find a carrier of its own before its lack of one counts. It never touches a frame.

use crate::Result;
use quaff_os::Wakeup;
use quaff_os::ethtool::has_carrier;
use quaff_os::rtnl::{Link, LinkChange, LinkMonitor, Rtnl};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval of looks. Messages of the kernel may come a second late.
const LOOK: Duration = Duration::from_millis(100);
/// Time in which a port that was set up finds its carrier: autonegotiation takes seconds.
const GRACE: Duration = Duration::from_secs(5);

/// A running follower.
#[derive(Debug)]
pub(super) struct Follower {
    thread: JoinHandle<Vec<String>>,
    wakeup: Wakeup,
    /// Set once by the owner, read by the thread; it guards no other data: Relaxed.
    is_over: Arc<AtomicBool>,
    news: Receiver<String>,
}

/// A change of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    SetDown(usize),
    SetUp(usize),
}

/// The state of both links.
#[derive(Debug)]
struct Links {
    /// The port that was set down because the other one has no carrier.
    held: Option<usize>,
    /// Until then, or until it has had one, a port may be without a carrier.
    grace: [Instant; 2],
}

impl Links {
    /// Decides by the carriers of both ports.
    fn decide(&mut self, carriers: [bool; 2], now: Instant) -> Option<Step> {
        (0..2).filter(|port| carriers[*port]).for_each(|port| self.grace[port] = now);
        match self.held {
            Some(held) if carriers[1 - held] => {
                self.held = None;
                self.grace[held] = now + GRACE;
                Some(Step::SetUp(held))
            }
            Some(_) => None,
            None => {
                let cut = (0..2).find(|&port| !carriers[port] && now >= self.grace[port])?;
                self.held = Some(1 - cut);
                Some(Step::SetDown(1 - cut))
            }
        }
    }
}

impl Follower {
    /// Starts to follow the links of two ports, which are up now; `links` are from before.
    pub(super) fn start(links: &[Link; 2]) -> Result<Self> {
        let ports = links.each_ref().map(|link| (link.name.clone(), link.index));
        // What an earlier state has caused is seen at once, and a port without a cable has lost it.
        let grace = links.each_ref().map(|link| if link.up { LOOK * 2 } else { GRACE });
        let state = Links { held: None, grace: grace.map(|grace| Instant::now() + grace) };
        let (wakeup, is_over, (sender, news)) = (Wakeup::new()?, Arc::new(AtomicBool::new(false)), channel());
        let (monitor, rtnl) = (LinkMonitor::open()?, Rtnl::open()?);
        let (woken, over) = (wakeup.clone(), is_over.clone());
        let follow = move || follow((&ports, state), (&monitor, rtnl), &woken, &over, &sender);
        let thread = quaff_os::spawn("quaff-links", follow)?;
        Ok(Self { thread, wakeup, is_over, news })
    }

    pub(super) fn news(&self) -> Vec<String> {
        self.news.try_iter().collect()
    }

    /// Ends it; a port that it had set down is up again. Returns the rest of the news, and why a port could not be set
    /// up.
    pub(super) fn stop(self) -> Vec<String> {
        self.is_over.store(true, Ordering::Relaxed);
        self.wakeup.signal();
        let failures = self.thread.join().unwrap_or_default();
        self.news.try_iter().chain(failures).collect()
    }
}

fn follow(
    (ports, mut links): (&[(String, u32); 2], Links),
    (monitor, mut rtnl): (&LinkMonitor, Rtnl),
    wakeup: &Wakeup,
    is_over: &AtomicBool,
    news: &Sender<String>,
) -> Vec<String> {
    while !is_over.load(Ordering::Relaxed) {
        // A failure costs the notice of the kernel, not the looks.
        if monitor.wait(wakeup, LOOK).is_err() {
            std::thread::sleep(LOOK);
        }
        // A port that is gone has no carrier.
        let carriers = [0, 1].map(|port: usize| has_carrier(&ports[port].0).unwrap_or(false));
        let Some(step) = links.decide(carriers, Instant::now()) else { continue };
        let (at, up) = match step {
            Step::SetUp(port) => (port, true),
            Step::SetDown(port) => (port, false),
        };
        let (name, cause) = (&ports[at].0, &ports[1 - at].0);
        let words = match rtnl.change(ports[at].1, LinkChange::Up(up)) {
            Ok(()) if up => format!("{cause} has its link again: {name} is set up"),
            Ok(()) => format!("{cause} has no link: {name} is set down until it has"),
            Err(error) => error.to_string(),
        };
        // Fails if the owner is gone.
        let _ = news.send(words);
    }
    let restored = links.held.map(|held| rtnl.change(ports[held].1, LinkChange::Up(true)));
    restored.and_then(|restored| restored.err()).into_iter().map(|error| error.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(now: Instant) -> Links {
        Links { held: None, grace: [now; 2] }
    }

    #[test]
    fn a_lost_link_is_handed_on_and_back() {
        let now = Instant::now();
        for cut in [0, 1] {
            let (mut state, other) = (links(now), 1 - cut);
            let with = |up: bool| if cut == 0 { [up, true] } else { [true, up] };
            assert_eq!(state.decide([true; 2], now), None);
            assert_eq!(state.decide(with(false), now), Some(Step::SetDown(other)));
            // The other one is down now.
            assert_eq!(state.decide([false; 2], now), None);
            let mut back = [false; 2];
            back[cut] = true;
            assert_eq!(state.decide(back, now), Some(Step::SetUp(other)));
            // It looks for its carrier, then has it, and may lose it again.
            assert_eq!(state.decide(back, now + GRACE / 4), None);
            assert_eq!(state.decide([true; 2], now + GRACE / 3), None);
            assert_eq!(state.decide(back, now + GRACE / 2), Some(Step::SetDown(cut)));
        }
    }

    #[test]
    fn a_port_that_finds_no_carrier_is_cut_itself() {
        let now = Instant::now();
        let mut state = links(now);
        state.decide([false, true], now);
        state.decide([true, false], now);
        assert_eq!(state.decide([true, false], now + GRACE), Some(Step::SetDown(0)));
    }

    #[test]
    fn a_link_that_flaps_does_not_latch() {
        let now = Instant::now();
        let mut state = links(now);
        for turn in 0..100 {
            let is_up = turn % 2 == 1;
            let other = state.held.is_none();
            state.decide([is_up, other], now);
        }
        state.decide([true, state.held.is_none()], now);
        assert_eq!(state.held, None);
    }
}
