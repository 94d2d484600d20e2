//! The folder of a result, removed again if no result was written. It never overwrites one.

use anyhow::{Context as _, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// The file that holds everything.
const RESULT: &str = "result.json";

/// A folder for a result.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    made: bool,
}

impl Folder {
    /// Creates the folder before a measurement: `wanted`, or `STEM-TIME`.
    pub(crate) fn make(wanted: Option<&Path>, stem: &str) -> anyhow::Result<Self> {
        let path = wanted.map_or_else(|| by_time(stem), Path::to_owned);
        let made = !path.exists();
        fs::create_dir_all(&path).with_context(|| format!("make the folder {}", path.display()))?;
        let result = path.join(RESULT);
        ensure!(!result.exists(), "there is a result already, {}; say another --out", result.display());
        Ok(Self { path, made })
    }

    /// Keeps the folder.
    pub(crate) fn keep(mut self) {
        self.made = false;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.made {
            // Fails if the folder has contents, which stay.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// The name of a plan as part of the name of a folder: a plan file may name itself as it likes.
pub(crate) fn name_part(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
    let words: String = name.chars().map(plain).collect();
    words.split_whitespace().collect::<Vec<_>>().join("-")
}

/// `bench-quick-20261120-190405`.
fn by_time(stem: &str) -> PathBuf {
    let now = jiff::Zoned::now();
    format!("{stem}-{}", now.strftime("%Y%m%d-%H%M%S")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_plan_leads_to_no_other_folder() {
        assert_eq!(name_part("rfc2544 (short)"), "rfc2544-short");
        assert_eq!(name_part("../x"), "x");
        assert_eq!(name_part(".\u{1b}/"), "");
    }

    #[test]
    fn an_empty_folder_is_removed_and_a_result_is_never_overwritten() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("out");
        drop(Folder::make(Some(&path), "quick").expect("made"));
        assert!(!path.exists());
        Folder::make(Some(&path), "quick").expect("made").keep();
        assert!(path.exists());
        drop(Folder::make(Some(&path), "quick").expect("it is empty"));
        assert!(path.exists(), "it existed before");
        fs::write(path.join(RESULT), "{}").expect("written");
        let said = Folder::make(Some(&path), "quick").err().expect("refused").to_string();
        assert!(said.contains("--out"), "{said}");
    }
}
