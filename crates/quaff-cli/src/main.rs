//! The program `quaff`: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    quaff_cli::main()
}
