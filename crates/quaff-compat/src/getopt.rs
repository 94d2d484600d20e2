//! Command lines of getopt_long(3) and AutoOpts: names and their unique prefixes, letters that share a dash, values.
//!
//! The table of options and the meaning of values are the program's own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    /// A value after `=` only.
    Perhaps,
    Value,
}

/// An option in the table of a program.
pub(crate) trait Spec: 'static {
    fn name(&self) -> &'static str;
    fn letter(&self) -> Option<u8>;
    fn takes(&self) -> Takes;
}

/// A program's options, while its words are read.
pub(crate) trait Program {
    type Spec: Spec;

    /// `-i=eth0` has the value `eth0`, as in a file of options.
    const LETTER_EQUALS: bool;
    /// All words after `--` are operands.
    const DASHES_END: bool;

    fn by_name(name: &str) -> Result<&'static Self::Spec, String>;
    fn by_letter(letter: u8) -> Result<&'static Self::Spec, String>;
    /// Takes an option; the value of a flag is empty.
    fn take(&mut self, spec: &'static Self::Spec, value: OsString) -> Result<(), String>;
    /// Takes a word that is no option.
    fn operand(&mut self, word: &OsStr) -> Result<(), String>;
}

/// Reads all words, and returns the mistakes.
pub(crate) fn read<P: Program>(program: &mut P, args: &[OsString]) -> Vec<String> {
    let mut mistakes = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let taken = match arg.as_bytes() {
            b"--" if P::DASHES_END => args.by_ref().try_for_each(|arg| program.operand(arg)),
            [b'-', b'-', name @ ..] if !name.is_empty() => long(program, name, &mut args),
            [b'-', letters @ ..] if !letters.is_empty() => short(program, letters, &mut args),
            _ => program.operand(arg),
        };
        mistakes.extend(taken.err());
    }
    mistakes
}

/// `--name`, `--name=value`, `--name value`.
fn long<'a, P: Program>(
    program: &mut P,
    word: &[u8],
    args: &mut impl Iterator<Item = &'a OsString>,
) -> Result<(), String> {
    let (name, attached) = match word.iter().position(|byte| *byte == b'=') {
        Some(at) => (&word[..at], Some(OsString::from_vec(word[at + 1..].to_vec()))),
        None => (word, None),
    };
    let spec = P::by_name(&String::from_utf8_lossy(name))?;
    let value = match (spec.takes(), attached) {
        (Takes::Nothing, Some(_)) => return Err(format!("--{} takes no value", spec.name())),
        (Takes::Nothing | Takes::Perhaps, None) => OsString::new(),
        (_, Some(value)) => value,
        (_, None) => args.next().cloned().ok_or_else(|| format!("--{} needs a value", spec.name()))?,
    };
    program.take(spec, value)
}

/// `-tK`, `-i eth0`, `-ieth0`.
fn short<'a, P: Program>(
    program: &mut P,
    mut letters: &[u8],
    args: &mut impl Iterator<Item = &'a OsString>,
) -> Result<(), String> {
    while let [letter, rest @ ..] = letters {
        let spec = P::by_letter(*letter)?;
        letters = rest;
        let mut value = OsString::new();
        if spec.takes() == Takes::Value {
            letters = b"";
            let rest = rest.strip_prefix(b"=").filter(|_| P::LETTER_EQUALS).unwrap_or(rest);
            let attached = (!rest.is_empty()).then(|| OsString::from_vec(rest.to_vec()));
            let taken = attached.or_else(|| args.next().cloned());
            value = taken.ok_or_else(|| format!("-{} needs a value", char::from(*letter)))?;
        }
        program.take(spec, value)?;
    }
    Ok(())
}

/// The option of a name, which is `wanted` as the table has it, or of a unique prefix.
pub(crate) fn named<S: Spec>(specs: &'static [S], name: &str, wanted: &str) -> Result<&'static S, String> {
    if let Some(spec) = specs.iter().find(|spec| spec.name() == wanted) {
        return Ok(spec);
    }
    let is_near = |spec: &&S| !wanted.is_empty() && spec.name().starts_with(wanted);
    match specs.iter().filter(is_near).collect::<Vec<_>>()[..] {
        [] => Err(format!("there is no option --{name}")),
        [spec] => Ok(spec),
        ref near => {
            let names: Vec<_> = near.iter().map(|spec| format!("--{}", spec.name())).collect();
            Err(format!("--{name} could be {}", names.join(", ")))
        }
    }
}

/// The option of a letter.
pub(crate) fn lettered<S: Spec>(specs: &'static [S], letter: u8) -> Result<&'static S, String> {
    let unknown = || format!("there is no option -{}", char::from(letter));
    specs.iter().find(|spec| spec.letter() == Some(letter)).ok_or_else(unknown)
}
