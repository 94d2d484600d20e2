//! Sources: where batches come from.

mod ahead;
pub mod file;
