//! `--stats`: tcpreplay's progress lines.

use super::options::Options;
use super::text;
use quaff_send::{ReplayReport, Snapshot};

/// Schedule of the progress lines.
#[derive(Debug)]
pub struct Stats {
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

    /// The lines that are due.
    pub fn look(&mut self, snapshot: &Snapshot) -> Vec<String> {
        let Some(when) = self.when.filter(|_| snapshot.sent > 0) else { return Vec::new() };
        let mut lines = self.begin(when);
        let rated = || {
            let text = text::rated(snapshot.sent, snapshot.bytes, snapshot.elapsed_ns / 1000);
            text.trim_end_matches('\n').to_owned()
        };
        match when {
            When::EachLoop => {
                while self.reported < snapshot.passes
                    && self.loops.is_none_or(|loops| self.reported + 1 < loops)
                {
                    self.reported += 1;
                    lines.extend([rated(), self.name_of(self.reported + 1)]);
                }
            }
            When::Every { ns } => {
                if self.reported == 0 {
                    self.reported = ns;
                }
                if snapshot.elapsed_ns >= self.reported {
                    lines.push(rated());
                    self.reported = (snapshot.elapsed_ns / ns + 1) * ns;
                }
            }
        }
        lines
    }

    /// The remaining lines.
    pub fn end(&mut self, report: &ReplayReport) -> Vec<String> {
        let Some(when) = self.when.filter(|_| report.sent > 0) else { return Vec::new() };
        let (passes, us) = (report.loops.saturating_sub(1), (report.seconds * 1e6) as u64);
        let (sent, bytes) = (report.sent, report.bytes);
        let mut lines = Vec::new();
        if matches!(when, When::EachLoop) {
            lines =
                self.look(&Snapshot { sent, bytes, passes, elapsed_ns: us * 1000, ..Snapshot::default() });
        }
        lines.extend(self.begin(when));
        lines.push(format!("Test complete: {}", now()));
        lines
    }

    /// The lines before the first progress; none a second time.
    fn begin(&mut self, when: When) -> Vec<String> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Vec::new();
        }
        let is_named = matches!(when, When::EachLoop) && self.loops != Some(1);
        let first = is_named.then(|| self.name_of(1));
        first.into_iter().chain([format!("Test start: {} ...", now())]).collect()
    }

    fn name_of(&self, number: u64) -> String {
        match self.loops {
            Some(loops) => format!("Loop {number} of {loops}..."),
            None => format!("Loop {number}..."),
        }
    }
}

/// Local time, with µs.
fn now() -> String {
    jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S.%6f").to_string()
}
