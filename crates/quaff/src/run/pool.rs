//! The buffer pool of a run, divided among its lanes and the outputs of each.

use crate::Result;
use crate::buffer_pool::{LanePool, Pool, PoolPlan};
use crate::cores::Topology;
use crate::plan::{InputPlan, PREFAULT, WritePlan};
use quaff_os::Stop;
use std::time::Duration;

/// The part of the buffer that is divided into the shares of lanes, %. The rest is for any lane that needs it: while
/// the output is late, one interface of several may use more than three quarters of the buffer.
const LANES_SHARES_PERCENT: usize = 25;
/// The same for the members of a split. A member that blocks permanently must leave the others enough.
const OUTPUTS_SHARES_PERCENT: usize = 50;

/// Starts the buffer pool: `outputs` of each lane have buffers of their own, and those are ordered by lane.
pub(crate) fn start_pool(
    input: &InputPlan,
    write: &WritePlan,
    outputs: usize,
    stop: &Stop,
) -> Result<(Pool, Vec<LanePool>)> {
    let nodes = nodes(input).into_iter().flat_map(|node| std::iter::repeat_n(node, outputs));
    let nodes: Vec<_> = nodes.collect();
    // Files wait for a buffer; packets of an interface do not.
    let start_limit = if input.read.is_some() { Duration::ZERO } else { PREFAULT };
    let pool = PoolPlan {
        buffers: write.buffers(nodes.len()),
        buffer_bytes: write.chunk_bytes,
        is_populated: write.is_populated,
        shares_percent: if outputs > 1 { OUTPUTS_SHARES_PERCENT } else { LANES_SHARES_PERCENT },
        nodes,
        ready_buffers: 1,
        start_limit,
        busy_cores: input.cpus().flatten().collect(),
    };
    Pool::start(&pool, stop)
}

/// The NUMA node of each lane: that of its core, where the machine has several.
fn nodes(input: &InputPlan) -> Vec<Option<usize>> {
    let cores = match &input.read {
        Some(read) => vec![read.cpu],
        None => {
            let (cores, last) = (input.cpus(), input.cpus().last().flatten());
            cores.chain(std::iter::repeat(last)).take(input.lanes()).collect()
        }
    };
    let is_pinned = cores.iter().any(Option::is_some);
    let topology = if is_pinned { Topology::here().ok() } else { None };
    cores.into_iter().map(|core| topology.as_ref()?.local_node(core?)).collect()
}
