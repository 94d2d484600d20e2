//! Validates a plan, when it is read or created.

use super::{Amount, Find, Plan, Rate, Reading, Sweep, Topology};
use crate::experiment::{check_count, check_seconds, check_seed, check_sizes, check_width, ensure};
use quaff_lab::tool::Setting;
use quaff_lab::traffic::Size;
use quaff_wire::synth::Sizes;

/// Smallest Ethernet frame without its FCS, bytes (IEEE 802.3).
const FRAME_BYTES_MIN: u32 = 60;
/// Largest frame that a link may carry here, bytes.
const FRAME_BYTES_MAX: u32 = 9230;
/// Maximum of simultaneous capturers: more would only measure the scheduler.
const CAPTURERS_MAX: u32 = 64;
const COPIES_MAX: u32 = 100_000;
/// Maximum number of flows; more would show nothing new.
const FLOWS_MAX: u32 = 1_000_000;
/// Lanes of an interface, as of `quaff capture`.
const LANES_MAX: u32 = 64;
/// Maximum rate of a mirror port, Mbit/s.
const MIRROR_MBPS_MAX: u32 = 10_000;
const FRAMES_MAX: f64 = 1e12;
/// Maximum number of passes through a file to read.
const LOOPS_MAX: u32 = 100_000;
const SECONDS_MAX: f64 = 86_400.0;
/// Highest level of zlib.
const LEVEL_MAX: u32 = 9;

impl Plan {
    /// Checks the plan. The error is one sentence that names the fault.
    pub(super) fn check_all(&self) -> Result<(), String> {
        let Plan { rivals, sweeps, finds, .. } = self;
        ensure(!rivals.is_empty(), || "the plan has no capturers to measure".into())?;
        let twice = rivals.iter().enumerate().find(|(at, name)| rivals[..*at].contains(name));
        ensure(twice.is_none(), || format!("{} is named twice", twice.map_or("", |(_, name)| name)))?;
        check_count("each case is run", self.runs)?;
        check_seed(self.seed)?;
        check_bed(self)?;
        let has_work = !sweeps.is_empty() || !finds.is_empty() || !self.readings.is_empty();
        ensure(has_work, || "the plan has nothing to run".into())?;
        self.readings.iter().try_for_each(check_reading)?;
        finds.iter().try_for_each(check_find)?;
        for sweep in sweeps {
            check_sweep(sweep).map_err(|what| match sweep.series.as_str() {
                "" => what,
                series => format!("in the series {series:?}, {what}"),
            })?;
        }
        let parts = sweeps.iter().map(|sweep| &sweep.rivals).chain(finds.iter().map(|find| &find.rivals));
        match parts.flatten().find(|name| !rivals.contains(name)) {
            Some(name) => Err(format!(
                "{name} is measured in a part of the plan, but missing from its list of capturers"
            )),
            None => Ok(()),
        }
    }
}

fn check_bed(plan: &Plan) -> Result<(), String> {
    match &plan.bed {
        Topology::Real { receive_on, .. } => {
            ensure(!receive_on.is_empty(), || "no interface receives".into())
        }
        Topology::Line { mirror_mbps } => {
            ensure((1..=MIRROR_MBPS_MAX).contains(mirror_mbps), || {
                format!("a mirror port has 1 to {MIRROR_MBPS_MAX} Mbit/s, not {mirror_mbps}")
            })?;
            ensure(plan.finds.is_empty(), || {
                "searches need one capture point, and a line has three: choose the bed 'direct', 'span' or 'tap'"
                    .into()
            })
        }
        Topology::Direct | Topology::Span | Topology::Tap => Ok(()),
    }
}

fn check_sweep(sweep: &Sweep) -> Result<(), String> {
    check_sizes(&sweep.sizes, size)?;
    ensure(!sweep.rates.is_empty(), || "there are no rates".into())?;
    sweep.rates.iter().try_for_each(rate)?;
    let (amount, most) = match sweep.amount {
        Amount::Frames(frames) => (frames as f64, FRAMES_MAX),
        Amount::Seconds(seconds) => (seconds, SECONDS_MAX),
    };
    ensure(amount > 0.0, || "a run has no frames".into())?;
    ensure((1..=FLOWS_MAX).contains(&sweep.flows), || {
        format!("1 to {FLOWS_MAX} flows take turns, not {}", sweep.flows)
    })?;
    ensure(amount <= most, || "a run has at most 10^12 frames and lasts at most a day".into())?;
    setting(&sweep.setting)
}

fn check_reading(reading: &Reading) -> Result<(), String> {
    ensure(!reading.readers.is_empty(), || "a file has no readers".into())?;
    ensure((1..=LOOPS_MAX).contains(&reading.loops), || {
        format!("a file that is read has 1 to {LOOPS_MAX} passes, not {}", reading.loops)
    })
}

fn check_find(find: &Find) -> Result<(), String> {
    check_sizes(&find.sizes, size).map_err(|what| format!("in a search, {what}"))?;
    check_seconds(find.seconds)?;
    ensure((0.0..1.0).contains(&find.goal_loss), || {
        format!("the loss of a search is from 0 to below 1, not {}", find.goal_loss)
    })?;
    check_width(find.width)?;
    check_count("a search is repeated", find.repeats.unwrap_or(1))?;
    setting(&find.setting)
}

fn size(size: &Size) -> Result<(), String> {
    match size {
        Size::Bytes(bytes) => ensure((FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(bytes), || {
            format!("a frame without its FCS has {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX} bytes, not {bytes}")
        }),
        Size::Mix(mix) => mix.parse::<Sizes>().map(|_| ()).map_err(|error| error.to_string()),
        Size::From(file) | Size::Replay(file) => ensure(!file.is_empty(), || "a file name is empty".into()),
    }
}

fn rate(rate: &Rate) -> Result<(), String> {
    let is_one = |number: f64| number.is_finite() && number > 0.0;
    ensure(rate.pps(f64::from(FRAME_BYTES_MIN)).is_none_or(is_one), || {
        format!("{} is not a rate", rate.words())
    })
}

fn setting(setting: &Setting) -> Result<(), String> {
    let Setting { buffer_mib, capturers, copies, compression, snaplen, cores, lanes, .. } = setting;
    ensure(*buffer_mib != Some(0), || "a buffer is larger than 0 MiB".into())?;
    ensure((1..=CAPTURERS_MAX).contains(capturers), || {
        format!("1 to {CAPTURERS_MAX} capturers run at once, not {capturers}")
    })?;
    ensure(*copies <= COPIES_MAX, || format!("at most {COPIES_MAX} extra copies, not {copies}"))?;
    ensure(*compression <= LEVEL_MAX, || format!("zlib has levels up to {LEVEL_MAX}, not {compression}"))?;
    ensure(*snaplen != Some(0), || "a snaplen is larger than 0 bytes".into())?;
    ensure(lanes.is_none_or(|lanes| (1..=LANES_MAX).contains(&lanes)), || {
        format!("an interface has 1 to {LANES_MAX} lanes, not {}", lanes.unwrap_or(0))
    })?;
    ensure((1..=2).contains(cores), || format!("generator and capturer have 1 or 2 cores, not {cores}"))
}

#[cfg(test)]
mod tests {
    use super::super::{Method, Wanted};
    use super::*;
    use crate::experiment::PlanFile;
    use quaff_lab::traffic::Content;

    fn plan() -> Plan {
        Plan {
            name: "mine".into(),
            title: String::new(),
            source: None,
            bed: Topology::Direct,
            rivals: vec!["quaff".into()],
            runs: 1,
            seed: 0,
            sweeps: vec![Sweep {
                series: "s".into(),
                sizes: vec![Size::Bytes(60)],
                rates: vec![Rate::Max],
                amount: Amount::Frames(1),
                content: Content::Counting,
                mirrored: false,
                flows: 1,
                setting: Setting::default(),
                rivals: Vec::new(),
            }],
            finds: Vec::new(),
            readings: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn find() -> Find {
        Find {
            what: Wanted::Max,
            method: Method::Mlr,
            sizes: vec![Size::Bytes(60)],
            setting: Setting::default(),
            rivals: Vec::new(),
            seconds: 1.0,
            goal_loss: 0.0,
            width: 0.1,
            repeats: None,
        }
    }

    fn reading() -> Reading {
        Reading { series: "one".into(), readers: vec!["tcptrace".into()], replay: None, loops: 1 }
    }

    /// The error of the plan after one change.
    fn said(worse: impl FnOnce(&mut Plan)) -> String {
        let mut plan = plan();
        worse(&mut plan);
        plan.check().map_or_else(|error| error.to_string(), |()| "nothing".into())
    }

    #[test]
    fn plans_that_contradict_themselves_are_refused() {
        assert_eq!(said(|_| ()), "nothing");
        for (sentence, worse) in [
            ("no capturers", (|plan| plan.rivals.clear()) as fn(&mut Plan)),
            ("not 0 times", |plan| plan.runs = 0),
            ("nothing to run", |plan| plan.sweeps.clear()),
            ("in a search, there are no sizes", |plan| {
                plan.finds = vec![Find { sizes: Vec::new(), ..find() }]
            }),
            ("more than 0 s", |plan| plan.finds = vec![Find { seconds: 0.0, ..find() }]),
            ("not 1", |plan| plan.finds = vec![Find { goal_loss: 1.0, ..find() }]),
            ("not 0", |plan| plan.finds = vec![Find { width: 0.0, ..find() }]),
            ("not 0 times", |plan| plan.finds = vec![Find { repeats: Some(0), ..find() }]),
            ("tcpdump is measured", |plan| {
                plan.finds = vec![Find { rivals: vec!["tcpdump".into()], ..find() }]
            }),
            ("there are no sizes", |plan| plan.sweeps[0].sizes.clear()),
            ("no rates", |plan| plan.sweeps[0].rates.clear()),
            ("not 59", |plan| plan.sweeps[0].sizes = vec![Size::Bytes(59)]),
            ("'imixx'", |plan| plan.sweeps[0].sizes = vec![Size::Mix("imixx".into())]),
            ("name is empty", |plan| plan.sweeps[0].sizes = vec![Size::Replay(String::new())]),
            ("is not a rate", |plan| plan.sweeps[0].rates = vec![Rate::Pps(0)]),
            ("is not a rate", |plan| plan.sweeps[0].rates = vec![Rate::Mbps(f64::NAN)]),
            ("is not a rate", |plan| {
                plan.sweeps[0].rates = vec![Rate::Util { percent: -1.0, link_mbps: 1e3 }];
            }),
            ("no frames", |plan| plan.sweeps[0].amount = Amount::Frames(0)),
            ("at most a day", |plan| plan.sweeps[0].amount = Amount::Seconds(f64::INFINITY)),
            ("no frames", |plan| plan.sweeps[0].amount = Amount::Seconds(f64::NAN)),
            ("10^12 frames", |plan| plan.sweeps[0].amount = Amount::Frames(u64::MAX)),
            ("quaff is named twice", |plan| plan.rivals = vec!["quaff".into(), "quaff".into()]),
            ("not 2000 times", |plan| plan.runs = 2000),
            ("not 9223372036854775808", |plan| plan.seed = 1 << 63),
            ("no interface receives", |plan| {
                let send_on = "eth0".into();
                plan.bed = Topology::Real { send_on, receive_on: Vec::new(), sender: None };
            }),
            ("not 1000000", |plan| plan.sweeps[0].setting.copies = 1_000_000),
            ("at most a day", |plan| plan.finds = vec![Find { seconds: 1e9, ..find() }]),
            ("0 MiB", |plan| plan.sweeps[0].setting.buffer_mib = Some(0)),
            ("not 65", |plan| plan.sweeps[0].setting.capturers = 65),
            ("not 0", |plan| plan.sweeps[0].setting.capturers = 0),
            ("not 10", |plan| plan.sweeps[0].setting.compression = 10),
            ("0 bytes", |plan| plan.sweeps[0].setting.snaplen = Some(0)),
            ("not 3", |plan| plan.sweeps[0].setting.cores = 3),
            ("tcpdump is measured", |plan| plan.sweeps[0].rivals = vec!["tcpdump".into()]),
            ("no readers", |plan| plan.readings = vec![Reading { readers: Vec::new(), ..reading() }]),
            ("10000 Mbit/s, not 0", |plan| plan.bed = Topology::Line { mirror_mbps: 0 }),
            ("a line has three", |plan| {
                (plan.bed, plan.finds) = (Topology::Line { mirror_mbps: 1000 }, vec![find()]);
            }),
            ("passes, not 0", |plan| plan.readings = vec![Reading { loops: 0, ..reading() }]),
        ] {
            let said = said(worse);
            assert!(said.contains(sentence) && said.contains("mine"), "{sentence:?}: {said}");
        }
    }
}
