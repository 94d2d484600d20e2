//! Latency (RFC 2544 §26.2): at the throughput, for a tagged frame in the middle of each trial and for all other
//! frames.
//! The tagged frame is a separate stream of one frame.

use super::delays;
use super::of_size::OfSize;
use crate::Result;
use crate::service::frames::{for_s, frames_at, id, stream};
use crate::service::look::{Limit, OFFERED_TOLERANCE, look};
use crate::service::null;
use crate::service::result::{Latency, Way};
use crate::stats::mean;
use crate::trial::{Delays, DirectionReport, StreamReport};
use quaff::format::delay;
use std::collections::BTreeMap;

/// Share of the trial's duration after which the tagged frame is sent: 60 of 120 s.
const TAGGED_AT: f64 = 0.5;

/// The samples of one direction.
#[derive(Default)]
struct Side {
    tagged_ms: Vec<f64>,
    delays: Vec<(Delays, u64)>,
    lost: bool,
}

/// Measures one size.
pub(super) fn measure(test: &mut OfSize<'_, '_>, seconds: f64, repeats: u32) -> Result<()> {
    test.ctx.note(
        "Latency is from the call that sends a frame to the receive timestamp of the kernel or card: on a \
         wire it includes the frame's serialisation on both links, as for bit-forwarding devices (RFC 1242 §3.8)."
            .into(),
    );
    // At the throughput, or at the highest rate if no throughput was measured.
    let rate = |test: &OfSize<'_, '_>, way| {
        test.known(way).map_or_else(|| Some(test.ctx.max_pps(test.size)), |row| row.pps)
    };
    let Some(loads) = test.rates(rate, "rate at which to measure the latency") else { return Ok(()) };
    let size = test.size;
    let streams = |way: Way| {
        let pps = loads[&way];
        let tagged = vec![for_s(seconds * TAGGED_AT, 0.0), frames_at(1, pps)];
        vec![stream(id(way, 0), size, vec![for_s(seconds, pps)]), stream(id(way, 1), size, tagged)]
    };
    let mut sides: BTreeMap<Way, Side> = BTreeMap::new();
    let ended = test.repeat("latency", seconds, repeats, streams, |way, direction, stream| {
        sides.entry(way).or_default().take(direction, stream, loads[&way], seconds);
    });
    let null_ms = match ended {
        Ok(()) => null_ms(test, &loads)?,
        Err(_) => None,
    };
    for (way, side) in sides {
        let (came, of) = (side.tagged_ms.len(), test.name(way));
        if ended.is_ok() && came < repeats as usize {
            test.ctx.note(format!(
                "{of}: {came} of {repeats} tagged frames arrived; the latency is the mean of these."
            ));
        }
        if side.lost {
            test.ctx.note(format!("{of}: frames were lost while the latency was measured."));
        }
        let Some(all) = delays::merge(&side.delays) else {
            test.ctx.note(format!("{of}: nothing arrived while the latency was measured."));
            continue;
        };
        let tagged_ms = side.tagged_ms;
        test.show("latency", way, mean(&tagged_ms).map_or("no tagged frame".into(), delay));
        test.report.latency.push(Latency { size, way, pps: loads[&way], tagged_ms, all, null_ms });
    }
    ended
}

impl Side {
    fn take(&mut self, direction: &DirectionReport, stream: &StreamReport, pps: f64, seconds: f64) {
        let seen = look(direction, stream, pps, Some(seconds), OFFERED_TOLERANCE);
        self.lost |= seen.limit == Limit::Path;
        self.delays.extend(stream.delay.clone().map(|delays| (delays, stream.total.received)));
        let tagged = direction.streams.get(1).and_then(|stream| stream.delay.as_ref());
        self.tagged_ms.extend(tagged.map(|delays| delays.delay[1] / 1e6));
    }
}

/// Delay of the tester itself at the same rate, ms.
fn null_ms(test: &mut OfSize<'_, '_>, loads: &BTreeMap<Way, f64>) -> Result<Option<f64>> {
    if !test.ctx.has_null() {
        return Ok(None);
    }
    let pps = loads.values().copied().fold(0.0, f64::max);
    Ok(null::delays(test.ctx, test.size, pps)?.map(|delays| null::median(&delays) / 1e6))
}
