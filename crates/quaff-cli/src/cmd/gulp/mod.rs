//! `quaff gulp`: the command line of Gulp, translated to a native one.
//!
//! The native command line is parsed and run like any other. Implemented here are only Gulp's lock and its check
//! that the interface is Ethernet.

mod native;
mod options;

use super::native::{Native, checked};
use crate::exit::Exit;
use crate::show::{message, say};
use anyhow::{Context as _, bail};
use options::{Lock, Options};
use quaff_wire::linktype;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::path::Path;

/// Accept the command line of Gulp, with every option of its manual
///
/// Gulp (Corey Satten, 2007) was the first program to capture a gigabit to disk without loss. Its command lines
/// work with 'quaff ' in front; -v prints the equivalent native command. Output is pcap with microseconds, to
/// stdout or into -o DIR. ^C writes the buffered packets and ends; a second one ends immediately.
#[derive(Debug, clap::Args)]
#[command(after_help = OPTIONS, override_usage = "quaff gulp [OPTIONS]")]
pub(crate) struct Args {
    /// Options of Gulp, read from left to right
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS", hide = true)]
    options: Vec<OsString>,
}

const OPTIONS: &str = "\
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

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let read = Options::read(&args.options, std::env::var_os("CAP_IFACE"));
    let options = checked(read, "gulp")?;
    let native = Native::gulp(&options);
    if options.version {
        say(concat!("quaff ", env!("CARGO_PKG_VERSION"), ", in the place of Gulp"));
        say(&native.line());
    }
    native.notes.iter().for_each(|note| message(note));
    if options.version {
        return Ok(Exit::Done);
    }
    // Gulp creates no folder.
    if let Some(dir) = options.dir.as_ref().map(Path::new) {
        dir.metadata().with_context(|| format!("cannot use the folder {}", dir.display()))?;
    }
    // Held until the end of the process.
    let _lock = lock(options.lock)?;
    if !options.copy && !options.skip_check && options.interface != "-" {
        check_ethernet(&options.interface)?;
    }
    crate::run(crate::read(&native.args)?)
}

/// Gulp's lock: on the program file, which all instances share.
fn lock(wanted: Lock) -> anyhow::Result<Option<File>> {
    let Ok(program) = File::open("/proc/self/exe") else {
        message("the lock cannot be opened; continuing without it");
        return Ok(None);
    };
    let taken = if wanted == Lock::Exclusive { program.try_lock() } else { program.try_lock_shared() };
    match taken {
        Ok(()) => Ok(Some(program)),
        Err(TryLockError::WouldBlock) if wanted == Lock::Ignored => {
            message("another 'quaff gulp' runs exclusively; continuing because of -X");
            Ok(None)
        }
        Err(TryLockError::WouldBlock) if wanted == Lock::Exclusive => {
            bail!("another 'quaff gulp' runs, so -x cannot run exclusively; use -X instead")
        }
        Err(TryLockError::WouldBlock) => {
            bail!("another 'quaff gulp' runs exclusively (-x); -X overrides that")
        }
        Err(TryLockError::Error(error)) => {
            message(&format!("cannot lock: {error}; continuing without a lock"));
            Ok(None)
        }
    }
}

fn check_ethernet(interface: &OsString) -> anyhow::Result<()> {
    let link = quaff_os::rtnl::link(&interface.to_string_lossy())?;
    if linktype::of_arphrd(link.arphrd) != Some(linktype::ETHERNET) {
        bail!("{} is not an Ethernet interface; -F captures it anyway", link.name);
    }
    Ok(())
}
