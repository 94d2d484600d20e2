//! `--stats`: tcpreplay's progress lines, on stdout.

use super::options::Options;
use super::text;
use crate::show::print;
use quaff_send::{ReplayReport, Snapshot};

/// Schedule of the progress lines.
#[derive(Debug)]
pub(super) struct Stats {
    when: Option<When>,
    loops: Option<u64>,
    has_begun: bool,
    /// Loops already reported, or the time of the next line, ns.
    reported: u64,
}

#[derive(Debug, Clone, Copy)]
enum When {
    EachLoop,
    Every { ns: u64 },
}

impl Stats {
    pub(super) fn new(options: &Options) -> Self {
        let when = options.number("stats").map(|seconds| match seconds {
            0 => When::EachLoop,
            _ => When::Every { ns: seconds.saturating_mul(1_000_000_000) },
        });
        let loops = Some(options.number("loop").unwrap_or(1)).filter(|loops| *loops > 0);
        Self { when, loops, has_begun: false, reported: 0 }
    }

    /// Prints the lines that are due.
    pub(super) fn look(&mut self, snapshot: &Snapshot) {
        let Some(when) = self.when.filter(|_| snapshot.sent > 0) else { return };
        self.begin(when);
        let report = |packets, bytes, us| print(text::rated(packets, bytes, us).trim_end_matches('\n'));
        match when {
            When::EachLoop => {
                while self.reported < snapshot.passes
                    && self.loops.is_none_or(|loops| self.reported + 1 < loops)
                {
                    self.reported += 1;
                    report(snapshot.sent, snapshot.bytes, snapshot.elapsed_ns / 1000);
                    self.name_loop(self.reported + 1);
                }
            }
            When::Every { ns } => {
                if self.reported == 0 {
                    self.reported = ns;
                }
                if snapshot.elapsed_ns >= self.reported {
                    report(snapshot.sent, snapshot.bytes, snapshot.elapsed_ns / 1000);
                    self.reported = (snapshot.elapsed_ns / ns + 1) * ns;
                }
            }
        }
    }

    /// Prints the remaining lines.
    pub(super) fn end(&mut self, report: &ReplayReport) {
        let Some(when) = self.when.filter(|_| report.sent > 0) else { return };
        let (passes, us) = (report.loops.saturating_sub(1), (report.seconds * 1e6) as u64);
        let (sent, bytes) = (report.sent, report.bytes);
        if matches!(when, When::EachLoop) {
            self.look(&Snapshot { sent, bytes, passes, elapsed_ns: us * 1000, ..Snapshot::default() });
        }
        self.begin(when);
        print(&format!("Test complete: {}", now()));
    }

    fn begin(&mut self, when: When) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        if matches!(when, When::EachLoop) && self.loops != Some(1) {
            self.name_loop(1);
        }
        print(&format!("Test start: {} ...", now()));
    }

    fn name_loop(&self, number: u64) {
        match self.loops {
            Some(loops) => print(&format!("Loop {number} of {loops}...")),
            None => print(&format!("Loop {number}...")),
        }
    }
}

/// Local time, with µs.
fn now() -> String {
    jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S.%6f").to_string()
}
