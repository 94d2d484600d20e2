//! Stops after an exact number of packets over all lanes.

use super::Stage;
use crate::batch::Batch;
use crate::tally::LaneTally;
use quaff_os::{Reason, Stop};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of packets that all lanes together may still keep.
#[derive(Debug)]
pub(crate) struct Quota {
    left: AtomicU64,
}

impl Quota {
    /// A quota of `count` packets.
    pub(crate) fn new(count: u64) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(count) })
    }

    /// Takes up to `want`; returns the number taken, and true if the quota is used up.
    fn take(&self, want: u64) -> (u64, bool) {
        // Written and read by all lanes. Relaxed: the number publishes no other data.
        let (order, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.left.try_update(order, fetch, |left| Some(left.saturating_sub(want)));
        let before = before.unwrap_or(0);
        (before.min(want), before <= want)
    }
}

/// Passes packets while the quota lasts, and ends the run when it is used up.
#[derive(Debug)]
pub(crate) struct Limit {
    quota: Arc<Quota>,
    stop: Stop,
}

impl Limit {
    /// A limit that shares `quota` with other lanes.
    pub(crate) fn new(quota: Arc<Quota>, stop: Stop) -> Self {
        Self { quota, stop }
    }
}

impl Stage for Limit {
    fn pass(&mut self, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        let want = batch.frames.len() as u64;
        let (got, used_up) = self.quota.take(want);
        batch.frames.truncate(got as usize);
        tally.after_count += want - got;
        if used_up {
            self.stop.raise(Reason::Count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Frame;

    #[test]
    fn lanes_share_one_quota_exactly() {
        let quota = Quota::new(1000);
        let lanes: Vec<_> = (0..4)
            .map(|_| {
                let mut limit = Limit::new(quota.clone(), Stop::default());
                std::thread::spawn(move || {
                    let mut kept = 0;
                    for _ in 0..100 {
                        let mut frames = vec![Frame::default(); 7];
                        let (mut scratch, mut tally) = (Vec::new(), LaneTally::default());
                        let mut batch = Batch {
                            bytes: &[],
                            scratch: &mut scratch,
                            frames: &mut frames,
                            ids: &mut Vec::new(),
                            now_ns: 0,
                            is_last: false,
                        };
                        limit.pass(&mut batch, &mut tally);
                        assert_eq!(tally.after_count as usize + frames.len(), 7);
                        kept += frames.len();
                    }
                    (kept, limit.stop.raised())
                })
            })
            .collect();
        let kept: Vec<_> = lanes.into_iter().map(|lane| lane.join().unwrap()).collect();
        assert_eq!(kept.iter().map(|(kept, _)| kept).sum::<usize>(), 1000);
        assert!(kept.iter().any(|(_, raised)| *raised));
    }
}
