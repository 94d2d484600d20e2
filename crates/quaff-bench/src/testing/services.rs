//! An invented service test with all possible contents, for tests of pages, tables and the command line; always the
//! same.

use super::captures::Dice;
use crate::experiment::{Machine, Method, Source, SourceRow, TrialRow};
use crate::service::plan::{Limits, Path, Plan, Service, Test, Ways};
use crate::service::result::{
    BackToBack, Check, Delays, Figures, FrameLoss, Latency, Null, Performance, Recovery, Report, Results,
    Second, Step, TapDirection, Throughput, Way,
};

const SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
const WAYS: [Way; 2] = [Way::There, Way::Back];
const LINK_MBPS: f64 = 1000.0;
/// The most that the instrument sends and receives, frames/s.
const INSTRUMENT_PPS: f64 = 702_000.0;
/// The most that the path forwards, frames/s.
const PATH_PPS: f64 = 590_000.0;
const NULL_MS: f64 = 0.0091;
const RUNS: u32 = 3;
const SECONDS: usize = 60;
/// Time of the outage in the second run, s.
const OUTAGE: std::ops::Range<usize> = 22..34;

/// The report: two ways, three services, three runs of a minute, a cut of 12 s in the second.
pub fn sample_service_report() -> Report {
    let mut dice = Dice::new(11);
    let plan = plan();
    let performance = performance(&plan, &mut dice);
    let configuration = configuration(&plan, &mut dice);
    Report {
        format: 1,
        command: ["quaff", "service", "--preset", "sample", "--bed", "bridge", "--out", "a folder"]
            .map(String::from)
            .into(),
        begun: "2026-11-20T21:04:11Z".into(),
        seconds: 512.0,
        interrupted: false,
        machine: machine(),
        body: Results {
            null: Some(Null {
                delay_ms: [0.0062, 0.0098, 0.412, NULL_MS],
                delay_variation_ms: [0.0036, 0.4058],
                max_pps: vec![(64, INSTRUMENT_PPS), (1518, 511_000.0)],
            }),
            throughput: WAYS
                .into_iter()
                .flat_map(|way| SIZES.map(|size| throughput(size, way, &mut dice)))
                .collect(),
            latency: WAYS
                .into_iter()
                .flat_map(|way| SIZES.map(|size| latency(size, way, &mut dice)))
                .collect(),
            frame_loss: frame_loss(),
            back_to_back: WAYS
                .into_iter()
                .flat_map(|way| SIZES.map(|size| burst(size, way, &mut dice)))
                .collect(),
            recovery: WAYS
                .into_iter()
                .flat_map(|way| SIZES.map(|size| recovery(size, way, &mut dice)))
                .collect(),
            configuration,
            performance,
            tap: vec![tap(Way::There, 0), tap(Way::Back, 7)],
            passed: Some(false),
            unjudged: Vec::new(),
            link_mbps: LINK_MBPS,
        },
        notes: vec!["nothing here was measured: this is the sample that tests draw".into()],
        plan,
    }
}

/// The account of a tap that has not recorded `lost` frames.
fn tap(way: Way, lost: u64) -> TapDirection {
    let received = 4_111_222;
    TapDirection {
        way,
        received,
        recorded: received - lost,
        lost,
        forwarded: Some(received),
        forward_dropped: Some(0),
        unrecorded: Some(0),
    }
}

fn plan() -> Plan {
    let limits = Limits {
        delay_ms: Some(0.5),
        delay_variation_ms: Some(20.0),
        loss_ratio: Some(0.003),
        availability: Some(0.9999),
    };
    let service = |name: &str, sizes: &[u32], cir_mbps, eir_mbps| Service {
        name: name.into(),
        sizes: sizes.into(),
        cir_mbps,
        eir_mbps,
        cbs_bytes: if eir_mbps > 0.0 { 65_536 } else { 0 },
        ebs_bytes: if eir_mbps > 0.0 { 32_768 } else { 0 },
        is_policed: true,
        vlan: (eir_mbps > 0.0).then_some((100, 5)),
        dscp: if name == "voice" { 46 } else { 0 },
        limits,
    };
    let sizes: Vec<u32> = SIZES.into();
    let figures =
        [("Mbit/s min", 971.62), ("Mbit/s avg", 971.62), ("Mbit/s max", 971.63), ("available %", 100.0)];
    Plan {
        name: "sample".into(),
        title: "A path that does not exist, by the book".into(),
        source: Some(Source {
            title: "T. Fortunato, a whitepaper on software based packet capture".into(),
            what:
                "Two OptiViews through a ProfiShark 1G, 1 Gbit/s, five runs; delay below 1 ms, jitter 0.01 ms"
                    .into(),
            rows: vec![SourceRow {
                rival: "ProfiShark 1G".into(),
                size: None,
                rate: "1 Gbit/s".into(),
                interface: None,
                loss: Some(0.0),
                figures: figures.map(|(name, value)| (name.to_owned(), value)).into(),
            }],
        }),
        path: Path::Bridge,
        hardware_time: false,
        ways: Ways::Both,
        link_mbps: Some(LINK_MBPS),
        services: vec![
            service("voice", &[218], 2.0, 0.0),
            service("video", &[1518], 50.0, 20.0),
            service("data", &[64, 576, 1518], 200.0, 0.0),
        ],
        tests: vec![
            Test::Throughput { sizes: sizes.clone(), method: Method::Rfc2544, seconds: 2.0, width: 0.01 },
            Test::Latency { sizes, seconds: 2.0, repeats: 20 },
            Test::Configuration { seconds: 3.0, steps: vec![0.25, 0.5, 0.75, 1.0] },
            Test::Performance { seconds: SECONDS as f64 },
        ],
        runs: RUNS,
        pause_s: 0.0,
        notes: vec!["the plan says what has to be known of it".into()],
    }
}

fn machine() -> Machine {
    let facts = [
        ("CPU", "Intel Xeon (Sapphire Rapids) at 2.7 GHz"),
        ("cores", "2"),
        ("kernel", "6.18.5"),
        ("clock of sending", "user space, before the call"),
        ("clock of receiving", "kernel"),
        ("virtualisation", "KVM"),
        ("tx0 driver", "veth"),
    ];
    Machine { facts: facts.map(|(name, value)| (name.into(), value.into())).into() }
}

fn line_pps(size: u32) -> f64 {
    LINK_MBPS * 1e6 / 8.0 / f64::from(size + 20)
}

/// The instrument stops at the smallest, the path at the next, and the line at all others; a bit less on the way back.
fn throughput(size: u32, way: Way, dice: &mut Dice) -> Throughput {
    let path = PATH_PPS * if way == Way::Back { 0.55 } else { 1.0 } * dice.near(0.01);
    let line = line_pps(size);
    let is_instrument = size == 64 && way == Way::There;
    let pps = if is_instrument { INSTRUMENT_PPS } else { path.min(line) };
    let trial = |i: i32| {
        let away = 0.5f64.powi(i) * if i % 2 == 0 { -1.0 } else { 1.0 };
        let wanted = pps * (1.0 + away);
        TrialRow {
            pps: wanted,
            seconds: 2.0,
            offered_pps: wanted * 0.9997,
            loss: away.max(0.0) / (1.0 + away),
        }
    };
    Throughput {
        size,
        way,
        method: if size > 1000 { "mlr" } else { "rfc2544" }.into(),
        pps: Some(pps),
        upper_pps: (!is_instrument && pps < line).then_some(pps * 1.01),
        line_pps: line,
        regular: !is_instrument,
        trials: (1..=7).map(trial).collect(),
        notes: if is_instrument {
            vec!["nothing was lost at the highest rate that the instrument reaches: it was the limit".into()]
        } else {
            Vec::new()
        },
    }
}

fn latency(size: u32, way: Way, dice: &mut Dice) -> Latency {
    let middle = (0.014 + f64::from(size) * 0.000_006) * dice.near(0.04);
    Latency {
        size,
        way,
        pps: PATH_PPS.min(line_pps(size)),
        tagged_ms: (0..20).map(|_| middle * dice.near(0.12)).collect(),
        all: delays(middle * 1e6),
        null_ms: Some(NULL_MS),
    }
}

/// Delays around `middle`, ns, with a tail of one in some thousands.
fn delays(middle: f64) -> Delays {
    let (low, high) = (middle * 0.55, middle * 60.0);
    let weight = |x: f64| {
        let off = (x / middle).ln();
        (-off * off / 0.045).exp() + 0.000_6 * (-(off - 2.6).powi(2) / 1.1).exp()
    };
    let bounds: Vec<f64> = (1..=120).map(|i| low * (high / low).powf(f64::from(i) / 120.0)).collect();
    let histogram: Vec<(f64, u64)> = bounds
        .iter()
        .map(|upper| (*upper, (weight(*upper) * 120_000.0) as u64))
        .filter(|(_, n)| *n > 0)
        .collect();
    let total: u64 = histogram.iter().map(|(_, frames)| frames).sum();
    let at = |quantile: f64| {
        let mut seen = 0;
        let reached = |(_, frames): &&(f64, u64)| {
            seen += frames;
            seen as f64 >= quantile * total as f64
        };
        histogram.iter().find(reached).map_or(high, |(upper, _)| *upper)
    };
    let largest = histogram.last().map_or(high, |(upper, _)| *upper);
    Delays {
        delay: [low, middle * 1.04, largest],
        quantiles: [0.5, 0.9, 0.99, 0.999, 0.9999].map(|quantile| (quantile, at(quantile))).into(),
        pdv: [middle * 0.5, largest - low],
        ipdv: [middle * 0.11, largest - low],
        jitter_4689: [middle * 0.11, largest - low],
        jitter_3550: [middle * 0.1, middle * 2.2],
        histogram,
    }
}

/// From the line's rate downwards; the instrument cannot send the two highest loads of the smallest frames.
fn frame_loss() -> Vec<FrameLoss> {
    let mut all = Vec::new();
    for way in WAYS {
        for size in SIZES {
            let able = PATH_PPS * if way == Way::Back { 0.55 } else { 1.0 };
            for load in (1..=10).rev().map(|i| f64::from(i) / 10.0) {
                let offered = (load * line_pps(size)).min(1_200_000.0);
                all.push(FrameLoss {
                    size,
                    way,
                    load,
                    offered_pps: offered,
                    loss: (1.0 - able / offered).max(0.0),
                });
            }
        }
    }
    all
}

fn burst(size: u32, way: Way, dice: &mut Dice) -> BackToBack {
    let pps = line_pps(size).min(1_200_000.0);
    let is_all = pps <= PATH_PPS;
    let frames_max = (pps * 2.0) as u64;
    let one = |dice: &mut Dice| if is_all { frames_max } else { (2000.0 * dice.near(0.2)) as u64 };
    let frames: Vec<u64> = (0..12).map(|_| one(dice)).collect();
    let mean = frames.iter().sum::<u64>() as f64 / frames.len() as f64;
    BackToBack {
        size,
        way,
        frames,
        frames_max,
        pps,
        buffer_s: Some(mean / pps),
        buffer_corrected_s: (!is_all).then_some(mean / pps * (1.0 - PATH_PPS / pps)),
    }
}

fn recovery(size: u32, way: Way, dice: &mut Dice) -> Recovery {
    let pps = PATH_PPS.min(line_pps(size));
    let is_line = line_pps(size) <= PATH_PPS;
    Recovery {
        size,
        way,
        overload_pps: pps * 1.1,
        seconds: (0..5).map(|_| if is_line { 0.0 } else { 0.0031 * dice.near(0.25) }).collect(),
        notes: if is_line {
            vec!["the overload lost nothing: the line or the instrument is the limit".into()]
        } else {
            Vec::new()
        },
    }
}

fn configuration(plan: &Plan, dice: &mut Dice) -> Vec<Step> {
    let mut all = Vec::new();
    for service in &plan.services {
        let excess = service.eir_mbps;
        let mut steps = vec![("CIR 25 %", 0.25), ("CIR 50 %", 0.5), ("CIR 75 %", 0.75), ("CIR", 1.0)];
        if excess > 0.0 {
            steps.push(("CIR+EIR", 1.0 + excess / service.cir_mbps));
            steps.push(("policing", 1.0 + 1.25 * excess / service.cir_mbps));
        }
        for (way, (what, share)) in
            WAYS.into_iter().flat_map(|way| steps.iter().map(move |step| (way, *step)))
        {
            // The policer of the way back lets everything through.
            let asked = service.cir_mbps * share;
            let most = service.cir_mbps + excess;
            let is_policed = what == "policing" && way == Way::There;
            let received = if is_policed { asked.min(most) } else { asked };
            let seconds: Vec<Second> =
                (0..3).map(|_| second(service, asked, 1.0 - received / asked, dice)).collect();
            let mut figures = figures(service, asked, &seconds);
            figures.availability = None;
            let passed = what != "policing" || is_policed;
            let limit = format!("at most {most} Mbit/s");
            let checks = if what == "policing" {
                vec![check("IR", &limit, format!("{received:.2} Mbit/s"), passed)]
            } else {
                checks(&service.limits, &figures)
            };
            all.push(Step { service: service.name.clone(), way, what: what.into(), figures, checks });
        }
    }
    all
}

fn performance(plan: &Plan, dice: &mut Dice) -> Vec<Performance> {
    let mut all = Vec::new();
    for run in 1..=RUNS {
        for (service, way) in plan.services.iter().flat_map(|service| WAYS.map(|way| (service, way))) {
            let is_out = |i: usize| run == 2 && way == Way::There && OUTAGE.contains(&i);
            let one = |i: usize, dice: &mut Dice| {
                let loss = if is_out(i) { 1.0 } else { 0.0 };
                Second { available: !is_out(i), ..second(service, service.cir_mbps, loss, dice) }
            };
            let mut seconds: Vec<Second> = (0..SECONDS).map(|i| one(i, dice)).collect();
            if run == 3 && service.name == "data" {
                seconds[41].lost = seconds[41].sent / 7;
            }
            let figures = figures(service, service.cir_mbps, &seconds);
            all.push(Performance {
                run,
                service: service.name.clone(),
                way,
                begun: format!("2026-11-20T21:{:02}:04Z", 7 + run),
                checks: checks(&service.limits, &figures),
                figures,
                limits: service.limits,
                seconds,
            });
        }
    }
    all
}

fn mean_bytes(service: &Service) -> f64 {
    service.sizes.iter().map(|size| f64::from(*size)).sum::<f64>() / service.sizes.len() as f64
}

fn second(service: &Service, mbps: f64, loss: f64, dice: &mut Dice) -> Second {
    let sent = (mbps * 1e6 / 8.0 / mean_bytes(service)) as u64;
    let lost = (sent as f64 * loss).round() as u64;
    let middle = 0.016 * dice.near(0.08);
    // Now and then a timer or a neighbour of the machine gets in between.
    let high = 0.09 * dice.near(0.5).powi(6);
    let delay_ms = (lost < sent).then_some([0.0088 * dice.near(0.02), middle, high.max(middle * 1.5)]);
    Second { sent, lost, delay_ms, available: true }
}

/// Of the available seconds.
fn figures(service: &Service, asked_mbps: f64, seconds: &[Second]) -> Figures {
    let bits = mean_bytes(service) * 8.0;
    let rates: Vec<f64> =
        seconds.iter().map(|second| (second.sent - second.lost) as f64 * bits / 1e6).collect();
    let available: Vec<&Second> = seconds.iter().filter(|second| second.available).collect();
    let sum = |of: fn(&Second) -> u64| available.iter().map(|second| of(second)).sum::<u64>();
    let (sent, lost) = (sum(|second| second.sent), sum(|second| second.lost));
    let delays: Vec<[f64; 3]> = available.iter().filter_map(|second| second.delay_ms).collect();
    let low = delays.iter().map(|delay| delay[0]).fold(f64::INFINITY, f64::min);
    let high = delays.iter().map(|delay| delay[2]).fold(0.0, f64::max);
    let mean = delays.iter().map(|delay| delay[1]).sum::<f64>() / delays.len() as f64;
    let out = (seconds.len() - available.len()) as u64;
    let all = |of: fn(&Second) -> u64| seconds.iter().map(of).sum::<u64>();
    let unavailable = [all(|second| second.sent) - sent, all(|second| second.lost) - lost];
    Figures {
        asked_mbps,
        sent_mbps: asked_mbps * 0.9999,
        received_mbps: [
            rates.iter().copied().fold(f64::INFINITY, f64::min),
            rates.iter().sum::<f64>() / rates.len() as f64,
            rates.iter().copied().fold(0.0, f64::max),
        ],
        sent,
        lost,
        loss: lost as f64 / sent as f64,
        delay_ms: Some([low, mean, high]),
        delay_variation_ms: Some([0.0, mean - low, high - low]),
        others_ms: Some([0.0021, high - low, 0.0021, high - low, 0.0019, 0.021]),
        duplicates: u64::from(service.name == "video"),
        reordered: if service.name == "data" { 3 } else { 0 },
        availability: Some(available.len() as f64 / seconds.len() as f64),
        unavailable_s: out,
        unavailable,
        severely_errored_s: out,
        within: [Some(if high > 0.5 { 0.999_87 } else { 1.0 }), Some(1.0)],
    }
}

fn check(what: &str, limit: &str, measured: String, passed: bool) -> Check {
    Check { what: what.into(), limit: limit.into(), measured, passed }
}

fn checks(limits: &Limits, figures: &Figures) -> Vec<Check> {
    let mut all = Vec::new();
    all.extend(limits.loss_ratio.map(|most| {
        check(
            "FLR",
            &format!("at most {} %", most * 100.0),
            format!("{:.4} %", figures.loss * 100.0),
            figures.loss <= most,
        )
    }));
    all.extend(limits.delay_ms.zip(figures.delay_ms).map(|(most, [_, mean, _])| {
        check("FTD", &format!("at most {most} ms"), format!("{mean:.3} ms"), mean <= most)
    }));
    all.extend(limits.delay_variation_ms.zip(figures.delay_variation_ms).map(|(most, [.., high])| {
        check("FDV", &format!("at most {most} ms"), format!("{high:.3} ms"), high <= most)
    }));
    all.extend(limits.availability.zip(figures.availability).map(|(least, share)| {
        check(
            "AVAIL",
            &format!("at least {} %", least * 100.0),
            format!("{:.2} %", share * 100.0),
            share >= least,
        )
    }));
    all
}
