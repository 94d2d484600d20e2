//! Plans as TOML, and why one cannot be read.

use super::Plan;
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::Path;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error("read the plan {file}: {error}")]
    File {
        /// Which.
        file: String,
        /// Why not.
        error: io::Error,
    },
    /// It is no TOML, or not of this shape; the message has line and key.
    #[error("the plan {file} cannot be understood: {error}")]
    Shape {
        /// Which.
        file: String,
        /// Where, and why not.
        error: Box<toml::de::Error>,
    },
    /// It makes no sense.
    #[error("the plan {plan} makes no sense: {what}")]
    Sense {
        /// Its name.
        plan: String,
        /// Why not.
        what: String,
    },
}

/// The plan in a file, checked.
///
/// # Errors
/// It cannot be read, is no plan, or makes no sense.
pub fn read(file: &Path) -> Result<Plan, PlanError> {
    from_toml(&file.display().to_string(), &text_of(file)?)
}

/// What a plan's file holds.
pub(crate) fn text_of(file: &Path) -> Result<String, PlanError> {
    fs::read_to_string(file).map_err(|error| PlanError::File { file: file.display().to_string(), error })
}

/// A plan of any kind, not checked; `file` is what errors call it.
pub(crate) fn parsed<P: DeserializeOwned>(file: &str, text: &str) -> Result<P, PlanError> {
    toml::from_str(text).map_err(|error| PlanError::Shape { file: file.to_owned(), error: Box::new(error) })
}

/// The plan in a text, checked; `file` is what errors call it.
pub(in crate::bench) fn from_toml(file: &str, text: &str) -> Result<Plan, PlanError> {
    let plan: Plan = parsed(file, text)?;
    plan.check()?;
    Ok(plan)
}

impl Plan {
    /// It as TOML, which [`read`] reads.
    ///
    /// # Errors
    /// A number is larger than TOML's.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        name = "mine"
        title = "Mine"
        rivals = ["quaff"]
        [[sweeps]]
        sizes = [{ bytes = 60 }, { mix = "imix" }]
        rates = ["max", { pps = 1000 }, { mbps = 950.0 }, { util = { percent = 37.2, link_mbps = 1000.0 } }]
        amount = { frames = 1000 }
    "#;

    #[test]
    fn a_plan_is_read_and_written_as_it_was() {
        let plan = from_toml("mine.toml", PLAN).expect("a plan");
        assert_eq!((plan.runs, plan.sweeps[0].workloads().count()), (5, 8));
        let text = plan.to_toml().expect("TOML");
        assert_eq!(from_toml("again", &text).expect("a plan"), plan, "{text}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_key() {
        let wrong = PLAN.replace("amount = {", "amonut = {");
        let said = from_toml("mine.toml", &wrong).expect_err("a misspelt key").to_string();
        assert!(said.contains("mine.toml") && said.contains("line 8") && said.contains("amonut"), "{said}");
        let said = from_toml("mine.toml", "name = ").expect_err("no TOML").to_string();
        assert!(said.contains("line 1"), "{said}");
        let none = read(Path::new("/nonexistent/plan.toml")).expect_err("no file").to_string();
        assert!(none.contains("/nonexistent/plan.toml"), "{none}");
    }
}
