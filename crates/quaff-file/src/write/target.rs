//! The output, opened and examined before it becomes a sink: its kind decides how it is written.

use crate::read::Compression;
use crate::write::compress::Compress;
use crate::write::file::{Files, Parts};
use crate::write::file_opener::probe_named;
use crate::write::folder::Folder;
use crate::write::folder_writer::{FolderRun, OpenFolder};
use crate::write::folders::Folders;
use crate::write::format::Format;
use crate::write::header::Heading;
use crate::write::live_copy::LiveCopy;
use crate::write::name_template::NameTemplate;
use crate::write::ordered::Ordered;
use crate::write::plan::{CompressPlan, DirPlan, FileLimit, FileTime, Output, Pipe};
use crate::write::repack::{REPACK_BUFFERS, REPACK_BYTES, Repack};
use crate::write::slots::Slots;
use crate::write::stdout::{STDOUT, reopen, stdout, without_blocking};
use crate::write::stream::{Patience, Stream};
use crate::write::tee::Tee;
use crate::write::{Sink, WriterGauges};
use crate::{Error, Result};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use quaff_os::disk::{Disk, FileAccess, direct_align, open_output, open_unnamed, sync_folder};
use quaff_os::{Stop, Wakeup};
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Description of an output without seeking.
const STREAM: &str = "a stream";
/// An opened output.
pub struct Target {
    kind: TargetKind,
    format: Format,
    /// Alignment of writes; 1 when they go through the page cache.
    align: usize,
    compress: Option<CompressPlan>,
    /// The pipe of the live copy, and whether the run ends with its reader.
    live_copy: Option<(File, bool)>,
    /// `None` waits without a limit for a reader that blocks.
    pub patience: Option<Patience>,
    /// Limits of a file or a folder; see [`Self::check_limit`].
    pub limit: FileLimit,
    /// Interval of syncs of a file or of the files of a folder; without one, a file is synced when it ends.
    fsync: Option<Duration>,
    /// Packets of all lanes are written by time; lanes send theirs within this interval. See [`Self::order`].
    ordered: Option<Duration>,
    /// That of the writer, if [`Self::make_ring`] was called.
    disk: Option<Disk>,
}

enum TargetKind {
    Stream(File),
    File(File, PathBuf),
    /// A folder, the length of its slots, and the template with the time zone.
    Folder(Box<Folder>, Option<FileTime>, Box<NameTemplate>),
    /// Several folders, with the same two.
    Folders(Vec<OpenFolder>, Option<FileTime>, Box<NameTemplate>),
    /// The caller's sink, and its description.
    Own(Box<dyn Sink>, &'static str),
}

impl Target {
    /// Opens `output`, whose files get `access`, and the pipe of the live copy, which is not compressed. Waits for a
    /// reader of a named pipe until `stop`.
    pub fn open(
        output: &Output,
        live_copy: Option<&Output>,
        format: Format,
        access: FileAccess,
        compress: Option<&CompressPlan>,
        wakeup: &Wakeup,
        stop: &Stop,
    ) -> Result<Self> {
        let copy =
            |output| Ok::<_, Error>((open_live_copy(output, stop)?, !matches!(output, Output::Pipe(_))));
        let live_copy = live_copy.map(copy).transpose()?;
        let extension = format.extension_with(compress.map(|plan| plan.codec.compression));
        let (kind, align) = match output {
            Output::Stdout => open_stdout()?,
            Output::Pipe(pipe) => (TargetKind::Stream(take_pipe(pipe)?), 1),
            Output::File(path) if is_stream(path) => (TargetKind::Stream(open_stream(path, stop)?), 1),
            Output::File(path) => open_file(path, access)?,
            Output::Dir(dir) => {
                make_folder(&dir.dir)?;
                let align = folder_align(&dir.dir, access)?;
                let folder = Folder::open(dir, extension, align > 1, access, wakeup.clone())?;
                let names = dir.name_template(extension)?;
                (TargetKind::Folder(Box::new(folder), dir.file_time(), Box::new(names)), align)
            }
            Output::Dirs(dirs) => open_folders(dirs, extension, access)?,
        };
        Ok(Self { align, compress: compress.cloned(), live_copy, ..Self::new(kind, format) })
    }

    fn new(kind: TargetKind, format: Format) -> Self {
        let limit = FileLimit::default();
        let (compress, live_copy, patience, fsync, ordered) = (None, None, None, None, None);
        let disk = None;
        Self { kind, format, align: 1, compress, live_copy, patience, limit, fsync, ordered, disk }
    }

    /// Wraps a pipe to a process.
    pub fn process(pipe: File, format: Format) -> Self {
        Self::new(TargetKind::Stream(pipe), format)
    }

    /// Wraps the caller's sink for chunks in `format`; `name` describes it.
    pub fn own(sink: Box<dyn Sink>, name: &'static str, format: Format) -> Self {
        Self::new(TargetKind::Own(sink, name), format)
    }

    /// Syncs the file that is being written every `interval`. The name of a single file is synced here: later the
    /// process may have no right to open its folder.
    pub fn sync_every(&mut self, interval: Option<Duration>) -> Result<()> {
        self.fsync = interval;
        match &self.kind {
            TargetKind::File(_, path) if interval.is_some() && path != Path::new(STDOUT) => sync_name(path),
            _ => Ok(()),
        }
    }

    /// Makes the ring of the writer now, on any thread. Otherwise [`Self::into_sink`] makes it, which a process that
    /// reads files of strangers may not. Several folders are written from interfaces only.
    pub fn make_ring(&mut self, wakeup: &Wakeup) {
        let is_one = matches!(self.kind, TargetKind::File(..) | TargetKind::Folder(..));
        self.disk = is_one.then(|| Disk::ahead(wakeup));
    }

    /// Refuses a limit that the output cannot keep.
    pub fn check_limit(&self, limit: FileLimit) -> Result<()> {
        let words = match &self.kind {
            _ if !limit.is_any() => return Ok(()),
            _ if self.live_copy.is_some() => "`stop-size` and `stop-files` do not go with a live copy",
            TargetKind::Folder(..) => return Ok(()),
            TargetKind::File(..) if limit.files.is_none() => return Ok(()),
            TargetKind::File(..) => "`stop-files` needs a folder of files",
            TargetKind::Folders(..) => "`stop-size` and `stop-files` are for one folder",
            TargetKind::Stream(_) | TargetKind::Own(..) => {
                "`stop-size` needs a file or a folder; `count` ends a stream after a number of packets"
            }
        };
        Err(Error::Plan(words.into()))
    }

    /// Writes the packets of all lanes by time; lanes send theirs within `flush`. Refuses an output that is no stream.
    pub fn order(&mut self, flush: Duration) -> Result<()> {
        match &self.kind {
            TargetKind::Stream(_) => {}
            // A file that the shell has opened for stdout.
            TargetKind::File(_, path) if path == Path::new(STDOUT) => {
                (self.kind, self.align) = (TargetKind::Stream(stdout()?), 1);
            }
            _ => {
                let words =
                    "`ordered` is for stdout and pipes; 'quaff merge' sorts a file by time afterwards";
                return Err(Error::Plan(words.into()));
            }
        }
        self.ordered = Some(flush);
        Ok(())
    }

    /// Returns the alignment of chunks, bytes.
    pub fn align(&self) -> usize {
        // pcap cannot be padded: the sink repacks its chunks. Of compressed ones, the frames are padded.
        if self.format == Format::Pcapng && self.compress.is_none() { self.align } else { 1 }
    }

    /// Returns the alignment of blocks outside of chunks, bytes.
    pub fn heading_align(&self) -> usize {
        if self.compress.is_some() { self.align } else { self.align() }
    }

    /// Returns the compression of the output.
    pub fn compression(&self) -> Option<Compression> {
        self.compress.as_ref().map(|plan| plan.codec.compression)
    }

    /// Returns whether chunks are read by the disk alone, and not by this machine's processor.
    pub fn is_read_by_disk(&self) -> bool {
        self.align() > 1 && self.live_copy.is_none()
    }

    /// Returns the rotation slots of a run that begins at `now_ns`.
    pub fn slots(&self, now_ns: u64) -> Slots {
        match &self.kind {
            TargetKind::Folder(_, Some(time), names) | TargetKind::Folders(_, Some(time), names) => {
                Slots::of(*time, names, now_ns)
            }
            _ => Slots::default(),
        }
    }

    /// Most packets of a file of the folder; `u64::MAX` without a limit.
    pub fn rotate_packets(&self) -> u64 {
        match &self.kind {
            TargetKind::Folder(folder, ..) => folder.rotate_packets,
            _ => u64::MAX,
        }
    }

    /// Describes how the output is written, such as `io_uring, O_DIRECT`.
    pub fn describe(&self) -> String {
        let compressed = self.compress.as_ref().map_or(String::new(), |plan| format!(", {}", plan.codec));
        self.describe_kind() + &compressed
    }

    fn describe_kind(&self) -> String {
        match &self.kind {
            TargetKind::Stream(_) if self.ordered.is_some() => format!("{STREAM}, by time"),
            TargetKind::Stream(_) => STREAM.to_owned(),
            TargetKind::Own(_, name) => (*name).to_owned(),
            _ => {
                let cache =
                    if self.align > 1 { "O_DIRECT" } else { "through the page cache (no O_DIRECT here)" };
                let writers = match &self.kind {
                    TargetKind::Folders(folders, ..) => format!("{} writers, ", folders.len()),
                    _ => String::new(),
                };
                let disk = self.disk.as_ref().map_or_else(disk_name, Disk::name);
                format!("{writers}{disk}, {cache}")
            }
        }
    }

    /// Returns whether the output is a file, or one or several folders of files.
    pub fn is_on_disk(&self) -> bool {
        matches!(self.kind, TargetKind::File(..) | TargetKind::Folder(..) | TargetKind::Folders(..))
    }

    /// Returns warnings for the user.
    pub fn notes(&self) -> Vec<String> {
        let is_cached = match &self.kind {
            TargetKind::Stream(_) | TargetKind::Own(..) => false,
            TargetKind::Folders(folders, ..) => folders.iter().any(|open| open.align == 1),
            _ => self.align == 1,
        };
        let cached = is_cached.then(|| {
            "the file system does not support O_DIRECT: the page cache is slower, and kill -9 can truncate the last block"
                .to_owned()
        });
        let (folders, names) = match &self.kind {
            TargetKind::Folders(folders, _, names) => (&folders[..], Some(names)),
            TargetKind::Folder(_, _, names) => (&[][..], Some(names)),
            _ => (&[][..], None),
        };
        let one = if let TargetKind::Folder(folder, ..) = &self.kind { Some(&**folder) } else { None };
        let all = one.into_iter().chain(folders.iter().map(|open| &open.folder));
        let mut notes: Vec<_> = cached.into_iter().chain(shared_disk(folders)).collect();
        notes.extend(all.flat_map(|folder| folder.unmet_rule().into_iter().chain(folder.strange_files())));
        notes.extend(names.and_then(|names| names.unknown_zone()));
        notes
    }

    /// Creates the sink. Must be called on the writer's thread: io_uring's kernel threads stay on its core.
    pub fn into_sink(
        self,
        heading: Heading,
        slots: Slots,
        wakeup: &Wakeup,
        stop: &Stop,
        gauges: Arc<WriterGauges>,
    ) -> Result<Box<dyn Sink>> {
        let is_one = !matches!(self.kind, TargetKind::Folders(..));
        let is_padded = self.format == Format::Pcapng || self.compress.is_some();
        let is_repacked = self.align > 1 && !is_padded && is_one;
        let repack =
            is_repacked.then(|| Repack::new(self.align, REPACK_BYTES, REPACK_BUFFERS)).transpose()?;
        let (stop, wakeup, of_folders) = (stop.clone(), wakeup.clone(), slots.clone());
        let disk = || self.disk.map_or_else(|| Disk::new(&wakeup), Disk::settle);
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
            TargetKind::Stream(out) => {
                let stream = Stream::new(out, heading.clone(), stop.clone(), self.patience, gauges.clone());
                match self.ordered {
                    Some(flush) => Box::new(Ordered::new(stream, self.format, heading.lanes, flush)),
                    None => Box::new(stream),
                }
            }
            TargetKind::File(file, path) => {
                // The old contents are removed only now, after everything else has succeeded.
                file.set_len(0).map_err(|errno| Error::path("empty", &path, errno))?;
                let is_stdout = path == Path::new(STDOUT);
                let files = Files::in_place(file, path, parts(disk()))?.limited(self.limit);
                let files = files.sync_every(self.fsync)?;
                Box::new(if is_stdout { files.on_stdout() } else { files })
            }
            TargetKind::Folder(folder, ..) => {
                let files = Files::in_folder(*folder, parts(disk()))?.limited(self.limit);
                Box::new(files.sync_every(self.fsync)?)
            }
            TargetKind::Folders(folders, ..) => {
                let (stop, gauges) = (stop.clone(), gauges.clone());
                let (heading, fsync, wakeup) = (heading.clone(), self.fsync, wakeup.clone());
                let run = FolderRun { heading, slots: of_folders, fsync, wakeup };
                Box::new(Folders::start(folders, &run, stop, gauges)?)
            }
            TargetKind::Own(sink, _) => sink,
        };
        let sink: Box<dyn Sink> = match &self.compress {
            Some(plan) => Box::new(Compress::start(sink, plan, heading.align, &wakeup)?),
            None => sink,
        };
        let Some((out, ends_run)) = self.live_copy else { return Ok(sink) };
        let copy = LiveCopy::start(out, ends_run.then_some(stop))?;
        Ok(Box::new(Tee::new(sink, copy, heading, gauges)))
    }
}

/// Returns the name of the system's interface for writes to a disk.
pub(super) fn disk_name() -> &'static str {
    Wakeup::new().map_or("pwrite", |wakeup| Disk::new(&wakeup).name())
}

/// Opens the pipe or device of the live copy; a file would be as slow as the disk.
fn open_live_copy(output: &Output, stop: &Stop) -> Result<File> {
    match output {
        Output::Stdout => stdout(),
        Output::File(path) if is_stream(path) => open_stream(path, stop),
        Output::Pipe(pipe) => take_pipe(pipe),
        _ => Err(Error::Plan(
            "a live copy goes to standard output or a pipe, not to a file: a file can be read while it is written"
                .into(),
        )),
    }
}

/// Takes the pipe to a program, non-blocking: a program that blocks can be abandoned.
fn take_pipe(pipe: &Pipe) -> Result<File> {
    let end = pipe.take()?;
    let failed = |errno: nix::Error| Error::path("write to", pipe.program, errno.into());
    let flags = OFlag::from_bits_retain(fcntl(&end, FcntlArg::F_GETFL).map_err(failed)?);
    fcntl(&end, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map_err(failed)?;
    Ok(end)
}

/// Opens stdout; an empty file is written with O_DIRECT.
fn open_stdout() -> Result<(TargetKind, usize)> {
    let mut stdout = stdout()?;
    let is_new = stdout.stream_position().is_ok_and(|at| at == 0)
        && stdout.metadata().is_ok_and(|meta| meta.len() == 0);
    match reopen(&stdout).filter(|_| is_new) {
        Some((file, align)) => Ok((TargetKind::File(file, STDOUT.into()), align)),
        None => Ok((TargetKind::Stream(without_blocking(&stdout).unwrap_or(stdout)), 1)),
    }
}

/// Returns `true` for a pipe, a socket or a device.
fn is_stream(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// Opens a pipe or a device. Waits for a reader of a named pipe, until the stop.
fn open_stream(path: &Path, stop: &Stop) -> Result<File> {
    loop {
        match open_output(path, libc::O_WRONLY | libc::O_NONBLOCK) {
            Err(error) if error.raw_os_error() == Some(nix::libc::ENXIO) && !stop.raised() => {
                std::thread::sleep(Duration::from_millis(50));
            }
            opened => return opened.map_err(|errno| Error::path("write to", path, errno)),
        }
    }
}

/// Opens a file, with O_DIRECT where the file system supports it.
fn open_file(path: &Path, access: FileAccess) -> Result<(TargetKind, usize)> {
    let open = |flags| {
        // Reading finds the end of the last packet on a full disk. A file may permit writing alone.
        match open_output(path, libc::O_RDWR | libc::O_CREAT | flags) {
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
                open_output(path, libc::O_WRONLY | libc::O_CREAT | flags)
            }
            opened => opened,
        }
    };
    let failed = |errno| Error::path("write to", path, errno);
    let file = match open(libc::O_DIRECT) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => open(0),
        opened => opened,
    }
    .map_err(failed)?;
    let (file, align) = match direct_align(&file) {
        Some(align) => (file, align),
        // A file system that ignores O_DIRECT would still require alignment: reopen without.
        None => (open(0).map_err(failed)?, 1),
    };
    if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        return Err(Error::Plan(format!("another capture is writing {}", path.display())));
    }
    access.apply(&file).map_err(|errno| no_access("set the group and the mode of", path, errno))?;
    Ok((TargetKind::File(file, path.to_owned()), align))
}

/// Syncs the folder of a file.
fn sync_name(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_folder(parent).map_err(|errno| Error::path("sync the folder", parent, errno))
}

/// Opens several folders; the alignment is one that suits all of them.
fn open_folders(
    dirs: &[DirPlan],
    extension: &'static str,
    access: FileAccess,
) -> Result<(TargetKind, usize)> {
    let (mut folders, mut names, mut file_time) = (Vec::<OpenFolder>::new(), None, None);
    for plan in dirs {
        let identity = |dir: &Path| dir.metadata().map(|meta| (meta.dev(), meta.ino())).ok();
        let is_same = |open: &&OpenFolder| identity(&open.dir) == identity(&plan.dir);
        if let Some(twin) = folders.iter().find(is_same).filter(|_| identity(&plan.dir).is_some()) {
            let (one, other) = (twin.dir.display(), plan.dir.display());
            return Err(Error::Plan(format!("`dir` {one} and {other} are the same folder: give each once")));
        }
        make_folder(&plan.dir)?;
        let (align, wakeup, dir) = (folder_align(&plan.dir, access)?, Wakeup::new()?, plan.dir.clone());
        let folder = Folder::open(plan, extension, align > 1, access, wakeup.clone())?;
        folders.push(OpenFolder { dir, folder, align, wakeup, disk: Box::new(Disk::new) });
        names = Some(plan.name_template(extension)?);
        file_time = plan.file_time();
    }
    let align = folders.iter().map(|open| open.align).max().unwrap_or(1);
    let names = names.ok_or_else(|| Error::Plan("no `dir` given".into()))?;
    Ok((TargetKind::Folders(folders, file_time, Box::new(names)), align))
}

/// A warning if two folders are on one file system.
fn shared_disk(folders: &[OpenFolder]) -> Option<String> {
    let device = |open: &OpenFolder| open.dir.metadata().map(|meta| meta.dev()).ok();
    let mut open = folders.iter().enumerate();
    let (one, other) = open.find_map(|(number, other)| {
        let twin = folders[..number].iter().find(|one| device(one).is_some() && device(one) == device(other));
        Some((twin?, other))
    })?;
    let (one, other) = (one.dir.display(), other.dir.display());
    Some(format!(
        "{one} and {other} are on the same file system: several folders are faster on several disks"
    ))
}

/// Creates a folder unless it exists, and none above it: a mistyped path is an error.
fn make_folder(dir: &Path) -> Result<()> {
    match std::fs::create_dir(dir) {
        Err(errno) if !dir.is_dir() => Err(Error::path("make the folder", dir, errno)),
        _ => Ok(()),
    }
}

/// The error of an access that a file does not get.
fn no_access(tried: &'static str, path: &Path, errno: io::Error) -> Error {
    match errno.kind() {
        ErrorKind::PermissionDenied => Error::Plan(format!(
            "cannot {tried} {}: {errno}; the owner of a file must be a member of its `group`",
            path.display()
        )),
        _ => Error::path(tried, path, errno),
    }
}

/// Returns the alignment of direct writes to files in the folder, which may have `access`; 1 where O_DIRECT is not
/// supported.
pub(super) fn folder_align(dir: &Path, access: FileAccess) -> Result<usize> {
    match open_unnamed(dir, true) {
        Ok(probe) => {
            let applied = access.apply(&probe);
            applied.map_err(|errno| no_access("set the group and the mode of files in", dir, errno))?;
            Ok(direct_align(&probe).unwrap_or(1))
        }
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::IsADirectory
            ) =>
        {
            // Without O_TMPFILE (NFS, FUSE, overlay) a file with a name shows it.
            probe_named(dir).map_err(|errno| Error::path("write to the folder", dir, errno))
        }
        Err(error) => Err(Error::path("write to the folder", dir, error)),
    }
}
