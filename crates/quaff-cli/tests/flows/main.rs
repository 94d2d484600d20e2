//! Flows: metered, sent to collectors, stored as Parquet, shown.
//!
//! `scripts/test` runs each module in a process of its own; shared parts are compiled once.

mod flows;
mod flows_list;
mod flows_live;
mod flows_output;
mod flows_parquet;
mod flows_shown;
mod flows_stored;
mod flows_top;
mod flows_where;
mod made;
mod sample;
#[path = "../support/mod.rs"]
mod support;
