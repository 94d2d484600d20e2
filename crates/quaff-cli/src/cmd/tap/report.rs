//! The report of `quaff tap`, after that of its recorder.

use crate::show::{self, Stream, count, message, name};
use quaff::doctor::Done;
use quaff::tap::{Direction, Ended};

/// Prints the account of both directions.
pub(super) fn directions(directions: &[Direction; 2]) {
    let text: String = directions.iter().map(words).collect();
    show::report(Stream::Stderr, text.trim_end());
}

fn words(of: &Direction) -> String {
    let (from, to) = (name(&of.from), name(&of.to));
    let mut text = format!(
        "{from} → {to}: {} received, {} recorded, {} lost",
        count(of.received),
        count(of.recorded),
        count(of.lost)
    );
    if let (Some(forwarded), Some(dropped)) = (of.forwarded, of.forward_dropped) {
        text += &format!("; {} forwarded, {} dropped", count(forwarded), count(dropped));
    }
    text.push('\n');
    text + &show::counted(
        "  ",
        [
            (of.unexplained, format!("did not pass, and no counter of {to} has them")),
            (
                of.unrecorded.unwrap_or(0),
                "forwarded before the recording began or after it had ended".to_owned(),
            ),
            (of.host_sent, format!("sent by this host on {to}: another program uses the port")),
        ],
    )
}

/// Prints what could not be restored.
pub(super) fn undone(ended: &Ended) {
    ended.failures.iter().for_each(|failure| message(failure));
    ended.left.iter().for_each(|done| message(&restored(done)));
}

/// A setting after the tap.
pub(super) fn restored(done: &Done) -> String {
    let (what, now) = (name(&done.what), done.now.as_deref().unwrap_or("an unknown value"));
    match &done.refused {
        Some(why) => format!("left {what} at {now}: {}", name(why)),
        None => format!("restored {what} to {now}"),
    }
}
