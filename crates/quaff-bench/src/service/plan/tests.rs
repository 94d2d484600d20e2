//! Reading and writing of plans; the presets follow their standards.

use super::*;
use crate::service::frames::{mean_size, pps};

fn names() -> impl Iterator<Item = &'static str> {
    Plan::PRESETS.iter().map(|(name, ..)| *name)
}

fn plan(name: &str, is_short: bool) -> Plan {
    Plan::preset(name, is_short).expect("a preset")
}

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
    let plan = Plan::from_toml("mine.toml", PLAN).expect("a plan");
    assert_eq!((plan.runs, plan.services[0].is_policed, plan.tests.len()), (1, true, 2));
    let text = plan.to_toml().expect("TOML");
    assert_eq!(Plan::from_toml("again", &text).expect("a plan"), plan, "{text}");
}

#[test]
fn ends_are_written_as_they_are_read() {
    let between = PLAN.replace(
        r#"path = "bridge""#,
        r#"path = { between = { from = { interface = "eth1" }, to = { netns = "far", interface = "eth2" } } }"#,
    );
    let plan = Plan::from_toml("mine.toml", &between).expect("a plan");
    let text = plan.to_toml().expect("TOML");
    assert_eq!(Plan::from_toml("again", &text).expect("a plan"), plan, "{text}");
}

#[test]
fn a_mistake_is_named_with_its_line_and_key() {
    let wrong = PLAN.replace("cir_mbps", "cir_mpbs");
    let said = Plan::from_toml("mine.toml", &wrong).expect_err("a misspelt key").to_string();
    assert!(said.contains("mine.toml") && said.contains("cir_mpbs"), "{said}");
    let none = Plan::read(std::path::Path::new("/nonexistent/plan.toml")).expect_err("no file").to_string();
    assert!(none.contains("/nonexistent/plan.toml"), "{none}");
}

#[test]
fn each_is_what_its_name_says() {
    for name in names() {
        for is_short in [false, true] {
            assert_eq!(plan(name, is_short).name, name);
        }
        // The short preset has the same tests in the same order.
        let kinds =
            |is_short| plan(name, is_short).tests.iter().map(std::mem::discriminant).collect::<Vec<_>>();
        assert_eq!(kinds(false), kinds(true), "{name}");
    }
    assert!(Plan::preset("whitepapers", false).is_err());
}

#[test]
fn all_the_short_ones_take_ten_minutes_at_most() {
    let each: Vec<f64> = names().map(|name| plan(name, true).seconds()).collect();
    assert!(each.iter().sum::<f64>() < 600.0, "{each:?}");
}

#[test]
fn rfc2544_is_as_the_rfc_has_it() {
    let sizes = [64, 128, 256, 512, 1024, 1280, 1518];
    let plan = plan("rfc2544", false);
    assert!(plan.pause_s >= 5.0 && plan.tests.len() == 5);
    for test in &plan.tests {
        match test {
            Test::Throughput { sizes: these, seconds, method, .. } => {
                assert_eq!((these.as_slice(), *method), (&sizes[..], Method::Rfc2544));
                assert!(*seconds >= 60.0);
            }
            Test::Latency { sizes: these, seconds, repeats } => {
                assert_eq!(these, &sizes);
                assert!(*seconds >= 120.0 && *repeats >= 20);
            }
            Test::FrameLoss { sizes: these, seconds, step } => {
                assert_eq!(these, &sizes);
                assert!(*seconds >= 60.0 && *step <= 0.1);
            }
            Test::BackToBack { sizes: these, seconds, repeats } => {
                assert_eq!(these, &sizes);
                assert!(*seconds >= 2.0 && *repeats >= 50);
            }
            Test::Recovery { sizes: these, seconds, .. } => {
                assert_eq!(these, &sizes);
                assert!(*seconds >= 60.0);
            }
            other => panic!("{other:?} is none of RFC 2544's"),
        }
    }
}

#[test]
fn y1564_is_as_the_recommendation_has_it() {
    let plan = plan("y1564", false);
    let [Test::Configuration { seconds: step_s, steps }, Test::Performance { seconds }] =
        plan.tests.as_slice()
    else {
        panic!("{:?}", plan.tests)
    };
    assert_eq!(steps, &[0.25, 0.5, 0.75, 1.0]);
    assert!((1.0..=60.0).contains(step_s));
    assert!([900.0, 7200.0, 86_400.0].contains(seconds));
    assert!(plan.services.len() > 1, "several at once");
    assert!(plan.services.iter().any(|service| service.eir_mbps > 0.0 && service.cbs_bytes > 0));
}

#[test]
fn the_whitepapers_test_is_the_one_on_its_page() {
    let plan = plan("whitepaper", false);
    assert_eq!((plan.runs, &plan.path, plan.link_mbps), (5, &Path::Tap, Some(1000.0)));
    let [service] = plan.services.as_slice() else { panic!("{:?}", plan.services) };
    let limits = &service.limits;
    let stated = (limits.delay_ms, limits.delay_variation_ms, limits.loss_ratio);
    assert_eq!(stated, (Some(100.0), Some(20.0), Some(0.003)));
    // A gigabit link, full.
    let share = pps(service.cir_mbps, mean_size(&service.sizes)) / 81_274.0;
    assert!((share - 1.0).abs() < 0.001, "{share}");
    let source = plan.source.as_ref().expect("a source");
    assert_eq!(source.rows.len(), 6, "five runs and the overall line");
    assert!(source.rows.iter().all(|row| row.figures["Mbit/s avg"] == 971.62));
}
