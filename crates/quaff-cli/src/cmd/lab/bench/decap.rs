//! Frames inside a mirror's headers: live, with the filter in the kernel and without, and in a file
//! beside editcap.

use super::check::{Check, Series};
use super::pipe::{Rates, faster};
use super::{Bench, words};
use quaff_bench::method::pipeline::STRIPPERS;
use quaff_lab::Error;
use quaff_lab::traffic::Traffic;

/// The rate at which nothing may be lost, frames/s.
const PPS: u64 = 500_000;
/// CPU with the filter in the kernel, to that with it in user space, at most.
const CPU_RATIO_MAX: f64 = 0.2;
/// Bytes/s from a file, ours to editcap's, at least.
const FILE_RATIO_MIN: f64 = 2.0;
/// Frames of the file, of 512 bytes inside 50: about 1 GB.
const FILE_FRAMES: u64 = 1_700_000;

impl Bench<'_> {
    pub(super) fn tunnels(&mut self) -> quaff_lab::Result<()> {
        for frame_bytes in [64, 512] {
            let traffic = self.mirrored(frame_bytes, 3_000_000);
            let [ours] = self.interleaved([("quaff --decap", None)], &traffic)?;
            let what = format!("{}, inside ERSPAN, looked at and kept", words(&traffic));
            self.checks.push(super::check::lossless("32", &what, &ours, &[]));
            self.series.push(ours);
            let traffic = self.mirrored(frame_bytes, 6_000_000);
            let [kernel, user] =
                self.interleaved([("quaff --inner", None), ("quaff --inner-user", None)], &traffic)?;
            self.checks.push(cheaper(&words(&traffic), &kernel, &user));
            self.series.extend([kernel, user]);
        }
        Ok(())
    }

    pub(super) fn tunnels_in_a_file(&mut self) -> quaff_lab::Result<()> {
        let traffic = self.mirrored(512, FILE_FRAMES);
        let Some(quaff) = self.setup.present.iter().find(|present| present.rival.name == "quaff") else {
            return Ok(());
        };
        self.progress.expect(1 + self.args.runs * STRIPPERS.len() as u64);
        self.progress.about("a file of mirrored frames".into());
        let (_, dir) = self.setup.run(quaff, &traffic, None, &self.progress)?;
        self.progress.done();
        let Some(file) = dir.files()?.into_iter().next() else { return Ok(()) };
        let mut all = STRIPPERS.map(|stripper| Rates::new(stripper.name, "a file of mirrored frames"));
        for _ in 0..self.args.runs {
            for (stripper, rates) in STRIPPERS.iter().zip(&mut all) {
                match self.setup.strip_rate(stripper, &file, &self.progress) {
                    Ok(rate) => rates.bytes_per_second.push(rate),
                    Err(Error::Tool { what, .. }) => rates.failed = Some(what),
                    Err(error) => return Err(error),
                }
                self.progress.done();
            }
        }
        let must = format!(
            "ERSPAN taken off a file of 1 GB: at least {FILE_RATIO_MIN} times the bytes/s of editcap -C 50"
        );
        self.checks.push(faster("33", must, FILE_RATIO_MIN, &all));
        self.rates.extend(all);
        Ok(())
    }

    fn mirrored(&self, frame_bytes: u32, count: u64) -> Traffic {
        Traffic { mirrored: true, ..self.traffic(frame_bytes, Some(PPS), count) }
    }
}

/// What is kept out in the kernel costs less.
fn cheaper(traffic: &str, kernel: &Series, user: &Series) -> Check {
    let cpu = |series: &Series| series.median(quaff_bench::method::Outcome::cpu_ns_per_frame);
    let (ours, theirs) = (cpu(kernel), cpu(user));
    let ratio = ours.zip(theirs).map(|(ours, theirs)| ours / theirs);
    let said = |ns: Option<f64>| ns.map_or("not measured".into(), |ns| format!("{ns:.0} ns"));
    let mut measured = format!("in the kernel {}, in user space {}", said(ours), said(theirs));
    if let Some(ratio) = ratio {
        measured += &format!(": {ratio:.2}");
    }
    Check {
        number: "32",
        must: format!(
            "{traffic}, inside ERSPAN, one in a hundred kept: CPU per packet with --inner in the kernel at most \
             {CPU_RATIO_MAX} of that in user space"
        ),
        measured,
        holds: ratio.map(|ratio| ratio <= CPU_RATIO_MAX),
    }
}
