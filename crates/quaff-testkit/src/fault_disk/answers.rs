//! Requests of the kernel and their answers, on files of a real folder. It decides on no fault itself.

use super::{ROOT, State, WRITE_BYTES_MAX};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

/// `enum fuse_opcode`, as far as it is answered.
mod opcode {
    pub(super) const LOOKUP: u32 = 1;
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const SETATTR: u32 = 4;
    pub(super) const UNLINK: u32 = 10;
    pub(super) const RENAME: u32 = 12;
    pub(super) const OPEN: u32 = 14;
    pub(super) const READ: u32 = 15;
    pub(super) const WRITE: u32 = 16;
    pub(super) const STATFS: u32 = 17;
    pub(super) const RELEASE: u32 = 18;
    pub(super) const FSYNC: u32 = 20;
    pub(super) const FLUSH: u32 = 25;
    pub(super) const INIT: u32 = 26;
    pub(super) const OPENDIR: u32 = 27;
    pub(super) const READDIR: u32 = 28;
    pub(super) const RELEASEDIR: u32 = 29;
    pub(super) const FSYNCDIR: u32 = 30;
    pub(super) const CREATE: u32 = 35;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const BATCH_FORGET: u32 = 42;
    pub(super) const RENAME2: u32 = 45;
}

/// Length of `struct fuse_in_header`, and of `struct fuse_out_header`.
const IN_HEADER_BYTES: usize = 40;
const OUT_HEADER_BYTES: usize = 16;
/// `FUSE_BIG_WRITES | FUSE_MAX_PAGES`: a write is not cut into pages.
const INIT_FLAGS: u32 = 1 << 5 | 1 << 22;
/// `FATTR_SIZE` of `struct fuse_setattr_in`.
const SET_SIZE: u32 = 1 << 3;
/// `RENAME_NOREPLACE`.
const NO_REPLACE: u32 = 1;
const PAGE_BYTES: u32 = 4096;
/// Size of the file system, pages.
const PAGES: u64 = 1 << 20;
const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOSYS: i32 = 38;
/// `O_EXCL`.
const EXCLUSIVE: u32 = 0o200;

/// A request; its numbers are little endian.
pub(super) struct Request<'a> {
    opcode: u32,
    /// Identifies the answer.
    pub(super) unique: u64,
    node: u64,
    body: &'a [u8],
}

/// An error number, 0 for none, and the body without one.
pub(super) struct Answer {
    pub(super) errno: i32,
    pub(super) body: Vec<u8>,
}

/// The files that the kernel knows, by their inode number in the real folder.
pub(super) struct Files {
    real: PathBuf,
    nodes: HashMap<u64, Node>,
}

struct Node {
    name: String,
    /// Open for reading and writing.
    file: File,
}

impl<'a> Request<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let head = Request { opcode: 0, unique: 0, node: 0, body: bytes };
        let (opcode, unique, node) = (head.u32(4), head.u64(8), head.u64(16));
        Request { opcode, unique, node, body: &bytes[IN_HEADER_BYTES..] }
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.body[at..at + 4].try_into().expect("four bytes"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.body[at..at + 8].try_into().expect("eight bytes"))
    }

    /// The names from `at` on; each ends with a 0.
    fn names(&self, at: usize) -> Vec<String> {
        let names = self.body[at..].split(|byte| *byte == 0);
        names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }
}

/// The whole message of an answer.
pub(super) fn message(unique: u64, errno: i32, body: &[u8]) -> Vec<u8> {
    let len = (OUT_HEADER_BYTES + body.len()) as u32;
    [&len.to_le_bytes()[..], &(-errno).to_le_bytes(), &unique.to_le_bytes(), body].concat()
}

/// The answer to a request; `None` if it wants none.
pub(super) fn answer(files: &mut Files, state: &State, request: &Request<'_>) -> Option<Answer> {
    let answered = match request.opcode {
        opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT => return None,
        opcode::INIT => Ok(init()),
        opcode::STATFS => Ok(statfs(state)),
        opcode::LOOKUP => files.lookup(&request.names(0)[0]),
        opcode::GETATTR => files.attributes(request.node),
        opcode::SETATTR => files.set_attributes(request),
        opcode::CREATE => files.create(request),
        opcode::OPEN | opcode::OPENDIR => Ok(opened()),
        opcode::READ => files.read(request),
        opcode::WRITE => files.write(state, request),
        opcode::READDIR => files.list(request),
        opcode::UNLINK => std::fs::remove_file(files.real.join(&request.names(0)[0])).map(|()| Vec::new()),
        opcode::RENAME => files.rename(&request.names(8), 0),
        opcode::RENAME2 => files.rename(&request.names(16), request.u32(8)),
        opcode::FSYNC | opcode::FSYNCDIR | opcode::FLUSH | opcode::RELEASE | opcode::RELEASEDIR => {
            Ok(Vec::new())
        }
        _ => Err(io::Error::from_raw_os_error(ENOSYS)),
    };
    Some(match answered {
        Ok(body) => Answer { errno: 0, body },
        Err(error) => Answer { errno: error.raw_os_error().unwrap_or(super::EIO), body: Vec::new() },
    })
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_le_bytes()).collect()
}

/// `struct fuse_init_out`.
fn init() -> Vec<u8> {
    let background = 16 | 12 << 16;
    let pages = (WRITE_BYTES_MAX / PAGE_BYTES as usize) as u32;
    [words(&[7, 31, 0, INIT_FLAGS, background, WRITE_BYTES_MAX as u32, 1, pages]), vec![0; 32]].concat()
}

/// `struct fuse_kstatfs`.
fn statfs(state: &State) -> Vec<u8> {
    let free = if state.lock().is_full() { 0 } else { PAGES / 2 };
    let counts = longs(&[PAGES, free, free, 1000, 1000]);
    [counts, words(&[PAGE_BYTES, 255, PAGE_BYTES, 0]), vec![0; 24]].concat()
}

/// `struct fuse_open_out`.
fn opened() -> Vec<u8> {
    vec![0; 16]
}

/// `struct fuse_attr`.
fn attr(number: u64, meta: &Metadata) -> Vec<u8> {
    let times = [meta.atime(), meta.mtime(), meta.ctime()].map(|seconds| seconds as u64);
    let head = longs(&[number, meta.len(), meta.blocks(), times[0], times[1], times[2]]);
    let parts = [meta.atime_nsec(), meta.mtime_nsec(), meta.ctime_nsec()].map(|ns| ns as u32);
    let [atime, mtime, ctime] = parts;
    let mode = [meta.mode(), meta.nlink() as u32, meta.uid(), meta.gid(), 0, PAGE_BYTES, 0];
    [head, words(&[atime, mtime, ctime]), words(&mode)].concat()
}

/// `struct fuse_attr_out`, valid for no time.
fn attr_out(number: u64, meta: &Metadata) -> Vec<u8> {
    [vec![0; 16], attr(number, meta)].concat()
}

/// `struct fuse_entry_out`, valid for no time.
fn entry_out(number: u64, meta: &Metadata) -> Vec<u8> {
    [longs(&[number, 0]), vec![0; 24], attr(number, meta)].concat()
}

impl Files {
    pub(super) fn new(real: PathBuf) -> Self {
        Self { real, nodes: HashMap::new() }
    }

    fn node(&self, number: u64) -> io::Result<&Node> {
        self.nodes.get(&number).ok_or_else(|| io::Error::from_raw_os_error(ENOENT))
    }

    /// Adds an open file; returns its number and its attributes.
    fn add(&mut self, name: &str, file: File) -> io::Result<(u64, Metadata)> {
        let meta = file.metadata()?;
        self.nodes.insert(meta.ino(), Node { name: name.to_owned(), file });
        Ok((meta.ino(), meta))
    }

    fn lookup(&mut self, name: &str) -> io::Result<Vec<u8>> {
        let found = self.real.join(name).symlink_metadata()?;
        if self.nodes.contains_key(&found.ino()) {
            return Ok(entry_out(found.ino(), &found));
        }
        let file = File::options().read(true).write(true).open(self.real.join(name))?;
        let (number, meta) = self.add(name, file)?;
        Ok(entry_out(number, &meta))
    }

    fn attributes(&self, number: u64) -> io::Result<Vec<u8>> {
        let meta = if number == ROOT { self.real.metadata()? } else { self.node(number)?.file.metadata()? };
        Ok(attr_out(number, &meta))
    }

    /// `struct fuse_setattr_in`: of the attributes only the size.
    fn set_attributes(&self, request: &Request<'_>) -> io::Result<Vec<u8>> {
        if request.u32(0) & SET_SIZE != 0 {
            self.node(request.node)?.file.set_len(request.u64(16))?;
        }
        self.attributes(request.node)
    }

    /// `struct fuse_create_in` and a name.
    fn create(&mut self, request: &Request<'_>) -> io::Result<Vec<u8>> {
        let (flags, mode, name) = (request.u32(0), request.u32(4), &request.names(16)[0]);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(mode & 0o777);
        options.create_new(flags & EXCLUSIVE != 0);
        let file = options.open(self.real.join(name))?;
        let (number, meta) = self.add(name, file)?;
        Ok([entry_out(number, &meta), opened()].concat())
    }

    /// `struct fuse_read_in`.
    fn read(&self, request: &Request<'_>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; request.u32(16) as usize];
        let len = self.node(request.node)?.file.read_at(&mut bytes, request.u64(8))?;
        bytes.truncate(len);
        Ok(bytes)
    }

    /// `struct fuse_write_in` and the bytes.
    fn write(&self, state: &State, request: &Request<'_>) -> io::Result<Vec<u8>> {
        let (offset, len) = (request.u64(8), request.u32(16) as usize);
        let node = self.node(request.node)?;
        let judged = state.judge(request.node, &node.name, offset, len as u64);
        judged.map_err(io::Error::from_raw_os_error)?;
        node.file.write_all_at(&request.body[40..40 + len], offset)?;
        Ok(words(&[len as u32, 0]))
    }

    /// `struct fuse_read_in`; the answer is a list of `struct fuse_dirent`.
    fn list(&self, request: &Request<'_>) -> io::Result<Vec<u8>> {
        const REGULAR: u32 = 8;
        let (offset, room) = (request.u64(8) as usize, request.u32(16) as usize);
        let mut names = std::fs::read_dir(&self.real)?
            .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        let mut list = Vec::new();
        for (number, name) in names.iter().enumerate().skip(offset) {
            let number = number as u64 + 1;
            let mut entry =
                [longs(&[number, number]), words(&[name.len() as u32, REGULAR]), name.clone().into()]
                    .concat();
            entry.resize(entry.len().next_multiple_of(8), 0);
            if list.len() + entry.len() > room {
                break;
            }
            list.extend(entry);
        }
        Ok(list)
    }

    fn rename(&mut self, names: &[String], flags: u32) -> io::Result<Vec<u8>> {
        let (from, to) = (self.real.join(&names[0]), self.real.join(&names[1]));
        if flags & NO_REPLACE != 0 && to.symlink_metadata().is_ok() {
            return Err(io::Error::from_raw_os_error(EEXIST));
        }
        let number = from.symlink_metadata()?.ino();
        std::fs::rename(from, to)?;
        if let Some(node) = self.nodes.get_mut(&number) {
            node.name.clone_from(&names[1]);
        }
        Ok(Vec::new())
    }
}
