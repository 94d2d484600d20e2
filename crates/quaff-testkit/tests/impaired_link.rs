//! The device between two ends of a lab: what it says it does to frames, and what arrives.

use quaff_lab::{FAR, Lab, LabPlan, Layout, MIDDLE_IFS, TX};
use quaff_os::clock::{sleep_until, steady_ns, wall_ns};
use quaff_os::packet::{Qdisc, TxSocket};
use quaff_os::rtnl::link;
use quaff_os::testing::assert_when_quiet;
use quaff_os::{Netns, cpu};
use quaff_testkit::impaired_link::{Bucket, Counts, ImpairedLink, ImpairedLinkPlan, Outage, Rules};
use quaff_testkit::{Receiver, lab_of, test_name};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Two cores: one lab at a time.
static TURN: Mutex<()> = Mutex::new(());
const HEAD: [u8; 14] = [2, 0x71, 0x75, 0, 0, 3, 2, 0x71, 0x75, 0, 0, 1, 0x88, 0xb5];

struct Path {
    lab: Lab,
    _turn: MutexGuard<'static, ()>,
}

impl Path {
    fn new(test: &str) -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let lab = lab_of(test, &LabPlan { layout: Layout::Apart, ..LabPlan::default() })?;
        Some(Self { lab, _turn: turn })
    }

    fn far(&self) -> &Netns {
        self.lab.far.as_ref().expect("a second end")
    }

    fn forwarder(&self, there: Rules) -> ImpairedLink {
        let core = cpu::allowed().expect("cores").last().copied();
        let plan = ImpairedLinkPlan { there, core, ..ImpairedLinkPlan::default() };
        ImpairedLink::start(self.lab.mid.as_ref().expect("a middle"), MIDDLE_IFS, &plan).expect("it starts")
    }

    /// Sends numbered frames at even distances; what came of them, and what the device says.
    fn send(&self, there: Rules, frames: u32, pps: u64) -> (Vec<Came>, Counts) {
        let forwarder = self.forwarder(there);
        let receiver = Receiver::within(self.far(), FAR.name);
        let sender = sender(&self.lab.tx, TX.name);
        let first_ns = steady_ns() + 1_000_000;
        for number in 0..frames {
            sleep_until(first_ns + u64::from(number) * 1_000_000_000 / pps);
            sender.send_one(&frame(number)).expect("sent");
        }
        let [counts, back] = forwarder.stop().expect("it worked");
        assert_eq!(counts.received, u64::from(frames), "{counts:?}");
        assert_eq!((counts.missed, back), (0, Counts::default()));
        let lost = counts.in_outage + counts.dropped + counts.overflowed;
        assert_eq!((counts.received, counts.sent), (lost + counts.passed, counts.passed + counts.duplicated));
        let came: Vec<_> = receiver.frames(counts.sent as usize).into_iter().map(Came::new).collect();
        assert_eq!(came.len() as u64, counts.sent, "{counts:?}");
        (came, counts)
    }
}

/// A frame at the far end.
struct Came {
    number: u32,
    delay_ns: u64,
    time_ns: u64,
}

impl Came {
    fn new((time_ns, bytes): (u64, Vec<u8>)) -> Self {
        let number = u32::from_be_bytes(bytes[14..18].try_into().expect("four bytes"));
        let sent_ns = u64::from_be_bytes(bytes[18..26].try_into().expect("eight bytes"));
        Self { number, delay_ns: time_ns.saturating_sub(sent_ns), time_ns }
    }
}

fn sender(netns: &Netns, interface: &str) -> TxSocket {
    netns
        .run(|| TxSocket::open(link(interface).expect("it is there").index, "the end", Qdisc::Through))
        .expect("entered")
        .expect("open")
}

fn frame(number: u32) -> Vec<u8> {
    let mut frame = [HEAD.as_slice(), &number.to_be_bytes(), &wall_ns().to_be_bytes()].concat();
    frame.resize(100, 0x5a);
    frame
}

#[test]
fn each_frame_meets_the_fate_of_its_number() {
    let Some(path) = Path::new(test_name!()) else { return };
    let rules = Rules {
        drop_every: 10,
        duplicate_every: 7,
        delay_every: 100,
        delay: Duration::from_millis(30),
        ..Rules::default()
    };
    let run = || {
        let (came, counts) = path.send(rules.clone(), 1000, 5000);
        assert_eq!((counts.dropped, counts.passed, counts.duplicated, counts.delayed), (100, 900, 128, 9));
        let mut copies = BTreeMap::<u32, u32>::new();
        came.iter().for_each(|came| *copies.entry(came.number).or_default() += 1);
        let passed = (0..1000).filter(|number| number % 10 != 9);
        let expected: BTreeMap<_, _> =
            passed.zip(1..).map(|(number, nth)| (number, 1 + u32::from(nth % 7 == 0))).collect();
        assert_eq!(copies, expected);
        let mut overtaken = overtaken(&came);
        assert_eq!(overtaken.len() as u64, counts.overtaken, "{overtaken:?}");
        overtaken.dedup();
        // Each hundredth that passes, and no others.
        let delayed: Vec<_> = expected.into_keys().skip(99).step_by(100).collect();
        assert!(overtaken.iter().all(|number| delayed.contains(number)), "{overtaken:?} {delayed:?}");
        overtaken.len()
    };
    // No frame follows the last of the nine, and none follows in time where the sender loses its core for 30 ms.
    assert_when_quiet(test_name!(), run, |overtaken| *overtaken == 8);
}

/// Frames that came after one that was sent later.
fn overtaken(came: &[Came]) -> Vec<u32> {
    let mut highest = 0;
    let numbers = came.iter().map(|came| came.number);
    numbers
        .filter(|number| {
            highest = highest.max(*number);
            *number < highest
        })
        .collect()
}

#[test]
fn all_frames_are_held_as_long_as_was_wanted() {
    let Some(path) = Path::new(test_name!()) else { return };
    let sorted_delays = |hold| {
        let (came, counts) = path.send(Rules { hold, ..Rules::default() }, 400, 1000);
        let mut delays_ns: Vec<_> = came.iter().map(|came| came.delay_ns).collect();
        delays_ns.sort_unstable();
        (delays_ns, counts.late_ns)
    };
    for hold_us in [2000, 5000] {
        let run = || {
            let hold = Duration::from_micros(hold_us);
            let (path_ns, _) = sorted_delays(Duration::ZERO);
            let (delays_ns, late_ns) = sorted_delays(hold);
            let hold_ns = hold.as_nanos() as u64;
            assert!(delays_ns[0] >= hold_ns, "a frame was held {} ns too short", hold_ns - delays_ns[0]);
            (hold_us, path_ns[200], delays_ns[200] - hold_ns, late_ns)
        };
        // The path itself, two system calls and two links, takes what this machine needs for it, with and without. By
        // how much the device let frames go late, it counts.
        let test = test_name!();
        assert_when_quiet(test, run, |(_, path_ns, over_ns, late_ns)| {
            *over_ns < path_ns + late_ns[0] + 30_000
        });
    }
}

#[test]
fn an_outage_takes_as_long_as_was_wanted() {
    let Some(path) = Path::new(test_name!()) else { return };
    let outage = Outage { after: Duration::from_millis(100), lasts: Duration::from_millis(200) };
    let run = || {
        let (came, counts) = path.send(Rules { outage: Some(outage), ..Rules::default() }, 500, 1000);
        let gap = came.windows(2).map(|pair| pair[1].number - pair[0].number - 1).max().unwrap_or(0);
        assert_eq!((came.len() as u64, u64::from(gap)), (500 - counts.in_outage, counts.in_outage));
        counts.in_outage
    };
    // One frame each ms.
    assert_when_quiet(test_name!(), run, |lost| lost.abs_diff(200) <= 1);
}

#[test]
fn no_more_than_the_rate_passes() {
    let Some(path) = Path::new(test_name!()) else { return };
    let bucket = Bucket { pps: 2000, burst: 10, queue: 200 };
    let rules = Rules { bucket: Some(bucket), ..Rules::default() };
    let (came, counts) = path.send(rules.clone(), 1500, 3000);
    // Half a second: 1000 tokens, ten that were there, and the device may be late with the first frame.
    let seconds = (came[came.len() - 1].time_ns - came[0].time_ns) as f64 / 1e9;
    let most = (seconds * 2000.0) as u64 + 20;
    assert!(counts.passed <= most && counts.overflowed > 0, "{seconds} s, {counts:?}");
    assert!(came.iter().zip(came.iter().skip(1)).all(|(one, next)| one.number < next.number));
    let (_, counts) = path.send(rules, 500, 1900);
    assert_eq!(counts.overflowed, 0, "{counts:?}");
}

#[test]
fn both_ways_pass_frames_as_they_are() {
    let Some(path) = Path::new(test_name!()) else { return };
    let forwarder = path.forwarder(Rules::default());
    let ends = [(&path.lab.tx, TX.name), (path.far(), FAR.name)];
    // A tag with a priority, two tags, the shortest and the longest frame.
    let tagged = [&HEAD[..12], &[0x81, 0x00, 0xa0, 0x64, 0x88, 0xb5], &[7; 50]].concat();
    let service =
        [&HEAD[..12], &[0x88, 0xa8, 0x20, 0x0a, 0x81, 0x00, 0x00, 0x14, 0x88, 0xb5], &[8; 50]].concat();
    let short = [HEAD.as_slice(), &[1; 46]].concat();
    let mut long = frame(1);
    long.resize(path.lab.mtu as usize + 14, 9);
    let frames = [tagged, service, short, long, frame(2)];
    for [(from, from_if), (to, to_if)] in [[ends[0], ends[1]], [ends[1], ends[0]]] {
        let receiver = Receiver::within(to, to_if);
        let sender = sender(from, from_if);
        frames.iter().for_each(|frame| sender.send_one(frame).expect("sent"));
        assert_eq!(receiver.bytes(frames.len()), frames);
    }
    let [there, back] = forwarder.stop().expect("it worked");
    assert_eq!((there.sent, back.sent, there.received, back.received), (5, 5, 5, 5));
}

#[test]
fn a_missing_interface_is_reported() {
    let Some(path) = Path::new(test_name!()) else { return };
    let mid = path.lab.mid.as_ref().expect("a middle");
    let error =
        ImpairedLink::start(mid, ["a0", "no-such0"], &ImpairedLinkPlan::default()).expect_err("refused");
    assert!(error.to_string().contains("no-such0"), "{error}");
}
