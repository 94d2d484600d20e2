//! Gulp's command line (Corey Satten, 2007), with every option of its manual.

mod native;
mod options;

pub use options::Lock;

use crate::{Error, Native};
use options::Options;
use std::ffi::OsString;
use std::path::PathBuf;

/// The list of Gulp's options, for a help text.
pub const OPTIONS: &str = "\
Capture:
  -d          remove ERSPAN headers, all types (sets -f to 'proto gre')
  -f \"EXPR\"   tcpdump filter; a later -d replaces it
  -i IF|-     interface, or '-' for a capture on stdin [default: $CAP_IFACE, else eth1]
  -s N        keep the first N bytes of a packet, counted after -d
  -F          do not check that the interface is Ethernet
  -r N        buffer of N MB, 1 to 1024 [default: 1/4 of free memory; for -C, 100]
  -c          copy any stdin to stdout through the buffer
  -x, -X      run exclusively; run although another gulp is exclusive
  -v          print the version and the equivalent native command, and exit
  -V TEXT     show progress twice a second: on stderr, or, if TEXT has at least ten
              characters, as the process name (ps -o comm)

Files:
  -o DIR      write files into DIR instead of stdout: pcap000, pcap001, ...
  -n NAME     file name prefix [default: pcap]
  -t          put the time into file names (NAME1234567890.000); at most 1000 files
  -C N        start the next file after N times -r [default: 10]
  -G N        start a file every N seconds, aligned to the clock
  -W N        keep N files and reuse their numbers
  -Z CMD      run 'CMD FILE' after each file, at the lowest priority

Accepted without effect: -B -Y -p N -q -z N

Examples:
  quaff gulp -i eth1 -f 'tcp port 80' > web.pcap
  quaff gulp -i eth1 -d | tcpdump -r - -w inside.pcap host 10.1.2.3
  quaff gulp -i eth1 -C 10 -W 10 -o pcapdir
  quaff gulp -v -i eth1 -d -o pcapdir";

/// A translated command line of Gulp, with the steps that no native command has.
#[derive(Debug)]
pub struct Gulp {
    /// The command line to run.
    pub native: Native,
    /// `-v`: prints the version and the native command line, and runs nothing.
    pub is_version: bool,
    /// The lock to take before the start.
    pub lock: Lock,
    /// The folder of `-o`, which must exist: Gulp creates none.
    pub dir: Option<PathBuf>,
    /// The interface that must be Ethernet; `None` without such a check.
    pub ethernet: Option<String>,
}

/// Parses and translates a command line. `cap_iface` is `$CAP_IFACE`.
///
/// # Errors
/// All mistakes in Gulp's wording.
pub fn read(args: &[OsString], cap_iface: Option<OsString>) -> Result<Gulp, Error> {
    let options =
        Options::read(args, cap_iface).map_err(|mistakes| Error::Options { command: "gulp", mistakes })?;
    let is_checked = !options.copy && !options.skip_check && options.interface != "-";
    Ok(Gulp {
        native: Native::gulp(&options),
        is_version: options.version,
        lock: options.lock,
        dir: options.dir.as_ref().map(PathBuf::from),
        ethernet: is_checked.then(|| options.interface.to_string_lossy().into_owned()),
    })
}
