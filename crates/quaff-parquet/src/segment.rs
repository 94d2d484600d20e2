//! One file: written under a temporary name, synced, then renamed, and never over another file. After a crash the final
//! name is complete or absent.

use crate::columns::Columns;
use crate::error::{Result, TryParquet};
use crate::ledger::SegmentLedger;
use crate::schema::{properties, schema};
use parquet::file::writer::SerializedFileWriter;
use quaff_flow::export::Names;
use quaff_os::Try;
use quaff_os::disk::{open_regular, rename_new, sync_folder};
use ring::digest::{Context, SHA256};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Suffix of a file that is being written. Its name also begins with a dot, so that readers skip it.
pub(crate) const PART: &str = ".part";
/// An unlocked file that is older than this was left by a crash.
const ABANDONED: Duration = Duration::from_secs(60);

/// A file that is being written.
pub(crate) struct Segment {
    path: PathBuf,
    part: PathBuf,
    writer: SerializedFileWriter<HashedFile>,
}

/// A file, with a digest of everything that was written.
struct HashedFile {
    file: File,
    digest: Context,
    bytes: u64,
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.digest.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Segment {
    /// Creates the temporary file for `path`, and its folder.
    pub(crate) fn create(path: PathBuf, names: Names) -> Result<Self> {
        let folder = path.parent().unwrap_or(Path::new("."));
        make_folder(folder)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let part = folder.join(format!(".{name}{PART}"));
        let tried = || format!("create {}", part.display());
        let mut options = File::options();
        let file = options.write(true).create_new(true).mode(0o640).open(&part).trying(tried)?;
        // Abandoned files are recognized by the missing lock. Without locks on this file system none are removed.
        let _ = file.try_lock();
        let file = HashedFile { file, digest: Context::new(&SHA256), bytes: 0 };
        let writer = schema(names)
            .and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(properties(names)?)));
        match writer.trying_parquet(tried) {
            Ok(writer) => Ok(Self { path, part, writer }),
            Err(error) => {
                drop(std::fs::remove_file(&part));
                Err(error)
            }
        }
    }

    /// Bytes so far, without buffered rows.
    pub(crate) fn bytes(&self) -> u64 {
        self.writer.bytes_written() as u64
    }

    /// Writes the buffered rows as a row group.
    pub(crate) fn write(&mut self, columns: &mut Columns) -> Result<()> {
        let tried = || format!("write {}", self.part.display());
        columns.write(&mut self.writer).trying_parquet(tried)
    }

    /// Completes the file: syncs it and gives it its final name. Returns its length.
    pub(crate) fn commit(mut self, ledger: &mut SegmentLedger) -> Result<u64> {
        let committed = self.end(ledger);
        if committed.is_err() {
            self.abandon();
        }
        committed
    }

    fn end(&mut self, ledger: &mut SegmentLedger) -> Result<u64> {
        let (part, path) = (self.part.clone(), self.path.clone());
        let tried = || format!("write {}", part.display());
        self.writer.flush().trying(tried)?;
        let hashed = self.writer.inner();
        ledger.hashed_bytes = hashed.bytes;
        let digest = hashed.digest.clone().finish();
        ledger.sha256 = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        for entry in ledger.entries() {
            self.writer.append_key_value_metadata(entry);
        }
        self.writer.finish().trying_parquet(tried)?;
        let hashed = self.writer.inner();
        hashed.file.sync_all().trying(|| format!("sync {}", part.display()))?;
        rename_new(&part, &path).trying(|| format!("rename {} to {}", part.display(), path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        sync_folder(folder).trying(|| format!("sync {}", folder.display()))?;
        Ok(hashed.bytes)
    }

    /// Removes the temporary file.
    pub(crate) fn abandon(self) {
        // The file may be gone already: another process may have removed the folder.
        drop(std::fs::remove_file(&self.part));
    }
}

/// Creates a folder and its parents, and syncs each new directory entry.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_folder(above)?;
    match DirBuilder::new().mode(0o750).create(folder) {
        // Another process has just created it.
        Err(_) if folder.is_dir() => return Ok(()),
        made => made.trying(|| format!("create the folder {}", folder.display()))?,
    }
    Ok(sync_folder(above).trying(|| format!("sync {}", above.display()))?)
}

/// Removes files that a crash left: those of this probe that are unlocked and unchanged for a minute. Only errors with
/// the folder itself are returned, as a leftover costs nothing but space.
pub(crate) fn remove_abandoned(folder: &Path, probe: &str) -> Result<()> {
    let entries = std::fs::read_dir(folder).trying(|| format!("read the folder {}", folder.display()))?;
    let days = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let hours = days.flat_map(|day| std::fs::read_dir(day).into_iter().flatten().flatten());
    let files = hours.flat_map(|hour| std::fs::read_dir(hour.path()).into_iter().flatten().flatten());
    for file in files {
        let name = file.file_name().to_string_lossy().into_owned();
        if name.starts_with(&format!(".{probe}-")) && name.ends_with(PART) && is_abandoned(&file.path()) {
            drop(std::fs::remove_file(file.path()));
        }
    }
    Ok(())
}

fn is_abandoned(path: &Path) -> bool {
    let Ok(file) = open_regular(path) else { return false };
    let age = file.metadata().and_then(|found| found.modified()).map(|changed| changed.elapsed());
    matches!(age, Ok(Ok(age)) if age > ABANDONED) && file.try_lock().is_ok()
}
