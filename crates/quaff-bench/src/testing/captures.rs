//! An invented report with all possible contents, for tests of pages and tables; always the same.

use crate::bench::plan::{Amount, Plan, Rate, Source, SourceRow, Sweep};
use crate::bench::result::{
    Burst, Calibration, Case, GoalRow, LimitedBy, Machine, ReadCase, Report, Results, Search, ToolFacts,
    TrialRow,
};
use crate::bench::summary::summarise;
use crate::method::{Contents, ReadRun, Run, Sample};
use crate::stats::loss_ratio;
use quaff_lab::tool::Setting;
use quaff_lab::topology::{CoreUse, LineCounts};
use quaff_lab::traffic::{Content, Size};
use std::collections::BTreeMap;

/// A capturer that does not exist, as a formula.
struct Model {
    name: &'static str,
    /// ns for each packet, and for each byte of it.
    cost: [f64; 2],
    /// Share of the loss in its own drop counter; `None`: it has none.
    tells: Option<f64>,
}

const MODELS: [Model; 7] = [
    Model { name: "quaff", cost: [230.0, 0.06], tells: Some(1.0) },
    Model { name: "stenographer", cost: [280.0, 0.42], tells: Some(1.0) },
    Model { name: "netsniff-ng", cost: [330.0, 1.1], tells: Some(0.999) },
    Model { name: "tcpdump", cost: [560.0, 1.9], tells: Some(1.0) },
    Model { name: "dumpcap", cost: [520.0, 1.5], tells: Some(0.62) },
    Model { name: "tshark", cost: [1500.0, 2.2], tells: Some(0.0) },
    Model { name: "recvfrom", cost: [900.0, 3.1], tells: None },
];

const GOAL: GoalRow = GoalRow {
    final_seconds: 1.0,
    duration_sum_s: 5.0,
    loss_ratio: 0.0,
    exceed_ratio: 0.0,
    initial_seconds: 0.5,
};
const GENERATOR_PPS: f64 = 1_640_000.0;

/// The report.
pub fn sample_report() -> Report {
    let mut dice = Dice(7);
    let mut cases = Vec::new();
    swept(&mut cases, &mut dice);
    replayed(&mut cases[0]);
    dealt(&mut cases[0]);
    grid(&mut cases, &mut dice);
    pairs(&mut cases, &mut dice);
    misfortunes(&mut cases);
    Report {
        format: 1,
        plan: plan(),
        command: ["quaff", "bench", "capture", "--preset", "sample", "--out", "a folder"]
            .map(String::from)
            .into(),
        begun: "2026-11-20T09:04:11Z".into(),
        seconds: 2712.0,
        interrupted: false,
        machine: machine(),
        body: Results {
            rivals: rivals(),
            calibration: calibration(),
            searches: [60, 508, 1496].into_iter().flat_map(|size| searches(size, &mut dice)).collect(),
            bursts: bursts(&mut dice),
            cases,
            readings: readings(),
        },
        notes: vec!["nothing here was measured: this is the sample that tests draw".into()],
    }
}

/// Programs that read a file; one crashes once, one is not installed.
fn readings() -> Vec<ReadCase> {
    let run = |round, seconds: f64, memory_bytes| ReadRun {
        round,
        seconds,
        cpu_s: seconds * 0.97,
        memory_bytes,
        ..ReadRun::default()
    };
    let case = |series: &str, reader: &str, seconds: f64, mib: u64| ReadCase {
        series: series.into(),
        reader: reader.into(),
        version: Some("1.6".into()),
        file: "/data/office.pcap".into(),
        frames: 2_000_000,
        bytes: 700_000_000,
        runs: (1..=3)
            .map(|round| run(round, seconds * (0.98 + 0.01 * f64::from(round)), mib << 20))
            .collect(),
        pps_median: Some(2e6 / seconds),
        cpu_per_million: Some(seconds * 0.97 / 2.0),
        memory_bytes: Some(mib << 20),
        command: [reader, "-r", "FILE"].map(String::from).into(),
        absent: None,
        remark: String::new(),
    };
    let [losses, sessions] = ["losses that TCP proves", "sessions put together"];
    let mut slow = case(sessions, "tcpflow", 1.3, 120);
    slow.runs[1].failed = Some("tcpflow failed (exit status: 1)".into());
    slow.remark = "It puts no IP fragments together.".into();
    let absent = ReadCase {
        runs: Vec::new(),
        version: None,
        pps_median: None,
        cpu_per_million: None,
        memory_bytes: None,
        command: Vec::new(),
        absent: Some("it is not installed (from https://zeek.org)".into()),
        ..case(sessions, "zeek", 1.0, 1)
    };
    vec![
        case(losses, "quaff verify", 0.25, 38),
        case(losses, "tcptrace", 1.6, 660),
        case(sessions, "quaff streams", 0.4, 130),
        slow,
        absent,
    ]
}

/// Rates in Mbit/s, as PAM 2007 has them, on two cores and on one.
fn swept(cases: &mut Vec<Case>, dice: &mut Dice) {
    for (series, cores, slower) in [("2 cores", 2, 1.0), ("1 core", 1, 2.1)] {
        for mbps in (1..=10).map(|i| f64::from(i) * 400.0) {
            let pps = mbps * 1e6 / 8.0 / 340.0;
            let words = format!("{mbps} Mbit/s");
            for model in &MODELS {
                let mut case = case(model, series, 340, Some(pps), &words, slower, dice);
                case.mix = Some("imix".into());
                case.setting.cores = cores;
                // As into /dev/null: captured by the tool's own report.
                let counted_by = if cores == 1 { "tool" } else { "file" };
                case.runs.iter_mut().for_each(|run| run.counted_by = counted_by.into());
                cases.push(case);
            }
        }
    }
}

/// One whose bytes and flows were counted.
fn replayed(case: &mut Case) {
    for run in &mut case.runs {
        let of = |frames: u64| (frames * u64::from(case.size), frames / 20);
        let ((sent_bytes, sent_flows), (captured_bytes, captured_flows)) =
            (of(run.offered), of(run.captured.unwrap_or(0)));
        run.contents = Some(Contents { sent_bytes, captured_bytes, sent_flows, captured_flows });
    }
}

/// Frames dealt to two lanes, which came on a line.
fn dealt(case: &mut Case) {
    for run in &mut case.runs {
        run.lanes = vec![run.offered * 11 / 20, run.offered * 9 / 20];
        run.line = Some(LineCounts { delivered: run.offered, mirror_dropped: Some(0) });
    }
    summarise(case);
}

/// Sizes and rates, for a heat map.
fn grid(cases: &mut Vec<Case>, dice: &mut Dice) {
    for size in [60, 252, 508, 1020, 1496] {
        for (words, pps) in [
            ("100 kpps", Some(1e5)),
            ("200 kpps", Some(2e5)),
            ("400 kpps", Some(4e5)),
            ("800 kpps", Some(8e5)),
            ("1.2 Mpps", Some(1.2e6)),
            ("as fast as possible", None),
        ] {
            cases.extend(MODELS.iter().map(|model| case(model, "sizes", size, pps, words, 1.0, dice)));
        }
    }
}

/// The five pairs of the whitepaper.
fn pairs(cases: &mut Vec<Case>, dice: &mut Dice) {
    for (size, percent) in [(60, 37.2), (252, 35.0), (508, 35.0), (508, 50.0), (508, 69.8)] {
        let pps = percent / 100.0 * 1e9 / 8.0 / f64::from(size + 24);
        let words = format!("{percent} % of 1 Gbit/s");
        cases.extend(MODELS.iter().map(|model| case(model, "pairs", size, Some(pps), &words, 1.9, dice)));
    }
}

/// One that never got ready, and one that crashed in some of its runs.
fn misfortunes(cases: &mut [Case]) {
    let [.., crashed, hung] = cases else { return };
    for (i, run) in crashed.runs.iter_mut().enumerate() {
        run.failed = (i > 2).then(|| "it ended by signal 11: <segmentation fault>".into());
    }
    for run in &mut hung.runs {
        run.failed = Some("it was not ready after 20 s".into());
    }
    hung.limited_by = LimitedBy::Unknown;
    for case in [crashed, hung] {
        summarise(case);
    }
}

fn case(
    model: &Model,
    series: &str,
    size: u32,
    pps: Option<f64>,
    rate: &str,
    slower: f64,
    dice: &mut Dice,
) -> Case {
    let wanted = pps.unwrap_or(GENERATOR_PPS);
    let limited = wanted > GENERATOR_PPS || pps.is_none();
    let ns = (model.cost[0] + model.cost[1] * f64::from(size)) * slower;
    let runs = (1..=5).map(|round| run(model, round, size, wanted.min(GENERATOR_PPS), ns, dice)).collect();
    let mut case = Case {
        rival: model.name.into(),
        series: series.into(),
        size,
        pps: pps.map(|pps| pps as u64),
        rate: rate.into(),
        runs,
        limited_by: LimitedBy::Nothing,
        ..Case::default()
    };
    summarise(&mut case);
    case.limited_by = match case.loss_trimmed {
        Some(loss) if loss > 0.0 => LimitedBy::Rival,
        _ if limited => LimitedBy::Generator,
        _ => LimitedBy::Nothing,
    };
    case
}

fn run(model: &Model, round: u32, size: u32, pps: f64, ns: f64, dice: &mut Dice) -> Run {
    let seconds = 2.0 * dice.near(0.01);
    let offered = (pps * seconds) as u64;
    let able = 1e9 / ns * dice.near(0.05);
    let lost = (1.0 - able / pps).max(0.0);
    let captured = offered - (offered as f64 * lost) as u64;
    let cpu = (pps * (1.0 - lost) * ns / 1e9 * 0.9).min(1.0) * dice.near(0.03);
    let tool_drops = model.tells.map(|share| ((offered - captured) as f64 * share) as u64);
    Run {
        round,
        intended: offered,
        offered,
        captured: Some(captured),
        counted_by: "file".into(),
        tool_drops,
        loss: loss_ratio(offered, captured),
        seconds,
        cpu_user_s: cpu * seconds * 0.3,
        cpu_system_s: cpu * seconds * 0.7,
        cpu_startup_s: 0.06,
        cores: cores(cpu),
        samples: (1..=4)
            .map(|half| Sample { at_s: f64::from(half) / 2.0, cores: cores(cpu), capturer: Some(cpu) })
            .collect(),
        bytes: captured * u64::from(size + 16),
        ..Run::default()
    }
}

/// The generator's core and the capturer's.
fn cores(cpu: f64) -> Vec<CoreUse> {
    let generator = CoreUse { core: 0, system: 0.5, softirq: 0.4, idle: 0.1, ..CoreUse::default() };
    let (user, system) = (cpu * 0.3, cpu * 0.7);
    let capturer = CoreUse { core: 1, user, system, softirq: 0.02, idle: 1.0 - cpu, ..CoreUse::default() };
    vec![generator, capturer]
}

fn searches(size: u32, dice: &mut Dice) -> Vec<Search> {
    let of = |model: &Model, dice: &mut Dice| {
        let able = 1e9 / (model.cost[0] + model.cost[1] * f64::from(size)) * 0.9;
        let is_limit = able >= GENERATOR_PPS;
        let found = able.min(GENERATOR_PPS);
        let second = found * dice.near(0.04);
        Search {
            rival: model.name.into(),
            size,
            mix: None,
            setting: Setting::default(),
            method: if size == 60 { "rfc2544" } else { "mlr" }.into(),
            lower_pps: Some(found),
            upper_pps: (!is_limit).then_some(found * 1.01),
            max_pps: GENERATOR_PPS,
            width: 0.01,
            limited_by: if is_limit { LimitedBy::Generator } else { LimitedBy::Rival },
            regular: !is_limit,
            warm_up: Some(TrialRow {
                pps: GENERATOR_PPS,
                seconds: 0.3,
                offered_pps: GENERATOR_PPS,
                loss: 0.2,
            }),
            trials: (1..=7).map(|i| trial(found, i)).collect(),
            again: Some([second, crate::stats::difference(found, second)]),
            trials_again: (1..=5).map(|i| trial(second, i)).collect(),
            goal: (size != 60).then_some(GOAL),
            throughput_pps: (size != 60).then_some(found * 0.999),
            notes: Vec::new(),
        }
    };
    MODELS[..5].iter().map(|model| of(model, dice)).collect()
}

fn trial(found: f64, i: i32) -> TrialRow {
    let away = 0.5f64.powi(i) * if i % 2 == 0 { -1.0 } else { 1.0 };
    let pps = found * (1.0 + away);
    TrialRow { pps, seconds: 1.0, offered_pps: pps * 0.9995, loss: away.max(0.0) / (1.0 + away) }
}

fn bursts(dice: &mut Dice) -> Vec<Burst> {
    let of = |model: &Model, dice: &mut Dice| {
        let able = (4e10 / model.cost[1].powi(2) / 1e6) as u64;
        let frames: Vec<u64> = (0..7).map(|_| ((able as f64 * dice.near(0.1)) as u64).min(400_000)).collect();
        let mean = frames.iter().sum::<u64>() as f64 / frames.len() as f64 / GENERATOR_PPS;
        Burst {
            rival: model.name.into(),
            size: 1496,
            mix: None,
            setting: Setting::default(),
            frames,
            frames_max: 400_000,
            pps: GENERATOR_PPS,
            buffer_s: Some(mean),
            buffer_corrected_s: Some(mean * 0.6),
            notes: Vec::new(),
        }
    };
    MODELS[..5].iter().map(|model| of(model, dice)).collect()
}

fn calibration() -> Vec<Calibration> {
    let row = |size: u32, pps: Option<u64>| Calibration {
        size,
        mix: (size == 340).then(|| "imix".into()),
        pps,
        offered_pps: pps.map_or(GENERATOR_PPS, |pps| pps as f64 * 0.9998),
        lost: 0.0,
        pace_error: pps.map(|_| 0.0002),
    };
    vec![row(60, Some(400_000)), row(60, None), row(1496, Some(800_000)), row(340, Some(500_000))]
}

fn rivals() -> Vec<ToolFacts> {
    let facts = |model: &Model| ToolFacts {
        name: model.name.into(),
        version: Some(format!("{} version 4.99.3 <of the sample>", model.name)),
        command: [model.name, "-i", "rx0", "-w", "/a folder/out.pcap"].map(String::from).into(),
        absent: None,
    };
    let absent = ToolFacts {
        name: "gulp".into(),
        version: None,
        command: Vec::new(),
        absent: Some("there is no gulp in the PATH; it is built from source".into()),
    };
    MODELS.iter().map(facts).chain([absent]).collect()
}

fn machine() -> Machine {
    let facts = [
        ("cpu", "Intel Xeon (Sapphire Rapids), 2 cores at 2.7 GHz"),
        ("kernel", "Linux 6.18.5"),
        ("governor", "none: a virtual machine has none"),
        ("clock source", "kvm-clock"),
        ("virtualisation", "KVM"),
        ("memory", "24.0 GiB"),
        ("disk", "ext4 on /dev/vda, 2.20 GB/s with O_DIRECT"),
        ("driver", "veth"),
        ("offloads", "gro off, lro off, tso on, rx-checksum on"),
        ("rings", "none"),
    ];
    Machine { facts: facts.map(|(name, value)| (name.into(), value.into())).into() }
}

fn plan() -> Plan {
    let row = |rival: &str, size, rate: &str, loss| SourceRow {
        rival: rival.into(),
        size: Some(size),
        rate: rate.into(),
        interface: None,
        loss: Some(loss),
        figures: BTreeMap::new(),
    };
    let rows = vec![
        row("Wireshark", 64, "37.2 % of 1 Gbit/s", 0.42),
        row("tshark", 64, "37.2 % of 1 Gbit/s", 0.44),
        row("Wireshark", 256, "35 % of 1 Gbit/s", 0.03),
        row("tshark", 256, "35 % of 1 Gbit/s", 0.0024),
        row("Wireshark", 512, "69.8 % of 1 Gbit/s", 0.11),
        row("tshark", 512, "69.8 % of 1 Gbit/s", 0.0577),
    ];
    let sweep = Sweep {
        series: "pairs".into(),
        sizes: vec![Size::Bytes(60)],
        rates: vec![Rate::Util { percent: 37.2, link_mbps: 1000.0 }],
        amount: Amount::Frames(1_000_000),
        content: Content::default(),
        mirrored: false,
        flows: 1,
        setting: Setting::default(),
        rivals: Vec::new(),
    };
    Plan {
        name: "sample".into(),
        title: "Seven capturers that do not exist, by the book".into(),
        source: Some(Source {
            title: "T. Fortunato, a whitepaper on software based packet capture".into(),
            what: "A laptop with a built-in 1 Gbit/s adapter captured one million frames; the lost ones in percent".into(),
            rows,
        }),
        bed: crate::bench::plan::Topology::Direct,
        rivals: MODELS.iter().map(|model| model.name.into()).collect(),
        runs: 5,
        seed: 7,
        sweeps: vec![sweep],
        finds: Vec::new(),
        readings: Vec::new(),
        notes: vec!["the plan says what it cannot run yet".into()],
    }
}

/// Pseudorandom numbers, always the same.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Near 1: at most `off` away.
    pub(super) fn near(&mut self, off: f64) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1.0 + ((self.0 >> 33) as f64 / f64::from(1u32 << 31) * 2.0 - 1.0) * off
    }
}
