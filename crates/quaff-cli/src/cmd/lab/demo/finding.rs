//! The findings of the demo: for each load one paragraph of plain English, made of counts alone.

use super::loads::{Class, Load};
use super::table::{Outcome, lost};
use crate::show;

/// A load that arrived at less than this part of its planned rate is reported as slower.
const ON_TIME: f64 = 0.85;

/// The results of one load.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) load: Load,
    /// All capturers with buffers of the same size, quaff first.
    pub(super) equal: Vec<Outcome>,
    /// quaff as users run it.
    pub(super) default: Option<Outcome>,
}

/// The machine and the memory, for the words about a load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene {
    /// Bytes/s that the disk took in the test.
    pub(super) disk: f64,
    /// MiB of each buffer where all are alike.
    pub(super) equal_mib: u64,
    /// Bytes of quaff's default buffer and ring.
    pub(super) default_bytes: u64,
}

impl Measured {
    /// The paragraph.
    pub(super) fn words(&self, scene: Scene) -> String {
        let (rate, slow) = (self.rate(), self.slow_disk(scene));
        let is_beyond = slow.is_some() || self.load.class == Class::Beyond && rate > scene.disk;
        let [arrived, took] = [rate, scene.disk].map(show::byte_rate);
        let more = match (self.load.class, slow) {
            (_, Some(slow)) => format!(
                " ({arrived} to a disk that took {} meanwhile, {took} in the test): memory has to hold the rest; ",
                show::byte_rate(slow)
            ),
            (Class::Beyond, None) if is_beyond => {
                format!(" ({arrived} to a disk that took {took} in the test): memory has to hold the rest; ")
            }
            (Class::Beyond, None) => ", planned: ".into(),
            (Class::Fastest, None) => ", below the disk's speed: ".into(),
            (Class::Small, None) => " as fast as possible: ".into(),
            (Class::Easy | Class::Near, None) => ": ".into(),
        };
        let (name, mib) = (self.load.class.name(), scene.equal_mib);
        let mut text = format!("{name}{more}with {mib} MiB each {}.", fates(&self.equal));
        if let Some(default) = &self.default {
            text += &self.default_words(default, scene, is_beyond);
        }
        if let Some(planned) = self.load.traffic.pps.map(|pps| self.load.file_rate(pps as f64))
            && rate < ON_TIME * planned
        {
            let (rate, planned) = (show::byte_rate(rate), show::byte_rate(planned));
            text +=
                &format!(" This machine was too busy for the load: {rate} arrived, {planned} were planned.");
        }
        text
    }

    fn default_words(&self, default: &Outcome, scene: Scene, is_beyond: bool) -> String {
        let size = show::bytes(scene.default_bytes);
        let mut text = format!(" As users run it, with {size} of its own choice, quaff {}", fate(default));
        let bridged = |bytes: f64| bytes / self.load.file_rate(default.run.offered_pps()).max(1.0);
        if is_beyond {
            let (own, equal) = (bridged(scene.default_bytes as f64), bridged((scene.equal_mib << 20) as f64));
            text += &format!(
                "; at this rate so much memory is enough for a disk that stands still for {own:.1} s ({} MiB: \
                 {equal:.1} s)",
                scene.equal_mib
            );
            let saved =
                self.equal.first().map_or(0, |equal| equal.run.lost().saturating_sub(default.run.lost()));
            if saved > 0 {
                text += &format!(
                    ". It kept {} more than with {} MiB",
                    show::number_of(saved, "frame"),
                    scene.equal_mib
                );
            }
        }
        text + "."
    }

    /// Bytes/s that the disk took in the first run of quaff, if that lost frames and if they were fewer than arrived
    /// and than the disk took in the test: a disk need not keep the speed of its first seconds.
    fn slow_disk(&self, scene: Scene) -> Option<f64> {
        let is_disk_load = self.load.class != Class::Small;
        let run = &self.equal.first().filter(|ours| is_disk_load && ours.run.lost() > 0)?.run;
        let took = run.bytes as f64 / run.writing_s.max(1e-3);
        (took < scene.disk.min(self.load.file_rate(run.offered_pps()))).then_some(took)
    }

    /// Bytes/s for the file, as they arrived in all runs together.
    fn rate(&self) -> f64 {
        let runs = || self.equal.iter().chain(&self.default);
        let frames: u64 = runs().map(|outcome| outcome.run.offered).sum();
        let seconds: f64 = runs().map(|outcome| outcome.run.seconds).sum();
        self.load.file_rate(frames as f64 / seconds.max(1e-9))
    }
}

/// "quaff and tcpdump kept every frame, dumpcap lost 3.1 %".
fn fates(runs: &[Outcome]) -> String {
    let kept: Vec<_> = runs.iter().filter(|it| it.run.lost() == 0).map(|it| it.rival.as_str()).collect();
    let mut parts = Vec::new();
    match kept.len() {
        0 => {}
        all if all == runs.len() && all > 1 => return "all kept every frame".into(),
        _ => parts.push(format!("{} kept every frame", list(&kept))),
    }
    parts.extend(runs.iter().filter(|it| it.run.lost() > 0).map(|it| format!("{} {}", it.rival, fate(it))));
    parts.join(", ")
}

fn fate(outcome: &Outcome) -> String {
    match outcome.run.lost() {
        0 => "kept every frame".into(),
        _ => format!("lost {}", lost(&outcome.run)),
    }
}

fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::outcome;
    use super::*;
    use quaff_lab::traffic::Traffic;

    const SCENE: Scene = Scene { disk: 1e9, equal_mib: 256, default_bytes: 4 << 30 };

    fn measured(class: Class, pps: u64, lost: [u64; 3]) -> Measured {
        let run = |name: &str, lost| {
            let mut run = outcome(name, 1_000_000, 1_000_000 - lost, None);
            run.run.seconds = 1.0;
            (run.run.bytes, run.run.writing_s) = ((1_000_000 - lost) * 1_544, 1.0);
            run
        };
        Measured {
            load: Load { class, traffic: Traffic::bytes(1500, Some(pps), 1_000_000) },
            equal: vec![run("quaff", lost[0]), run("tcpdump", lost[1])],
            default: Some(run("quaff", lost[2])),
        }
    }

    #[test]
    fn a_load_without_loss_is_one_sentence() {
        assert_eq!(
            measured(Class::Easy, 1_000_000, [0, 0, 0]).words(SCENE),
            "Well below the disk's speed: with 256 MiB each all kept every frame. As users run it, with 4.00 GiB \
             of its own choice, quaff kept every frame."
        );
        let near = measured(Class::Near, 1_000_000, [0, 310_000, 0]).words(SCENE);
        assert!(near.contains("quaff kept every frame, tcpdump lost 31.0 %"), "{near}");
    }

    #[test]
    fn above_the_speed_of_the_disk_memory_is_what_helps() {
        let words = measured(Class::Beyond, 1_000_000, [300_000, 400_000, 10]).words(SCENE);
        for part in [
            "1.54 GB/s to a disk that took 1.00 GB/s in the test",
            "quaff lost 30.0 %, tcpdump lost 40.0 %",
            "quaff lost <0.01 %",
            "stands still for 2.8 s (256 MiB: 0.2 s)",
            "It kept 299,990 frames more than with 256 MiB.",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }

    #[test]
    fn a_disk_that_slows_down_is_what_the_load_is_compared_with() {
        let words =
            measured(Class::Fastest, 1_000_000, [300_000, 400_000, 0]).words(Scene { disk: 2e9, ..SCENE });
        assert!(words.contains("1.54 GB/s to a disk that took 1.08 GB/s meanwhile, 2.00 GB/s in"), "{words}");
        assert!(words.contains("quaff kept every frame; at this rate"), "{words}");
        let kept = measured(Class::Fastest, 1_000_000, [0, 400_000, 0]).words(Scene { disk: 2e9, ..SCENE });
        assert!(kept.contains("below the disk's speed: "), "{kept}");
    }

    #[test]
    fn a_load_that_did_not_arrive_is_reported() {
        let words = measured(Class::Beyond, 2_000_000, [0, 0, 0]).words(Scene { disk: 2e9, ..SCENE });
        assert!(words.contains("planned: with 256 MiB") && words.contains("too busy"), "{words}");
    }
}
