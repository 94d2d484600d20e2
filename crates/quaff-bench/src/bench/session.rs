//! The resources of a running bench: a topology, a folder on a disk, the installed tools. Dropping the session
//! removes what it created.

use super::plan::{Plan, Topology};
use super::result::{Machine, ToolFacts};
use super::runner::CaseRunner;
use crate::method::Run;
use crate::method::{Bench, Cores, Place, come_to_rest};
use crate::{Error, Result};
use quaff_lab::tool::Setting;
use quaff_lab::tool::{Places, Present, Resolved, Tool, resolve};
use quaff_lab::topology::{CapturePoint, LabSite, LineSite, Real};
use quaff_lab::topology::{Sent, Site, Watch};
use quaff_lab::traffic::Traffic;
use quaff_lab::{Lab, LabPlan, Layout};
use std::path::{Path, PathBuf};

/// The environment of a bench.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Path of the quaff executable, which generates and captures.
    pub quaff: PathBuf,
    /// Folder for capture files; `None`: `/var/tmp` or the current one.
    pub dir: Option<PathBuf>,
    /// The command line, for the report.
    pub command: Vec<String>,
    /// All known tools, including those of the user.
    pub rivals: Vec<Tool>,
}

/// A topology and the capturers on it.
pub(super) struct Session {
    pub(super) quaff: PathBuf,
    sites: Vec<Box<dyn Site>>,
    bed: Topology,
    /// Receive queues of the lab's interface.
    queues: u32,
    /// The receiving interfaces, each measured in turn; `None` for the interface of a lab.
    pub(super) interfaces: Vec<Option<String>>,
    pub(super) place: Place,
    cores: Cores,
    resolved: Resolved,
}

impl Session {
    /// Creates the plan's topology, and finds the tools that it names.
    ///
    /// # Errors
    /// An unknown tool; no lab, no folder on a disk, no such interface.
    pub(super) fn open(plan: &Plan, context: &Context) -> Result<Self> {
        let resolved = resolve(&plan.rivals, &context.rivals)?;
        let place = Place::find(context.dir.as_deref())?;
        let (bed, quaff, queues) = (plan.bed.clone(), context.quaff.clone(), 1);
        let (sites, interfaces) = sites(&bed, &quaff, queues)?;
        Ok(Self { quaff, sites, bed, queues, interfaces, place, cores: Cores::pick()?, resolved })
    }

    /// Names of the installed capturers in the order of the plan.
    pub(super) fn present(&self) -> Vec<&str> {
        self.resolved.present.iter().map(|present| present.rival.name.as_str()).collect()
    }

    /// Facts on the installed tools, each with its first command line of `plan`, and on the missing ones.
    pub(super) fn rivals(&self, plan: &Plan) -> Vec<ToolFacts> {
        let here = self.resolved.present.iter().map(|present| self.facts(present, plan));
        let absent = self.resolved.absent.iter().map(|rival| ToolFacts {
            name: rival.name.clone(),
            version: None,
            command: Vec::new(),
            absent: Some(match rival.install.as_str() {
                "" => "it is not installed".to_owned(),
                install => format!("it is not installed ({install})"),
            }),
        });
        here.chain(absent).collect()
    }

    /// Facts on the machine, its disk and its receiving interfaces.
    pub(super) fn machine(&self) -> Machine {
        let mut machine = Machine::here(&self.place.path);
        for site in &self.sites {
            machine.facts.extend(site.facts());
        }
        let Cores { generator, capturer } = self.cores;
        machine.facts.insert("generator on core".into(), generator.to_string());
        machine.facts.insert("capturers on core".into(), capturer.to_string());
        for Present { rival, .. } in
            self.resolved.present.iter().filter(|one| !one.rival.own_buffer.is_empty())
        {
            machine.facts.insert(format!("buffer of {}, its own", rival.name), rival.own_buffer.clone());
        }
        machine
    }

    fn facts(&self, present: &Present, plan: &Plan) -> ToolFacts {
        let Present { rival, version, .. } = present;
        // The first setting that is requested and supported; the runs list all others.
        let asked = plan.sweeps.iter().filter(|sweep| plan.rivals_of(sweep).any(|name| name == rival.name));
        let searched = plan.finds.iter().map(|find| &find.setting);
        let all = asked.map(|sweep| rival.setting_of(&sweep.setting)).chain(searched.cloned());
        let first = all.into_iter().find(|setting| rival.can(setting).is_ok());
        ToolFacts {
            name: rival.name.clone(),
            version: version.clone(),
            command: first
                .map_or_else(Vec::new, |setting| self.command(present, &setting, self.site_of(rival))),
            absent: None,
        }
    }

    /// The command line, with DIR for the output directory.
    fn command(&self, present: &Present, setting: &Setting, interface: usize) -> Vec<String> {
        let site = self.sites.get(interface);
        let other = site.and_then(|site| site.other()).unwrap_or_default();
        let interface = site.map_or("", |site| site.interface());
        let core = self.cores(setting).capturer;
        let places = Places { interface, other, dir: Path::new("DIR"), core, setting };
        let (program, args) = present.rival.command_line(&present.program, &places);
        [program].into_iter().chain(args).map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// The setting with which `rival` satisfies `asked`, or a sentence if it cannot.
    pub(super) fn setting(&self, rival: &str, asked: &Setting) -> Result<Setting, String> {
        let tool = &self.find(rival).map_err(|error| error.to_string())?.rival;
        let setting = tool.setting_of(asked);
        self.has_place(tool).and_then(|()| tool.can(&setting)).map(|()| setting)
    }

    /// Returns whether a capturer works at the interface of that index: a forwarding one needs two ports of a line, and
    /// these have no link for any other.
    pub(super) fn fits(&self, rival: &str, interface: usize) -> bool {
        self.find(rival).is_ok_and(|present| self.is_place_of(&present.rival, interface))
    }

    fn is_place_of(&self, tool: &Tool, interface: usize) -> bool {
        self.sites.get(interface).is_some_and(|site| tool.is_in_line() == site.other().is_some())
    }

    /// Index of the first interface at which a capturer works.
    fn site_of(&self, tool: &Tool) -> usize {
        (0..self.sites.len()).find(|at| self.is_place_of(tool, *at)).unwrap_or(0)
    }

    /// An error with a sentence if `tool` works at no interface.
    fn has_place(&self, tool: &Tool) -> Result<(), String> {
        match (0..self.sites.len()).any(|at| self.is_place_of(tool, at)) {
            true => Ok(()),
            false => Err(format!("{} forwards between two ports, which only the bed 'line' has", tool.name)),
        }
    }

    fn find(&self, rival: &str) -> Result<&Present> {
        let here = |present: &&Present| present.rival.name == rival;
        let known = || self.present().into_iter().map(str::to_owned).collect();
        self.resolved
            .present
            .iter()
            .find(here)
            .ok_or_else(|| Error::UnknownTool { name: rival.into(), known: known() })
    }

    /// The equipment of runs without traffic.
    pub(super) fn bench(&self) -> Bench<'_> {
        Bench { site: self.sites[0].as_ref(), quaff: &self.quaff, place: &self.place, cores: self.cores }
    }

    /// Replaces the lab by one whose interface has a receive queue for each lane of `setting`.
    fn give_queues(&mut self, setting: &Setting) -> Result<()> {
        let queues = setting.lanes.unwrap_or(1);
        if queues != self.queues && !matches!(self.bed, Topology::Real { .. }) {
            (self.sites, _) = sites(&self.bed, &self.quaff, queues)?;
            self.queues = queues;
        }
        Ok(())
    }

    /// One core each for generator and capturer, or one for both.
    fn cores(&self, setting: &Setting) -> Cores {
        let Cores { generator, capturer } = self.cores;
        Cores { generator: if setting.cores == 1 { capturer } else { generator }, capturer }
    }
}

impl CaseRunner for Session {
    fn null(&mut self, traffic: &Traffic, interface: usize, watch: Watch<'_>) -> Result<Sent> {
        self.sites[interface].send(traffic, self.cores.generator, watch, &mut || {})
    }

    fn run(
        &mut self,
        rival: &str,
        traffic: &Traffic,
        setting: &Setting,
        interface: usize,
        watch: Watch<'_>,
    ) -> Result<Run> {
        self.give_queues(setting)?;
        let present = self.find(rival)?;
        let Present { rival, program, .. } = present;
        come_to_rest(&self.place.path)?;
        let site = self.sites[interface].as_ref();
        let cores = self.cores(setting);
        let bench = Bench { site, quaff: &self.quaff, place: &self.place, cores };
        let run = bench.run(rival, program, traffic, setting, watch)?;
        Ok(Run { command: self.command(present, setting, interface), ..run })
    }

    fn can(&self, rival: &str, setting: &Setting) -> Result<(), String> {
        let tool = &self.find(rival).map_err(|error| error.to_string())?.rival;
        self.has_place(tool).and_then(|()| tool.can(setting))
    }

    fn free(&self) -> Result<(u64, String)> {
        Ok((self.place.free_bytes()?, self.place.parent().display().to_string()))
    }
}

type Sites = (Vec<Box<dyn Site>>, Vec<Option<String>>);

fn sites(bed: &Topology, quaff: &Path, queues: u32) -> Result<Sites> {
    let one = |site: Box<dyn Site>| (vec![site], vec![None]);
    let lab = |layout| Lab::create(&LabPlan { layout, queues, ..LabPlan::default() });
    match bed {
        Topology::Direct => Ok(one(Box::new(LabSite { lab: lab(Layout::Pair)?, quaff: quaff.to_owned() }))),
        Topology::Span => Ok(one(Box::new(LabSite { lab: lab(Layout::Span)?, quaff: quaff.to_owned() }))),
        Topology::Tap => Ok(one(Box::new(LabSite { lab: lab(Layout::Tap)?, quaff: quaff.to_owned() }))),
        Topology::Line { mirror_mbps } => {
            let points = CapturePoint::all(*mirror_mbps);
            let site =
                |point| -> Result<Box<dyn Site>> { Ok(Box::new(LineSite::create(point, quaff, queues)?)) };
            let names = points.iter().map(|point| Some(point.name().to_owned())).collect();
            Ok((points.into_iter().map(site).collect::<Result<_>>()?, names))
        }
        Topology::Real { send_on, receive_on, sender } => {
            let real = |receive_on: &String| -> Result<Box<dyn Site>> {
                Ok(Box::new(Real::new(quaff.to_owned(), send_on, receive_on, sender.as_deref())?))
            };
            let sites = receive_on.iter().map(real).collect::<Result<_>>()?;
            Ok((sites, receive_on.iter().cloned().map(Some).collect()))
        }
    }
}
