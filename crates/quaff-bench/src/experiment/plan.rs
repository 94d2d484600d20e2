//! Plans as TOML: files, presets, and errors that name line and key.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// Why a plan could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("read the plan {file}: {error}")]
    File { file: String, error: io::Error },
    /// Not TOML, or not a plan; the message names line and key.
    #[error("the plan {file} cannot be understood: {error}")]
    Shape { file: String, error: Box<toml::de::Error> },
    #[error("the plan {plan} makes no sense: {what}")]
    Sense { plan: String, what: String },
    #[error("there is no preset {name}; there is {known}")]
    Preset { name: String, known: String },
}

/// A plan that ships with quaff: its name, its TOML, and the TOML of a shorter form of the same tests.
pub(crate) type Preset = (&'static str, &'static str, Option<&'static str>);

/// A plan stored as TOML, in files and presets.
pub trait PlanFile: Serialize + DeserializeOwned {
    /// Presets in the order in which they are listed.
    const PRESETS: &'static [Preset];
    /// Presets that only other commands use.
    const UNLISTED: &'static [Preset] = &[];

    /// Name of the preset, or `custom`.
    fn name(&self) -> &str;

    /// Validates the plan.
    ///
    /// # Errors
    /// One sentence that names the fault.
    fn validate(&self) -> Result<(), String>;

    /// Validates the plan.
    ///
    /// # Errors
    /// [`PlanError::Sense`].
    fn check(&self) -> Result<(), PlanError> {
        self.validate().map_err(|what| PlanError::Sense { plan: self.name().to_owned(), what })
    }

    /// Reads and validates a file.
    ///
    /// # Errors
    /// The file cannot be read, is not a plan, or is invalid.
    fn read(file: &Path) -> Result<Self, PlanError> {
        let name = file.display().to_string();
        let text = fs::read_to_string(file).map_err(|error| PlanError::File { file: name.clone(), error })?;
        Self::from_toml(&name, &text)
    }

    /// Reads and validates TOML; errors call it `file`.
    ///
    /// # Errors
    /// The text is not a plan, or is invalid.
    fn from_toml(file: &str, text: &str) -> Result<Self, PlanError> {
        let wrong = |error| PlanError::Shape { file: file.to_owned(), error: Box::new(error) };
        let plan: Self = toml::from_str(text).map_err(wrong)?;
        plan.check()?;
        Ok(plan)
    }

    /// Returns the preset `name`, or its short form.
    ///
    /// # Errors
    /// No such preset.
    fn preset(name: &str, is_short: bool) -> Result<Self, PlanError> {
        let mut all = Self::PRESETS.iter().chain(Self::UNLISTED);
        let Some((_, full, short)) = all.find(|(known, ..)| *known == name) else {
            let known: Vec<_> = Self::PRESETS.iter().map(|(known, ..)| *known).collect();
            return Err(PlanError::Preset { name: name.to_owned(), known: known.join(", ") });
        };
        Self::from_toml(name, short.filter(|_| is_short).unwrap_or(full))
    }

    /// Formats the plan as TOML for [`PlanFile::read`].
    ///
    /// # Errors
    /// A number exceeds TOML's range.
    fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}

/// The default of a field, by name in an attribute of serde.
pub(crate) fn number<const N: u32, T: From<u32>>() -> T {
    N.into()
}

/// The method of a search for the highest rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// RFC 9971: short trials first; two lossy trials reject a rate, one does not.
    #[default]
    Mlr,
    /// RFC 2544 §26.1: one lossy trial rejects a rate.
    Rfc2544,
}

impl Method {
    /// The name in plans and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mlr => "mlr",
            Self::Rfc2544 => "rfc2544",
        }
    }
}

/// The study or standard that a plan reproduces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Title, authors, year.
    pub title: String,
    /// The original measurement and its equipment, in one or two sentences.
    pub what: String,
    /// The original results.
    #[serde(default)]
    pub rows: Vec<SourceRow>,
}

/// One result of a [`Source`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRow {
    /// The tool or device under test.
    pub rival: String,
    /// Frame size, bytes with FCS; `None` for mixed sizes.
    pub size: Option<u32>,
    /// As the source writes it: "1 Gbit/s", "18 Mbit/s".
    #[serde(default)]
    pub rate: String,
    /// Our interface or capture point that it is compared with; `None`: the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Lost frames / offered frames, 0 to 1.
    pub loss: Option<f64>,
    /// Other figures by name, in the source's units: "received %", "CPU %".
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
}
