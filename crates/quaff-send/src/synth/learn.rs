//! Learns frame sizes from a capture or from a size file saved by an earlier run. It never writes one.

use crate::error::{PlanError, SendError};
use quaff_file::read::CaptureFile;
use quaff_os::Try;
use quaff_wire::decode::Item;
use quaff_wire::synth::{HEADING, Histogram, Sizes};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Maximum length of a size file, bytes.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// Returns the distribution of sizes on the wire (without FCS) and, for a capture, the number of packets. Only the
/// packets before any damage of a capture count.
pub fn learn_sizes(path: &Path) -> Result<(Sizes, Option<u64>), SendError> {
    if let Some(text) = text_of(path)? {
        let sizes = Sizes::from_text(&text).map_err(|error| unusable(path, error.to_string()))?;
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
        (Err(error), Ok(())) => Err(unusable(path, format!("no packet in it has a size ({error})"))),
    }
}

/// The text of a size file; `None` if it is another kind of file.
fn text_of(path: &Path) -> Result<Option<String>, SendError> {
    let reading = || format!("read {}", path.display());
    let mut file = File::open(path).trying(reading)?;
    let mut bytes = vec![0; HEADING.len()];
    match file.read_exact(&mut bytes) {
        Ok(()) if bytes == HEADING.as_bytes() => {}
        // Too short, or cannot be read twice: the capture reader returns the error.
        _ => return Ok(None),
    }
    file.take(TEXT_BYTES_MAX).read_to_end(&mut bytes).trying(reading)?;
    String::from_utf8(bytes).map(Some).map_err(|_| unusable(path, "not text".into()))
}

fn unusable(path: &Path, problem: String) -> SendError {
    PlanError::Sizes { path: path.display().to_string(), problem }.into()
}
