//! `string.find`, `match`, `gmatch` and `gsub` for scripts, on patterns with bounded work.

use crate::budget::Budget;
use crate::pattern::{Capture, Fault, Matcher, is_plain};
use memchr::memmem;
use mlua::{Error, Function, Lua, MultiValue, Result, String as Text, Table, Value};
use std::cell::RefCell;
use std::rc::Rc;

/// Bytes of a plain-text search per step.
const PLAIN_BYTES: usize = 64;

/// Adds the functions to the table `string`. `limit_bytes` bounds a result while it is being built.
pub(crate) fn install(lua: &Lua, table: &Table, budget: &Rc<Budget>, limit_bytes: usize) -> Result<()> {
    let own = budget.clone();
    type Arguments = (Text, Text, Option<i64>, Option<Value>);
    let found = move |lua: &Lua, (text, pattern, from, plain): Arguments| {
        let is_plain = plain.is_some_and(|plain| !matches!(plain, Value::Nil | Value::Boolean(false)));
        find(lua, &text, &pattern, from, (true, is_plain), &own)
    };
    table.raw_set("find", lua.create_function(found)?)?;
    let own = budget.clone();
    let matched = move |lua: &Lua, (text, pattern, from): (Text, Text, Option<i64>)| {
        find(lua, &text, &pattern, from, (false, false), &own)
    };
    table.raw_set("match", lua.create_function(matched)?)?;
    let own = budget.clone();
    let gmatch = move |lua: &Lua, (text, pattern, from): (Text, Text, Option<i64>)| {
        let at = start(from, text.as_bytes().len()).unwrap_or(usize::MAX);
        let (state, own) = (RefCell::new((at, None)), own.clone());
        lua.create_function(move |lua, ()| next_match(lua, &text, &pattern, &mut state.borrow_mut(), &own))
    };
    table.raw_set("gmatch", lua.create_function(gmatch)?)?;
    let own = budget.clone();
    let gsub = move |lua: &Lua, (text, pattern, with, most): (Text, Text, Value, Option<i64>)| {
        let with = Replacement::new(with)?;
        let limits = (most.unwrap_or(i64::MAX), limit_bytes);
        gsub(lua, (&text, &pattern), &with, limits, &own)
    };
    table.raw_set("gsub", lua.create_function(gsub)?)
}

/// The offset of a position that counts from 1, or from the end if negative; `None` after the end.
fn start(from: Option<i64>, bytes: usize) -> Option<usize> {
    let from = match from.unwrap_or(1) {
        from if from > 0 => usize::try_from(from - 1).unwrap_or(usize::MAX),
        0 => 0,
        from => bytes.saturating_sub(usize::try_from(from.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    (from <= bytes).then_some(from)
}

fn fault(fault: Fault) -> Error {
    Error::RuntimeError(fault.to_string())
}

fn value(lua: &Lua, text: &[u8], capture: Capture) -> Result<Value> {
    match capture {
        Capture::Text(start, end) => lua.create_string(&text[start..end]).map(Value::String),
        Capture::Position(at) => Ok(Value::Integer(at as i64 + 1)),
    }
}

/// `find` and `match`, with a start position and optional plain text.
fn find(
    lua: &Lua,
    text: &Text,
    pattern: &Text,
    from: Option<i64>,
    (has_places, is_plain_text): (bool, bool),
    budget: &Budget,
) -> Result<MultiValue> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let none = || Ok(MultiValue::from_iter([Value::Nil]));
    let Some(mut at) = start(from, text.len()) else { return none() };
    let places = |start: usize, end: usize| [Value::Integer(start as i64 + 1), Value::Integer(end as i64)];
    if has_places && (is_plain_text || is_plain(&pattern)) {
        budget.steps((text.len() - at) / PLAIN_BYTES).map_err(|exceeded| fault(exceeded.into()))?;
        return match memmem::find(&text[at..], &pattern) {
            Some(found) => Ok(MultiValue::from_iter(places(at + found, at + found + pattern.len()))),
            None => none(),
        };
    }
    let (is_anchored, own) = anchored(&pattern);
    let mut matcher = Matcher::new(&text, own, budget);
    loop {
        if let Some(end) = matcher.match_at(at).map_err(fault)? {
            let mut values = Vec::new();
            if has_places {
                values.extend(places(at, end));
            }
            if !has_places || matcher.has_captures() {
                for capture in matcher.captures(at, end).map_err(fault)? {
                    values.push(value(lua, &text, capture)?);
                }
            }
            return Ok(MultiValue::from_iter(values));
        }
        at += 1;
        if is_anchored || at > text.len() {
            return none();
        }
    }
}

/// True for a pattern anchored at the start, and the pattern without its anchor.
fn anchored(pattern: &[u8]) -> (bool, &[u8]) {
    pattern.strip_prefix(b"^").map_or((false, pattern), |own| (true, own))
}

/// The next match of `gmatch`. `state` is the offset to continue at, and the end of the last match.
fn next_match(
    lua: &Lua,
    text: &Text,
    pattern: &Text,
    state: &mut (usize, Option<usize>),
    budget: &Budget,
) -> Result<MultiValue> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let mut matcher = Matcher::new(&text, &pattern, budget);
    for at in state.0..=text.len() {
        let found = matcher.match_at(at).map_err(fault)?;
        if let Some(end) = found.filter(|end| Some(*end) != state.1) {
            *state = (end, Some(end));
            let captures = matcher.captures(at, end).map_err(fault)?;
            let values: Result<Vec<_>> =
                captures.into_iter().map(|capture| value(lua, &text, capture)).collect();
            return Ok(MultiValue::from_iter(values?));
        }
    }
    state.0 = usize::MAX;
    Ok(MultiValue::from_iter([Value::Nil]))
}

/// The third argument of `gsub`.
enum Replacement {
    Text(Text),
    Table(Table),
    Function(Function),
}

impl Replacement {
    fn new(value: Value) -> Result<Self> {
        match value {
            Value::String(text) => Ok(Self::Text(text)),
            Value::Table(table) => Ok(Self::Table(table)),
            Value::Function(function) => Ok(Self::Function(function)),
            other => {
                let words = "bad argument #3 to 'gsub' (string/function/table expected)";
                Err(Error::RuntimeError(format!("{words}, got {}", other.type_name())))
            }
        }
    }

    /// Appends the replacement of a match from `at` to `end`.
    fn append(
        &self,
        lua: &Lua,
        text: &[u8],
        matcher: &Matcher,
        (at, end): (usize, usize),
        (out, limit_bytes): (&mut Vec<u8>, usize),
    ) -> Result<()> {
        let replaced = match self {
            Self::Text(with) => {
                return append_text(&with.as_bytes(), text, matcher, (at, end), (out, limit_bytes));
            }
            Self::Table(table) => {
                let capture = matcher.capture(1, at, end).map_err(fault)?;
                table.get::<Value>(value(lua, text, capture)?)?
            }
            Self::Function(function) => {
                let captures = matcher.captures(at, end).map_err(fault)?;
                let values: Result<Vec<_>> =
                    captures.into_iter().map(|capture| value(lua, text, capture)).collect();
                function.call::<Value>(MultiValue::from_iter(values?))?
            }
        };
        match replaced {
            Value::Nil | Value::Boolean(false) => out.extend_from_slice(&text[at..end]),
            Value::String(text) => out.extend_from_slice(&text.as_bytes()),
            Value::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::Number(_) => {
                let text = lua.coerce_string(replaced)?;
                out.extend_from_slice(&text.map_or(Vec::new(), |text| text.as_bytes().to_vec()));
            }
            other => {
                let words = format!("invalid replacement value (a {})", other.type_name());
                return Err(Error::RuntimeError(words));
            }
        }
        Ok(())
    }
}

/// Appends a replacement with its captures, `%0` to `%9`.
fn append_text(
    with: &[u8],
    text: &[u8],
    matcher: &Matcher,
    (at, end): (usize, usize),
    (out, limit_bytes): (&mut Vec<u8>, usize),
) -> Result<()> {
    let mut bytes = with.iter();
    while let Some(byte) = bytes.next() {
        check_length(out, limit_bytes)?;
        match byte {
            b'%' => match bytes.next() {
                Some(b'%') => out.push(b'%'),
                Some(digit) if digit.is_ascii_digit() => {
                    match matcher.capture((digit - b'0').into(), at, end).map_err(fault)? {
                        Capture::Text(start, end) => out.extend_from_slice(&text[start..end]),
                        Capture::Position(at) => out.extend_from_slice((at + 1).to_string().as_bytes()),
                    }
                }
                _ => return Err(Error::RuntimeError("invalid use of '%' in replacement string".into())),
            },
            byte => out.push(*byte),
        }
    }
    Ok(())
}

fn check_length(out: &[u8], limit_bytes: usize) -> Result<()> {
    match out.len() > limit_bytes {
        true => Err(Error::MemoryError("the result of gsub is longer than the script's memory".into())),
        false => Ok(()),
    }
}

fn gsub(
    lua: &Lua,
    (text, pattern): (&Text, &Text),
    with: &Replacement,
    (most, limit_bytes): (i64, usize),
    budget: &Budget,
) -> Result<(Text, i64)> {
    let nested = budget.nest();
    let _nested =
        nested.ok_or_else(|| Error::RuntimeError("gsub: too many calls inside each other".into()))?;
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let (is_anchored, own) = anchored(&pattern);
    let mut matcher = Matcher::new(&text, own, budget);
    let (mut at, mut last, mut count, mut out) = (0, None, 0, Vec::new());
    while count < most {
        let found = matcher.match_at(at).map_err(fault)?;
        if let Some(end) = found.filter(|end| Some(*end) != last) {
            count += 1;
            let before = out.len();
            with.append(lua, &text, &matcher, (at, end), (&mut out, limit_bytes))?;
            budget.steps(out.len() - before).map_err(|exceeded| fault(exceeded.into()))?;
            (at, last) = (end, Some(end));
        } else if let Some(byte) = text.get(at) {
            out.push(*byte);
            at += 1;
        } else {
            break;
        }
        check_length(&out, limit_bytes)?;
        if is_anchored {
            break;
        }
    }
    out.extend_from_slice(&text[at.min(text.len())..]);
    Ok((lua.create_string(&out)?, count))
}
