//! The plans that flags make of presets, of files, and alone.

use super::*;
use clap::Parser;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

#[track_caller]
fn args(line: &str) -> Args {
    let words = std::iter::once("capture").chain(line.split_whitespace());
    Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).args
}

#[track_caller]
fn planned(line: &str) -> Plan {
    plan(&args(line), &[]).unwrap_or_else(|error| panic!("{error:#}"))
}

#[track_caller]
fn refused(line: &str) -> String {
    match plan(&args(line), &[]) {
        Ok(plan) => panic!("{plan:?}"),
        Err(error) => format!("{error:#}"),
    }
}

#[test]
fn nothing_said_is_three_sizes_as_fast_as_possible() {
    let plan = planned("");
    assert_eq!((plan.name.as_str(), plan.runs), ("custom", 5));
    assert_eq!(plan.rivals, RIVALS);
    assert_eq!(plan.sweeps.len(), 1);
    assert_eq!(plan.sweeps[0].workloads().count(), 3);
    assert_eq!(plan.cost().cases, 9);
    assert_eq!(plan.sweeps[0].setting.buffer_mib, Some(256), "the same for each");
}

#[test]
fn flags_say_it_all() {
    let plan = planned(
        "--rivals quaff,dumpcap --sizes 64,imix --fcs --mbps 50-150/50,max --duration 2s --runs 3 --seed 7 \
         --content random --buffer 256M --snaplen 76 --bed span",
    );
    assert_eq!((plan.runs, plan.seed, plan.bed.clone()), (3, 7, Topology::Span));
    let sweep = &plan.sweeps[0];
    assert_eq!(sweep.sizes, [Size::Bytes(60), Size::Mix("imix".into())]);
    assert_eq!(sweep.rates, [Rate::Mbps(50.0), Rate::Mbps(100.0), Rate::Mbps(150.0), Rate::Max]);
    assert_eq!((sweep.amount, sweep.content), (Amount::Seconds(2.0), Content::Random));
    assert_eq!((sweep.setting.buffer_mib, sweep.setting.snaplen), (Some(256), Some(76)));
    assert_eq!(sweep.series, "", "one value makes no series");
}

#[test]
fn several_values_make_a_series_of_each() {
    let plan = planned("--buffer own,256M --capturers 1,4 --sizes 64");
    let names: Vec<_> = plan.sweeps.iter().map(|sweep| sweep.series.as_str()).collect();
    assert_eq!(
        names,
        [
            "own buffers, 1 capturer",
            "own buffers, 4 capturers at once",
            "256 MiB of buffer, 1 capturer",
            "256 MiB of buffer, 4 capturers at once",
        ]
    );
    let settings = plan.sweeps.iter().map(|sweep| (sweep.setting.buffer_mib, sweep.setting.capturers));
    assert_eq!(settings.collect::<Vec<_>>(), [(None, 1), (None, 4), (Some(256), 1), (Some(256), 4)]);
}

#[test]
fn a_preset_is_changed_by_flags_and_stays_what_it_is_otherwise() {
    let whole = planned("--preset whitepaper");
    assert_eq!((whole.runs, whole.sweeps.len()), (5, 12));
    let less = planned("--preset whitepaper --rivals quaff,netsniff-ng --runs 1 --count 1000");
    assert_eq!(less.rivals, ["quaff", "netsniff-ng"]);
    assert!(less.sweeps.iter().all(|sweep| sweep.amount == Amount::Frames(1000)));
    assert_eq!(less.source, whole.source);
    let rates = |plan: &Plan| plan.sweeps.iter().map(|sweep| sweep.rates.clone()).collect::<Vec<_>>();
    assert_eq!(rates(&less), rates(&whole));
    // At one size and one rate only the settings are left to tell sweeps apart.
    assert_eq!(planned("--preset whitepaper --pps 100k --sizes 64").sweeps.len(), 2);
}

#[test]
fn series_are_chosen_by_a_word_and_go_with_their_rivals() {
    let plan = planned("--preset pam2007 --series capturers,disk");
    let names: Vec<_> = plan.sweeps.iter().map(|sweep| sweep.series.as_str()).collect();
    assert_eq!(names, ["2 capturers", "4 capturers", "8 capturers", "to disk", "to disk, 76 bytes of each"]);
    assert!(refused("--preset pam2007 --series tapes").contains("'one core'"));
    let without = planned("--preset pam2007 --rivals tcpdump");
    assert!(without.sweeps.iter().all(|sweep| !sweep.series.contains("copies")), "tcpdump cannot");
    assert!(without.notes.iter().any(|note| note.contains("'25 copies of each packet' is left out")));
}

#[test]
fn a_link_is_what_percents_are_of() {
    let plan = planned("--util 10,100 --link 10G");
    let percent = |percent| Rate::Util { percent, link_mbps: 10_000.0 };
    assert_eq!(plan.sweeps[0].rates, [percent(10.0), percent(100.0)]);
}

#[test]
fn ones_own_capturers_are_measured_too() {
    let own = ["mine".to_owned()];
    assert_eq!(plan(&args(""), &own).expect("a plan").rivals, ["quaff", "tcpdump", "dumpcap", "mine"]);
    assert_eq!(plan(&args("--rivals mine"), &own).expect("a plan").rivals, ["mine"]);
}

#[test]
fn searches_alone_are_all_that_is_run() {
    let alone = planned("--find-max --find-burst --sizes 64,512 --trial 1s --goal-loss 0.5");
    assert!(alone.sweeps.is_empty());
    assert_eq!(alone.finds.len(), 2);
    let find = &alone.finds[0];
    assert_eq!((find.what, find.method), (Wanted::Max, Method::Mlr));
    assert_eq!((find.sizes.len(), find.seconds, find.goal_loss), (2, 1.0, 0.005));
    assert_eq!(find.setting.buffer_mib, Some(256), "the same for each");
    assert_eq!(planned("--find-max --buffer own").finds[0].setting.buffer_mib, None);
    assert_eq!(planned("--find-max=rfc2544").finds[0].method, Method::Rfc2544);
    let both = planned("--preset quick --curve --buffer own,64M");
    assert_eq!((both.sweeps.len(), both.finds.len()), (4, 2), "{both:?}");
    let names: Vec<_> = both.sweeps.iter().map(|sweep| sweep.series.as_str()).collect();
    assert_eq!(names[..2], ["own buffers", "64 MiB of buffer"], "not those of the preset");
    assert!(both.finds.iter().any(|find| find.sizes == [Size::Bytes(64), Size::Bytes(1500)]), "{both:?}");
    assert_eq!(planned("--find-max --pps 100k").sweeps.len(), 1, "rates were said");
}

#[test]
fn real_interfaces_are_a_bed() {
    let plan = planned("--send-on eth0 --receive-on eth1,eth2 --sender me@there");
    let Topology::Real { send_on, receive_on, sender } = plan.bed else { panic!("{:?}", plan.bed) };
    assert_eq!((send_on.as_str(), receive_on.len(), sender.as_deref()), ("eth0", 2, Some("me@there")));
}

#[test]
fn impossible_flags_are_refused() {
    assert!(refused("--preset quik").contains("there is quick, back-to-back"));
    assert!(refused("--sizes 20").contains("not 20"));
    assert!(refused("--cores 3").contains("1 or 2 cores"));
    assert!(refused("--replay /nonexistent.pcap").contains("/nonexistent.pcap"));
    assert!(refused("--plan /nonexistent.toml").contains("/nonexistent.toml"));
    for line in ["--pps 1k --mbps 1", "--count 1 --duration 1s", "--send-on eth0", "--fcs", "--link 10G"] {
        let words = std::iter::once("capture").chain(line.split_whitespace());
        assert!(Line::try_parse_from(words).is_err(), "{line}");
    }
}

#[test]
fn series_and_a_capture_choose_the_files_that_are_read() {
    let plan = planned("--preset nfr1999 --series losses");
    let series: Vec<_> = plan.readings.iter().map(|reading| reading.series.as_str()).collect();
    assert_eq!((plan.sweeps.len(), series), (0, vec!["losses that TCP proves"]));
    let plan = planned("--preset nfr1999 --replay /dev/null");
    assert!(plan.readings.iter().all(|reading| reading.replay.as_deref() == Some("/dev/null")));
    assert!(refused("--preset nfr1999 --series nothing").contains("'losses that TCP proves'"));
}
