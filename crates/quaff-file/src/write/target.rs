//! The output, opened and looked at, before it becomes a sink: what it is decides how it is written.

use crate::write::Sink;
use crate::write::WriterGauges;
use crate::write::file::{Files, Parts, Slots};
use crate::write::folder::Folder;
use crate::write::header::Heading;
use crate::write::live_copy::LiveCopy;
use crate::write::name_template::Names;
use crate::write::plan::{Format, Output};
use crate::write::repack::Repack;
use crate::write::stream::Stream;
use crate::write::tee::Tee;
use crate::{Error, Result};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::fstat;
use quaff_os::disk::{Disk, Lock, direct, lock_file, open_unnamed};
use quaff_os::pipe;
use quaff_os::stop::Stop;
use quaff_os::wakeup::Wakeup;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How an output is written that only goes forward, in words.
pub const STREAM: &str = "a stream";
/// Bytes of a buffer of the repacker.
const REPACK_BYTES: usize = 4 << 20;
/// Buffers of the repacker.
const REPACK_BUFFERS: usize = 4;

/// An output.
pub struct Target {
    kind: Kind,
    format: Format,
    /// Alignment of writes; 1 when they go through the page cache.
    align: usize,
    /// Where a copy goes.
    live_copy: Option<File>,
    /// When it is raised, a reader that takes nothing is left.
    run: Option<Stop>,
}

enum Kind {
    Stream(File),
    File(File, PathBuf),
    /// With the length of its slots, and what aligns them.
    Folder(Box<Folder>, Option<Duration>, Box<Names>),
    /// A sink of the caller's own.
    Own(Box<dyn Sink>, &'static str),
}

impl Target {
    pub fn open(
        output: &Output,
        live_copy: Option<&Output>,
        format: Format,
        wakeup: &Wakeup,
        stop: &Stop,
    ) -> Result<Self> {
        let live_copy = live_copy.map(|output| open_live_copy(output, stop)).transpose()?;
        let (kind, align) = match output {
            Output::Stdout => open_stdout()?,
            Output::File(path) if is_stream(path) => (Kind::Stream(open_stream(path, stop)?), 1),
            Output::File(path) => open_file(path)?,
            Output::Dir(dir) => {
                let probe = open_probe(&dir.dir)?;
                let align = probe.as_ref().and_then(direct).map_or(1, |direct| direct.offset_align);
                let folder = Folder::open(dir, format.extension(), align > 1, wakeup.clone())?;
                let names = Names::new(&dir.name, format.extension())?;
                (Kind::Folder(Box::new(folder), dir.rotate_time, Box::new(names)), align)
            }
        };
        Ok(Self { kind, format, align, live_copy, run: None })
    }

    /// A pipe to a process.
    pub fn process(pipe: File, format: Format) -> Self {
        Self { kind: Kind::Stream(pipe), format, align: 1, live_copy: None, run: None }
    }

    /// A sink of the caller's own, which takes chunks in `format`; `name` describes it.
    pub fn own(sink: Box<dyn Sink>, name: &'static str, format: Format) -> Self {
        Self { kind: Kind::Own(sink, name), format, align: 1, live_copy: None, run: None }
    }

    /// Leaves a reader that takes nothing once `run` is to end.
    pub fn until(self, run: &Stop) -> Self {
        Self { run: Some(run.clone()), ..self }
    }

    pub fn align(&self) -> usize {
        // pcap cannot be padded: its chunks are packed tightly and repacked by the sink.
        if self.format == Format::Pcapng { self.align } else { 1 }
    }

    pub fn slots(&self, now_ns: u64) -> Slots {
        let Kind::Folder(_, Some(time), names) = &self.kind else { return Slots::default() };
        let slot_ns = time.as_nanos() as u64;
        // Midnight in local time is a boundary, for slots that divide a day.
        let offset_ns = (-names.zone_offset_ns(now_ns)).rem_euclid(slot_ns as i64) as u64;
        Slots { slot_ns, offset_ns }
    }

    /// How it will be written, in words.
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Stream(_) => STREAM.to_owned(),
            Kind::Own(_, name) => (*name).to_owned(),
            _ => {
                let engine = Wakeup::new().map_or("pwrite", |wakeup| Disk::new(&wakeup).name());
                let cache =
                    if self.align > 1 { "O_DIRECT" } else { "through the page cache (no O_DIRECT here)" };
                format!("{engine}, {cache}")
            }
        }
    }

    /// What the user should know about it.
    pub fn note(&self) -> Option<String> {
        let is_cached = self.align == 1 && !matches!(self.kind, Kind::Stream(_) | Kind::Own(..));
        is_cached.then(|| {
            "the file system takes no direct writes: the page cache makes it slower, and kill -9 can cut the last block"
                .to_owned()
        })
    }

    /// Makes the sink. To be called on the writer's thread, to whose core the disk's helpers keep.
    pub fn into_sink(
        self,
        heading: Heading,
        slots: Slots,
        wakeup: &Wakeup,
        stop: &Stop,
        gauges: Arc<WriterGauges>,
    ) -> Result<Box<dyn Sink>> {
        let is_repacked = self.align > 1 && self.format != Format::Pcapng;
        let repack =
            is_repacked.then(|| Repack::new(self.align, REPACK_BYTES, REPACK_BUFFERS)).transpose()?;
        let (stop, wakeup) = (stop.clone(), wakeup.clone());
        let parts = |disk| Parts {
            heading: heading.clone(),
            disk,
            repack,
            slots,
            wakeup: wakeup.clone(),
            stop: stop.clone(),
            gauges: gauges.clone(),
        };
        let sink: Box<dyn Sink> = match self.kind {
            Kind::Stream(out) => {
                let stream = Stream::new(out, heading.clone(), stop.clone(), gauges.clone());
                Box::new(match self.run {
                    Some(run) => stream.until(run),
                    None => stream,
                })
            }
            Kind::File(file, path) => {
                // What was in it goes only now, when everything else has worked.
                file.set_len(0).map_err(|errno| Error::path("empty", &path, errno))?;
                Box::new(Files::in_place(file, path, parts(Disk::new(&wakeup)))?)
            }
            Kind::Folder(folder, ..) => Box::new(Files::in_folder(*folder, parts(Disk::new(&wakeup)))?),
            Kind::Own(sink, _) => sink,
        };
        let Some(out) = self.live_copy else { return Ok(sink) };
        Ok(Box::new(Tee::new(sink, LiveCopy::start(out, stop)?, heading, gauges)))
    }
}

/// Opens where a copy goes: a pipe or a device, never a file, which would be as slow as the disk.
fn open_live_copy(output: &Output, stop: &Stop) -> Result<File> {
    match output {
        Output::Stdout => stdout(),
        Output::File(path) if is_stream(path) => open_stream(path, stop),
        _ => Err(Error::Plan(
            "with --tee the packets go into a folder, and a copy to '-w -' or '-w PIPE': a file needs no copy"
                .into(),
        )),
    }
}

/// stdout; a file that is empty there is written as a file is, past the page cache.
fn open_stdout() -> Result<(Kind, usize)> {
    let mut stdout = stdout()?;
    let is_new = stdout.stream_position().is_ok_and(|at| at == 0)
        && stdout.metadata().is_ok_and(|meta| meta.len() == 0);
    match reopen(&stdout).filter(|_| is_new) {
        Some((file, align)) => Ok((Kind::File(file, "/dev/stdout".into()), align)),
        None => Ok((Kind::Stream(stdout), 1)),
    }
}

/// Leaves the offset of a file on stdout behind its end, for whoever writes there next.
pub fn leave_stdout() {
    if let Ok(mut stdout) = stdout() {
        // What is no file has no offset.
        let _ = stdout.seek(SeekFrom::End(0));
    }
}

fn stdout() -> Result<File> {
    let fd = std::io::stdout().as_fd().try_clone_to_owned();
    fd.map(File::from).map_err(|errno| Error::path("write to", "stdout", errno))
}

/// Whether a path names something that only goes forward: a pipe, a device.
fn is_stream(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// Opens a pipe or a device. A named pipe that nobody reads yet is waited for, until the stop.
fn open_stream(path: &Path, stop: &Stop) -> Result<File> {
    loop {
        match OpenOptions::new().write(true).custom_flags(nix::libc::O_NONBLOCK).open(path) {
            Err(error) if error.raw_os_error() == Some(nix::libc::ENXIO) && !stop.raised() => {
                std::thread::sleep(Duration::from_millis(50));
            }
            opened => return opened.map_err(|errno| Error::path("write to", path, errno)),
        }
    }
}

/// Opens FILE: direct where its file system takes it.
fn open_file(path: &Path) -> Result<(Kind, usize)> {
    let open = |flags| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o640).custom_flags(flags);
        options.open(path)
    };
    let failed = |errno| Error::path("write to", path, errno);
    let file = match open(nix::libc::O_DIRECT) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => open(0),
        opened => opened,
    }
    .map_err(failed)?;
    let (file, align) = match direct(&file) {
        Some(direct) => (file, direct.offset_align),
        // O_DIRECT that is only pretended would still ask for alignment: opened again without.
        None => (open(0).map_err(failed)?, 1),
    };
    if lock_file(&file) == Lock::Held {
        return Err(Error::Plan(format!("another capture is writing {}", path.display())));
    }
    Ok((Kind::File(file, path.to_owned()), align))
}

/// A direct file in the folder, to see what it wants; `None` where O_DIRECT is refused.
pub fn open_probe(dir: &Path) -> Result<Option<File>> {
    match open_unnamed(dir, true) {
        Ok(file) => Ok(Some(file)),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::IsADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(Error::path("write to the folder", dir, error)),
    }
}

/// The file that stdout is, once more and past the page cache, and how writes to it are aligned. `None`
/// where stdout is something else, is appended to, is stderr too, or lies on a file system that knows
/// no direct writes.
pub fn reopen(stdout: &File) -> Option<(File, usize)> {
    let flags = OFlag::from_bits_retain(fcntl(stdout, FcntlArg::F_GETFL).ok()?);
    let is_writable = flags & OFlag::O_ACCMODE != OFlag::O_RDONLY;
    if pipe::fd_kind(stdout) != pipe::FdKind::File
        || !is_writable
        || flags.contains(OFlag::O_APPEND)
        || is_stderr(stdout)
    {
        return None;
    }
    let path = format!("/proc/self/fd/{}", stdout.as_raw_fd());
    let file = File::options().write(true).custom_flags(OFlag::O_DIRECT.bits()).open(path).ok()?;
    let align = direct(&file)?.offset_align;
    Some((file, align))
}

/// Whether stderr leads to the same file: its words would be overwritten.
fn is_stderr(file: &File) -> bool {
    let stderr = std::io::stderr();
    match (fstat(file), fstat(stderr.as_fd())) {
        (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}
