//! The command lines of Gulp, tcpreplay and nProbe, translated to native ones.
//!
//! Each program has a folder: it parses the arguments as the program does, makes a native command line with notes on
//! the differences, and makes the lines that the program prints. Files of options and lists of files are read here.
//! Nothing is printed, run, captured or sent here: the caller parses the native command line and runs it like any
//! other.

#![forbid(unsafe_code)]

mod error;
mod getopt;
pub mod gulp;
mod native;
pub mod nprobe;
pub mod tcpreplay;

pub use error::Error;
pub use native::Native;
