//! From flags to a plan: a preset, a file or nothing to begin with, and what the flags change of it.

use super::args::Args;
use super::values::List;
use anyhow::{Context, ensure};
use quaff_bench::bench::plan::{Amount, Find, Method, Plan, Rate, Sweep, Topology, Wanted};
use quaff_bench::experiment::PlanFile as _;
use quaff_lab::tool::Setting;
use quaff_lab::traffic::{Content, Size};
use std::path::Path;

/// Capturers by default.
const RIVALS: [&str; 3] = ["quaff", "tcpdump", "dumpcap"];
/// Frame size by default, bytes.
const SIZES: [u32; 3] = [64, 512, 1500];
/// Link rate by default, bits/s.
const LINK_BPS: f64 = 1e9;
/// Frames of a run by default.
const FRAMES: u64 = 1_000_000;
/// Runs of a case by default.
const RUNS: u32 = 5;
/// Counted in sizes by those who count it.
const FCS_BYTES: u32 = 4;
/// A trial that a result of a search rests on, s.
const TRIAL_SECONDS: f64 = 3.0;
/// Buffer of each capturer by default, MiB: with own buffers the memory that each takes would be compared.
const BUFFER_MIB: u64 = 256;
/// The series of presets that are about buffers.
const BUFFER_SERIES: [&str; 2] = ["256 MiB of buffer each", "own buffers"];
/// (upper - lower) / upper at which a search ends.
const WIDTH_MAX: f64 = 0.05;
/// Steps of a loss curve, as a share of the highest rate (RFC 2544 section 26.3: at most 10 %).
const WIDTH_CURVE: f64 = 0.1;

/// The plan that the flags ask for; `own` are the names of the user's own capturers.
pub(super) fn plan(args: &Args, own: &[String]) -> anyhow::Result<Plan> {
    let mut plan = match (&args.from.preset, args.from.plan.first()) {
        (Some(name), _) => Plan::preset(name, false)?,
        (None, Some(file)) => Plan::read(file)?,
        (None, None) => custom(),
    };
    rivals(&mut plan, args, own);
    series(&mut plan, args)?;
    traffic(&mut plan, args)?;
    vary(&mut plan.sweeps, args);
    place(&mut plan, args);
    plan.runs = args.from.runs.unwrap_or(plan.runs);
    plan.seed = args.seed.unwrap_or(plan.seed);
    find(&mut plan, args);
    plan.check()?;
    Ok(plan)
}

/// Flags alone.
fn custom() -> Plan {
    Plan {
        name: "custom".into(),
        title: "Capturers beside each other".into(),
        source: None,
        bed: Topology::Direct,
        rivals: RIVALS.map(str::to_owned).into(),
        runs: RUNS,
        seed: 0,
        sweeps: vec![Sweep {
            series: String::new(),
            sizes: SIZES.map(Size::Bytes).into(),
            rates: vec![Rate::Max],
            amount: Amount::Frames(FRAMES),
            content: Content::default(),
            mirrored: false,
            flows: 1,
            setting: Setting { buffer_mib: Some(BUFFER_MIB), ..Setting::default() },
            rivals: Vec::new(),
        }],
        finds: Vec::new(),
        readings: Vec::new(),
        notes: Vec::new(),
    }
}

/// The capturers to measure: those that are named, or those of the plan and the user's own.
fn rivals(plan: &mut Plan, args: &Args, own: &[String]) {
    if args.rivals.is_empty() {
        let new = own.iter().filter(|name| !plan.rivals.contains(name)).cloned();
        plan.rivals.extend(new.collect::<Vec<_>>());
        return;
    }
    plan.rivals.clone_from(&args.rivals);
    let mut gone = Vec::new();
    plan.sweeps.retain_mut(|sweep| {
        let is_kept = chosen(&mut sweep.rivals, args);
        gone.extend((!is_kept).then(|| sweep.series.clone()));
        is_kept
    });
    plan.finds.retain_mut(|find| chosen(&mut find.rivals, args));
    let note = |series| format!("The series '{series}' is left out: none of its capturers was chosen.");
    plan.notes.extend(gone.into_iter().map(note));
}

/// Keeps the chosen ones, or all if none is named; returns whether any is left.
fn chosen(rivals: &mut Vec<String>, args: &Args) -> bool {
    let is_everybody = rivals.is_empty();
    rivals.retain(|name| args.rivals.contains(name));
    is_everybody || !rivals.is_empty()
}

fn series(plan: &mut Plan, args: &Args) -> anyhow::Result<()> {
    if args.series.is_empty() {
        return Ok(());
    }
    let all = plan.sweeps.iter().map(|sweep| &sweep.series);
    let all = all.chain(plan.readings.iter().map(|reading| &reading.series));
    let all: Vec<_> = all.map(|series| format!("'{series}'")).collect();
    let is_wanted = |series: &str| args.series.iter().any(|word| series.contains(word.as_str()));
    plan.sweeps.retain(|sweep| is_wanted(&sweep.series));
    plan.readings.retain(|reading| is_wanted(&reading.series));
    ensure!(
        !plan.sweeps.is_empty() || !plan.readings.is_empty(),
        "no series of {} is called that; there is {}",
        plan.name,
        all.join(", ")
    );
    Ok(())
}

/// Sizes, rates, amounts, contents: a flag replaces the value of the plan.
fn traffic(plan: &mut Plan, args: &Args) -> anyhow::Result<()> {
    let (sizes, rates, amount) = (sizes(args)?, rates(args), amount(args));
    for sweep in &mut plan.sweeps {
        if let Some(sizes) = &sizes {
            sweep.sizes.clone_from(sizes);
        }
        if let Some(rates) = &rates {
            sweep.rates.clone_from(rates);
        }
        sweep.amount = amount.unwrap_or(sweep.amount);
        sweep.content = args.content.unwrap_or(sweep.content);
    }
    if let Some(file) = &*args.replay {
        let file = absolute(file)?;
        plan.readings.iter_mut().for_each(|reading| reading.replay = Some(file.clone()));
    }
    Ok(())
}

fn sizes(args: &Args) -> anyhow::Result<Option<Vec<Size>>> {
    if let Some(file) = &args.sizes.sizes_from {
        return Ok(Some(vec![Size::From(absolute(file)?)]));
    }
    if let Some(file) = &*args.replay {
        return Ok(Some(vec![Size::Replay(absolute(file)?)]));
    }
    let without_fcs = |size: &Size| match size {
        Size::Bytes(bytes) if args.sizes.fcs => Size::Bytes(bytes.saturating_sub(FCS_BYTES)),
        size => size.clone(),
    };
    Ok(args.sizes.size.as_ref().map(|sizes| sizes.iter().map(without_fcs).collect()))
}

/// A file's path from the root: who reads it may stand elsewhere.
fn absolute(file: &Path) -> anyhow::Result<String> {
    let path = file.canonicalize().with_context(|| format!("find {}", file.display()))?;
    Ok(path.display().to_string())
}

fn rates(args: &Args) -> Option<Vec<Rate>> {
    let of_link = |rate: &Rate| match rate {
        Rate::Util { percent, .. } => {
            Rate::Util { percent: *percent, link_mbps: args.link.unwrap_or(LINK_BPS) / 1e6 }
        }
        rate => *rate,
    };
    let given = args.pps.as_ref().or(args.mbps.as_ref()).or(args.util.as_ref())?;
    Some(given.iter().map(of_link).collect())
}

fn amount(args: &Args) -> Option<Amount> {
    let seconds = args.end.duration.map(|duration| Amount::Seconds(duration.as_secs_f64()));
    args.count.map(Amount::Frames).or(seconds)
}

/// Each setting that is given with each of its values; two sweeps that came out the same are one.
fn vary(sweeps: &mut Vec<Sweep>, args: &Args) {
    if args.buffer.is_some() {
        sweeps.iter_mut().for_each(forget_buffer);
    }
    by(sweeps, args.buffer.as_ref(), "own buffers", |setting, mib| setting.buffer_mib = *mib);
    by(sweeps, args.capturers.as_ref(), "1 capturer", |setting, n| setting.capturers = *n);
    by(sweeps, args.filter.as_ref(), "no filter", |setting, filter| setting.filter = *filter);
    by(sweeps, args.copies.as_ref(), "no extra copies", |setting, n| setting.copies = *n);
    by(sweeps, args.compress.as_ref(), "not compressed", |setting, level| setting.compression = *level);
    by(sweeps, args.snaplen.as_ref(), "whole packets", |setting, bytes| setting.snaplen = *bytes);
    by(sweeps, args.output.as_ref(), "to disk", |setting, output| setting.output = *output);
    by(sweeps, args.cores.as_ref(), "two cores", |setting, n| setting.cores = *n);
    let mut seen = Vec::new();
    sweeps.retain(|sweep| {
        let what = Sweep { series: String::new(), ..sweep.clone() };
        let is_new = !seen.contains(&what);
        seen.push(what);
        is_new
    });
}

/// Removes the buffer from the name of a series, as another one takes its place.
fn forget_buffer(sweep: &mut Sweep) {
    let parts = sweep.series.split(", ").filter(|part| !BUFFER_SERIES.contains(part));
    sweep.series = parts.collect::<Vec<_>>().join(", ");
}

/// Each sweep once for each of `values`, which `set` sets. With several of them the series say which;
/// `usual` is the name of the default.
fn by<T>(sweeps: &mut Vec<Sweep>, values: Option<&List<T>>, usual: &str, set: impl Fn(&mut Setting, &T)) {
    let Some(values) = values else { return };
    let name = |value: &T| {
        let mut alone = Setting::default();
        set(&mut alone, value);
        alone.describe().pop().unwrap_or_else(|| usual.to_owned())
    };
    let with = |sweep: &Sweep, value: &T| {
        let mut sweep = sweep.clone();
        set(&mut sweep.setting, value);
        if values.len() > 1 {
            let between = if sweep.series.is_empty() { "" } else { ", " };
            sweep.series += &format!("{between}{}", name(value));
        }
        sweep
    };
    *sweeps = sweeps
        .iter()
        .flat_map(|sweep| values.iter().map(|value| with(sweep, value)).collect::<Vec<_>>())
        .collect();
}

fn place(plan: &mut Plan, args: &Args) {
    if let Some(bed) = &*args.bed {
        plan.bed = bed.clone();
    }
    if let Some(send_on) = &args.send_on {
        let (receive_on, sender) = (args.receive_on.clone(), args.sender.clone());
        plan.bed = Topology::Real { send_on: send_on.clone(), receive_on, sender };
    }
}

/// The searches that are asked for, over the sizes and settings of the cases; with flags alone they take the
/// place of the cases, unless rates were said.
fn find(plan: &mut Plan, args: &Args) {
    let max = args.search.find_max.map(|method| (Wanted::Max, method, WIDTH_MAX));
    let burst = args.find_burst.then_some((Wanted::Burst, Method::default(), WIDTH_MAX));
    let curve = args.curve.then_some((Wanted::Curve, Method::default(), WIDTH_CURVE));
    let wanted: Vec<_> = [max, burst, curve].into_iter().flatten().collect();
    if wanted.is_empty() {
        return;
    }
    let buffer_mib = args.buffer.is_none().then_some(BUFFER_MIB);
    for (what, method, width) in wanted {
        let seconds = args.search.trial.map_or(TRIAL_SECONDS, |trial| trial.as_secs_f64());
        let goal_loss = args.search.goal_loss.unwrap_or(0.0) / 100.0;
        let find = |sweep: &Sweep| Find {
            what,
            method,
            sizes: sweep.sizes.clone(),
            setting: Setting { buffer_mib: sweep.setting.buffer_mib.or(buffer_mib), ..sweep.setting.clone() },
            rivals: sweep.rivals.clone(),
            seconds,
            goal_loss,
            width,
            repeats: None,
        };
        plan.finds.extend(merged(plan.sweeps.iter().map(find)));
    }
    let is_custom = args.from.preset.is_none() && args.from.plan.is_empty();
    if is_custom && rates(args).is_none() {
        plan.sweeps.clear();
        plan.title = "Searches".into();
    }
}

/// Those that differ by their sizes only are one with the sizes of all.
fn merged(finds: impl Iterator<Item = Find>) -> Vec<Find> {
    let mut all: Vec<Find> = Vec::new();
    for find in finds {
        let is_same = |other: &&mut Find| other.setting == find.setting && other.rivals == find.rivals;
        match all.iter_mut().find(is_same) {
            Some(other) => {
                let new = find.sizes.into_iter().filter(|size| !other.sizes.contains(size));
                let new: Vec<_> = new.collect();
                other.sizes.extend(new);
            }
            None => all.push(find),
        }
    }
    all
}

#[cfg(test)]
mod tests;
