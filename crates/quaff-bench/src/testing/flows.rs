//! An invented report of flow meters with all possible contents, for tests of pages and tables; always the same.

use crate::experiment::PlanFile as _;
use crate::experiment::{Machine, Method};
use crate::flow::plan::{Find, Plan};
use crate::flow::result::{
    FlowCalibration, FlowCase, FlowSearch, FlowTrial, MeterFacts, Report, Results, TrafficFacts,
};
use crate::flow::summarise;
use crate::method::{Load, MeterRun, Verdict};

/// One pass through the traffic.
const PASS: Load = Load { frames: 44_974, packets: 44_642, bytes: 15_229_364, flows: 6_008 };
/// Meters: their share of lost packets at 50,000 and 100,000 flows/s and of a file; µs of CPU time for a packet.
const METERS: [(&str, [f64; 3], f64); 4] = [
    ("quaff", [0.0, 0.0, 0.0], 0.21),
    ("softflowd", [0.0, 0.064, 0.0], 1.3),
    ("nfpcapd", [0.003, 0.41, 0.003], 1.9),
    ("fprobe", [0.5, 0.5, 1.0], 1.1),
];

/// The report.
pub fn sample_flow_report() -> Report {
    let mut plan = Plan::preset("flow-appliance", false).expect("it is shipped");
    plan.runs = 3;
    plan.find = Some(Find { method: Method::Mlr, seconds: 5.0, width: 0.1, goal_loss: 0.0 });
    let mut report = Report {
        format: 1,
        plan,
        command: ["quaff", "bench", "flow", "--preset", "flow-appliance"].map(String::from).into(),
        begun: "2026-11-23T18:04:11Z".into(),
        seconds: 1712.0,
        interrupted: false,
        machine: Machine {
            facts: [("CPU".into(), "An invented CPU".into()), ("cores".into(), "2".into())].into(),
        },
        body: results(),
        notes: vec!["The generator alone sends 98000 flows/s instead of 100000: it limits that rate.".into()],
    };
    summarise(&mut report);
    report
}

fn results() -> Results {
    let mut results = Results {
        meters: METERS.iter().map(|(name, ..)| facts(name)).collect(),
        traffic: Some(TrafficFacts { name: "mix.pcap".into(), load: PASS }),
        calibration: [Some(50_000.0), Some(100_000.0), None].map(null).into(),
        ..Results::default()
    };
    results.meters.push(MeterFacts {
        absent: Some("it is not installed (from https://tools.netsa.cert.org/yaf)".into()),
        command: Vec::new(),
        version: None,
        ..facts("yaf")
    });
    for (name, losses, cpu_us) in METERS {
        for (fps, loss) in [50_000.0, 100_000.0].into_iter().zip(losses) {
            let runs =
                (1..=3).map(|round| run(round, 20.0, PASS.times((fps * 20.0 / 6008.0) as u64), loss, cpu_us));
            results.cases.push(FlowCase {
                meter: name.into(),
                fps: Some(fps),
                runs: runs.collect(),
                ..FlowCase::default()
            });
        }
        let load = PASS.times(40);
        let seconds = load.frames as f64 * cpu_us / 1e6;
        let runs = (1..=3).map(|round| run(round, seconds, load, losses[2], cpu_us));
        if name != "fprobe" {
            results.files.push(FlowCase { meter: name.into(), runs: runs.collect(), ..FlowCase::default() });
        }
        results.searches.push(search(name, losses[1]));
    }
    let failed = &mut results.cases[3].runs[2];
    *failed = MeterRun {
        round: 3,
        failed: Some("ended while it was to capture: out of memory".into()),
        ..MeterRun::default()
    };
    (results.cases[5].runs[0].collector_dropped, results.cases[5].runs[0].undecoded) = (17, 3);
    results
}

fn facts(name: &str) -> MeterFacts {
    MeterFacts {
        name: name.into(),
        version: Some("1.1.0".into()),
        protocol: "NetFlow v9".into(),
        remark: if name == "fprobe" { "IPv4 only.".into() } else { String::new() },
        command: vec![name.into(), "-i".into(), "rx0".into()],
        absent: None,
    }
}

fn null(fps: Option<f64>) -> FlowCalibration {
    let offered_fps = fps.unwrap_or(140_000.0).min(140_000.0);
    FlowCalibration { fps, offered_fps, offered_pps: offered_fps * 7.5 }
}

fn run(round: u32, seconds: f64, sent: Load, loss: f64, cpu_us: f64) -> MeterRun {
    // Runs differ a little.
    let loss = loss * (0.9 + 0.05 * f64::from(round));
    let reported = |of: u64| (of as f64 * (1.0 - loss)) as u64;
    MeterRun {
        round,
        sent,
        offered: sent.frames,
        seconds,
        records: reported(sent.flows),
        packets: reported(sent.packets),
        bytes: reported(sent.bytes),
        datagrams: sent.flows / 25,
        loss: Some(loss),
        verdict: if loss > 0.0 { Verdict::Lossy } else { Verdict::Lossless },
        cpu_s: sent.frames as f64 * cpu_us / 1e6,
        memory_bytes: 180 << 20,
        command: vec!["meter".into(), "-i".into(), "rx0".into()],
        ..MeterRun::default()
    }
}

fn search(name: &str, loss: f64) -> FlowSearch {
    let lower = 100_000.0 * (1.0 - loss);
    let trial = |fps, loss| FlowTrial { fps, seconds: 5.0, loss };
    FlowSearch {
        meter: name.into(),
        lower_fps: (loss < 0.5).then_some(lower),
        upper_fps: (loss > 0.0).then_some(lower * 1.05),
        max_fps: 140_000.0,
        regular: loss > 0.0 && loss < 0.5,
        trials: vec![trial(lower * 1.05, loss), trial(lower, 0.0)],
        failed: (loss >= 0.5).then(|| "it crashed".into()),
    }
}
