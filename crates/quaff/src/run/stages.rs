//! The stages of a lane that all products have, in their order. It never runs one.

use crate::filter::FrameFilter;
use crate::plan::{Duplicates, EditPlan, InputPlan, LoadPlan, SNAPLEN_MAX};
use crate::source::{LaneSource, Sources};
use crate::stage::{
    Compare, Decap, Declare, Dedup, Ethernet, Filter, Limit, Load, Numbered, Search, Shift, SingleLink,
    Slice, Stage, Untag, Window,
};
use quaff_file::write::Format;

/// The stages of a lane, in the order in which a batch passes them.
pub(super) fn stages(
    plan: &InputPlan,
    sources: &Sources,
    lane: &LaneSource,
    mut last: Last,
) -> Vec<Box<dyn Stage>> {
    let (edit, interfaces) = (&plan.edit, || sources.interfaces.clone());
    let filter = |filter: &FrameFilter| Box::new(Filter::new(filter.clone(), interfaces()));
    let mut stages = selecting(edit, sources);
    if let Some(outer) = &sources.filter {
        stages.push(filter(outer));
    }
    if let Some(decap) = &plan.decap {
        let decap = Decap::new(decap, sources.format, interfaces(), lane.gauges.clone());
        let decap = decap.with_ethernet(edit.ethernet);
        stages.push(Box::new(if lane.hides_gaps { decap.without_gaps() } else { decap }));
    }
    if edit.ethernet {
        stages.push(Box::new(Ethernet::new(interfaces())));
    }
    if let Some(inner) = &sources.inner {
        stages.push(filter(inner));
    }
    if let Some(pattern) = &edit.pattern {
        stages.push(Box::new(Search::new(pattern.clone(), interfaces())));
    }
    if edit.strip_vlan {
        stages.push(Box::new(Untag::new(interfaces())));
    }
    if plan.snaplen < SNAPLEN_MAX {
        stages.push(Box::new(Slice { snaplen: plan.snaplen }));
    }
    stages.extend(edit.dedup.map(|window| Box::new(Dedup::new(window)) as Box<dyn Stage>));
    if edit.duplicates == Some(Duplicates::Remove) {
        stages.extend(last.compare.take().map(|compare| Box::new(compare) as Box<dyn Stage>));
    }
    if edit.shift_ns != 0 {
        stages.push(Box::new(Shift { by_ns: edit.shift_ns }));
    }
    if plan.load != LoadPlan::default() {
        stages.push(Box::new(Load::new(plan.load, SNAPLEN_MAX as usize)));
    }
    stages.extend(numbering(sources, last));
    stages
}

/// The stages that select by the numbers and times of packets in files.
fn selecting(edit: &EditPlan, sources: &Sources) -> Vec<Box<dyn Stage>> {
    let mut stages: Vec<Box<dyn Stage>> = Vec::new();
    if edit.include.is_some() || edit.exclude.is_some() {
        stages.push(Box::new(Numbered::new(edit.include.clone(), edit.exclude.clone())));
    }
    if edit.from.is_some() || edit.to.is_some() {
        stages.push(Box::new(Window::new(edit.from, edit.to, sources.start_ns)));
    }
    stages
}

/// The stages of a lane that come last.
pub(super) struct Last {
    pub(super) limit: Option<Limit>,
    pub(super) compare: Option<Compare>,
}

/// The last stages: packets that the output cannot hold are dropped before they count; the remaining ones are compared
/// with each other and declare their interfaces.
fn numbering(sources: &Sources, last: Last) -> Vec<Box<dyn Stage>> {
    let (interfaces, mut stages) = (sources.interfaces.clone(), Vec::<Box<dyn Stage>>::new());
    let declares = interfaces.waits_for_packets();
    if declares && sources.format != Format::Pcapng {
        stages.push(Box::new(SingleLink::new(interfaces.clone())));
    }
    stages.extend(last.limit.map(|limit| Box::new(limit) as Box<dyn Stage>));
    stages.extend(last.compare.map(|compare| Box::new(compare) as Box<dyn Stage>));
    if declares {
        stages.push(Box::new(Declare::new(interfaces)));
    }
    stages
}
