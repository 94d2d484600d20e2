//! The sizes of frames, from a capture or from a file that a run before has saved.

use quaff_file::read::{CaptureFile, Error};
use quaff_wire::ParseError;
use quaff_wire::decode::Item;
use quaff_wire::synth::{HEADING, Histogram, Sizes};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// A longer file of sizes is a mistake, bytes.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// Why no sizes could be learned.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum LearnError {
    #[error("{path}: {error}")]
    Text { path: String, error: ParseError },
    #[error("{path}: no packet in it has a size ({error})")]
    Empty { path: String, error: ParseError },
    #[error("{path} is not text")]
    NotText { path: String },
    #[error(transparent)]
    File(#[from] Error),
    #[error(transparent)]
    Os(#[from] quaff_os::Error),
    #[error("read {path}: {error}")]
    Io { path: String, error: std::io::Error },
}

/// Sizes as packets had them on the wire (without FCS); and of how many packets, when it is a capture.
///
/// What is wrong in a capture ends it; what came before is learned.
pub fn learn(path: &Path) -> Result<(Sizes, Option<u64>), LearnError> {
    let name = || path.display().to_string();
    if let Some(text) = text_of(path)? {
        let sizes = Sizes::from_text(&text).map_err(|error| LearnError::Text { path: name(), error })?;
        return Ok((sizes, None));
    }
    let mut file = CaptureFile::open(path)?;
    let mut histogram = Histogram::default();
    let mut each = |item: Item<'_>| {
        if let Item::Frame(frame) = item {
            histogram.add(frame.wire_len);
        }
    };
    let ended = loop {
        match file.pull(&mut each) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    match (histogram.sizes(), ended) {
        (Ok(sizes), _) => Ok((sizes, Some(histogram.frames))),
        (Err(_), Err(error)) => Err(error.into()),
        (Err(error), Ok(())) => Err(LearnError::Empty { path: name(), error }),
    }
}

/// The text of a file of sizes; `None` when it is something else.
fn text_of(path: &Path) -> Result<Option<String>, LearnError> {
    let io = |error| LearnError::Io { path: path.display().to_string(), error };
    let mut file = File::open(path).map_err(io)?;
    let mut bytes = vec![0; HEADING.len()];
    match file.read_exact(&mut bytes) {
        Ok(()) if bytes == HEADING.as_bytes() => {}
        // Too short, or not a file that can be read twice: the reader of captures will say.
        _ => return Ok(None),
    }
    file.take(TEXT_BYTES_MAX).read_to_end(&mut bytes).map_err(io)?;
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| LearnError::NotText { path: path.display().to_string() })
}
