//! The output, opened and looked at, before it becomes a sink: what it is decides how it is written.

use crate::gauge::WriterGauges;
use crate::pipe::direct::reopen;
use crate::plan::{CapturePlan, Format, Output};
use crate::sink::Sink;
use crate::sink::file::{Files, Parts, Slots};
use crate::sink::folder::Folder;
use crate::sink::header::Heading;
use crate::sink::names::Names;
use crate::sink::onlooker::Onlooker;
use crate::sink::repack::Repack;
use crate::sink::stream::Stream;
use crate::sink::tee::Tee;
use crate::sink::transmit::Transmit;
use crate::stop::Stop;
use crate::{Error, Result};
use quaff_os::disk::{Disk, Lock, direct, lock_file, open_unnamed};
use quaff_os::wakeup::Wakeup;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How an output is written that only goes forward, in words.
pub(super) const STREAM: &str = "a stream";
/// Bytes of a buffer of the repacker.
const REPACK_BYTES: usize = 4 << 20;
/// Buffers of the repacker.
const REPACK_SLABS: usize = 4;

/// An output.
pub(super) struct Outlet {
    kind: Kind,
    format: Format,
    /// Alignment of writes; 1 when they go through the page cache.
    align: usize,
    /// Where a copy goes.
    onlooker: Option<File>,
    /// When it is raised, a reader that takes nothing is left.
    run: Option<Stop>,
}

enum Kind {
    Stream(File),
    File(File, PathBuf),
    /// With the length of its slots, and what aligns them.
    Folder(Box<Folder>, Option<Duration>, Box<Names>),
    Interface(Box<Transmit>),
}

impl Outlet {
    pub(super) fn open(plan: &CapturePlan, wakeup: &Wakeup, stop: &Stop) -> Result<Self> {
        let format = plan.format;
        let onlooker = plan.onlooker.as_ref().map(|output| open_onlooker(output, stop)).transpose()?;
        let (kind, align) = match &plan.output {
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
        Ok(Self { kind, format, align, onlooker, run: None })
    }

    /// A pipe to a process.
    pub(super) fn process(pipe: File, format: Format) -> Self {
        Self { kind: Kind::Stream(pipe), format, align: 1, onlooker: None, run: None }
    }

    /// An interface: its frames are packed as pcap, and go out without what is around them.
    pub(super) fn interface(transmit: Transmit) -> Self {
        let kind = Kind::Interface(Box::new(transmit));
        Self { kind, format: Format::Pcap, align: 1, onlooker: None, run: None }
    }

    /// Leaves a reader that takes nothing once `run` is to end.
    pub(super) fn until(self, run: &Stop) -> Self {
        Self { run: Some(run.clone()), ..self }
    }

    pub(super) fn align(&self) -> usize {
        // pcap cannot be padded: its chunks are packed tightly and repacked by the sink.
        if self.format == Format::Pcapng { self.align } else { 1 }
    }

    pub(super) fn slots(&self, now_ns: u64) -> Slots {
        let Kind::Folder(_, Some(time), names) = &self.kind else { return Slots::default() };
        let slot_ns = time.as_nanos() as u64;
        // Midnight in local time is a boundary, for slots that divide a day.
        let offset_ns = (-names.zone_offset_ns(now_ns)).rem_euclid(slot_ns as i64) as u64;
        Slots { slot_ns, offset_ns }
    }

    /// How it will be written, in words.
    pub(super) fn describe(&self) -> String {
        match &self.kind {
            Kind::Stream(_) => STREAM.to_owned(),
            Kind::Interface(_) => "an interface".to_owned(),
            _ => {
                let engine = Wakeup::new().map_or("pwrite", |wakeup| Disk::new(&wakeup).name());
                let cache =
                    if self.align > 1 { "O_DIRECT" } else { "through the page cache (no O_DIRECT here)" };
                format!("{engine}, {cache}")
            }
        }
    }

    /// What the user should know about it.
    pub(super) fn note(&self) -> Option<String> {
        let is_cached = self.align == 1 && !matches!(self.kind, Kind::Stream(_) | Kind::Interface(_));
        is_cached.then(|| {
            "the file system takes no direct writes: the page cache makes it slower, and kill -9 can cut the last block"
                .to_owned()
        })
    }

    /// Makes the sink. To be called on the writer's thread, to whose core the disk's helpers keep.
    pub(super) fn into_sink(
        self,
        heading: Heading,
        slots: Slots,
        wakeup: &Wakeup,
        stop: &Stop,
        gauges: Arc<WriterGauges>,
    ) -> Result<Box<dyn Sink>> {
        let is_repacked = self.align > 1 && self.format != Format::Pcapng;
        let repack = is_repacked.then(|| Repack::new(self.align, REPACK_BYTES, REPACK_SLABS)).transpose()?;
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
            Kind::Interface(transmit) => Box::new(transmit.shown_by(gauges.clone())),
        };
        let Some(out) = self.onlooker else { return Ok(sink) };
        Ok(Box::new(Tee::new(sink, Onlooker::start(out, stop)?, heading, gauges)))
    }
}

/// Opens where a copy goes: a pipe or a device, never a file, which would be as slow as the disk.
fn open_onlooker(output: &Output, stop: &Stop) -> Result<File> {
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
pub(super) fn leave_stdout() {
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
pub(crate) fn open_probe(dir: &Path) -> Result<Option<File>> {
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
