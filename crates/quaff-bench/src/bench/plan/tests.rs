//! Reading and writing of plans; the presets follow their sources.

use super::*;
use std::path::Path;

fn names() -> impl Iterator<Item = &'static str> {
    Plan::PRESETS.iter().map(|(name, ..)| *name)
}

fn preset(name: &str) -> Plan {
    Plan::preset(name, false).expect("a preset")
}

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
    let plan = Plan::from_toml("mine.toml", PLAN).expect("a plan");
    assert_eq!((plan.runs, plan.sweeps[0].workloads().count()), (5, 8));
    let text = plan.to_toml().expect("TOML");
    assert_eq!(Plan::from_toml("again", &text).expect("a plan"), plan, "{text}");
}

#[test]
fn a_mistake_is_named_with_its_line_and_key() {
    let wrong = PLAN.replace("amount = {", "amonut = {");
    let said = Plan::from_toml("mine.toml", &wrong).expect_err("a misspelt key").to_string();
    assert!(said.contains("mine.toml") && said.contains("line 8") && said.contains("amonut"), "{said}");
    let said = Plan::from_toml("mine.toml", "name = ").expect_err("no TOML").to_string();
    assert!(said.contains("line 1"), "{said}");
    let none = Plan::read(Path::new("/nonexistent/plan.toml")).expect_err("no file").to_string();
    assert!(none.contains("/nonexistent/plan.toml"), "{none}");
}

fn plans() -> Vec<Plan> {
    names().map(preset).collect()
}

#[test]
fn each_is_what_its_name_says_and_ours_is_in_it() {
    for (plan, name) in plans().iter().zip(names()) {
        assert_eq!(plan.name, name);
        assert_eq!(plan.rivals[0], "quaff", "{name}");
        assert!(plan.source.is_some() || ["quick", "lanes"].contains(&name), "{name} names its source");
    }
    assert!(Plan::preset("quik", false).is_err());
}

#[test]
fn the_promises_are_a_plan_that_is_not_listed() {
    let plan = preset("promises");
    assert_eq!((plan.name.as_str(), plan.rivals[0].as_str()), ("promises", "quaff"));
    assert!(names().all(|name| name != "promises"));
}

#[test]
fn each_compares_with_equal_buffers_and_names_the_series_with_own_ones() {
    for plan in plans() {
        assert_eq!(plan.sweeps[0].setting.buffer_mib, Some(256), "{}", plan.name);
        for sweep in &plan.sweeps {
            let is_own = sweep.series.split(", ").any(|part| part == "own buffers");
            let buffer = if is_own { None } else { Some(256) };
            assert_eq!(sweep.setting.buffer_mib, buffer, "{}: {:?}", plan.name, sweep.series);
        }
    }
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

/// The requested rates are those of the whitepaper's table.
#[test]
fn the_whitepapers_rates_are_those_of_its_table() {
    let plan = preset("whitepaper");
    let source = plan.source.as_ref().expect("a source");
    for (sweep, row) in plan.sweeps.iter().take(5).zip(&source.rows) {
        let Some((Size::Bytes(bytes), rate)) = sweep.workloads().next() else { panic!("{sweep:?}") };
        assert_eq!((Some(bytes + 4), rate.words()), (row.size, row.rate.clone()));
        let pps = rate.pps(f64::from(*bytes)).expect("a rate");
        assert!((pps / row.figures["frames/s"] - 1.0).abs() < 0.001, "{row:?}");
    }
    assert_eq!(source.rows.len(), 40, "eight tables of five");
}

/// Each row names the point that it is compared with.
#[test]
fn a_line_has_the_whitepapers_loads_and_two_that_exceed_its_mirror_port() {
    let plan = preset("port-span-tap");
    assert_eq!(plan.bed, Topology::Line { mirror_mbps: 1000 });
    assert!(plan.rivals.iter().any(|name| name == quaff_lab::tool::OWN_TAP));
    let source = plan.source.as_ref().expect("a source");
    let loads: Vec<_> = plan.sweeps.iter().flat_map(Sweep::workloads).collect();
    for ((size, rate), row) in loads.iter().zip(&source.rows[..5]) {
        let Size::Bytes(bytes) = size else { panic!("{size:?}") };
        assert_eq!((Some(bytes + 4), rate.words()), (row.size, row.rate.clone()));
    }
    let exceeds = |(_, rate): &&(&Size, Rate)| matches!(rate, Rate::Util { percent, .. } if *percent > 100.0);
    assert_eq!((loads.len(), loads.iter().filter(exceeds).count()), (7, 2));
    let points = ["port", "SPAN", "tap"]
        .map(|point| source.rows.iter().filter(|row| row.interface.as_deref() == Some(point)).count());
    assert_eq!((points, source.rows.len()), ([10, 10, 5], 25));
    // Three capturers at two points, and the tap.
    assert_eq!(plan.cost().cases, 7 * 7);
}

#[test]
fn pam_goes_in_steps_of_fifty() {
    let plan = preset("pam2007");
    let steps: Vec<_> = (1..20).map(|step| Rate::Mbps(f64::from(step) * 50.0)).collect();
    assert_eq!(plan.sweeps[0].rates[..19], steps);
    assert_eq!(plan.sweeps[0].rates.last(), Some(&Rate::Max));
}

#[test]
fn nfr_has_the_offline_part_beside_the_sniffing() {
    let plan = preset("nfr1999");
    let readers: Vec<_> = plan.readings.iter().map(|reading| reading.readers.join(", ")).collect();
    assert_eq!(readers, ["quaff verify, tcptrace", "quaff streams, tcpflow, zeek, suricata"]);
    assert!(plan.readings.iter().all(|reading| reading.loops == 40 && reading.replay.is_none()));
    let readers = quaff_lab::tool::shipped_readers(Path::new("quaff"));
    for name in plan.readings.iter().flat_map(|reading| &reading.readers) {
        assert!(readers.iter().any(|reader| reader.name == *name), "{name} is shipped");
    }
    let rows = &plan.source.as_ref().expect("a source").rows;
    assert_eq!(rows.len(), 3, "the seed's own numbers");
    let text = plan.to_toml().expect("TOML");
    assert_eq!(Plan::from_toml("again", &text).expect("a plan"), plan, "{text}");
}
