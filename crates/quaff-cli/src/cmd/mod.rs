//! The subcommands, each with its arguments, its plan and its report. None does the work itself.

pub(crate) mod bench;
pub(crate) mod capture;
pub(crate) mod compat;
pub(crate) mod completions;
pub(crate) mod cores;
pub(crate) mod doctor;
mod experiment;
pub(crate) mod extcap;
pub(crate) mod flows;
pub(crate) mod generate;
pub(crate) mod info;
pub(crate) mod interfaces;
pub(crate) mod lab;
mod lanes;
pub(crate) mod man;
pub(crate) mod merge;
mod packet_file;
pub(crate) mod pipe;
pub(crate) mod replay;
mod sending;
pub(crate) mod service;
pub(crate) mod split;
pub(crate) mod streams;
pub(crate) mod tap;
pub(crate) mod verify;
