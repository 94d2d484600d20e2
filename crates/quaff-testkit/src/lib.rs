//! Resources that tests need of the machine: a lab, disk space, a disk that fails, captures; and the skips of tests
//! that lack them.

mod fault_disk;
pub mod impaired_link;
mod program;
mod receiver;

use quaff_lab::{Error, Lab, LabPlan};
use std::path::{Path, PathBuf};

pub use fault_disk::{Fault, FaultDisk, HeldDisk};
pub use program::{copy_program, write_program};
pub use quaff_os::testing::{is_refusal, skip};
pub use receiver::Receiver;

/// The name of the test that it stands in, also inside closures.
#[macro_export]
macro_rules! test_name {
    () => {
        $crate::function_of(|| ())
    };
}

/// The function that `_closure` stands in, without its path.
#[doc(hidden)]
pub fn function_of<F: Fn()>(_closure: F) -> &'static str {
    let path = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    path.rsplit("::").next().unwrap_or(path)
}

/// A lab for `test`, or `None` after a skip if this machine permits none.
pub fn lab(test: &str) -> Option<Lab> {
    lab_of(test, &LabPlan::default())
}

/// As [`lab`], by a plan.
///
/// # Panics
/// When the lab cannot be made for a reason other than permission.
pub fn lab_of(test: &str, plan: &LabPlan) -> Option<Lab> {
    match Lab::create(plan) {
        Ok(lab) => Some(lab),
        Err(Error::Os(error)) if is_refusal(&error) => {
            skip(test, &error.to_string());
            None
        }
        Err(error) => panic!("{test}: {error}"),
    }
}

/// Returns whether the file system of `dir` has twice `bytes` free; skips the test if not.
pub fn space(test: &str, dir: &Path, bytes: u64) -> bool {
    match quaff_os::disk::space(dir) {
        Ok(space) if space.free / 2 >= bytes => true,
        Ok(space) => {
            let free = space.free;
            skip(test, &format!("needs twice {bytes} bytes free in {}, there are {free}", dir.display()));
            false
        }
        Err(error) => {
            skip(test, &error.to_string());
            false
        }
    }
}

/// A capture by its name, or `None` after a skip if the folder lacks it.
pub fn capture(test: &str, name: &str) -> Option<PathBuf> {
    let dir = captures();
    let path = dir.join(name);
    if path.is_file() {
        return Some(path);
    }
    skip(test, &format!("there is no {name} in {}; QUAFF_CAPTURES says where to look", dir.display()));
    None
}

/// The folder with captures: real ones where there are some, or else made ones.
pub fn captures() -> PathBuf {
    quaff_testpackets::captures::folder()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_test_knows_its_name() {
        let inside = || test_name!();
        assert_eq!([test_name!(), inside()], ["a_test_knows_its_name"; 2]);
    }
}
