//! TCP streams: followed, extracted, given to scripts, compared with other programs.
//!
//! `scripts/test` runs each module in a process of its own; shared parts are compiled once.

mod capture;
mod kernel_tcp;
mod streams;
mod streams_agreement;
mod streams_bodies;
mod streams_follow;
mod streams_list;
mod streams_listed;
mod streams_objects;
mod streams_one_way;
mod streams_scripts;
mod streams_scripts_live;
mod streams_search;
mod streams_tls;
mod streams_tshark;
#[path = "../support/mod.rs"]
mod support;
