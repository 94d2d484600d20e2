//! The two ends of a path, in a lab or on existing interfaces, and the trials between them. Dropping the session
//! removes the labs that it created.

use super::events::Events;
use super::line_tap::LineTap;
use super::plan::{Host, Path, Plan, Routed};
use super::prober::{Ask, Over, Prober};
use super::result::{Report, TapDirection};
use super::run::{Context, run_over};
use crate::experiment::Machine;
use crate::trial;
use crate::trial::Progress;
use crate::trial::TrialReport;
use crate::trial::{Direction, PathEnd, Route, StreamPlan, TrialPlan};
use crate::{Error, Result};
use quaff_lab::{FAR, Lab, LabPlan, Layout, MTU_MAX, ROUTED, RX, TX, interface_facts};
use quaff_os::ethtool::Card;
use quaff_os::{Errno, Netns, cpu, rtnl};
use quaff_wire::printable::quote;

/// `ARPHRD_ETHER` (linux/if_arp.h).
const ARPHRD_ETHER: u16 = 1;
/// Most namespaces that are searched for an interface, and most of those that have it in an error.
const NAMESPACES_MAX: usize = 256;
const NAMESPACES_NAMED: usize = 8;
/// Drivers of links without a real speed: they report an invented one (veth: 10000 Mbit/s).
const VIRTUAL: [&str; 5] = ["veth", "tun", "bridge", "dummy", "macvlan"];

const QUAFF_TAP: &str = "two network namespaces, joined by 'quaff tap', which records";

/// An open path.
#[derive(Debug)]
pub(super) struct Session {
    path: Line,
    null: Option<Line>,
    cores: Cores,
    link_mbps: Option<f64>,
    /// True if arrival times come from the card's clock.
    hardware_time: bool,
    /// Description of the path in reports.
    between: &'static str,
    /// The tap in the path of a lab.
    tap: Option<LineTap>,
    /// The labs of the path; removed on drop.
    labs: Vec<Lab>,
}

/// Two connected ports.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    from: PathEnd,
    to: PathEnd,
    routed: Option<Routed>,
}

/// Cores of `[sender, meter]` for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cores {
    there: [usize; 2],
    back: [usize; 2],
}

/// Runs a whole plan over its own path. An interrupted test returns the results measured so far.
///
/// # Errors
/// The path cannot be opened, the plan is invalid, or nothing could be measured.
pub fn run(plan: &Plan, context: &Context, events: &mut dyn Events) -> Result<Report> {
    let mut session = Session::open(&plan.path, context.null.as_ref(), context.quaff.as_deref())?
        .with_hardware_time(plan.hardware_time);
    run_over(plan, context, &mut session, events)
}

impl Session {
    /// Opens a path. `null` names two directly connected ports for the calibration of existing interfaces; a lab has
    /// its own. `quaff` is the executable of a lab's tap.
    ///
    /// # Errors
    /// No lab can be created; an interface does not exist, is not Ethernet, or has no link.
    pub(super) fn open(
        path: &Path,
        null: Option<&[PathEnd; 2]>,
        quaff: Option<&std::path::Path>,
    ) -> Result<Self> {
        let (line, own_null, labs) = match path {
            Path::Link => {
                let (line, lab) = pair()?;
                (line.clone(), Some(line), vec![lab])
            }
            Path::Bridge => through(Layout::Bridge)?,
            Path::Tap if quaff.is_some() => through(Layout::Apart)?,
            Path::Tap => through(Layout::Tap)?,
            Path::Router => {
                let (line, null, labs) = through(Layout::Router)?;
                (Line { routed: Some(lab_routed()), ..line }, null, labs)
            }
            Path::Between { from, to, routed } => {
                (Line { routed: *routed, ..Line::bare(from.clone(), to.clone()) }, None, Vec::new())
            }
        };
        let null = match null {
            Some([from, to]) => Some(Line::bare(from.clone(), to.clone())),
            None => own_null,
        };
        line.check()?;
        null.iter().try_for_each(Line::check)?;
        let link_mbps = line.mbps();
        let mid = labs.first().and_then(|lab| lab.mid.as_ref()).filter(|_| *path == Path::Tap);
        let tap = quaff.zip(mid).map(|(quaff, mid)| LineTap::start(quaff, mid)).transpose()?;
        let between = if tap.is_some() { QUAFF_TAP } else { words_between(path) };
        let cores = Cores::of(&cpu::allowed()?);
        Ok(Self { path: line, null, cores, link_mbps, hardware_time: false, between, tap, labs })
    }

    /// Takes arrival times from the receiving card.
    pub(super) fn with_hardware_time(self, hardware_time: bool) -> Self {
        Self { hardware_time, ..self }
    }

    /// Names an end in reports, without generated namespace names.
    fn show(&self, end: &PathEnd) -> String {
        if self.labs.is_empty() { end.to_string() } else { end.interface.clone() }
    }
}

impl Prober for Session {
    fn trial(&mut self, ask: &Ask, watch: &mut dyn FnMut(&Progress) -> bool) -> Result<TrialReport> {
        let line = match ask.over {
            Over::Path => &self.path,
            Over::Null => self.null.as_ref().ok_or_else(no_null)?,
        };
        Ok(trial::run(&trial_plan(line, &self.cores, self.hardware_time, ask), watch)?)
    }

    fn has_null(&self) -> bool {
        self.null.is_some()
    }

    fn link_mbps(&self) -> Option<f64> {
        self.link_mbps
    }

    fn machine(&self) -> Machine {
        let mut machine = Machine::here(std::path::Path::new("/"));
        // Nothing is written but the report.
        machine.facts.remove("disk");
        for (role, end) in [("from", &self.path.from), ("to", &self.path.to)] {
            let facts = within(end, || interface_facts(&end.interface)).unwrap_or_default();
            let shown = self.show(end);
            machine.facts.extend(facts.into_iter().map(|(name, value)| {
                let what = name.strip_prefix(&end.interface).unwrap_or(&name).trim_start();
                (format!("{role} {shown}, {what}"), value)
            }));
        }
        let Cores { there: [tx, rx], back: [back_tx, back_rx] } = self.cores;
        machine.facts.insert("path".into(), self.between.into());
        machine.facts.insert("sends on core".into(), format!("{tx}; back {back_tx}"));
        machine.facts.insert("receives on core".into(), format!("{rx}; back {back_rx}"));
        machine
    }

    fn end_tap(&mut self) -> Result<Vec<TapDirection>> {
        self.tap.take().map_or_else(|| Ok(Vec::new()), LineTap::finish)
    }

    fn notes(&self) -> Vec<String> {
        if self.labs.is_empty() {
            return Vec::new();
        }
        let note = "The path is a lab on this machine: the core that sends a frame also forwards it, and the path is \
                    never offered more than that core can process.";
        vec![note.to_owned()]
    }
}

impl Line {
    fn bare(from: PathEnd, to: PathEnd) -> Self {
        Self { from, to, routed: None }
    }

    /// The routes of both directions.
    fn routes(&self) -> [Option<Route>; 2] {
        let way = |from: Host, to: Host| Route {
            src_ip: from.ip,
            dst_ip: to.ip,
            next_hop: from.gateway,
            last_hop: to.gateway,
        };
        self.routed.map_or([None; 2], |Routed { from, to }| [Some(way(from, to)), Some(way(to, from))])
    }

    fn check(&self) -> Result<()> {
        if self.from == self.to {
            return Err(unfit(&self.from, "both ends of the path are this interface"));
        }
        usable(&self.from)?;
        usable(&self.to)
    }

    /// Speed of the slower end; `None` if either is unknown.
    fn mbps(&self) -> Option<f64> {
        let speed = |end: &PathEnd| within(end, || speed_mbps(&end.interface)).ok().flatten();
        Some(f64::from(speed(&self.from)?.min(speed(&self.to)?)))
    }
}

impl Cores {
    /// Uses four different cores if there are four. With two, each sends one direction and receives the other: a sender
    /// that waits by spinning leaves no room for a second sender.
    fn of(allowed: &[usize]) -> Self {
        match *allowed {
            [] => Self { there: [0, 0], back: [0, 0] },
            [one] => Self { there: [one, one], back: [one, one] },
            [one, two] => Self { there: [one, two], back: [two, one] },
            [one, two, three] => Self { there: [one, two], back: [three, two] },
            [one, two, three, four, ..] => Self { there: [one, two], back: [three, four] },
        }
    }
}

/// The trial plan of `ask` over `line`.
fn trial_plan(line: &Line, cores: &Cores, hardware_time: bool, ask: &Ask) -> TrialPlan {
    let [route, route_back] = line.routes();
    let direction =
        |[from, to]: [&PathEnd; 2], route, streams: &[StreamPlan], [tx, rx]: [usize; 2]| Direction {
            from: from.clone(),
            to: to.clone(),
            streams: streams.to_vec(),
            route,
            tx_core: Some(tx),
            rx_core: Some(rx),
        };
    let both = [
        direction([&line.from, &line.to], route, &ask.there, cores.there),
        direction([&line.to, &line.from], route_back, &ask.back, cores.back),
    ];
    TrialPlan {
        directions: both.into_iter().filter(|way| !way.streams.is_empty()).collect(),
        residual_s: ask.residual_s,
        is_by_second: ask.is_by_second,
        hardware_time,
    }
}

/// Creates a lab of two directly connected ends.
fn pair() -> Result<(Line, Lab)> {
    let lab = lab(Layout::Pair)?;
    let line = Line::bare(end(&lab.tx, TX.name), end(&lab.rx, RX.name));
    Ok((line, lab))
}

/// Creates a lab with a device between its two ends, and a second lab with a plain link for the null calibration.
fn through(layout: Layout) -> Result<(Line, Option<Line>, Vec<Lab>)> {
    let lab = lab(layout)?;
    let far =
        lab.far.as_ref().ok_or_else(|| Error::Place(format!("the lab {} has no second end", lab.name)))?;
    let line = Line::bare(end(&lab.tx, TX.name), end(far, FAR.name));
    let (null, bare) = pair()?;
    Ok((line, Some(null), vec![lab, bare]))
}

/// Addresses of both ends of a lab with a router.
fn lab_routed() -> Routed {
    let [from, to] = ROUTED.map(|(gateway, ip)| Host { ip, gateway });
    Routed { from, to }
}

fn lab(layout: Layout) -> Result<Lab> {
    Lab::create(&LabPlan { layout, mtu: MTU_MAX, ..LabPlan::default() })
}

fn end(netns: &Netns, interface: &str) -> PathEnd {
    PathEnd { netns: Some(netns.name.clone()), interface: interface.to_owned() }
}

/// Runs `work` in the end's namespace.
fn within<T: Send>(end: &PathEnd, work: impl FnOnce() -> T + Send) -> Result<T> {
    Ok(match &end.netns {
        None => work(),
        Some(name) => Netns::open(name)?.run(work)?,
    })
}

/// Checks that frames can be sent and received at `end`.
fn usable(end: &PathEnd) -> Result<()> {
    let found = within(end, || rtnl::link(&end.interface))?;
    let link = found.map_err(|error| with_namespaces(end, error))?;
    if !link.up {
        Err(unfit(end, &format!("it is down; 'ip link set dev {} up' brings it up", quote(&link.name))))
    } else if !link.running {
        Err(unfit(end, "it has no link: no carrier"))
    } else if link.arphrd != ARPHRD_ETHER {
        Err(unfit(end, "it is not an Ethernet interface, and service tests send Ethernet frames"))
    } else {
        Ok(())
    }
}

/// The error on an interface that does not exist, with the namespaces that have one of its name.
fn with_namespaces(end: &PathEnd, error: quaff_os::Error) -> quaff_os::Error {
    if error.raw() != Errno::ENODEV as i32 {
        return error;
    }
    let interface = &end.interface;
    let is_in = |name: &String| {
        let link = Netns::open(name).and_then(|netns| netns.run(|| rtnl::link(interface))?);
        Some(name) != end.netns.as_ref() && link.is_ok()
    };
    let names = Netns::names().into_iter().take(NAMESPACES_MAX).filter(is_in).take(NAMESPACES_NAMED);
    let found: Vec<_> = names.map(|name| format!("{name}/{interface}")).collect();
    match found.is_empty() {
        true => error,
        false => error.advise(format!("it is in another network namespace: write {}", found.join(" or "))),
    }
}

fn speed_mbps(interface: &str) -> Option<u32> {
    let card = Card::read(interface);
    let driver = card.driver.ok().flatten().unwrap_or_default();
    if VIRTUAL.contains(&driver.as_str()) { None } else { card.speed_mbps.ok().flatten() }
}

fn words_between(path: &Path) -> &'static str {
    match path {
        Path::Link => "two network namespaces, joined by a link",
        Path::Bridge => "two network namespaces, joined by a bridge",
        Path::Tap => "two network namespaces, joined by a tap that shows both directions to a third",
        Path::Router => "two network namespaces, joined by a router",
        Path::Between { routed: Some(_), .. } => "between existing interfaces, through a router",
        Path::Between { .. } => "between existing interfaces",
    }
}

fn unfit(end: &PathEnd, what: &str) -> Error {
    Error::End { end: end.to_string(), what: what.to_owned() }
}

fn no_null() -> Error {
    Error::Place("there is no plain link between two ends for a null calibration".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Length, Phase};

    fn stream(id: u16) -> StreamPlan {
        let phases = vec![Phase { length: Length::Frames(10), pps: Some(100.0) }];
        StreamPlan { id, sizes: vec![60], phases, vlan: None, dscp: 0 }
    }

    fn at(netns: &str, interface: &str) -> PathEnd {
        PathEnd { netns: Some(netns.into()), interface: interface.into() }
    }

    #[test]
    fn a_direction_without_streams_is_left_out() {
        let line = Line::bare(at("a", "x"), at("b", "y"));
        let cores = Cores::of(&[4, 6]);
        let ask = |there, back| Ask { over: Over::Path, there, back, residual_s: 0.5, is_by_second: true };
        let plan = trial_plan(&line, &cores, false, &ask(vec![stream(1)], vec![stream(2)]));
        let ways: Vec<_> =
            plan.directions.iter().map(|way| (way.from.to_string(), way.to.to_string())).collect();
        assert_eq!(ways, [("a/x".into(), "b/y".into()), ("b/y".into(), "a/x".to_owned())]);
        let cores_of = |way: &Direction| (way.tx_core, way.rx_core);
        let used: Vec<_> = plan.directions.iter().map(cores_of).collect();
        assert_eq!(used, [(Some(4), Some(6)), (Some(6), Some(4))]);
        assert_eq!((plan.residual_s, plan.is_by_second), (0.5, true));
        let plan = trial_plan(&line, &cores, false, &ask(Vec::new(), vec![stream(2)]));
        assert_eq!((plan.directions.len(), plan.directions[0].streams[0].id), (1, 2));
    }

    #[test]
    fn cores_are_different_ones_as_long_as_there_are_some() {
        let of = |allowed: &[usize]| {
            let Cores { there, back } = Cores::of(allowed);
            [there, back].concat()
        };
        assert_eq!(of(&[3]), [3, 3, 3, 3]);
        assert_eq!(of(&[0, 1]), [0, 1, 1, 0]);
        assert_eq!(of(&[0, 1, 2]), [0, 1, 2, 1]);
        assert_eq!(of(&[2, 3, 5, 7, 8]), [2, 3, 5, 7]);
    }

    #[test]
    fn an_end_that_will_not_do_is_refused_with_its_reason() {
        let end = |interface: &str| PathEnd { netns: None, interface: interface.into() };
        let refused = |from: &str, to: &str| {
            let path = Path::Between { from: end(from), to: end(to), routed: None };
            Session::open(&path, None, None).expect_err("refused").to_string()
        };
        assert!(refused("lo", "lo").contains("both ends"), "{}", refused("lo", "lo"));
        assert!(refused("no-such0", "lo").contains("no-such0"), "{}", refused("no-such0", "lo"));
        let missing = Path::Between { from: at("no-such-namespace", "x"), to: end("lo"), routed: None };
        let said = Session::open(&missing, None, None).expect_err("refused").to_string();
        assert!(said.contains("no-such-namespace"), "{said}");
    }
}
