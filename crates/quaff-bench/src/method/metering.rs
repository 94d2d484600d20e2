//! A run of a flow meter: compares the packets that arrive at an interface, or are in a file, with the records that a
//! collector receives. A failure of the meter is part of the result; its printed output does not count.

use super::capturer::{Capturer, Ended, failed};
use super::collector::{Collected, Collector};
use super::place::{Place, RunDir};
use super::records::{self, Sums};
use super::run::{Bench, Cores};
use crate::stats::loss_ratio;
use crate::{Error, Result};
use quaff::tally::Verdict;
use quaff_lab::tool::{FlowMeter, MeterPlaces, Output, Setting, Tool};
use quaff_lab::topology::{LabSite, Site, Watch};
use quaff_lab::traffic::Traffic;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::path::Path;
use std::time::Duration;

/// Time limit of a run on a file.
const FILE_MAX: Duration = Duration::from_secs(1800);

/// The equipment of all runs of flow meters, and the settings of all meters.
#[derive(Debug, Clone, Copy)]
pub struct MeterBench<'a> {
    pub site: &'a LabSite,
    pub place: &'a Place,
    pub cores: Cores,
    /// The cores of a meter that reads a file.
    pub file_cores: &'a [usize],
    /// Active and idle timeout, s.
    pub active_s: u32,
    pub idle_s: u32,
    /// Maximum number of flows in a table.
    pub flows_max: u64,
    /// Buffer between the kernel and a meter, MiB.
    pub buffer_mib: u64,
}

/// The packets that a meter has to report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// All frames.
    pub frames: u64,
    /// IP packets, which belong to flows.
    pub packets: u64,
    /// Bytes of these packets, from the IP header on.
    pub bytes: u64,
    /// Flows of these packets, with each direction of addresses, ports and protocol as one, as Tcpreplay counts them.
    pub flows: u64,
}

/// The figures of one run of a flow meter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MeterRun {
    /// Number of the round, from 1.
    pub round: u32,
    pub sent: Load,
    /// Frames that arrived at the interface, or are in the file.
    pub offered: u64,
    /// Time from the first to the last frame; for a file, from the start of the meter to its end, s.
    pub seconds: f64,
    /// Received records, and the packets and bytes in them.
    pub records: u64,
    pub packets: u64,
    pub bytes: u64,
    /// Received datagrams; and missed ones: dropped by the kernel at the collector's socket, or not stored for lack of
    /// memory.
    pub datagrams: u64,
    pub collector_dropped: u64,
    /// Datagrams, and sets in them, with an unknown template or format.
    pub undecoded: u64,
    /// Share of the sent packets that were not reported, 0 to 1; `None` if the run failed.
    pub loss: Option<f64>,
    pub verdict: Verdict,
    /// CPU time of the meter's processes from the first frame on, s; for a file the total.
    pub cpu_s: f64,
    /// Peak resident memory of the meter's processes, bytes.
    pub memory_bytes: u64,
    /// The meter's command line, with DIR for the output directory.
    pub command: Vec<String>,
    /// Why the run failed.
    pub failed: Option<String>,
}

impl Load {
    /// The load of `times` passes.
    pub fn times(self, times: u64) -> Self {
        let of = |number: u64| number.saturating_mul(times);
        Self {
            frames: of(self.frames),
            packets: of(self.packets),
            bytes: of(self.bytes),
            flows: of(self.flows),
        }
    }
}

impl MeterRun {
    /// Frames/s.
    pub fn pps(&self) -> f64 {
        self.offered as f64 / self.seconds.max(1e-9)
    }

    /// Flows/s.
    pub fn fps(&self) -> f64 {
        self.sent.flows as f64 / self.seconds.max(1e-9)
    }

    /// CPU time per million packets, s.
    pub fn cpu_per_million(&self) -> f64 {
        self.cpu_s * 1e6 / (self.offered as f64).max(1.0)
    }

    /// Sets loss and verdict. Missing packets are the meter's loss, unless the collector missed datagrams or could not
    /// decode them, or frames did not arrive; more packets than were sent cannot be explained.
    fn judge(&mut self) {
        if self.failed.is_some() {
            return;
        }
        self.loss = loss_ratio(self.sent.packets, self.packets);
        let has_arrived = self.offered == self.sent.frames;
        let is_known = self.collector_dropped == 0 && self.undecoded == 0;
        self.verdict = match self.packets.cmp(&self.sent.packets) {
            Ordering::Equal if has_arrived => Verdict::Lossless,
            Ordering::Less if has_arrived && is_known => Verdict::Lossy,
            _ => Verdict::Unknown,
        };
    }
}

impl MeterBench<'_> {
    /// Performs one run of `meter`, found at `program`, on the lab's interface; `traffic` has `load` in total.
    ///
    /// A failure of the meter is in [`MeterRun::failed`]; all its processes have ended.
    ///
    /// # Errors
    /// Failures of anything but the meter: the generator fails, or the watch ends the run.
    pub fn live(
        &self,
        meter: &FlowMeter,
        program: &Path,
        traffic: &Traffic,
        load: Load,
        watch: Watch<'_>,
    ) -> Result<MeterRun> {
        self.run(meter, program, None, load, |run, mut capturer| {
            capturer.ready(watch)?;
            let sent = self.site.send(traffic, self.cores.generator, watch, &mut || capturer.look())?;
            capturer.settle(u64::MAX, watch)?;
            let ended = capturer.stop(watch)?;
            (run.offered, run.seconds) = (sent.offered, sent.seconds);
            run.cpu_s = (ended.cpu_s - ended.startup_s()).max(0.0);
            Ok(ended)
        })
    }

    /// Performs one run of `meter` on a file with `load`.
    ///
    /// # Errors
    /// As [`Self::live`].
    pub fn file(
        &self,
        meter: &FlowMeter,
        program: &Path,
        input: &Path,
        load: Load,
        watch: Watch<'_>,
    ) -> Result<MeterRun> {
        self.run(meter, program, Some(input), load, |run, capturer| {
            let ended = capturer.run_to_end(FILE_MAX, watch)?;
            (run.offered, run.seconds) = (load.frames, ended.took.as_secs_f64());
            run.cpu_s = ended.cpu_s;
            Ok(ended)
        })
    }

    /// The command line of a meter, with DIR for the output directory.
    pub fn command(&self, meter: &FlowMeter, input: Option<&Path>) -> Vec<String> {
        let places = self.places(Path::new("DIR"), ([127, 0, 0, 1], 2055).into(), input);
        let words = |tool: Tool| [tool.program.display().to_string()].into_iter().chain(tool.args).collect();
        meter.command(&places).map(words).unwrap_or_default()
    }

    fn run(
        &self,
        meter: &FlowMeter,
        program: &Path,
        input: Option<&Path>,
        load: Load,
        work: impl FnOnce(&mut MeterRun, Capturer<'_>) -> Result<Ended>,
    ) -> Result<MeterRun> {
        let mut run = MeterRun { sent: load, command: self.command(meter, input), ..MeterRun::default() };
        match self.measure(meter, program, input, &mut run, work) {
            Err(Error::Tool { name, what }) if name == meter.name => run.failed = Some(what),
            done => done?,
        }
        run.judge();
        Ok(run)
    }

    fn measure(
        &self,
        meter: &FlowMeter,
        program: &Path,
        input: Option<&Path>,
        run: &mut MeterRun,
        work: impl FnOnce(&mut MeterRun, Capturer<'_>) -> Result<Ended>,
    ) -> Result<()> {
        let dir: RunDir = self.place.run_dir()?;
        let collector = Collector::start(&self.site.lab.rx, self.cores.generator)?;
        let places = self.places(&dir.path, collector.address, input);
        meter.write_config(&places)?;
        let not = |what: String| Error::Tool { name: meter.name.clone(), what };
        let tool = meter.command(&places).map_err(not)?;
        let (site, quaff) = (self.site, self.site.quaff.as_path());
        let bench = Bench { site, quaff, place: self.place, cores: self.cores };
        let setting = Setting { output: Output::Null, ..Setting::default() };
        let on_interface = [self.cores.capturer];
        let cores = if input.is_some() { self.file_cores } else { &on_interface[..] };
        let capturer = Capturer::start(&bench, &tool, program, &setting, cores)?;
        let ended = work(run, capturer)?;
        run.memory_bytes = ended.memory_bytes_max;
        if input.is_some() && !ended.status.success() {
            return Err(failed(&tool, &format!("failed ({})", ended.status), &ended.said));
        }
        let collected: Collected = collector.stop()?;
        (run.datagrams, run.collector_dropped) = (collected.datagrams, collected.missed);
        let Sums { records, packets, bytes, undecoded } = records::decode(&collected)?;
        (run.records, run.packets, run.bytes, run.undecoded) = (records, packets, bytes, undecoded);
        Ok(())
    }

    fn places<'b>(
        &'b self,
        dir: &'b Path,
        collector: std::net::SocketAddr,
        input: Option<&'b Path>,
    ) -> MeterPlaces<'b> {
        MeterPlaces {
            interface: self.site.interface(),
            input,
            collector,
            active_s: self.active_s,
            idle_s: self.idle_s,
            flows_max: self.flows_max,
            buffer_mib: self.buffer_mib,
            dir,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_names_only_the_meter_for_what_the_meter_lost() {
        let sent = Load { frames: 110, packets: 100, bytes: 9000, flows: 10 };
        let whole = MeterRun { sent, offered: 110, packets: 100, ..MeterRun::default() };
        let judged = |run: MeterRun| {
            let mut run = run;
            run.judge();
            (run.verdict, run.loss)
        };
        assert_eq!(judged(whole.clone()), (Verdict::Lossless, Some(0.0)));
        let less = MeterRun { packets: 75, ..whole.clone() };
        assert_eq!(judged(less.clone()), (Verdict::Lossy, Some(0.25)));
        let missed = MeterRun { collector_dropped: 1, ..less.clone() };
        assert_eq!(judged(missed), (Verdict::Unknown, Some(0.25)));
        let undecoded = MeterRun { undecoded: 1, ..less.clone() };
        assert_eq!(
            judged(undecoded),
            (Verdict::Unknown, Some(0.25)),
            "undecoded datagrams may contain the packets"
        );
        let on_the_way = MeterRun { offered: 109, ..less };
        assert_eq!(judged(on_the_way), (Verdict::Unknown, Some(0.25)));
        let more = MeterRun { packets: 101, ..whole.clone() };
        assert_eq!(judged(more), (Verdict::Unknown, Some(0.0)));
        let failed = MeterRun { failed: Some("it crashed".into()), ..whole };
        assert_eq!(judged(failed), (Verdict::Unknown, None));
    }
}
