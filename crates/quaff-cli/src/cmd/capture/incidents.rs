//! Messages about incidents while a capture runs: links that go down or away, XDP programs that another program takes
//! off, queues without a lane, losses, a file that another process removes. Each is reported when it begins and, if it
//! can, when it has ended. This module reads gauges; the verdict is the ledger's.

use super::report::{loss_places, target};
use crate::shell::Incident;
use quaff::format::clause;
use quaff::plan::CapturePlan;
use quaff::{LaneGauges, Status};
use std::time::{Duration, Instant};

/// A loss has ended after this time without another lost packet.
const QUIET: Duration = Duration::from_secs(5);

/// The incidents of a capture, as far as they were reported.
pub(super) struct Incidents {
    /// Of each lane; `None` if another lane of the interface reports it.
    links: Vec<Option<Link>>,
    /// Of each lane: the first three of [`loss_places`].
    losses: Vec<[Loss; 3]>,
    on_disk: Loss,
    output: String,
    /// The descriptor, plus one, of a removed file that was reported.
    removed_file: u64,
    /// Interfaces without a lane that were reported.
    missed: usize,
}

impl Incidents {
    pub(super) fn new(plan: &CapturePlan) -> Self {
        let (names, lanes, places) = (plan.input.lane_names(), plan.input.lanes(), loss_places());
        // The first lane of an interface reports its link.
        let interface =
            |(at, lane): (usize, usize)| (lane == 0).then(|| plan.input.interfaces[at].name.clone());
        let links = plan.input.places().into_iter().map(interface);
        let place = |lane: usize, place: usize| {
            let of = names.get(lane).map(|name| format!("{name}: ")).unwrap_or_default();
            Loss::new(of, &places[place])
        };
        Self {
            losses: (0..lanes).map(|lane| [0, 1, 2].map(|of| place(lane, of))).collect(),
            // Spare lanes have no names yet.
            links: links
                .chain(std::iter::repeat(Some(String::new())))
                .take(lanes)
                .map(|name| name.map(Link::new))
                .collect(),
            on_disk: Loss::new(String::new(), &places[3]),
            output: target(plan),
            removed_file: 0,
            missed: 0,
        }
    }

    /// Returns what has happened since the last call.
    pub(super) fn look(&mut self, status: &Status, now: Instant) -> Vec<Incident> {
        let mut found = Vec::new();
        let links = self.links.iter_mut().zip(&mut self.losses).zip(&status.lanes);
        let mut links: Vec<_> =
            links.filter_map(|((link, losses), lane)| Some((link.as_mut()?, losses, lane))).collect();
        let left = links
            .iter()
            .filter(|(_, _, lane)| lane.removed_ns.get() == 0 && lane.displaced.get().is_none())
            .count();
        for (link, losses, lane) in links.iter_mut().filter(|(link, ..)| link.name.is_empty()) {
            let Some(name) = lane.came.get() else { continue };
            link.name.clone_from(name);
            losses.iter_mut().for_each(|loss| loss.of = format!("{name}: "));
            found.push(Incident::note(format!("{name} came, and is captured from now on")));
        }
        let missed = status.missed.since(self.missed);
        self.missed += missed.len();
        found.extend(missed.into_iter().map(Incident::severe));
        for (link, _, lane) in links {
            found.extend(link.look(lane, left));
        }
        for (losses, lane) in self.losses.iter_mut().zip(&status.lanes) {
            let counts = [lane.nic_dropped.get(), lane.kernel_dropped.get(), lane.lost.get()];
            found.extend(losses.iter_mut().zip(counts).filter_map(|(loss, count)| loss.look(count, now)));
        }
        found.extend(self.look_at_file(status.writer.removed_file.get()));
        found.extend(self.on_disk.look(status.writer.lost.get(), now));
        found
    }

    /// `file` is a descriptor plus one, or 0.
    fn look_at_file(&mut self, file: u64) -> Option<Incident> {
        let is_new = file > 0 && file != self.removed_file;
        self.removed_file = file;
        let (output, descriptor, process) = (&self.output, file.saturating_sub(1), std::process::id());
        is_new.then(|| {
            Incident::severe(format!(
                "the file that is being written was removed ({output}): its packets are lost when it is closed, at the \
                 latest when the capture ends; until then root can copy them: \
                 cp /proc/{process}/fd/{descriptor} saved.pcapng"
            ))
        })
    }
}

/// The link of an interface, as it was reported last.
struct Link {
    name: String,
    downs: u64,
    down_since_ns: u64,
    down_ns: u64,
    has_ended: bool,
    has_added_queues: bool,
}

impl Link {
    fn new(name: String) -> Self {
        Self { name, downs: 0, down_since_ns: 0, down_ns: 0, has_ended: false, has_added_queues: false }
    }

    /// `left` is the number of interfaces that still exist.
    fn look(&mut self, lane: &LaneGauges, left: usize) -> Option<Incident> {
        let name = &self.name;
        let end = match lane.displaced.get() {
            Some(words) => Some(format!("{name}: {words}")),
            None => (lane.removed_ns.get() > 0).then(|| format!("{name} was removed")),
        };
        if let Some(end) = end {
            let rest = if left > 0 { "; the capture of the others continues" } else { "" };
            let is_new = !std::mem::replace(&mut self.has_ended, true);
            return is_new.then(|| Incident::severe(end + rest));
        }
        let added = lane.added_queues.get();
        if added > 0 && !std::mem::replace(&mut self.has_added_queues, true) {
            let words = "were added without a lane: their packets are not captured; restore the number with 'ethtool -L', \
                         or start the capture again";
            return Some(Incident::severe(format!("{name}: {}", clause(added, "receive queue", words))));
        }
        let (downs, since_ns) = (lane.downs.get(), lane.down_since_ns.get());
        let has_gone_down = downs > std::mem::replace(&mut self.downs, downs);
        let before_ns = std::mem::replace(&mut self.down_since_ns, since_ns);
        // By the lane, as in the report: this look may be seconds late.
        let down_ns = lane.down_ns.get();
        let seconds = (down_ns - self.down_ns) as f64 / 1e9;
        if since_ns == 0 {
            self.down_ns = down_ns;
        }
        match (before_ns, since_ns) {
            (0, 0) if has_gone_down && seconds < 0.05 => {
                Some(Incident::note(format!("{name} was down for a moment")))
            }
            (0, 0) if has_gone_down => Some(Incident::note(format!("{name} was down for {seconds:.1} s"))),
            (0, 0) => None,
            (0, _) => Some(Incident::note(format!("{name} is down"))),
            (_, 0) => Some(Incident::note(format!("{name} is up again after {seconds:.1} s"))),
            _ => None,
        }
    }
}

/// A counter of lost packets.
struct Loss {
    /// The interface, if it is of one.
    of: String,
    place: String,
    count: u64,
    current: Option<CurrentLoss>,
}

/// A loss that has not ended.
struct CurrentLoss {
    begun: Instant,
    last: Instant,
    /// The counter at its beginning.
    before: u64,
}

impl Loss {
    fn new(of: String, place: &str) -> Self {
        Self { of, place: place.to_owned(), count: 0, current: None }
    }

    fn look(&mut self, count: u64, now: Instant) -> Option<Incident> {
        let before = std::mem::replace(&mut self.count, count);
        let (of, place) = (&self.of, self.place.as_str());
        match &mut self.current {
            None if count > before => {
                self.current = Some(CurrentLoss { begun: now, last: now, before });
                Some(Incident::note(format!("{of}packets are being lost {place}")))
            }
            Some(current) if count > before => {
                current.last = now;
                None
            }
            Some(current) if now.duration_since(current.last) >= QUIET => {
                let (packets, time) = (count - current.before, current.last - current.begun);
                self.current = None;
                let (packets, seconds) = (crate::show::number_of(packets, "packet"), time.as_secs_f64());
                let place = place.split(" (").next().unwrap_or(place);
                Some(Incident::note(format!("{of}lost {packets} {place} in {seconds:.1} s, none since")))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(found: impl IntoIterator<Item = Incident>) -> Vec<String> {
        found.into_iter().map(|incident| incident.words().to_owned()).collect()
    }

    #[test]
    fn a_loss_is_reported_when_it_begins_and_when_it_has_ended() {
        let mut loss = Loss::new("eth0: ".into(), &loss_places()[1]);
        let start = Instant::now();
        let mut look = |count, seconds| words(loss.look(count, start + Duration::from_secs(seconds)));
        assert!(look(0, 0).is_empty());
        let begins = look(10, 1);
        assert!(
            begins[0].starts_with("eth0: packets are being lost in the kernel's ring (raise"),
            "{begins:?}"
        );
        assert!(
            look(500, 3).is_empty() && look(1010, 5).is_empty() && look(1010, 9).is_empty(),
            "it continues"
        );
        assert_eq!(look(1010, 10), ["eth0: lost 1,010 packets in the kernel's ring in 4.0 s, none since"]);
        assert!(look(1010, 100).is_empty());
        assert_eq!(look(1011, 101).len(), 1, "another one");
    }

    #[test]
    fn a_link_is_reported_when_it_changes() {
        let (mut link, lane) = (Link::new("eth0".into()), LaneGauges::default());
        let mut look = || words(link.look(&lane, 1));
        assert!(look().is_empty());
        lane.downs.set(1);
        lane.down_since_ns.set(1_000_000_000);
        assert_eq!(look(), ["eth0 is down"]);
        assert!(look().is_empty());
        // The sum of the lane, whenever this look comes.
        lane.down_ns.set(400_000_000);
        lane.down_since_ns.set(0);
        assert_eq!(look(), ["eth0 is up again after 0.4 s"]);
        lane.downs.set(2);
        lane.down_ns.set(700_000_000);
        assert_eq!(look(), ["eth0 was down for 0.3 s"]);
        lane.added_queues.set(1);
        assert!(look()[0].starts_with("eth0: 1 receive queue was added without a lane: "));
        assert!(look().is_empty(), "reported once");
        lane.removed_ns.set(9);
        assert_eq!(look(), ["eth0 was removed; the capture of the others continues"]);
        assert!(look().is_empty());
    }
}
