//! Namespaces, links and senders of a lab.
//!
//! `scripts/test` runs each module in a process of its own; shared parts are compiled once.

mod lab;
mod transmit;
mod two_interfaces;
