//! The start of a thread: a limit of threads is an error with advice, never a panic. All threads of quaff start here;
//! `std::thread::spawn` and `Scope::spawn` panic where the kernel refuses one. It never waits for a thread.

use crate::{Error, Result};
use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread. The kernel keeps the first 15 bytes of its name.
///
/// # Errors
/// EAGAIN when a limit of threads is reached: RLIMIT_NPROC (setrlimit(2)), `pids.max` of the cgroup, or memory.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(body).map_err(|errno| refused(name, errno))
}

/// Starts a thread that may borrow what outlives `scope`, with the errors of [`spawn`].
pub fn spawn_in<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().name(name.to_owned()).spawn_scoped(scope, body).map_err(|errno| refused(name, errno))
}

fn refused(name: &str, errno: io::Error) -> Error {
    let is_limit = errno.raw_os_error() == Some(libc::EAGAIN);
    let error = Error::new(format!("start the thread {name:?}"), errno);
    match is_limit {
        true => error.advise(
            "a limit of threads is reached ('ulimit -u' of this user, or pids.max of its cgroup) or memory is short: raise \
             the limit, end other processes of this user, or use fewer lanes",
        ),
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_names_and_results() {
        let name = || std::thread::current().name().map(str::to_owned);
        assert_eq!(spawn("quaff-test", name).unwrap().join().unwrap().as_deref(), Some("quaff-test"));
        let (number, text) = (7, String::from("borrowed"));
        let sum = std::thread::scope(|scope| {
            let lent = &text;
            spawn_in(scope, "quaff-test", move || lent.len() + number).unwrap().join().unwrap()
        });
        assert_eq!(sum, 15);
    }

    #[test]
    fn a_limit_is_an_error_that_names_it() {
        let error = refused("lane", io::Error::from_raw_os_error(libc::EAGAIN)).to_string();
        assert!(error.contains("cannot start the thread \"lane\"") && error.contains("ulimit -u"), "{error}");
    }
}
