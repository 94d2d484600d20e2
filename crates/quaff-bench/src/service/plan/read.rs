//! Plans as TOML.

use super::Plan;
use crate::bench::plan::{PlanError, parsed, text_of};
use std::path::Path;

/// The plan in a file, checked.
///
/// # Errors
/// It cannot be read, is no plan, or makes no sense.
pub fn read(file: &Path) -> Result<Plan, PlanError> {
    from_toml(&file.display().to_string(), &text_of(file)?)
}

/// The plan in a text, checked; `file` is what errors call it.
pub(in crate::service) fn from_toml(file: &str, text: &str) -> Result<Plan, PlanError> {
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
        path = "bridge"
        ways = "both"
        link_mbps = 1000.0
        [[services]]
        name = "Voice"
        sizes = [128, 256]
        cir_mbps = 10.0
        vlan = [100, 5]
        limits = { delay_ms = 5.0, loss_ratio = 0.001 }
        [[tests]]
        throughput = { sizes = [64, 1518], method = "rfc2544", seconds = 60.0, width = 0.01 }
        [[tests]]
        performance = { seconds = 900.0 }
    "#;

    #[test]
    fn a_plan_is_read_and_written_as_it_was() {
        let plan = from_toml("mine.toml", PLAN).expect("a plan");
        assert_eq!((plan.runs, plan.services[0].is_policed, plan.tests.len()), (1, true, 2));
        let text = plan.to_toml().expect("TOML");
        assert_eq!(from_toml("again", &text).expect("a plan"), plan, "{text}");
    }

    #[test]
    fn ends_are_written_as_they_are_read() {
        let between = PLAN.replace(
            r#"path = "bridge""#,
            r#"path = { between = { from = { interface = "eth1" }, to = { netns = "far", interface = "eth2" } } }"#,
        );
        let plan = from_toml("mine.toml", &between).expect("a plan");
        let text = plan.to_toml().expect("TOML");
        assert_eq!(from_toml("again", &text).expect("a plan"), plan, "{text}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_key() {
        let wrong = PLAN.replace("cir_mbps", "cir_mpbs");
        let said = from_toml("mine.toml", &wrong).expect_err("a misspelt key").to_string();
        assert!(said.contains("mine.toml") && said.contains("cir_mpbs"), "{said}");
        let none = read(Path::new("/nonexistent/plan.toml")).expect_err("no file").to_string();
        assert!(none.contains("/nonexistent/plan.toml"), "{none}");
    }
}
