//! Incidents of a running meter: a sink that fails, an end that waits for sinks. Each is reported once.

use crate::shell::Incident;
use quaff_flow::collector::{SinkReport, Transport};
use std::time::{Duration, Instant};

/// The end waits for sinks silently for this time.
const PATIENCE: Duration = Duration::from_secs(1);

/// The incidents of a run, as far as they were reported.
#[derive(Debug, Default)]
pub(super) struct Incidents {
    /// The sinks whose failures were reported.
    failed: Vec<bool>,
    ending: Option<Instant>,
    is_waiting: bool,
}

impl Incidents {
    /// Returns what has happened since the last call. `is_ending`: the run waits for its end.
    pub(super) fn look(&mut self, sinks: &[SinkReport], is_ending: bool, now: Instant) -> Vec<Incident> {
        let waiting = is_ending.then(|| self.waiting(sinks, now)).flatten();
        self.failures(sinks).into_iter().chain(waiting).collect()
    }

    /// Sinks that have failed, or whose collectors answer with errors. A reader that has left is no failure.
    fn failures(&mut self, sinks: &[SinkReport]) -> Vec<Incident> {
        self.failed.resize(sinks.len(), false);
        let mut found = Vec::new();
        for (sink, was_failed) in sinks.iter().zip(&mut self.failed) {
            let words = match (&sink.failure, sink.transport) {
                (Some(failure), _) if !sink.is_closed => failure.clone(),
                (None, Some(Transport::Udp)) if sink.errors > 0 => {
                    "messages are refused: is there a collector that listens on this port?".to_owned()
                }
                _ => continue,
            };
            if !std::mem::replace(was_failed, true) {
                let words = format!("{}: {words}", sink.name);
                // Records will be missing in a file.
                let is_severe = sink.transport.is_none();
                found.push(if is_severe { Incident::severe(words) } else { Incident::note(words) });
            }
        }
        found
    }

    /// Sinks for which the end waits.
    fn waiting(&mut self, sinks: &[SinkReport], now: Instant) -> Option<Incident> {
        let since = *self.ending.get_or_insert(now);
        let is_due = now.duration_since(since) >= PATIENCE && !std::mem::replace(&mut self.is_waiting, true);
        let busy = sinks.iter().filter(|sink| sink.queued > 0 || !sink.is_up);
        let names: Vec<_> = busy.map(|sink| sink.name.as_str()).collect();
        let words = match &names[..] {
            [] => "the sinks".to_owned(),
            names => names.join(", "),
        };
        is_due.then(|| {
            Incident::note(format!(
                "waiting for {words}, until nothing is taken for 10 s; a second ^C ends it immediately"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_that_fails_is_reported_once() {
        let mut incidents = Incidents::default();
        let fine = SinkReport { name: "a".into(), ..SinkReport::default() };
        let unheard = SinkReport { errors: 1, transport: Some(Transport::Udp), ..fine.clone() };
        let failed = SinkReport { failure: Some("the disk is full".into()), ..fine.clone() };
        assert!(incidents.failures(&[fine.clone(), fine.clone(), fine.clone()]).is_empty());
        let closed = SinkReport { is_closed: true, ..failed.clone() };
        assert!(incidents.failures(&[fine.clone(), fine.clone(), closed]).is_empty());
        let found = incidents.failures(&[fine.clone(), unheard.clone(), failed.clone()]);
        assert_eq!(found.iter().map(|incident| incident.is_severe()).collect::<Vec<_>>(), [false, true]);
        assert_eq!(found[1].words(), "a: the disk is full");
        assert!(incidents.failures(&[fine, unheard, failed]).is_empty());
    }

    #[test]
    fn an_end_that_waits_says_for_whom() {
        let (mut incidents, start) = (Incidents::default(), Instant::now());
        let busy = [SinkReport { name: "tcp://h:1".into(), queued: 5, ..SinkReport::default() }];
        assert_eq!(incidents.waiting(&busy, start), None);
        assert_eq!(incidents.waiting(&busy, start + PATIENCE / 2), None);
        let found = incidents.waiting(&busy, start + PATIENCE).expect("an incident");
        let words = found.words();
        assert!(words.starts_with("waiting for tcp://h:1, until"), "{words}");
        assert_eq!(incidents.waiting(&busy, start + 2 * PATIENCE), None);
    }
}
