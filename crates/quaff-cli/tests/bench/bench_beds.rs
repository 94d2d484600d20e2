//! A bench on each of its beds, with few frames: what is offered, what is captured, and that nothing is left.

use crate::support::{self, Bench, PATIENCE, QUAFF, lab_bench};
use quaff_bench::bench::plan::{Amount, Plan, Rate, Sweep, Topology};
use quaff_bench::bench::result::{Case, LimitedBy, Report};
use quaff_bench::bench::{Context, Events, run};
use quaff_bench::experiment;
use quaff_bench::method::Run;
use quaff_lab::tool::{Output, Setting};
use quaff_lab::tool::{from_command, shipped};
use quaff_lab::topology::Real;
use quaff_lab::topology::Site;
use quaff_lab::traffic::Size;
use quaff_lab::traffic::Traffic;
use quaff_lab::{ChildProcess, Finished, Lab, TX};
use quaff_testkit as testing;
use quaff_testkit::test_name;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const FRAMES: u64 = 10_000;
/// The environment variable with the file for the report of a test that calls itself in another namespace.
const REPORT: &str = "QUAFF_TEST_REPORT";

fn plan(bed: Topology, rivals: &[&str]) -> Plan {
    let sweep = Sweep {
        series: String::new(),
        sizes: vec![Size::Bytes(512)],
        rates: vec![Rate::Pps(20_000)],
        amount: Amount::Frames(FRAMES),
        content: Default::default(),
        mirrored: false,
        flows: 1,
        // The default buffer takes longer to populate than a run.
        setting: Setting { buffer_mib: Some(64), ..Setting::default() },
        rivals: Vec::new(),
    };
    Plan {
        name: "custom".into(),
        title: "A test".into(),
        source: None,
        bed,
        rivals: rivals.iter().map(|name| (*name).to_owned()).collect(),
        runs: 1,
        seed: 1,
        sweeps: vec![sweep],
        finds: Vec::new(),
        readings: Vec::new(),
        notes: Vec::new(),
    }
}

fn context(dir: &Path) -> Context {
    let quaff = Path::new(QUAFF);
    Context {
        quaff: quaff.to_owned(),
        dir: Some(dir.to_owned()),
        command: vec!["test".into()],
        rivals: shipped(quaff),
    }
}

/// Labs that this process has made, and that are up.
fn own_labs() -> usize {
    Lab::list().expect("a list").iter().filter(|lab| lab.pid == std::process::id()).count()
}

/// Says no after so many runs.
#[derive(Default)]
struct Ear {
    runs: usize,
    runs_max: Option<usize>,
    notes: Vec<String>,
}

impl Events for Ear {
    fn run_done(&mut self, _: &Case, _: &Run, _: Duration) {
        self.runs += 1;
    }
}

impl experiment::Events<Report> for Ear {
    fn note(&mut self, sentence: &str) {
        self.notes.push(sentence.to_owned());
    }
    fn continues(&mut self) -> bool {
        self.runs_max.is_none_or(|max| self.runs < max)
    }
}

/// All that was sent came, and quaff has it.
fn assert_complete(report: &Report) {
    let [case] = report.cases.as_slice() else { panic!("one case: {report:?}") };
    let [run] = case.runs.as_slice() else { panic!("one run: {case:?}") };
    assert_eq!(run.failed, None, "{case:?}");
    assert_eq!((run.intended, run.offered, run.captured), (FRAMES, FRAMES, Some(FRAMES)), "{run:?}");
    assert_eq!((run.loss, case.loss_trimmed, run.receiver_drops), (Some(0.0), Some(0.0), 0));
    assert!(run.seconds > 0.3, "{}", run.seconds);
    // A machine that is busy elsewhere may send too slowly.
    assert!(matches!(case.limited_by, LimitedBy::Nothing | LimitedBy::Generator), "{case:?}");
    let [null] = report.calibration.as_slice() else { panic!("one workload: {report:?}") };
    assert_eq!((null.size, null.pps, null.lost), (512, Some(20_000), 0.0));
    assert!(null.offered_pps > 10_000.0, "{null:?}");
    assert!(report.machine.facts.contains_key("kernel") && !report.interrupted);
}

#[test]
fn each_bed_of_the_lab_offers_all_that_is_sent() {
    let bench = lab_bench!(1 << 30);
    for bed in [Topology::Direct, Topology::Span, Topology::Tap] {
        let report = run(&plan(bed, &["quaff"]), &context(bench.dir.path()), &mut Ear::default());
        let report = report.expect("a report");
        assert_complete(&report);
        assert_eq!(report.machine.facts.get("rx0 driver").map(String::as_str), Some("veth"));
        assert_eq!(report.rivals[0].absent, None);
        assert!(report.rivals[0].command.contains(&"rx0".to_owned()), "{:?}", report.rivals);
    }
    assert_eq!(own_labs(), 1, "only that of the test is left");
    assert_eq!(bench.dir.path().read_dir().expect("a directory").count(), 0);
}

#[test]
fn mixes_and_small_frames_are_counted_too() {
    let bench = lab_bench!(1 << 30);
    let mut plan = plan(Topology::Direct, &["quaff"]);
    plan.sweeps[0].sizes = vec![Size::Bytes(60), Size::Mix("imix".into())];
    plan.sweeps[0].amount = Amount::Seconds(0.25);
    let report = run(&plan, &context(bench.dir.path()), &mut Ear::default()).expect("a report");
    for (case, size) in report.cases.iter().zip([60, 354]) {
        let run = &case.runs[0];
        assert_eq!(
            (case.size, run.intended, run.offered, run.captured),
            (size, 5000, 5000, Some(5000)),
            "{run:?}"
        );
    }
    let [small, mix] = &report.cases[..] else { panic!("two cases: {report:?}") };
    assert_eq!(small.runs[0].contents, None, "the kernel made them");
    let contents = mix.runs[0].contents.expect("user space made them");
    assert_eq!((contents.sent_flows, contents.captured_flows), (1, 1));
    assert_eq!(contents.sent_bytes, contents.captured_bytes, "{contents:?}");
    assert!((340 * 5000..370 * 5000).contains(&contents.sent_bytes), "{contents:?}");
}

#[test]
fn a_replayed_capture_has_its_bytes_and_flows_in_the_file() {
    let bench = lab_bench!(1 << 30);
    let files = support::folder();
    let file = files.path().join("made.pcap");
    let made = "generate -q --size 64-300 --flows 250 --count 5000 --pps 5k -w";
    support::run(Command::new(QUAFF).args(made.split(' ')).arg(&file));
    let mut plan = plan(Topology::Direct, &["quaff"]);
    plan.sweeps[0].sizes = vec![Size::Replay(file.display().to_string())];
    plan.sweeps[0].amount = Amount::Frames(10_000);
    let report = run(&plan, &context(bench.dir.path()), &mut Ear::default()).expect("a report");
    let contents = report.cases[0].runs[0].contents.expect("it is replayed");
    assert_eq!((contents.sent_flows, contents.captured_flows), (250, 250), "each pass has the same");
    assert_eq!(contents.sent_bytes, contents.captured_bytes, "{contents:?}");
    assert!((60 * 10_000..300 * 10_000).contains(&contents.sent_bytes), "{contents:?}");
}

#[test]
fn runs_before_an_interruption_are_kept() {
    let bench = lab_bench!(1 << 30);
    let plan = Plan { runs: 5, ..plan(Topology::Span, &["quaff"]) };
    let mut ear = Ear { runs_max: Some(2), ..Ear::default() };
    let report = run(&plan, &context(bench.dir.path()), &mut ear).expect("a report all the same");
    assert!(report.interrupted);
    assert_eq!((report.cases[0].runs.len(), report.cases[0].loss_median), (2, Some(0.0)));
    assert_eq!(own_labs(), 1, "only that of the test is left");
    assert_eq!(bench.dir.path().read_dir().expect("a directory").count(), 0);
}

#[test]
fn one_that_cannot_or_does_not_work_is_reported_and_the_others_continue() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 30) else { return };
    let mut context = context(bench.dir.path());
    let broken = from_command("broken=false {interface} {file}", Path::new(QUAFF)).expect("a command");
    context.rivals.push(broken);
    let mut plan = plan(Topology::Direct, &["broken", "quaff", "dumpcap"]);
    let null = Setting { output: Output::Null, compression: 6, ..Setting::default() };
    plan.sweeps.push(Sweep {
        series: "zlib".into(),
        setting: null,
        rivals: vec!["dumpcap".into()],
        ..plan.sweeps[0].clone()
    });
    let mut ear = Ear::default();
    let report = run(&plan, &context, &mut ear).expect("a report");
    let of = |name: &str| report.cases.iter().find(|case| case.rival == name);
    let broken = of("broken").expect("a case");
    assert!(broken.runs[0].failed.is_some() && broken.limited_by == LimitedBy::Unknown, "{broken:?}");
    assert!(!broken.notes.is_empty(), "{broken:?}");
    assert_eq!(of("quaff").expect("a case").loss_trimmed, Some(0.0));
    match report.rivals.iter().any(|rival| rival.name == "dumpcap" && rival.absent.is_some()) {
        true => testing::skip(test, "there is no dumpcap"),
        false => assert!(report.notes.iter().any(|note| note.contains("cases of \"zlib\" are left out"))),
    }
    // That of a busy host is made anew after each run, and is no event.
    let notes = report.notes.iter().filter(|note| !note.starts_with("The host of this virtual machine"));
    assert!(notes.eq(&ear.notes), "{:?} {:?}", report.notes, ear.notes);
}

/// Runs one of the tests below in the receiving namespace, where a script in the place of ssh runs the words that
/// it is given in the lab's other namespace.
fn behind_ssh(bench: &Bench, test: &str) -> Finished {
    let path = bench.dir.path();
    let bin = path.join("bin");
    fs::create_dir(&bin).expect("made");
    let script = format!(
        "#!/bin/sh\necho \"$@\" > {}/words\nwhile [ \"$1\" != -- ]; do shift; done; shift\n\
         exec nsenter --net=/run/netns/{} sh -c \"$*\"\n",
        path.display(),
        bench.lab.tx.name
    );
    testing::write_program(bin.join("ssh"), script);
    std::os::unix::fs::symlink(QUAFF, bin.join("quaff")).expect("linked");
    let mut command = bench.lab.rx.command(std::env::current_exe().expect("this test")).expect("a command");
    command.args(["--ignored", "--exact", &format!("bench_beds::{test}"), "--nocapture"]);
    let others = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{others}", bin.display())).env(REPORT, path.join("report"));
    ChildProcess::start(command).expect("it runs").finish(PATIENCE).expect("it ends")
}

#[test]
fn a_sender_behind_ssh_is_asked_for_its_frames() {
    let bench = lab_bench!(1 << 30);
    let path = bench.dir.path();
    let finished = behind_ssh(&bench, "as_a_receiver");
    let said = String::from_utf8_lossy(&finished.stdout).into_owned();
    assert!(finished.status.success(), "{said}{}", finished.stderr);
    let report: Report =
        serde_json::from_slice(&fs::read(path.join("report")).expect("a report")).expect("JSON");
    assert_complete(&report);
    assert_eq!(report.cases[0].interface.as_deref(), Some("rx0"));
    let words = fs::read_to_string(path.join("words")).expect("ssh was asked");
    assert!(words.contains("quaff generate -o tx0 --json --count"), "{words}");
    assert!(report.cases[0].runs[0].command.contains(&"rx0".to_owned()), "{:?}", report.cases[0].runs[0]);
}

/// The script that stands for ssh is killed with us, and the sender behind it has to notice by itself.
#[test]
fn a_sender_behind_ssh_ends_when_the_line_does() {
    let bench = lab_bench!(1 << 20);
    let before = bench.lab.stats(TX).expect("counters").tx_packets;
    let finished = behind_ssh(&bench, "as_an_impatient_receiver");
    assert!(finished.status.success(), "{}{}", String::from_utf8_lossy(&finished.stdout), finished.stderr);
    std::thread::sleep(Duration::from_millis(500));
    let sent = || bench.lab.stats(TX).expect("counters").tx_packets - before;
    let then = sent();
    std::thread::sleep(Duration::from_secs(1));
    let now = sent();
    assert!(then > 0 && then < 600_000, "{then}");
    assert_eq!(then, now, "no sender is left");
}

#[test]
#[ignore = "called by a_sender_behind_ssh_ends_when_the_line_does, in another namespace"]
fn as_an_impatient_receiver() {
    if std::env::var_os(REPORT).is_none() {
        return;
    }
    let site = Real::new(QUAFF.into(), "tx0", "rx0", Some("me@there")).expect("names that will do");
    let traffic = Traffic::bytes(64, Some(1000), 600_000);
    let begun = Instant::now();
    let ended = site.send(&traffic, 0, &mut |_| begun.elapsed() < Duration::from_secs(3), &mut || {});
    assert!(matches!(ended, Err(quaff_lab::Error::Interrupted)), "{ended:?}");
}

#[test]
#[ignore = "called by a_sender_behind_ssh_is_asked_for_its_frames, in another namespace"]
fn as_a_receiver() {
    let Some(to) = std::env::var_os(REPORT) else { return };
    let to = Path::new(&to);
    let bed = Topology::Real {
        send_on: "tx0".into(),
        receive_on: vec!["rx0".into()],
        sender: Some("me@there".into()),
    };
    let dir = to.parent().expect("a directory");
    let report = run(&plan(bed, &["quaff"]), &context(dir), &mut Ear::default()).expect("a report");
    fs::write(to, serde_json::to_vec(&report).expect("JSON")).expect("written");
}
