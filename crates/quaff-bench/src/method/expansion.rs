//! The files of programs that read: generated traffic, a capture several times over with addresses of its own in each
//! pass, and two files that are merged. Quaff itself writes them.

use super::Place;
use crate::{Error, Result};
use quaff_lab::ChildProcess;
use quaff_os::Try;
use quaff_os::process::Prepare;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Divisor: files of the bench may take half of the free space.
const SPACE_SHARE: u64 = 2;
/// Time limit for writing the file.
const MADE_MAX: Duration = Duration::from_secs(1800);
const POLL: Duration = Duration::from_millis(20);
/// Packets of IPv4 from sources with an even last byte, and all others.
const HALVES: [(&str, &str); 2] = [("even.pcap", "ip[15] & 1 = 0"), ("odd.pcap", "not (ip[15] & 1 = 0)")];

/// Returns a note if the file may be too large for the page cache.
pub fn cache_doubt(file: &Path) -> Option<String> {
    let (bytes, free) = (std::fs::metadata(file).ok()?.len(), quaff::memory::free_bytes());
    (bytes > free).then(|| {
        let (bytes, free) = (quaff::format::bytes(bytes), quaff::format::bytes(free));
        format!("The file has {bytes}, and {free} of memory are free: it may be read from the disk.")
    })
}

/// Reads a file into the page cache, and returns its bytes.
///
/// # Errors
/// It cannot be read.
pub fn load(path: &Path) -> Result<u64> {
    let read = File::open(path).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
    Ok(read.trying(|| format!("read {}", path.display()))?)
}

/// Writes generated traffic; `flags` of `quaff generate` are separated by spaces.
///
/// # Errors
/// The generator fails, or it is interrupted.
pub fn generate(quaff: &Path, flags: &str, path: &Path, continues: &mut dyn FnMut() -> bool) -> Result<()> {
    let mut command = Command::new(quaff);
    command.args(["generate", "--json"]).args(flags.split(' ')).arg("-w").arg(path);
    run_to_end(command, continues)
}

/// Writes the packets of a capture into two files whose times overlap.
///
/// # Errors
/// There is no room for them, or quaff fails or is interrupted.
pub fn halves(
    quaff: &Path,
    input: &Path,
    place: &Place,
    dir: &Path,
    continues: &mut dyn FnMut() -> bool,
) -> Result<[PathBuf; 2]> {
    check_room(place, std::fs::metadata(input).map_or(0, |file| file.len()))?;
    let paths = HALVES.map(|(name, _)| dir.join(name));
    for (path, (_, filter)) in paths.iter().zip(HALVES) {
        let mut command = Command::new(quaff);
        command.args(["capture", "-q", "--read"]).arg(input).args(["-f", filter, "-w"]).arg(path);
        run_to_end(command, continues)?;
    }
    Ok(paths)
}

/// Writes a capture `loops` times, each pass with its own addresses.
///
/// # Errors
/// There is no room for it, or quaff fails or is interrupted.
pub fn expand(
    quaff: &Path,
    input: &Path,
    loops: u32,
    place: &Place,
    dir: &Path,
    continues: &mut dyn FnMut() -> bool,
) -> Result<PathBuf> {
    let bytes = std::fs::metadata(input).map_or(0, |file| file.len()).saturating_mul(loops.into());
    check_room(place, bytes)?;
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

fn check_room(place: &Place, bytes: u64) -> Result<()> {
    let free = place.free_bytes()?;
    if bytes <= free / SPACE_SHARE {
        return Ok(());
    }
    let (bytes, free) = (quaff::format::bytes(bytes), quaff::format::bytes(free));
    let at = place.parent().display();
    Err(Error::Place(format!(
        "the input file takes {bytes}, and {at} has {free} free; choose another `dir`, or fewer loops"
    )))
}

/// Runs quaff to its end; the last line of its stderr is the error.
fn run_to_end(mut command: Command, continues: &mut dyn FnMut() -> bool) -> Result<()> {
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
