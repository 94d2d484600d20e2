//! Writes a capture several times over into one file, each pass with its own addresses, with quaff itself.

use super::Place;
use crate::{Error, Result};
use quaff_lab::ChildProcess;
use quaff_os::Try;
use quaff_os::process::Prepare;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Divisor: files of the bench may take half of the free space.
const SPACE_SHARE: u64 = 2;
/// Time limit for writing the file.
const MADE_MAX: Duration = Duration::from_secs(1800);
const POLL: Duration = Duration::from_millis(20);

/// Returns a note if the file may be too large for the page cache.
pub(crate) fn cache_doubt(file: &Path) -> Option<String> {
    let (bytes, free) = (std::fs::metadata(file).ok()?.len(), quaff::memory::free_bytes());
    (bytes > free).then(|| {
        let (bytes, free) = (quaff::format::bytes(bytes), quaff::format::bytes(free));
        format!("The file has {bytes}, and {free} of memory are free: it may be read from the disk.")
    })
}

/// Writes a capture `loops` times, each pass with its own addresses.
pub(crate) fn expand(
    quaff: &Path,
    input: &Path,
    loops: u32,
    place: &Place,
    dir: &Path,
    continues: &mut dyn FnMut() -> bool,
) -> Result<PathBuf> {
    let bytes = std::fs::metadata(input).map_or(0, |file| file.len()).saturating_mul(loops.into());
    let free = place.free_bytes()?;
    if bytes > free / SPACE_SHARE {
        let (bytes, free) = (quaff::format::bytes(bytes), quaff::format::bytes(free));
        let at = place.parent().display();
        return Err(Error::Place(format!(
            "the input file takes {bytes}, and {at} has {free} free; choose another `dir`, or fewer loops"
        )));
    }
    let path = dir.join("expanded.pcap");
    let mut command = Command::new(quaff);
    command.args(["replay", "--quiet", "--json", "--unique-ip", "--loop", &loops.to_string(), "-w"]);
    command.arg(&path).arg(input);
    run_to_end(command, continues)?;
    // Otherwise the first runs would compete with the remaining writes.
    let written = File::open(&path).and_then(|file| file.sync_all());
    written.trying(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// Runs quaff to its end; the last line of its stderr is the error.
pub(crate) fn run_to_end(mut command: Command, continues: &mut dyn FnMut() -> bool) -> Result<()> {
    // Ctrl-C must reach this process only.
    command.reset_signals().process_group(0);
    let mut running = ChildProcess::start(command)?;
    while !running.has_ended()? {
        if !continues() {
            return Err(Error::Interrupted);
        }
        std::thread::sleep(POLL);
    }
    let finished = running.finish(MADE_MAX)?;
    if finished.status.success() {
        return Ok(());
    }
    let what = finished.stderr.lines().last().unwrap_or("it ended without a message").to_owned();
    Err(Error::Tool { name: "the generator".into(), what })
}
