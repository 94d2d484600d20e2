//! A replay by two interfaces: frames leave in one order, whichever of the two they leave by.

use quaff_lab::{Lab, RX, TX};
use quaff_os::Stop;
use quaff_os::rtnl::{self, LinkChange, Rtnl, VethEnd, VethPlan};
use quaff_send::{
    Arena, Control, Feed, FrameMeta, LatePolicy, Rate, Ratio, ReplayPlan, ReplayVia, SendError, TxBackend,
    replay,
};
use quaff_testkit::{self as testing, Receiver, test_name};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const FRAMES: u32 = 5000;
const OTHERS: [&str; 2] = ["tx1", "rx1"];

/// Numbered frames, of which some leave by the second interface, alone and in rows.
struct Mixed(u32);

fn out(number: u32) -> u8 {
    u8::from(number.is_multiple_of(3) || number % 100 > 60)
}

impl Feed for Mixed {
    fn begin(&mut self, _: bool) -> Result<(), SendError> {
        Ok(())
    }

    fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
        while self.0 < FRAMES {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
            frame.extend(self.0.to_be_bytes());
            frame.resize(60 + self.0 as usize % 1000, 0);
            let meta = FrameMeta { out: out(self.0), wire_len: frame.len() as u32, ..FrameMeta::default() };
            if !arena.push(&frame, meta) {
                return Ok(true);
            }
            self.0 += 1;
        }
        Ok(false)
    }
}

/// Adds a second link to a lab.
fn add_link(lab: &Lab) {
    let end = |name, netns, mac| VethEnd { name, netns, mac };
    let ends = [
        end(OTHERS[0], lab.tx.as_fd(), [2, 0, 0, 0, 1, 1]),
        end(OTHERS[1], lab.rx.as_fd(), [2, 0, 0, 0, 1, 2]),
    ];
    let mut rtnl = Rtnl::open().expect("a socket");
    rtnl.create_veth(&VethPlan { ends, mtu: lab.mtu, queues: 1 }).expect("a link");
    for (netns, name) in [(&lab.tx, OTHERS[0]), (&lab.rx, OTHERS[1])] {
        let up = || {
            let mut rtnl = Rtnl::open()?;
            let index = rtnl.link(name)?.index;
            rtnl.change(index, LinkChange::Up(true))
        };
        netns.run(up).expect("a thread in the namespace").expect("switched on");
    }
    let begun = Instant::now();
    let is_running = || rtnl::link(OTHERS[0]).expect("a link").running;
    while !lab.tx.run(is_running).expect("a thread in the namespace") {
        assert!(begun.elapsed() < Duration::from_secs(5), "the link does not come up");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Arrival time, ns, and number of each frame.
fn received(receiver: Receiver, count: usize) -> Vec<(u64, u32)> {
    let number = |frame: &[u8]| u32::from_be_bytes([frame[14], frame[15], frame[16], frame[17]]);
    let ours = receiver.frames(count).into_iter().filter(|(_, frame)| frame[12..14] == [0x88, 0xb5]);
    ours.map(|(time_ns, frame)| (time_ns, number(&frame))).collect()
}

fn plan(via: ReplayVia, rate: Rate) -> ReplayPlan {
    ReplayPlan {
        via,
        interface: TX.name.to_owned(),
        interface2: Some(OTHERS[0].to_owned()),
        rate,
        gap_max: None,
        loops: Some(1),
        unique_ip: false,
        limit: None,
        duration: None,
        late: LatePolicy::Burst,
        stepwise: false,
        core: None,
        memory_bytes: 64 << 20,
    }
}

#[test]
fn frames_leave_in_one_order_by_whichever_interface() {
    let Some(lab) = testing::lab(test_name!()) else { return };
    add_link(&lab);
    let paced = Rate::Frames(Ratio { num: 50_000, den: 1 });
    for (kind, rate) in [
        (TxBackend::Sendmmsg, Rate::Topspeed),
        (TxBackend::Sendmmsg, paced),
        (TxBackend::SendmmsgQdisc, Rate::Topspeed),
        (TxBackend::TxRing, Rate::Topspeed),
        (TxBackend::AfXdp, Rate::Topspeed),
    ] {
        let receivers = [RX.name, OTHERS[1]].map(|name| Receiver::at(&lab, name));
        let plan = plan(ReplayVia::User(kind), rate);
        let replay = || {
            replay(&plan, Box::new(Mixed(0)), Stop::default(), |_, wait| {
                std::thread::sleep(wait.min(Duration::from_millis(5)));
                Control::Go
            })
        };
        let report = match lab.tx.run(replay).expect("a thread in the namespace") {
            Err(SendError::Os(error)) if testing::is_refusal(&error) => {
                testing::skip("frames_leave_in_one_order: AF_XDP", &error.to_string());
                continue;
            }
            report => report.expect("a report"),
        };
        let second = (0..FRAMES).filter(|number| out(*number) == 1).count();
        let counts = [FRAMES as usize - second, second];
        assert_eq!((report.sent, report.confirmed), (FRAMES.into(), FRAMES.into()), "{kind:?}: {report:?}");
        assert!(report.agrees(), "{kind:?}: {report:?}");
        let mut all = Vec::new();
        for ((which, receiver), count) in (0..).zip(receivers).zip(counts) {
            assert_eq!(report.interfaces[usize::from(which)].sent, count as u64, "{kind:?}: {report:?}");
            let frames = received(receiver, count);
            assert_eq!(frames.len(), count, "{kind:?}");
            assert!(frames.iter().all(|(_, number)| out(*number) == which), "{kind:?}");
            all.extend(frames);
        }
        all.sort_by_key(|(time_ns, number)| (*time_ns, *number));
        let in_order = all.iter().map(|(_, number)| *number).eq(0..FRAMES);
        assert!(in_order, "{kind:?}: {:?}", all.windows(2).find(|pair| pair[1].1 < pair[0].1));
    }
}

#[test]
fn ways_in_the_kernel_have_one_interface() {
    let Some(lab) = testing::lab(test_name!()) else { return };
    add_link(&lab);
    let plan = plan(ReplayVia::XdpRedirect, Rate::Topspeed);
    let replay = || replay(&plan, Box::new(Mixed(0)), Stop::default(), |_, _| Control::Stop);
    let error = lab.tx.run(replay).expect("a thread in the namespace").expect_err("refused");
    assert!(error.to_string().contains("user-space `via`"), "{error}");
}
