//! From flags to a plan: a preset or a file to begin with, and what the flags change of it.

use super::args::TestArgs;
use anyhow::ensure;
use quaff_bench::experiment::PlanFile as _;
use quaff_bench::service::plan::{Path, Plan, Routed, Test, Ways};
use quaff_os::packet::TimeSource;
use std::time::Duration;

/// The default preset.
const PRESET: &str = "rfc2544";
/// The default preset with services.
const PRESET_OF_SERVICES: &str = "y1564";
/// Words of notes of presets that are about the lab.
const OF_LAB: [&str; 2] = ["of the lab", "of one machine"];

/// Words of a preset's note on how long the performance test takes.
const OF_DURATION: &str = "performance test takes";

/// The plan that the flags ask for.
pub(super) fn plan(args: &TestArgs) -> anyhow::Result<Plan> {
    let mut plan = begun(args)?;
    place(&mut plan, args)?;
    services(&mut plan, args)?;
    performance(&mut plan, args)?;
    plan.link_mbps = args.link.or(plan.link_mbps);
    plan.hardware_time |= *args.clock == TimeSource::Adapter;
    if args.both {
        plan.ways = Ways::Both;
    }
    plan.check()?;
    Ok(plan)
}

/// The plan before the flags are applied.
fn begun(args: &TestArgs) -> anyhow::Result<Plan> {
    if let Some(file) = args.from_plan.plan.first() {
        return Ok(Plan::read(file)?);
    }
    let (name, is_short) = match &args.from_plan.preset {
        Some(name) => (name.as_str(), args.short),
        None if args.service.is_empty() => (PRESET, true),
        None => (PRESET_OF_SERVICES, args.short),
    };
    Ok(Plan::preset(name, is_short)?)
}

fn place(plan: &mut Plan, args: &TestArgs) -> anyhow::Result<()> {
    if let Some(bed) = &*args.bed {
        plan.path = bed.clone();
    }
    if let (Some(from), Some(to)) = (&args.from, &args.to) {
        let routed = args.from_ip.zip(args.to_ip).map(|(from, to)| Routed { from, to });
        plan.path = Path::Between { from: from.clone(), to: to.clone(), routed };
        if args.from_plan.plan.is_empty() {
            leave_lab(plan);
        }
    }
    let is_real = matches!(plan.path, Path::Between { .. });
    ensure!(
        is_real || args.null_from.is_none(),
        "--null-from is for interfaces that are there (--from, --to); a lab makes its own link"
    );
    Ok(())
}

/// Removes what a preset states for a lab only: its link, its notes, and the lack of policing.
fn leave_lab(plan: &mut Plan) {
    plan.link_mbps = None;
    plan.notes.retain(|note| !OF_LAB.iter().any(|words| note.contains(words)));
    plan.services.iter_mut().for_each(|service| service.is_policed = true);
}

/// Named services take the place of those that are there, with no limits but those of the flags.
fn services(plan: &mut Plan, args: &TestArgs) -> anyhow::Result<()> {
    let is_of_services = |test: &Test| matches!(test, Test::Configuration { .. } | Test::Performance { .. });
    if !args.service.is_empty() {
        ensure!(
            plan.tests.iter().any(is_of_services),
            "{} tests no services; --preset {PRESET_OF_SERVICES} does",
            plan.name
        );
        plan.services.clone_from(&args.service);
        // Nothing in the lab drops what is above a service's rates.
        let is_policed = matches!(plan.path, Path::Between { .. });
        plan.services.iter_mut().for_each(|service| service.is_policed = is_policed);
    }
    let ms = |limit: Option<Duration>| limit.map(|limit| limit.as_secs_f64() * 1e3);
    for limits in plan.services.iter_mut().map(|service| &mut service.limits) {
        limits.delay_ms = ms(args.max_delay).or(limits.delay_ms);
        limits.delay_variation_ms = ms(args.max_variation).or(limits.delay_variation_ms);
        limits.loss_ratio = args.max_loss.or(limits.loss_ratio);
        limits.availability = args.min_availability.or(limits.availability);
    }
    Ok(())
}

/// Applies duration and repetitions of the performance test.
fn performance(plan: &mut Plan, args: &TestArgs) -> anyhow::Result<()> {
    let mut has_any = false;
    for test in &mut plan.tests {
        if let Test::Performance { seconds } = test {
            *seconds = args.end.duration.map_or(*seconds, |wanted| wanted.as_secs_f64());
            has_any = true;
        }
    }
    if args.end.duration.is_some() {
        plan.notes.retain(|note| !note.contains(OF_DURATION));
    }
    plan.runs = args.from_plan.runs.unwrap_or(plan.runs);
    ensure!(
        has_any || (args.end.duration.is_none() && args.from_plan.runs.is_none()),
        "{} has no service performance test that --duration or --runs could be of",
        plan.name
    );
    Ok(())
}
