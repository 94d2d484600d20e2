//! The program `quaff`: everything is in the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    quaff_cli::main()
}
