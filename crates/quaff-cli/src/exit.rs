//! The exit status of the commands: the one place that decides it. Reports say what happened; nothing else here does.

use quaff::flows::FlowReport;
use quaff::pipe::PipeReport;
use quaff::split::Report as SplitReport;
use quaff::streams::{ScriptsReport, StreamsReport};
use quaff::tally::{InputTally, Ledger, Verdict};
use quaff_flow::collector::SinkReport;
use quaff_os::Reason;
use std::process::ExitCode;

/// The exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done, and nothing was lost.
    Done,
    /// 1: done with loss, or with a difference.
    Loss,
    /// 2: failed.
    Failed,
    /// The exit status of a command that was run for the user.
    Child(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::from(0),
            Exit::Loss => Self::from(1),
            Exit::Failed => Self::from(2),
            Exit::Child(code) => Self::from(code),
        }
    }
}

impl Exit {
    /// The status of a result: all is there and agrees, or not; `None` is no result.
    pub(crate) fn judged(is_whole: impl Into<Option<bool>>) -> Self {
        match is_whole.into() {
            Some(true) => Self::Done,
            Some(false) => Self::Loss,
            None => Self::Failed,
        }
    }

    /// The status of a run by its report.
    pub fn of<'a>(end: impl Into<RunEnd<'a>>) -> Self {
        let end = end.into();
        match end.ended_by {
            _ if end.failure.is_some() || end.took_nothing => Self::Failed,
            Some(Reason::WriteError(_) | Reason::InterfaceGone(_) | Reason::Failed(_)) => Self::Failed,
            Some(Reason::DiskFull) => Self::Loss,
            _ => Self::judged(end.is_whole() && end.verdict == Verdict::Lossless),
        }
    }
}

/// The facts that the exit status of a run depends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunEnd<'a> {
    failure: Option<&'a str>,
    ended_by: Option<&'a Reason>,
    input: Option<&'a InputTally>,
    verdict: Verdict,
    /// Of the outputs, a sentence each.
    write_failures: &'a [String],
    /// The end of an output that has failed, while others may continue.
    failed_output: Option<&'a Reason>,
    /// Every output failed before it took anything.
    took_nothing: bool,
    /// Something that is in no verdict is missing or wrong.
    pub(crate) has_defect: bool,
}

impl RunEnd<'_> {
    fn is_whole(&self) -> bool {
        self.input.is_none_or(InputTally::is_whole) && !self.has_defect
    }

    /// The reason of a status that is not 0, in one line; `None` for success.
    pub(crate) fn why(&self) -> Option<String> {
        let exit = Exit::of(*self);
        if exit == Exit::Done {
            return None;
        }
        let of_input = self.input.and_then(|input| input.failure.as_ref().or(input.damages.first()));
        let ended = self.ended_by.and_then(words).or(self.failed_output.and_then(words));
        let others = || ended.or(of_input.or(self.write_failures.first()).cloned());
        let known = self.failure.map(str::to_owned).or_else(others);
        let rest = match (self.verdict, exit) {
            _ if self.took_nothing => "nothing could be written",
            (Verdict::Lossy, _) => "packets or bytes are missing",
            (Verdict::Unknown, _) => "packets may be missing",
            (_, Exit::Failed) => "it failed",
            _ => "the output is not complete, or a command on a file failed",
        };
        let what = if exit == Exit::Failed { "failed" } else { "done with loss" };
        Some(format!("{what}: {}", known.as_deref().unwrap_or(rest)))
    }
}

/// The words about an end that is a failure.
fn words(reason: &Reason) -> Option<String> {
    match reason {
        Reason::DiskFull => Some("the disk is full".to_owned()),
        Reason::WriteError(error) => Some(format!("writing failed: {error}")),
        Reason::InterfaceGone(what) => Some(format!("the interface {what}")),
        Reason::Failed(why) => Some(why.clone()),
        _ => None,
    }
}

impl<'a> From<&'a Ledger> for RunEnd<'a> {
    fn from(ledger: &'a Ledger) -> Self {
        // Not even the header of a file.
        let is_empty = ledger.written == 0 && (ledger.lost_on_disk > 0 || ledger.bytes_written == 0);
        Self {
            failure: ledger.failure.as_deref(),
            ended_by: ledger.ended_by.as_ref(),
            input: ledger.input.as_ref(),
            verdict: ledger.verdict,
            write_failures: &ledger.write_failures,
            failed_output: None,
            took_nothing: is_empty && !ledger.write_failures.is_empty(),
            has_defect: ledger.commands_failed > 0 || ledger.late > 0,
        }
    }
}

impl<'a> From<&'a SplitReport> for RunEnd<'a> {
    fn from(report: &'a SplitReport) -> Self {
        let mut ends = report.members.iter().filter_map(|member| member.gone.as_ref());
        let is_failure =
            |gone: &Reason| matches!(gone, Reason::DiskFull | Reason::WriteError(_) | Reason::Failed(_));
        let failed_output = ends.find(|gone| is_failure(gone));
        let has_failed = failed_output.is_some();
        Self {
            failure: report.failure.as_deref(),
            ended_by: report.ended_by.as_ref(),
            input: report.input.as_ref(),
            verdict: report.verdict,
            took_nothing: has_failed && report.out == 0,
            has_defect: has_failed,
            failed_output,
            ..Self::default()
        }
    }
}

impl<'a> From<&'a FlowReport> for RunEnd<'a> {
    fn from(report: &'a FlowReport) -> Self {
        // Files that failed before they took a record; collectors may come back.
        let is_empty = |sink: &SinkReport| {
            let has_failed = sink.transport.is_none() && sink.failure.is_some() && !sink.is_closed;
            has_failed && sink.sent.records == 0 && sink.missed.errors.records > 0
        };
        Self {
            failure: report.failure.as_deref(),
            ended_by: report.ended_by.as_ref(),
            input: report.input.as_ref(),
            verdict: report.verdict,
            took_nothing: !report.sinks.is_empty() && report.sinks.iter().all(is_empty),
            ..Self::default()
        }
    }
}

impl<'a> From<&'a StreamsReport> for RunEnd<'a> {
    fn from(report: &'a StreamsReport) -> Self {
        Self {
            failure: report.failure.as_deref(),
            ended_by: report.ended_by.as_ref(),
            verdict: report.verdict,
            ..Self::default()
        }
    }
}

impl<'a> From<&'a ScriptsReport> for RunEnd<'a> {
    fn from(report: &'a ScriptsReport) -> Self {
        Self {
            failure: report.failure.as_deref(),
            ended_by: report.ended_by.as_ref(),
            verdict: report.verdict,
            ..Self::default()
        }
    }
}

impl<'a> From<&'a PipeReport> for RunEnd<'a> {
    fn from(report: &'a PipeReport) -> Self {
        Self {
            failure: report.failure.as_deref(),
            ended_by: report.ended_by.as_ref(),
            verdict: Verdict::Lossless,
            // Bytes that are lost fail a pipe.
            took_nothing: !report.is_lossless(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quiet run prints it, and nothing else.
    #[test]
    fn a_status_other_than_0_has_a_reason_in_words() {
        let gone = Reason::InterfaceGone("eth0 was removed".to_owned());
        let done = RunEnd { verdict: Verdict::Lossless, ..RunEnd::default() };
        let failures = [String::from("/data: Input/output error")];
        let damaged =
            InputTally { damages: vec!["a.pcap ends in a packet".to_owned()], ..InputTally::default() };
        for (end, why) in [
            (done, None),
            (RunEnd { ended_by: Some(&gone), ..done }, Some("failed: the interface eth0 was removed")),
            (RunEnd { ended_by: Some(&Reason::DiskFull), ..done }, Some("done with loss: the disk is full")),
            (RunEnd { failure: Some("no"), ended_by: Some(&gone), ..done }, Some("failed: no")),
            (RunEnd { verdict: Verdict::Unknown, ..done }, Some("done with loss: packets may be missing")),
            (RunEnd { input: Some(&damaged), ..done }, Some("done with loss: a.pcap ends in a packet")),
            (RunEnd { took_nothing: true, ..done }, Some("failed: nothing could be written")),
            (
                RunEnd { write_failures: &failures, verdict: Verdict::Lossy, ..done },
                Some("done with loss: /data: Input/output error"),
            ),
        ] {
            assert_eq!(end.why().as_deref(), why, "{end:?}");
        }
    }

    #[test]
    fn failures_come_before_losses_and_losses_before_success() {
        let failed = Reason::Failed(String::new());
        let done = RunEnd { verdict: Verdict::Lossless, ..RunEnd::default() };
        let damaged = InputTally { damages: vec![String::new()], ..InputTally::default() };
        for (end, exit) in [
            (done, Exit::Done),
            (RunEnd { ended_by: Some(&Reason::Signal), ..done }, Exit::Done),
            (RunEnd { verdict: Verdict::Unknown, ..done }, Exit::Loss),
            (RunEnd { verdict: Verdict::Lossy, ..done }, Exit::Loss),
            (RunEnd { input: Some(&damaged), ..done }, Exit::Loss),
            (RunEnd { has_defect: true, ..done }, Exit::Loss),
            (RunEnd { ended_by: Some(&Reason::DiskFull), ..done }, Exit::Loss),
            (RunEnd { ended_by: Some(&failed), input: Some(&damaged), ..done }, Exit::Failed),
            (RunEnd { took_nothing: true, has_defect: true, ..done }, Exit::Failed),
            (RunEnd { failure: Some("it failed"), ..done }, Exit::Failed),
        ] {
            assert_eq!(Exit::of(end), exit, "{end:?}");
        }
        assert_eq!([Some(true), Some(false), None].map(Exit::judged), [Exit::Done, Exit::Loss, Exit::Failed]);
    }
}
