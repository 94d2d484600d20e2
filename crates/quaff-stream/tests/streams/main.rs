//! Reassembly against models of single bytes: every short sequence, random long ones, and cases with a name.

mod adversary;
mod agreement;
mod batches;
mod caps;
mod cases;
mod exhaustive;
mod fragment_cases;
mod fragment_model;
mod fragments;
mod handshakes;
mod interval;
mod loss;
mod model;
mod observed;
mod observer;
mod proof;
mod random;
mod strays;
mod tracker;
mod udp;
mod witnesses;
