//! The resources of a running bench of flow meters: a lab, a folder on a disk, the traffic, the installed meters.
//! Dropping the session removes what it created.

use super::plan::Plan;
use super::result::{MeterFacts, TrafficFacts};
use super::survey::survey;
use crate::experiment::Machine;
use crate::method::{Cores, Load, MeterBench, MeterRun, Place, RunDir, cache_doubt, expand, generate};
use crate::{Error, Result};
use quaff_lab::tool::{FlowMeter, Present, resolve_meters};
use quaff_lab::topology::{LabSite, Sent, Site, Stage, Watch};
use quaff_lab::traffic::{Size, Traffic};
use quaff_lab::{Lab, LabPlan};
use std::path::{Path, PathBuf};

/// The environment of a bench of flow meters.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Path of the quaff executable, which sends and meters.
    pub quaff: PathBuf,
    /// Folder for capture files; `None`: `/var/tmp` or the current one.
    pub dir: Option<PathBuf>,
    /// The command line, for the report.
    pub command: Vec<String>,
    /// All known meters, including those of the user.
    pub meters: Vec<FlowMeter>,
}

/// Generated traffic of one pass: frames, flows, frames/s and mix. It has as many frames per flow as the how-to's
/// bigFlows.pcap, in the sizes of the Internet mix up to an MTU of 1500; 40 passes are a file of 1.5 GB and 40 s.
const MADE_FRAMES: u64 = 100_000;
const MADE_FLOWS: u64 = 5_000;
const MADE_PPS: u64 = 100_000;
const MADE_SIZES: &str = "imix1500";
/// Duration of a null calibration, s.
const NULL_S: f64 = 2.0;

/// A lab, the traffic and the meters.
pub(super) struct Session {
    site: LabSite,
    pub(super) place: Place,
    cores: Cores,
    meters: Vec<(FlowMeter, Option<Present>)>,
    /// The capture that is replayed, and its load per pass.
    replay: PathBuf,
    name: String,
    pub(super) pass: Load,
    /// The file for the meters, and its load.
    file: Option<(PathBuf, Load)>,
    /// A note on the file's reliability.
    pub(super) doubt: Option<String>,
    _dir: RunDir,
}

impl Session {
    /// Creates a lab, prepares the traffic, and finds the meters of the plan.
    ///
    /// # Errors
    /// An unknown meter, or none that can be measured; no lab; no folder on a disk; a capture without flows.
    pub(super) fn open(plan: &Plan, context: &Context, continues: &mut dyn FnMut() -> bool) -> Result<Self> {
        let meters = resolve_meters(&plan.meters, &context.meters)?;
        let here: Vec<&FlowMeter> =
            meters.iter().filter(|(_, present)| present.is_some()).map(|(meter, _)| meter).collect();
        check_meters(plan, meters.iter().map(|(meter, _)| meter), &here)?;
        // First, since it needs privileges and the other steps take time.
        let site = LabSite { lab: Lab::create(&LabPlan::default())?, quaff: context.quaff.clone() };
        let place = Place::find(context.dir.as_deref())?;
        let dir = place.run_dir()?;
        let (replay, name) = match &plan.replay {
            Some(file) => (PathBuf::from(file), file.clone()),
            None => (make_traffic(&context.quaff, &dir.path, continues)?, made_name()),
        };
        let pass = survey(&replay)?;
        let file = match plan.file_loops {
            0 => None,
            loops => Some((
                expand(&context.quaff, &replay, loops, &place, &dir.path, continues)?,
                pass.times(loops.into()),
            )),
        };
        let doubt = file.as_ref().and_then(|(path, _)| cache_doubt(path));
        Ok(Self { site, place, cores: Cores::pick()?, meters, replay, name, pass, file, doubt, _dir: dir })
    }

    /// Names of the installed meters in the order of the plan.
    pub(super) fn present(&self) -> Vec<&str> {
        let here = self.meters.iter().filter(|(_, present)| present.is_some());
        here.map(|(meter, _)| meter.name.as_str()).collect()
    }

    /// True if a meter reads files.
    pub(super) fn reads_files(&self, name: &str) -> bool {
        self.meters.iter().any(|(meter, _)| meter.name == name && meter.file.is_some())
    }

    /// Facts on all meters of the plan.
    pub(super) fn facts(&self, plan: &Plan) -> Vec<MeterFacts> {
        let bench = self.bench(plan);
        let fact = |(meter, present): &(FlowMeter, Option<Present>)| MeterFacts {
            name: meter.name.clone(),
            version: present.as_ref().and_then(|present| present.version.clone()),
            protocol: meter.protocol.clone(),
            remark: meter.remark.clone(),
            command: present.as_ref().map(|_| bench.command(meter, None)).unwrap_or_default(),
            absent: present.is_none().then(|| match meter.install.as_str() {
                "" => "it is not installed".to_owned(),
                install => format!("it is not installed ({install})"),
            }),
        };
        self.meters.iter().map(fact).collect()
    }

    pub(super) fn traffic_facts(&self) -> TrafficFacts {
        TrafficFacts { name: self.name.clone(), load: self.pass }
    }

    /// Facts on the machine, its disk and the interface of the lab.
    pub(super) fn machine(&self) -> Machine {
        let mut machine = Machine::here(&self.place.path);
        machine.facts.extend(self.site.facts());
        machine.facts.insert("generator and collector on core".into(), self.cores.generator.to_string());
        machine.facts.insert("meters on core".into(), self.cores.capturer.to_string());
        machine
    }

    /// The traffic at `fps` flows/s (`None`: as fast as possible), in whole passes that take `seconds` at `passes_fps`;
    /// and its load.
    pub(super) fn traffic(&self, fps: Option<f64>, passes_fps: f64, seconds: f64) -> Result<(Traffic, Load)> {
        let passes = (passes_fps * seconds / self.pass.flows as f64).ceil().max(1.0) as u64;
        let load = self.pass.times(passes);
        let pps =
            fps.map(|fps| (fps * self.pass.frames as f64 / self.pass.flows as f64).round().max(1.0) as u64);
        let size = Size::Replay(self.replay.display().to_string());
        Ok((Traffic { unique_ip: true, ..Traffic::new(&size, pps, load.frames)? }, load))
    }

    /// Sends without a meter.
    pub(super) fn null(&self, fps: Option<f64>, watch: Watch<'_>) -> Result<Sent> {
        // As fast as possible: as many flows as at the how-to's rate.
        const FPS: f64 = 100_000.0;
        let (traffic, _) = self.traffic(fps, fps.unwrap_or(FPS), NULL_S)?;
        self.site.send(&traffic, self.cores.generator, watch, &mut || {})
    }

    /// Performs one run of a meter on the interface.
    pub(super) fn live(
        &self,
        plan: &Plan,
        name: &str,
        fps: f64,
        seconds: f64,
        watch: Watch<'_>,
    ) -> Result<MeterRun> {
        let (meter, present) = self.find(name)?;
        let (traffic, load) = self.traffic(Some(fps), fps, seconds)?;
        self.bench(plan).live(meter, &present.program, &traffic, load, watch)
    }

    /// Performs one run of a meter on the file.
    pub(super) fn read(&self, plan: &Plan, name: &str, watch: Watch<'_>) -> Result<MeterRun> {
        let (meter, present) = self.find(name)?;
        let Some((file, load)) = &self.file else {
            return Err(Error::Place("there is no file that meters read".into()));
        };
        self.bench(plan).file(meter, &present.program, file, *load, watch)
    }

    fn find(&self, name: &str) -> Result<(&FlowMeter, &Present)> {
        let found = self.meters.iter().find(|(meter, _)| meter.name == name);
        let known = || self.present().into_iter().map(str::to_owned).collect();
        found
            .and_then(|(meter, present)| Some((meter, present.as_ref()?)))
            .ok_or_else(|| Error::UnknownMeter { name: name.into(), known: known() })
    }

    fn bench(&self, plan: &Plan) -> MeterBench<'_> {
        MeterBench {
            site: &self.site,
            place: &self.place,
            cores: self.cores,
            file_cores: std::slice::from_ref(&self.cores.capturer),
            active_s: plan.active_s,
            idle_s: plan.idle_s,
            flows_max: plan.flows_max,
            buffer_mib: plan.buffer_mib,
        }
    }
}

/// Checks that any of `all` meters of the plan can be measured; `here` are the installed ones.
fn check_meters<'a>(
    plan: &Plan,
    all: impl Iterator<Item = &'a FlowMeter>,
    here: &[&FlowMeter],
) -> Result<()> {
    if here.is_empty() {
        let name = |meter: &FlowMeter| match meter.install.as_str() {
            "" => meter.name.clone(),
            install => format!("{} ({install})", meter.name),
        };
        let names: Vec<String> = all.map(name).collect();
        return Err(Error::Place(format!("no flow meter of the plan is installed: {}", names.join(", "))));
    }
    let is_offline = plan.rates.is_empty() && plan.find.is_none();
    if is_offline && here.iter().all(|meter| meter.file.is_none()) {
        let names: Vec<&str> = here.iter().map(|meter| meter.name.as_str()).collect();
        let what = "can meter an interface only, and only a file is to be measured";
        return Err(Error::Place(format!("{} {what}", names.join(", "))));
    }
    Ok(())
}

fn made_name() -> String {
    format!("generated: {MADE_FRAMES} frames, {MADE_FLOWS} flows, {MADE_SIZES}")
}

/// Writes a capture of generated traffic.
fn make_traffic(quaff: &Path, dir: &Path, continues: &mut dyn FnMut() -> bool) -> Result<PathBuf> {
    let path = dir.join("generated.pcap");
    let flags = format!("--size {MADE_SIZES} --flows {MADE_FLOWS} --count {MADE_FRAMES} --pps {MADE_PPS}");
    generate(quaff, &flags, &path, continues)?;
    Ok(path)
}

/// A meter's action in a stage of a run, as the predicate of a sentence.
pub(super) fn describe(stage: Stage) -> &'static str {
    match stage {
        Stage::Starting => "starts",
        Stage::Sending => "meters",
        Stage::Settling => "processes its remaining packets",
        Stage::Stopping => "exports its last flows",
        Stage::Counting => "has ended; decoding its records",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::PlanFile as _;
    use quaff_lab::tool::shipped_meters;

    #[test]
    fn a_plan_of_which_nothing_can_be_measured_is_refused_with_the_reason() {
        let plan = Plan::preset("flow-appliance", false).expect("it is shipped");
        let all = shipped_meters(Path::new("quaff"));
        let checked = |plan: &Plan, here: &str| {
            let here: Vec<&FlowMeter> = all.iter().filter(|meter| meter.name == here).collect();
            check_meters(plan, all.iter(), &here)
        };
        assert!(checked(&plan, "fprobe").is_ok(), "one is enough");
        let error = checked(&plan, "").expect_err("none").to_string();
        assert!(
            error.starts_with("no flow meter of the plan is installed: quaff, softflowd (apt-get"),
            "{error}"
        );
        let offline = Plan { rates: Vec::new(), ..plan };
        assert!(checked(&offline, "softflowd").is_ok());
        let error = checked(&offline, "fprobe").expect_err("it reads none").to_string();
        assert_eq!(error, "fprobe can meter an interface only, and only a file is to be measured");
    }
}
