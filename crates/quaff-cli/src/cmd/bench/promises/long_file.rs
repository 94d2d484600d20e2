//! The file that programs read: passes through a capture, or through generated traffic, in the page cache.

use super::setup::Setup;
use crate::show;
use quaff_bench::flow::survey;
use quaff_bench::method::{self, Load, RunDir};
use std::path::{Path, PathBuf};

/// Generated traffic of one pass, and its name.
const MADE: &str = "--tcp talk --segments 8 --flows 5000 --size imix1500 --pps 100k --count 100k";
const MADE_NAME: &str = "generated TCP conversations";

/// A file that several programs read; removed when it is dropped.
#[derive(Debug)]
pub(super) struct LongFile {
    /// "mix.pcap × 72".
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) load: Load,
    _dir: RunDir,
}

impl LongFile {
    /// A file of about so many `frames`, each pass with addresses of its own; without a `capture` they are generated.
    pub(super) fn make(setup: &Setup, capture: Option<PathBuf>, frames: u64) -> quaff_lab::Result<Self> {
        let Setup { quaff, place, .. } = setup;
        let mut continues = || setup.no_signal();
        let dir = place.run_dir()?;
        let (input, name) = match capture {
            Some(file) => (file.clone(), name_of(&file)),
            None => {
                let made = dir.path.join("made.pcap");
                method::generate(quaff, MADE, &made, &mut continues)?;
                (made, MADE_NAME.to_owned())
            }
        };
        let pass = survey(&input)?;
        let loops = (frames / pass.frames.max(1)).max(1);
        let passes = u32::try_from(loops).unwrap_or(u32::MAX);
        let path = method::expand(quaff, &input, passes, place, &dir.path, &mut continues)?;
        method::load(&path)?;
        if let Some(doubt) = method::cache_doubt(&path) {
            setup.above(|| show::message(&doubt));
        }
        Ok(Self { name: format!("{name} × {loops}"), path, load: pass.times(loops), _dir: dir })
    }
}

pub(super) fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
