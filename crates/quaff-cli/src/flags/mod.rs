//! The flags that several commands share: each with its name, value, help and default in one place, and the part of
//! the plan that it makes. A command flattens the groups that it needs; [`of`] adds what is particular to the command,
//! such as a default or a conflict. A flag of a single command stays with the command. It reads no packet, and prints
//! nothing.

/// Parsers of values: `Type: parser;`.
macro_rules! values {
    ($($value:ty: $parser:expr;)*) => {$(
        impl $crate::flags::FlagValue for $value {
            fn parser() -> clap::builder::ValueParser {
                clap::builder::ValueParser::new($parser)
            }
        }
    )*};
}

/// Groups of one flag. Each dereferences to its value.
macro_rules! flags {
    ($($(#[$meta:meta])* $group:ident $(<$value:ident: $bound:ident>)? { $field:ident: $type:ty })*) => {$(
        #[derive(Debug, Clone, clap::Args)]
        pub(crate) struct $group $(<$value: $bound>)? {
            $(#[$meta])*
            $field: $type,
        }

        impl $(<$value: $bound>)? std::ops::Deref for $group $(<$value>)? {
            type Target = $type;

            fn deref(&self) -> &Self::Target {
                &self.$field
            }
        }
    )*};
}

mod choice;
mod experiment;
mod given;
mod input;
mod lanes;
mod output;
mod privileges;
mod span;
mod traffic;
mod tunnels;

pub(crate) use choice::*;
pub(crate) use experiment::*;
pub(crate) use given::Given;
pub(crate) use input::*;
pub(crate) use lanes::*;
pub(crate) use output::*;
pub(crate) use privileges::*;
pub(crate) use span::*;
pub(crate) use traffic::*;
pub(crate) use tunnels::*;
pub(crate) use values;

use clap::Arg;
use clap::builder::ValueParser;
use std::fmt::Debug;

/// A value of a flag whose type differs between commands, such as one size and a list of sizes.
pub(crate) trait FlagValue: Debug + Clone + Send + Sync + 'static {
    /// Parses the value.
    fn parser() -> ValueParser;
}

/// Changes the flag `id` of a command, for `mut_args`, which keeps the order of the help.
pub(crate) fn of(id: &'static str, change: impl Fn(Arg) -> Arg) -> impl FnMut(Arg) -> Arg {
    move |arg| if arg.get_id() == id { change(arg) } else { arg }
}

/// The flag with another text, for a command in which it means something else.
pub(crate) fn reworded(arg: Arg, help: &'static str) -> Arg {
    arg.help(help).long_help(None::<&str>)
}

/// The text of an expression that is not empty.
pub(crate) fn text(expression: &Option<String>) -> Option<String> {
    expression.clone().filter(|text| !text.trim().is_empty())
}
