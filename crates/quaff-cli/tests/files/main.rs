//! Commands that read capture files, and files of other programs.
//!
//! `scripts/test` runs each module in a process of its own; shared parts are compiled once.

mod cores;
mod decap_files;
mod edit;
mod files_of_others;
mod filters_of_files;
mod hostile;
mod info;
mod info_traffic;
mod input_grammar;
mod link_types;
#[path = "../../../quaff-wire/tests/tunnels/mod.rs"]
mod made;
mod made_files;
mod merge;
mod odd_headers;
mod print;
mod read;
#[path = "../stamped/mod.rs"]
mod stamped;
#[path = "../support/mod.rs"]
mod support;
#[path = "../traffic/mod.rs"]
mod traffic;
mod tunnels;
mod verify;
mod verify_against;
mod verify_numbers;
mod verify_tcp;
