//! Measures the speed of a disk without the page cache, with fio.

use super::finish;
use super::place::Place;
use crate::{Error, Result};
use quaff_lab::ChildProcess;
use quaff_lab::topology::{Stage, Watch};
use quaff_os::process::Prepare;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Name of the program and of its Debian package.
pub const FIO: &str = "fio";

/// Bytes/s at which fio writes `bytes` in 4 MiB pieces with O_DIRECT, from `core`.
pub fn write_rate(place: &Place, bytes: u64, core: usize, watch: Watch<'_>) -> Result<f64> {
    let dir = place.run_dir()?;
    let args = [format!("--size={bytes}"), format!("--directory={}", dir.path.display())];
    rate("write", &args, core, watch)
}

/// Bytes/s at which fio reads `file` in 4 MiB pieces with O_DIRECT, from `core`.
pub fn read_rate(file: &Path, core: usize, watch: Watch<'_>) -> Result<f64> {
    rate("read", &["--readonly".into(), format!("--filename={}", file.display())], core, watch)
}

fn rate(how: &str, args: &[String], core: usize, watch: Watch<'_>) -> Result<f64> {
    let mut command = Command::new(FIO);
    command.args(["--name=quaff", "--bs=4M", "--direct=1", "--ioengine=io_uring", "--iodepth=4"]);
    command.args(["--output-format=json", &format!("--rw={how}")]).args(args);
    command.pin(core);
    let finished = finish(ChildProcess::start(command)?, Stage::Sending, watch)?;
    rate_in(how, &String::from_utf8_lossy(&finished.stdout))
        .ok_or_else(|| Error::Tool { name: FIO.into(), what: finished.stderr.trim().to_owned() })
}

/// Reads a rate; fio may print messages before its JSON.
fn rate_in(how: &str, said: &str) -> Option<f64> {
    let report: Value = serde_json::from_str(&said[said.find('{')?..]).ok()?;
    report["jobs"][0][how]["bw_bytes"].as_f64().filter(|rate| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read() {
        let said = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{ "fio version" : "fio-3.33", "jobs" : [ { "jobname" : "quaff", "error" : 0,
  "write" : { "io_bytes" : 268435456, "bw_bytes" : 2191146327, "bw" : 2139791, "iops" : 522.4 } } ] }"#;
        assert_eq!(rate_in("write", said), Some(2_191_146_327.0));
        assert_eq!(rate_in("write", "fio: no such engine"), None);
        assert_eq!(rate_in("read", "{}"), None);
    }
}
