//! The shell of a run: its start on a thread, signals, its duration, the progress line, incidents, and the immediate
//! end after a second signal. A product says what there is to show. The shell never captures or sends, and decides no
//! exit status.

mod args;
mod incident;
mod read_progress;
mod signals;

pub use crate::show::{Part, print};
pub(crate) use args::ONLY_ERRORS;
pub use args::{DurationArgs, QuietArgs, ReportArgs, WatchArgs};
pub use incident::Incident;
pub(crate) use read_progress::{ReadProgress, resident_part};
pub(crate) use signals::block;

use crate::exit::{Exit, RunEnd};
use crate::show::{self, LiveLine, message, say};
use quaff_os::{Reason, Signal, SignalInfo, Signals, Stop, Wakeup};
use signals::Asked;
use std::fmt;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// Longest wait of a run for its next event, without a line to draw.
const LOOK: Duration = Duration::from_secs(2);
/// Interval of checks for the last write of an ending run.
const LOOK_END: Duration = Duration::from_millis(2);
/// Interval of the progress line on a terminal; rates are measured over this time at least.
const DRAW: Duration = Duration::from_millis(500);

/// A run, as the shell watches it.
pub trait Product {
    /// The loss by an immediate end: the second part of a sentence.
    const LOSS: &'static str;
    /// The result of the run.
    type Report;

    /// Returns whether the run has ended, by itself or after it was asked to.
    fn is_over(&self) -> bool;
    /// Ends the run, and waits for its threads.
    fn finish(self) -> Self::Report;
    /// The parts of the progress line; rates are those since the call before.
    fn progress(&mut self) -> Vec<Part>;
    /// The parts of the line that SIGUSR1 asks for; `None` if the run does something else then.
    fn on_usr1(&mut self) -> Option<Vec<Part>> {
        Some(self.progress())
    }
    /// The parts of a line of `--stats`; `None` if they are shown elsewhere.
    fn stats(&mut self) -> Option<Vec<Part>> {
        Some(self.progress())
    }
    /// Looks at the run; returns what has happened since the call before. `is_ending`: it was asked to end.
    fn look(&mut self, is_ending: bool) -> Vec<Incident> {
        let _ = is_ending;
        Vec::new()
    }
    /// Longest time between two looks.
    fn look_interval(&self) -> Duration {
        LOOK
    }
    /// Takes the signal that will end the run, before the stop is raised.
    fn end(&mut self, signal: &SignalInfo) {
        let _ = signal;
    }
    /// The wakeup that the run signals at its end. A run that ends with its stop needs none of its own.
    fn wakeup(&self) -> anyhow::Result<Wakeup> {
        Ok(Wakeup::new()?)
    }
}

/// The lines that a run shows, and its longest duration.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// 1: only errors and "capturing", 2: only errors.
    pub quiet: u8,
    /// Draws a progress line on a terminal.
    pub has_line: bool,
    /// Interval of progress lines, also without a terminal.
    pub stats: Option<Duration>,
    /// Time after which the run is asked to end.
    pub duration: Option<Duration>,
}

impl Settings {
    /// A progress line if stderr is a terminal and the user did not ask for quiet.
    pub fn new(args: &WatchArgs, duration: Option<Duration>) -> Self {
        let has_line = !args.quiet.is_set() && std::io::stderr().is_terminal();
        Self { quiet: args.quiet.count(), has_line, stats: args.stats, duration }
    }
}

/// A signal ended the start of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedEarly;

impl fmt::Display for EndedEarly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ended before the first packet")
    }
}

impl std::error::Error for EndedEarly {}

/// The shell of one run.
#[derive(Debug)]
pub struct Shell {
    settings: Settings,
    signals: Signals,
    stop: Stop,
    asked: Asked,
    line: LiveLine,
    started: Instant,
    /// Time of the last line of `--stats`, and of the last measurement of rates.
    printed: Instant,
    measured: Instant,
}

impl Shell {
    /// Blocks the signals that end a run, and SIGUSR1. Call it before the first thread, which inherits the mask.
    pub fn new(settings: Settings) -> anyhow::Result<Self> {
        Self::with_signals(settings, &[])
    }

    /// A shell that receives `more` signals.
    pub(crate) fn with_signals(settings: Settings, more: &[Signal]) -> anyhow::Result<Self> {
        let signals = block(&[&[Signal::SIGUSR1], more].concat())?;
        let now = Instant::now();
        Ok(Self {
            settings,
            signals,
            stop: Stop::default(),
            asked: Asked::default(),
            line: LiveLine { is_live: settings.has_line },
            started: now,
            printed: now,
            measured: now,
        })
    }

    /// The flag that ends the run.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// The signals, for waits after the run.
    pub(crate) fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Starts a run on a thread of its own: locking memory and waiting for a pipe can take seconds, during which
    /// signals must be handled. The error is [`EndedEarly`] if a signal ended the start. A run that was started
    /// meanwhile may have taken packets: it is returned, with the stop raised, and ends as any other, with its report.
    pub fn start<T: Send + 'static, E: Send + Into<anyhow::Error> + 'static>(
        &mut self,
        start: impl FnOnce(Stop) -> Result<T, E> + Send + 'static,
    ) -> anyhow::Result<T> {
        let stop = self.stop.clone();
        let starting = quaff_os::spawn("quaff-start", move || start(stop))?;
        while !starting.is_finished() {
            match self.signals.next(Duration::from_millis(5))?.map(|heard| heard.signal) {
                // A terminal that is resized, or a process that continues, does not end.
                Some(Signal::SIGUSR1 | Signal::SIGWINCH | Signal::SIGTSTP | Signal::SIGCONT) | None => {}
                // The start may wait forever, such as for the reader of a pipe.
                Some(signal) if self.asked.is_second(signal) => end_now(&EndedEarly.to_string()),
                Some(_) => self.stop.raise(Reason::Signal),
            }
        }
        let started =
            starting.join().map_err(|_| anyhow::anyhow!("a defect of quaff: the start panicked"))?;
        match started {
            Err(_) if self.stop.reason() == Some(Reason::Signal) => Err(EndedEarly.into()),
            started => started.map_err(Into::into),
        }
    }

    /// Prints notes about a start.
    pub(crate) fn notes(&self, notes: &[String]) {
        if self.settings.quiet == 0 {
            notes.iter().for_each(|note| message(note));
        }
    }

    /// Prints the word that scripts wait for: from now on every packet is taken. Files need none.
    pub fn begun(&self, is_live: bool) {
        if is_live && self.settings.quiet < 2 {
            say("capturing");
        }
    }

    /// Watches a run until it is over, and finishes it.
    pub fn run<P: Product>(&mut self, mut product: P) -> anyhow::Result<P::Report> {
        self.watch(&mut product)?;
        Ok(product.finish())
    }

    /// Watches a run until it is over: a signal, the duration, or its own end.
    pub(crate) fn watch<P: Product>(&mut self, product: &mut P) -> anyhow::Result<()> {
        let wakeup = product.wakeup()?;
        self.stop.wake(wakeup.clone());
        self.begin();
        while !product.is_over() {
            let wait = self.wait(product);
            let heard = self.signals.next_or(&wakeup, wait)?;
            wakeup.clear();
            self.handle(product, heard);
        }
        self.end_line();
        Ok(())
    }

    /// One look at a run that another loop drives: takes a signal that comes within `wait`. Returns whether the run
    /// must end.
    pub(crate) fn turn<P: Product>(&mut self, product: &mut P, wait: Duration) -> bool {
        match self.signals.next(wait) {
            Ok(heard) => self.handle(product, heard),
            // Without a readable signalfd no signal could end the run; better to end it with a report.
            Err(_) => self.stop.raise(Reason::Signal),
        }
        self.stop.raised()
    }

    /// Asks the run to end, as a signal does.
    pub(crate) fn ask(&mut self) {
        self.asked.note();
        self.stop.raise(Reason::Signal);
    }

    /// Erases the progress line.
    pub(crate) fn end_line(&self) {
        self.line.draw("");
    }

    /// Time begins with the watch, not with the start.
    fn begin(&mut self) {
        let now = Instant::now();
        (self.started, self.printed, self.measured) = (now, now, now);
    }

    /// The longest wait for the next event.
    fn wait(&self, product: &impl Product) -> Duration {
        if self.stop.raised() {
            return LOOK_END;
        }
        let left =
            |time: Option<Duration>, since: Instant| time.map(|time| time.saturating_sub(since.elapsed()));
        let drawn = self.line.is_live.then_some(DRAW);
        let times = [
            left(self.settings.duration, self.started),
            left(self.settings.stats, self.printed),
            left(drawn, self.measured),
        ];
        times.into_iter().flatten().fold(product.look_interval(), Duration::min)
    }

    /// Handles a signal, the duration, incidents and the progress line.
    fn handle<P: Product>(&mut self, product: &mut P, heard: Option<SignalInfo>) {
        match heard {
            Some(SignalInfo { signal: Signal::SIGUSR1, .. }) => {
                product.on_usr1().iter().for_each(|parts| self.print(parts));
            }
            Some(SignalInfo { signal: Signal::SIGWINCH | Signal::SIGTSTP | Signal::SIGCONT, .. }) | None => {}
            Some(heard) if self.asked.is_second(heard.signal) => {
                self.end_line();
                end_now(&format!("ended immediately; {}", P::LOSS));
            }
            Some(heard) if !self.stop.raised() => {
                product.end(&heard);
                self.stop.raise(Reason::Signal);
            }
            // A signal that is no second one: that of timeout(1), or SIGHUP.
            Some(_) => {}
        }
        if !self.stop.raised() && self.settings.duration.is_some_and(|time| self.started.elapsed() >= time) {
            self.stop.raise(Reason::Duration);
        }
        for incident in product.look(self.stop.raised()) {
            if incident.is_severe || self.settings.quiet == 0 {
                self.end_line();
                show::incident(&incident.words);
            }
        }
        self.show_progress(product);
    }

    /// Prints the line of `--stats` and draws that of a terminal, if they are due.
    fn show_progress(&mut self, product: &mut impl Product) {
        if self.settings.stats.is_some_and(|each| self.printed.elapsed() >= each) {
            self.printed = Instant::now();
            if let Some(parts) = product.stats() {
                self.print(&parts);
            }
        }
        if self.line.is_live && self.measured.elapsed() >= DRAW {
            self.measured = Instant::now();
            self.line.draw_parts(&product.progress());
        }
    }

    /// Prints a progress line permanently.
    fn print(&mut self, parts: &[Part]) {
        self.measured = Instant::now();
        let line = show::joined(parts);
        if !line.is_empty() {
            self.line.print(&line);
        }
    }
}

/// The exit status of a run by its report. A status that is not 0 has its reason in words, whatever the user asked for:
/// `has_words` if a report in words has it already.
pub(crate) fn ended<'a>(end: impl Into<RunEnd<'a>>, has_words: bool) -> Exit {
    let end = end.into();
    if let Some(why) = end.why().filter(|_| !has_words) {
        message(&why);
    }
    Exit::of(end)
}

/// Ends the process after a second signal: nothing is waited for.
fn end_now(words: &str) -> ! {
    message(words);
    show::close();
    std::process::exit(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that ends after its stop, and counts what the shell asks.
    struct Counted {
        stop: Stop,
        looks: u64,
        lines: u64,
    }

    impl Product for Counted {
        const LOSS: &'static str = "nothing is lost";
        type Report = [u64; 2];

        fn is_over(&self) -> bool {
            self.stop.raised()
        }

        fn finish(self) -> [u64; 2] {
            [self.looks, self.lines]
        }

        fn progress(&mut self) -> Vec<Part> {
            self.lines += 1;
            Vec::new()
        }

        fn look(&mut self, _: bool) -> Vec<Incident> {
            self.looks += 1;
            Vec::new()
        }

        fn look_interval(&self) -> Duration {
            Duration::from_millis(10)
        }
    }

    #[test]
    fn a_run_is_looked_at_until_its_duration_has_passed() {
        let (duration, stats) = (Some(Duration::from_millis(100)), Some(Duration::from_millis(30)));
        let mut shell = Shell::new(Settings { duration, stats, ..Settings::default() }).unwrap();
        let counted = shell.start(|stop| anyhow::Ok(Counted { stop, looks: 0, lines: 0 })).unwrap();
        let [looks, lines] = shell.run(counted).unwrap();
        assert_eq!(shell.stop().reason(), Some(Reason::Duration));
        assert!((2..=20).contains(&looks) && (1..=3).contains(&lines), "{looks} looks, {lines} lines");
    }

    #[test]
    fn a_start_that_a_signal_ends_is_no_error_of_its_own() {
        let mut shell = Shell::new(Settings::default()).unwrap();
        let failed = || Err::<(), _>(anyhow::anyhow!("no such file"));
        assert_eq!(shell.start(move |_| failed()).unwrap_err().to_string(), "no such file");
        shell.ask();
        assert!(shell.start(move |_| failed()).unwrap_err().is::<EndedEarly>());
        assert!(shell.start(|_| anyhow::Ok(())).is_ok(), "a run that was started has a report");
    }
}
