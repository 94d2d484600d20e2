//! The plans that come with quaff: what studies did by hand, each with its source and the source's numbers.

use super::plan::{Plan, PlanError, from_toml};

/// Names and texts, in the order in which they are listed.
const PRESETS: [(&str, &str); 7] = [
    ("quick", include_str!("../../presets/quick.toml")),
    ("back-to-back", include_str!("../../presets/back-to-back.toml")),
    ("whitepaper", include_str!("../../presets/whitepaper.toml")),
    ("pam2007", include_str!("../../presets/pam2007.toml")),
    ("nfr1999", include_str!("../../presets/nfr1999.toml")),
    ("capture-device", include_str!("../../presets/capture-device.toml")),
    ("flow-appliance", include_str!("../../presets/flow-appliance.toml")),
];

/// The captures of `quaff bench promises`, which judges them; not listed with the others.
const PROMISES: (&str, &str) = ("promises", include_str!("../../presets/promises.toml"));

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The plan of that name; `None` when there is none.
///
/// # Errors
/// It cannot be understood, which the tests rule out.
pub fn preset(name: &str) -> Option<Result<Plan, PlanError>> {
    let (name, text) = PRESETS.iter().chain([&PROMISES]).find(|(known, _)| *known == name)?;
    Some(from_toml(name, text))
}

#[cfg(test)]
mod tests {
    use super::super::plan::Rate;
    use super::*;
    use quaff_lab::traffic::Size;

    fn plans() -> Vec<Plan> {
        names().map(|name| preset(name).expect("known").expect("understood")).collect()
    }

    #[test]
    fn each_is_what_its_name_says_and_ours_is_in_it() {
        for (plan, name) in plans().iter().zip(names()) {
            assert_eq!(plan.name, name);
            assert_eq!(plan.rivals[0], "quaff", "{name}");
            assert!(plan.source.is_some() || name == "quick", "{name} names its source");
        }
        assert!(preset("quik").is_none());
    }

    #[test]
    fn the_promises_are_a_plan_that_is_not_listed() {
        let plan = preset("promises").expect("known").expect("understood");
        assert_eq!((plan.name.as_str(), plan.rivals[0].as_str()), ("promises", "quaff"));
        assert!(names().all(|name| name != "promises"));
    }

    #[test]
    fn quick_takes_two_minutes_and_the_others_an_hour_and_a_bit_at_most() {
        for plan in plans() {
            let cost = plan.cost();
            let limit = if plan.name == "quick" { 120.0 } else { 75.0 * 60.0 };
            assert!(cost.seconds <= limit, "{}: {cost:?}", plan.name);
            assert!(cost.bytes_max < 3e9, "{}: {cost:?}", plan.name);
        }
    }

    /// The whitepaper's table of the rates: what we ask for is what was sent there.
    #[test]
    fn the_whitepapers_rates_are_those_of_its_table() {
        let plan = preset("whitepaper").expect("known").expect("understood");
        let source = plan.source.as_ref().expect("a source");
        for (sweep, row) in plan.sweeps.iter().take(5).zip(&source.rows) {
            let Some((Size::Bytes(bytes), rate)) = sweep.workloads().next() else { panic!("{sweep:?}") };
            assert_eq!((Some(bytes + 4), rate.words()), (row.size, row.rate.clone()));
            let pps = rate.pps(f64::from(*bytes)).expect("a rate");
            assert!((pps / row.figures["frames/s"] - 1.0).abs() < 0.001, "{row:?}");
        }
        assert_eq!(source.rows.len(), 40, "eight tables of five");
    }

    #[test]
    fn pam_goes_in_steps_of_fifty() {
        let plan = preset("pam2007").expect("known").expect("understood");
        let steps: Vec<_> = (1..20).map(|step| Rate::Mbps(f64::from(step) * 50.0)).collect();
        assert_eq!(plan.sweeps[0].rates[..19], steps);
        assert_eq!(plan.sweeps[0].rates.last(), Some(&Rate::Max));
    }
}
