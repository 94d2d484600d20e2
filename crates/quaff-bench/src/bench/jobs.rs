//! The cases of a plan, the workloads that they share, and the order of each round. Plain data; nothing runs here.

use super::plan::{Amount, Plan, Sweep};
use super::result::Case;
use crate::Result;
use quaff_lab::tool::{Output, Setting};
use quaff_lab::traffic::Size;
use quaff_lab::traffic::Traffic;

/// Duration of a paced null calibration, s.
const NULL_SECONDS: f64 = 2.0;
/// Frames of an unpaced null calibration.
const NULL_FRAMES: u64 = 2_000_000;

/// All cases of a plan.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// Traffic of the null calibrations with their frame counts.
    pub(super) workloads: Vec<Workload>,
    /// Names of the interfaces if there are several.
    interfaces: Vec<Option<String>>,
    /// The cases in the order of the plan; `jobs` has the same indices.
    pub(super) cases: Vec<Case>,
    pub(super) jobs: Vec<Job>,
    /// Notes on omitted cases.
    pub(super) notes: Vec<String>,
}

/// Traffic to one interface.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Workload {
    pub(super) traffic: Traffic,
    /// Index of the receiving interface.
    pub(super) interface: usize,
}

/// The method of a case.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Job {
    pub(super) workload: usize,
    pub(super) amount: Amount,
    /// The setting that the plan requests: cases that share it are compared.
    pub(super) asked: Setting,
}

impl Jobs {
    /// Combines each of the plan's workloads with each installed rival at each of the `interfaces`. `can` returns the
    /// setting with which a rival satisfies the requested one, or a sentence if it cannot. `fits` returns whether a
    /// rival works at an interface index; other pairs are skipped.
    ///
    /// # Errors
    /// An unknown mix, or an unreadable file of sizes.
    pub(super) fn of(
        plan: &Plan,
        rivals: &[&str],
        interfaces: &[Option<String>],
        can: &dyn Fn(&str, &Setting) -> Result<Setting, String>,
        fits: &dyn Fn(&str, usize) -> bool,
    ) -> Result<Self> {
        let mut jobs = Self { interfaces: interfaces.to_vec(), ..Self::default() };
        for sweep in &plan.sweeps {
            let able = jobs.able(plan, sweep, rivals, can);
            for (size, rate) in sweep.workloads() {
                let mean = Traffic::new(size, None, 0)?.frame_bytes;
                let pps = rate.pps(f64::from(mean)).map(|pps| pps.round().max(1.0) as u64);
                for (interface, name) in interfaces.iter().enumerate() {
                    let here: Vec<_> = able.iter().filter(|(rival, _)| fits(rival, interface)).collect();
                    if here.is_empty() && !able.is_empty() {
                        continue;
                    }
                    let traffic = Traffic {
                        content: sweep.content,
                        mirrored: sweep.mirrored,
                        flows: sweep.flows,
                        ..Traffic::new(size, pps, null_frames(pps))?
                    };
                    let workload = jobs.workload(Workload { traffic, interface });
                    for (rival, setting) in here {
                        let asked = sweep.setting.clone();
                        jobs.jobs.push(Job { workload, amount: sweep.amount, asked });
                        let case = case(rival, sweep, size, mean, pps, rate.words(), name.clone());
                        jobs.cases.push(Case { setting: setting.clone(), ..case });
                    }
                }
            }
        }
        Ok(jobs)
    }

    /// The order of a round: workloads in random order from the seed, and for each of them the tools in random order,
    /// so that competing tools are measured within the same minutes.
    pub(super) fn order(&self, seed: u64, round: u32) -> Vec<usize> {
        let mut draw = Draw(seed ^ (u64::from(round) << 32));
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (case, job) in self.jobs.iter().enumerate() {
            let same = |group: &&mut Vec<usize>| self.jobs[group[0]] == *job;
            match groups.iter_mut().find(same) {
                Some(group) => group.push(case),
                None => groups.push(vec![case]),
            }
        }
        draw.shuffle(&mut groups);
        groups.iter_mut().for_each(|group| draw.shuffle(group));
        groups.concat()
    }

    /// Name of a workload's interface if there are several.
    pub(super) fn interface(&self, workload: usize) -> Option<&str> {
        self.interfaces[self.workloads[workload].interface].as_deref()
    }

    fn workload(&mut self, wanted: Workload) -> usize {
        let known = self.workloads.iter().position(|known| *known == wanted);
        known.unwrap_or_else(|| {
            self.workloads.push(wanted);
            self.workloads.len() - 1
        })
    }

    /// The rivals that can run a sweep, each with its setting; adds notes on the others.
    fn able<'a>(
        &mut self,
        plan: &'a Plan,
        sweep: &'a Sweep,
        rivals: &[&str],
        can: &dyn Fn(&str, &Setting) -> Result<Setting, String>,
    ) -> Vec<(&'a str, Setting)> {
        let of = if sweep.series.is_empty() { String::new() } else { format!(" of {:?}", sweep.series) };
        let mut able = Vec::new();
        for name in plan.rivals_of(sweep).filter(|name| rivals.contains(name)) {
            match can(name, &sweep.setting) {
                Ok(setting) => {
                    if setting.buffer_mib != sweep.setting.buffer_mib {
                        let why = "has no option for the size of its buffer";
                        self.note(format!("{name} {why}; its cases{of} have its own."));
                    }
                    able.push((name, setting));
                }
                Err(why) => self.note(format!("{why}; its cases{of} are left out.")),
            }
        }
        able
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

impl Job {
    /// Frames of a run; an unpaced run of a given duration sends as many as the null calibration did in that time.
    pub(super) fn frames(&self, pps: Option<u64>, null_pps: f64) -> u64 {
        match self.amount {
            Amount::Frames(frames) => frames,
            Amount::Seconds(seconds) => {
                let pps = pps.map_or(null_pps, |pps| pps as f64);
                ((seconds * pps).round() as u64).max(1)
            }
        }
    }
}

/// Disk space of a run's files, bytes.
pub(super) fn room(traffic: &Traffic, setting: &Setting) -> u64 {
    match setting.output {
        Output::Disk => traffic.file_bytes().saturating_mul(u64::from(setting.capturers.max(1))),
        Output::Null | Output::Pipe | Output::Screen => 0,
    }
}

/// Number of frames of a null calibration.
pub(super) fn null_frames(pps: Option<u64>) -> u64 {
    pps.map_or(NULL_FRAMES, |pps| ((pps as f64 * NULL_SECONDS) as u64).max(1))
}

fn case(
    rival: &str,
    sweep: &Sweep,
    size: &Size,
    mean: u32,
    pps: Option<u64>,
    rate: String,
    interface: Option<String>,
) -> Case {
    Case {
        rival: rival.to_owned(),
        series: sweep.series.clone(),
        size: mean,
        mix: size.mix().map(str::to_owned),
        pps,
        rate,
        interface,
        ..Case::default()
    }
}

/// A deterministic pseudo-random generator (splitmix64, Steele et al. 2014).
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Shuffles by Fisher and Yates; the modulo bias is negligible here.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::plan::{Rate, Topology};
    use std::collections::BTreeSet;

    /// Two rivals, two sizes, two rates.
    pub(in crate::bench) fn plan() -> Plan {
        let sweep = Sweep {
            series: String::new(),
            sizes: vec![Size::Bytes(64), Size::Bytes(1500)],
            rates: vec![Rate::Max, Rate::Pps(1000)],
            amount: Amount::Frames(5000),
            content: Default::default(),
            mirrored: false,
            flows: 1,
            setting: Setting::default(),
            rivals: Vec::new(),
        };
        Plan {
            name: "custom".into(),
            title: "A test".into(),
            source: None,
            bed: Topology::Direct,
            rivals: vec!["quaff".into(), "other".into(), "absent".into()],
            runs: 3,
            seed: 7,
            sweeps: vec![sweep],
            finds: Vec::new(),
            readings: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn everything(_: &str, setting: &Setting) -> Result<Setting, String> {
        Ok(setting.clone())
    }

    fn jobs(plan: &Plan) -> Jobs {
        Jobs::of(plan, &["quaff", "other"], &[None], &everything, &|_, _| true).expect("jobs")
    }

    #[test]
    fn each_workload_meets_each_rival_that_is_here() {
        let jobs = jobs(&plan());
        assert_eq!((jobs.workloads.len(), jobs.cases.len(), jobs.jobs.len()), (4, 8, 8));
        assert_eq!(jobs.workloads[0].traffic.count, NULL_FRAMES);
        assert_eq!(jobs.workloads[1].traffic.count, 2000);
        let names: Vec<_> =
            jobs.cases.iter().map(|case| (case.rival.as_str(), case.size, case.pps)).collect();
        assert_eq!(names[..3], [("quaff", 64, None), ("other", 64, None), ("quaff", 64, Some(1000))]);
        assert!(jobs.cases.iter().all(|case| case.interface.is_none()));
    }

    #[test]
    fn cases_that_a_rival_cannot_run_are_omitted_with_a_note() {
        let mut plan = plan();
        plan.sweeps.push(Sweep { series: "zlib".into(), ..plan.sweeps[0].clone() });
        let can = |name: &str, setting: &Setting| match name {
            "other" => Err("other does not compress each packet".to_owned()),
            _ => Ok(setting.clone()),
        };
        let jobs = Jobs::of(&plan, &["quaff", "other"], &[None], &can, &|_, _| true).expect("jobs");
        assert_eq!(jobs.cases.len(), 8, "quaff in both series");
        assert_eq!(jobs.workloads.len(), 4, "they share what is sent");
        assert_eq!(jobs.notes[0], "other does not compress each packet; its cases are left out.");
        assert_eq!(jobs.notes[1], "other does not compress each packet; its cases of \"zlib\" are left out.");
        assert_eq!(jobs.notes.len(), 2);
    }

    #[test]
    fn a_tool_without_an_option_for_its_buffer_keeps_its_own_beside_the_others() {
        let mut plan = plan();
        plan.sweeps[0].setting.buffer_mib = Some(256);
        let can = |name: &str, setting: &Setting| match name {
            "other" => Ok(Setting { buffer_mib: None, ..setting.clone() }),
            _ => Ok(setting.clone()),
        };
        let jobs = Jobs::of(&plan, &["quaff", "other"], &[None], &can, &|_, _| true).expect("jobs");
        let buffers: Vec<_> = jobs.cases[..2].iter().map(|case| case.setting.buffer_mib).collect();
        assert_eq!(buffers, [Some(256), None]);
        let said = "other has no option for the size of its buffer; its cases have its own.";
        assert_eq!(jobs.notes, [said]);
        for pair in jobs.order(7, 1).chunks(2) {
            assert_eq!(jobs.jobs[pair[0]].workload, jobs.jobs[pair[1]].workload, "in the same minutes");
        }
    }

    #[test]
    fn each_interface_is_measured_in_its_turn() {
        let interfaces = [Some("eth1".to_owned()), Some("usb0".to_owned())];
        let jobs = Jobs::of(&plan(), &["quaff"], &interfaces, &everything, &|_, _| true).expect("jobs");
        assert_eq!((jobs.workloads.len(), jobs.cases.len()), (8, 8));
        assert_eq!(jobs.cases[1].interface.as_deref(), Some("usb0"));
    }

    #[test]
    fn a_tool_is_measured_where_it_fits() {
        let interfaces = ["port", "SPAN", "tap"].map(|name| Some(name.to_owned()));
        let fits = |rival: &str, interface: usize| (rival == "other") == (interface == 2);
        let of = |rivals: &[&str]| Jobs::of(&plan(), rivals, &interfaces, &everything, &fits).expect("jobs");
        let jobs = of(&["quaff", "other"]);
        let at = |case: &Case| format!("{} at {}", case.rival, case.interface.as_deref().unwrap_or_default());
        let cases: Vec<_> = jobs.cases[..3].iter().map(at).collect();
        assert_eq!(cases, ["quaff at port", "quaff at SPAN", "other at tap"]);
        assert_eq!((jobs.workloads.len(), jobs.cases.len()), (12, 12));
        let jobs = of(&["other"]);
        assert_eq!((jobs.workloads.len(), jobs.cases.len()), (4, 4), "nothing is sent where no tool is");
    }

    #[test]
    fn the_order_is_drawn_from_the_seed_and_keeps_rivals_together() {
        let jobs = jobs(&plan());
        let orders: BTreeSet<_> = (1..=20).map(|round| jobs.order(7, round)).collect();
        assert!(orders.len() > 10, "{orders:?}");
        for order in &orders {
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 8);
            for pair in order.chunks(2) {
                assert_eq!(jobs.jobs[pair[0]].workload, jobs.jobs[pair[1]].workload);
            }
        }
        let eight = |seed| (1..9).map(|round| jobs.order(seed, round)).collect::<Vec<_>>();
        assert_eq!(eight(7), eight(7));
        assert_ne!(eight(7), eight(8));
    }

    #[test]
    fn time_becomes_frames() {
        let job = |amount| Job { workload: 0, amount, asked: Setting::default() };
        assert_eq!(job(Amount::Frames(9)).frames(Some(1000), 5.0), 9);
        assert_eq!(job(Amount::Seconds(0.5)).frames(Some(1000), 5.0), 500);
        assert_eq!(job(Amount::Seconds(2.0)).frames(None, 3e6), 6_000_000);
        assert_eq!(job(Amount::Seconds(2.0)).frames(None, 0.0), 1);
    }

    #[test]
    fn only_a_disk_needs_room() {
        let traffic = Traffic::bytes(1000, None, 1_000_000);
        let four = Setting { capturers: 4, ..Setting::default() };
        assert!(room(&traffic, &four) > 4_000_000_000);
        assert_eq!(room(&Traffic { count: u64::MAX, ..traffic.clone() }, &four), u64::MAX);
        assert_eq!(room(&traffic, &Setting { output: Output::Null, ..four }), 0);
    }
}
