//! Whether a plan makes sense. It is asked once, when it is read or made.

use super::{Amount, Find, Plan, PlanError, Rate, Sweep, Topology};
use quaff_lab::tool::Setting;
use quaff_lab::traffic::Size;
use quaff_wire::synth::Sizes;

/// The smallest frame of Ethernet without its FCS, bytes (IEEE 802.3).
const FRAME_BYTES_MIN: u32 = 60;
/// The largest that a link here may have, bytes.
const FRAME_BYTES_MAX: u32 = 9230;
/// More at once would only measure the scheduler.
const CAPTURERS_MAX: u32 = 64;
/// More is a mistake.
const RUNS_MAX: u32 = 1000;
const COPIES_MAX: u32 = 100_000;
const FRAMES_MAX: f64 = 1e12;
const SECONDS_MAX: f64 = 86_400.0;
/// zlib's.
const LEVEL_MAX: u32 = 9;

impl Plan {
    /// Whether it makes sense.
    ///
    /// # Errors
    /// One sentence that says what does not.
    pub fn check(&self) -> Result<(), PlanError> {
        self.sense().map_err(|what| PlanError::Sense { plan: self.name.clone(), what })
    }

    fn sense(&self) -> Result<(), String> {
        ensure(!self.rivals.is_empty(), || "nobody is to be measured".into())?;
        let twice = |(at, name): &(usize, &String)| self.rivals[..*at].contains(name);
        let twice = self.rivals.iter().enumerate().find(twice);
        ensure(twice.is_none(), || format!("{} is named twice", twice.map_or("", |(_, name)| name)))?;
        ensure((1..=RUNS_MAX).contains(&self.runs), || {
            format!("each case is run 1 to {RUNS_MAX} times, not {} times", self.runs)
        })?;
        if let Topology::Real { receive_on, .. } = &self.bed {
            ensure(!receive_on.is_empty(), || "no interface receives".into())?;
        }
        ensure(!self.sweeps.is_empty() || !self.finds.is_empty(), || "nothing is to be run".into())?;
        self.finds.iter().try_for_each(Find::sense)?;
        for sweep in &self.sweeps {
            sweep.sense().map_err(|what| match sweep.series.as_str() {
                "" => what,
                series => format!("in the series {series:?}, {what}"),
            })?;
        }
        let parts = self.sweeps.iter().map(|sweep| &sweep.rivals);
        let mut named = parts.chain(self.finds.iter().map(|find| &find.rivals)).flatten();
        match named.find(|name| !self.rivals.contains(name)) {
            Some(name) => Err(format!("{name} is to be measured in a part of it, but not in the whole")),
            None => Ok(()),
        }
    }
}

impl Sweep {
    fn sense(&self) -> Result<(), String> {
        ensure(!self.sizes.is_empty(), || "there are no sizes".into())?;
        ensure(!self.rates.is_empty(), || "there are no rates".into())?;
        self.sizes.iter().try_for_each(size)?;
        self.rates.iter().try_for_each(rate)?;
        let (amount, most) = match self.amount {
            Amount::Frames(frames) => (frames as f64, FRAMES_MAX),
            Amount::Seconds(seconds) => (seconds, SECONDS_MAX),
        };
        ensure(amount > 0.0, || "a run has no frames".into())?;
        ensure(amount <= most, || "a run has at most 10^12 frames and lasts at most a day".into())?;
        setting(&self.setting)
    }
}

impl Find {
    fn sense(&self) -> Result<(), String> {
        let is_share = |number: f64| (0.0..1.0).contains(&number);
        ensure(!self.sizes.is_empty(), || "a search has no sizes".into())?;
        self.sizes.iter().try_for_each(size)?;
        ensure(self.seconds > 0.0, || "a trial takes no time".into())?;
        ensure(self.seconds <= SECONDS_MAX, || "a trial takes more than a day".into())?;
        ensure(is_share(self.goal_loss), || format!("a loss of {} is none from 0 to 1", self.goal_loss))?;
        ensure(is_share(self.width) && self.width > 0.0, || {
            format!("a search is done at a width between 0 and 1, not {}", self.width)
        })?;
        ensure(self.repeats.is_none_or(|repeats| (1..=RUNS_MAX).contains(&repeats)), || {
            format!("a search is repeated 1 to {RUNS_MAX} times, not {} times", self.repeats.unwrap_or(0))
        })?;
        setting(&self.setting)
    }
}

fn size(size: &Size) -> Result<(), String> {
    match size {
        Size::Bytes(bytes) => ensure((FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(bytes), || {
            format!("a frame without its FCS has {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX} bytes, not {bytes}")
        }),
        Size::Mix(mix) => Sizes::parse(mix).map(|_| ()).map_err(|error| error.to_string()),
        Size::From(file) | Size::Replay(file) => ensure(!file.is_empty(), || "a file has no name".into()),
    }
}

fn rate(rate: &Rate) -> Result<(), String> {
    let is_one = |number: f64| number.is_finite() && number > 0.0;
    ensure(rate.pps(f64::from(FRAME_BYTES_MIN)).is_none_or(is_one), || format!("{} is no rate", rate.words()))
}

fn setting(setting: &Setting) -> Result<(), String> {
    let Setting { buffer_mib, capturers, copies, compression, snaplen, cores, .. } = setting;
    ensure(*buffer_mib != Some(0), || "a buffer of 0 MiB holds nothing".into())?;
    ensure((1..=CAPTURERS_MAX).contains(capturers), || {
        format!("1 to {CAPTURERS_MAX} capture at once, not {capturers}")
    })?;
    ensure(*copies <= COPIES_MAX, || format!("{copies} extra copies are more than anybody makes"))?;
    ensure(*compression <= LEVEL_MAX, || format!("zlib has levels up to {LEVEL_MAX}, not {compression}"))?;
    ensure(*snaplen != Some(0), || "0 bytes of each packet are nothing".into())?;
    ensure((1..=2).contains(cores), || format!("generator and capturer have 1 or 2 cores, not {cores}"))
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

#[cfg(test)]
mod tests {
    use super::super::{Method, Wanted};
    use super::*;
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
                setting: Setting::default(),
                rivals: Vec::new(),
            }],
            finds: Vec::new(),
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

    /// What is said of the plan when it was made worse.
    fn said(worse: impl FnOnce(&mut Plan)) -> String {
        let mut plan = plan();
        worse(&mut plan);
        plan.check().map_or_else(|error| error.to_string(), |()| "nothing".into())
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        assert_eq!(said(|_| ()), "nothing");
        for (sentence, worse) in [
            ("nobody", (|plan| plan.rivals.clear()) as fn(&mut Plan)),
            ("not 0 times", |plan| plan.runs = 0),
            ("nothing is to be run", |plan| plan.sweeps.clear()),
            ("a search has no sizes", |plan| plan.finds = vec![Find { sizes: Vec::new(), ..find() }]),
            ("takes no time", |plan| plan.finds = vec![Find { seconds: 0.0, ..find() }]),
            ("none from 0 to 1", |plan| plan.finds = vec![Find { goal_loss: 1.0, ..find() }]),
            ("not 0", |plan| plan.finds = vec![Find { width: 0.0, ..find() }]),
            ("not 0 times", |plan| plan.finds = vec![Find { repeats: Some(0), ..find() }]),
            ("tcpdump is to be measured", |plan| {
                plan.finds = vec![Find { rivals: vec!["tcpdump".into()], ..find() }]
            }),
            ("there are no sizes", |plan| plan.sweeps[0].sizes.clear()),
            ("no rates", |plan| plan.sweeps[0].rates.clear()),
            ("not 59", |plan| plan.sweeps[0].sizes = vec![Size::Bytes(59)]),
            ("'imixx'", |plan| plan.sweeps[0].sizes = vec![Size::Mix("imixx".into())]),
            ("no name", |plan| plan.sweeps[0].sizes = vec![Size::Replay(String::new())]),
            ("is no rate", |plan| plan.sweeps[0].rates = vec![Rate::Pps(0)]),
            ("is no rate", |plan| plan.sweeps[0].rates = vec![Rate::Mbps(f64::NAN)]),
            ("is no rate", |plan| {
                plan.sweeps[0].rates = vec![Rate::Util { percent: -1.0, link_mbps: 1e3 }];
            }),
            ("no frames", |plan| plan.sweeps[0].amount = Amount::Frames(0)),
            ("at most a day", |plan| plan.sweeps[0].amount = Amount::Seconds(f64::INFINITY)),
            ("no frames", |plan| plan.sweeps[0].amount = Amount::Seconds(f64::NAN)),
            ("10^12 frames", |plan| plan.sweeps[0].amount = Amount::Frames(u64::MAX)),
            ("quaff is named twice", |plan| plan.rivals = vec!["quaff".into(), "quaff".into()]),
            ("not 2000 times", |plan| plan.runs = 2000),
            ("no interface receives", |plan| {
                let send_on = "eth0".into();
                plan.bed = Topology::Real { send_on, receive_on: Vec::new(), sender: None };
            }),
            ("than anybody makes", |plan| plan.sweeps[0].setting.copies = 1_000_000),
            ("more than a day", |plan| plan.finds = vec![Find { seconds: 1e9, ..find() }]),
            ("holds nothing", |plan| plan.sweeps[0].setting.buffer_mib = Some(0)),
            ("not 65", |plan| plan.sweeps[0].setting.capturers = 65),
            ("not 0", |plan| plan.sweeps[0].setting.capturers = 0),
            ("not 10", |plan| plan.sweeps[0].setting.compression = 10),
            ("are nothing", |plan| plan.sweeps[0].setting.snaplen = Some(0)),
            ("not 3", |plan| plan.sweeps[0].setting.cores = 3),
            ("tcpdump is to be measured", |plan| plan.sweeps[0].rivals = vec!["tcpdump".into()]),
        ] {
            let said = said(worse);
            assert!(said.contains(sentence) && said.contains("mine"), "{sentence:?}: {said}");
        }
    }
}
