//! A line between two ends as a site, captured at one of its points: the port of an end, the mirror port of a switch,
//! or a tap. Frames that entered the line, left it and reached the capturer are read from interface counters; no frame
//! is read here, and the tap is the capturer's own.

use super::lab_site::{halves, senders};
use super::mirror_port::MirrorPort;
use super::{LineCounts, Sent, Site, Watch, sending};
use crate::lab::{FAR, MIDDLE_IFS, MIRROR_IF, RX, TX};
use crate::traffic::Traffic;
use crate::{Error, Lab, LabPlan, Layout, Result, interface_facts};
use quaff_os::Netns;
use quaff_os::rtnl::Rtnl;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Counters that have not changed for this time are final.
const STILL: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);

/// The point of a line at which frames are captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapturePoint {
    /// The port of an end, which receives all frames.
    Port,
    /// The mirror port of a switch, with the frames of both directions; its link has a rate, Mbit/s.
    Span { mirror_mbps: u32 },
    /// Two ports in the line, between which the capturer forwards.
    Tap,
}

impl CapturePoint {
    /// All points in the order of the tables.
    pub fn all(mirror_mbps: u32) -> [Self; 3] {
        [Self::Port, Self::Span { mirror_mbps }, Self::Tap]
    }

    /// The name in plans and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Port => "port",
            Self::Span { .. } => "SPAN",
            Self::Tap => "tap",
        }
    }

    fn layout(self) -> Layout {
        match self {
            Self::Port => Layout::Bridge,
            Self::Span { .. } => Layout::Span,
            Self::Tap => Layout::Apart,
        }
    }
}

/// A lab with a line, and the program that generates traffic in it.
#[derive(Debug)]
pub struct LineSite {
    lab: Lab,
    quaff: PathBuf,
    point: CapturePoint,
    mirror_port: Option<MirrorPort>,
}

/// Readings of the counters, frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    /// Received by the two ports of the line.
    offered: u64,
    /// Received by the two ends.
    delivered: u64,
    /// Received by the interface of the capturer.
    reached: u64,
    /// Dropped by the mirror port, if there is one.
    mirror_dropped: Option<u64>,
}

impl LineSite {
    /// Creates the lab; the mirror port gets `queues` receive queues.
    pub fn create(point: CapturePoint, quaff: &Path, queues: u32) -> Result<Self> {
        let lab = Lab::create(&LabPlan { layout: point.layout(), queues, ..LabPlan::default() })?;
        let mut site = Self { lab, quaff: quaff.to_owned(), point, mirror_port: None };
        if let CapturePoint::Span { mirror_mbps } = point {
            site.mirror_port = Some(site.middle()?.run(|| MirrorPort::limit(MIRROR_IF, mirror_mbps))??);
        }
        Ok(site)
    }

    /// The namespace between the two ends.
    fn middle(&self) -> Result<&Netns> {
        self.lab.mid.as_ref().ok_or_else(no_line)
    }

    fn far(&self) -> Result<&Netns> {
        self.lab.far.as_ref().ok_or_else(no_line)
    }

    /// The namespace of the capturer.
    fn netns(&self) -> Result<&Netns> {
        match self.point {
            CapturePoint::Port => self.far(),
            CapturePoint::Span { .. } => Ok(&self.lab.rx),
            CapturePoint::Tap => self.middle(),
        }
    }

    fn read(&self) -> Result<Counts> {
        let offered = self.middle()?.run(received_by_ports)??;
        let mirror_dropped = self.mirror_port.as_ref().map(MirrorPort::dropped);
        let received = |end| self.lab.stats(end).map(|stats| stats.rx_packets);
        let (near, far) = (received(TX)?, received(FAR)?);
        let reached = match self.point {
            CapturePoint::Port => far,
            CapturePoint::Span { .. } => received(RX)?,
            CapturePoint::Tap => offered,
        };
        Ok(Counts { offered, delivered: near + far, reached, mirror_dropped })
    }

    /// The increase of the counters since `before`, once all `sent` frames have arrived or no counter changes any more.
    fn settled(&self, before: Counts, sent: u64) -> Result<Counts> {
        let (mut last, mut changed) = (self.read()?.since(before), Instant::now());
        while !last.are_all(sent) && changed.elapsed() < STILL {
            std::thread::sleep(POLL);
            let now = self.read()?.since(before);
            if now != last {
                (last, changed) = (now, Instant::now());
            }
        }
        Ok(last)
    }
}

impl Counts {
    fn since(self, before: Self) -> Self {
        Self {
            offered: self.offered - before.offered,
            delivered: self.delivered - before.delivered,
            reached: self.reached - before.reached,
            mirror_dropped: self.mirror_dropped.zip(before.mirror_dropped).map(|(now, then)| now - then),
        }
    }

    /// True if all `sent` frames have passed the line and reached the capturer.
    fn are_all(self, sent: u64) -> bool {
        [self.offered, self.delivered, self.reached].iter().all(|frames| *frames >= sent)
    }
}

impl Site for LineSite {
    fn interface(&self) -> &str {
        match self.point {
            CapturePoint::Port => FAR.name,
            CapturePoint::Span { .. } => RX.name,
            CapturePoint::Tap => MIDDLE_IFS[0],
        }
    }

    fn other(&self) -> Option<&str> {
        (self.point == CapturePoint::Tap).then_some(MIDDLE_IFS[1])
    }

    fn command(&self, program: &Path) -> Result<Command> {
        Ok(self.netns()?.command(program)?)
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let facts = |netns: &Netns| netns.run(|| interface_facts(self.interface())).unwrap_or_default();
        self.netns().map(facts).unwrap_or_default()
    }

    fn send(&self, traffic: &Traffic, core: usize, watch: Watch<'_>, look: &mut dyn FnMut()) -> Result<Sent> {
        let parts = match self.point {
            // A sending end does not see frames that bypass its packet sockets.
            CapturePoint::Port => [traffic.clone(), Traffic { count: 0, ..traffic.clone() }],
            CapturePoint::Span { .. } | CapturePoint::Tap => halves(traffic),
        };
        let commands = senders([&self.lab.tx, self.far()?], &self.quaff, parts)?;
        let before = self.read()?;
        let sum = sending::send(commands, Some(core), traffic, watch, look)?;
        let counts = self.settled(before, sum.sent)?;
        let offered = counts.offered.min(sum.sent);
        Ok(Sent {
            offered,
            others: counts.offered - offered,
            receiver_drops: offered.saturating_sub(counts.reached),
            line: Some(LineCounts { delivered: counts.delivered, mirror_dropped: counts.mirror_dropped }),
            ..sum
        })
    }
}

/// Frames received by the ports of the line; to be run in the middle namespace.
fn received_by_ports() -> Result<u64> {
    let mut rtnl = Rtnl::open()?;
    MIDDLE_IFS.iter().try_fold(0, |sum, port| {
        let index = rtnl.link(port)?.index;
        Ok(sum + rtnl.stats(index)?.rx_packets)
    })
}

fn no_line() -> Error {
    Error::Tool { name: "the lab".into(), what: "it has no line between two ends".into() }
}
