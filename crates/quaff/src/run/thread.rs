//! Threads of a run: their start on a core, and their end. A panic ends the run.

use crate::{Error, Result};
use quaff_os::{Reason, Stop, cpu};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

/// A guard that ends the run when its thread panics.
struct Alarm(Stop);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.raise(Reason::Failed("a thread panicked".into()));
        }
    }
}

/// Starts a thread on its core, and waits until `open` has succeeded there. A failure or a panic of `work` raises the
/// stop.
pub(crate) fn start_thread<T, R: Default + Send + 'static>(
    name: &str,
    stop: &Stop,
    core: Option<usize>,
    open: impl FnOnce() -> Result<T> + Send + 'static,
    work: impl FnOnce(T) -> Result<R> + Send + 'static,
) -> Result<JoinHandle<Result<R>>> {
    let (ready, is_ready) = channel();
    let (alarm, on_failure) = (Alarm(stop.clone()), stop.clone());
    let body = move || {
        let _alarm = alarm;
        let opened = match core.map_or(Ok(()), cpu::pin).map_err(Error::from).and_then(|()| open()) {
            Ok(opened) => opened,
            Err(error) => {
                let _ = ready.send(Err(error));
                return Ok(R::default());
            }
        };
        let _ = ready.send(Ok(()));
        work(opened).inspect_err(|error| on_failure.raise(Reason::Failed(error.to_string())))
    };
    let thread = quaff_os::spawn(name, body)?;
    is_ready.recv().map_err(|_| Error::Defect("a thread ended at its start".into()))??;
    Ok(thread)
}

pub(crate) fn join<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| Err(Error::Defect("a thread panicked".into())))
}
