//! One script: its Lua state, its budget, and its calls.
//!
//! A failed call costs its event. A script that exceeds its budget, or that keeps failing, is stopped for the rest of
//! the run; its records stay. While packets are waiting for the lane, a script that has used up its share of time
//! misses events. Scripts cannot affect each other.

use crate::budget::{Budget, Exceeded, HOOK_STEPS};
use crate::collector::Collector;
use crate::flow::{Flow, FlowObject, FlowObjects};
use crate::pace::{Failing, Pace};
use crate::packet::{self, PacketView};
use crate::record::{COLUMNS_MAX, Fate, RecorderKind, Records};
use crate::shape::{Shape, Shapes};
use crate::tally::{FAILURES_MAX, Failure, ScriptTally};
use crate::trigger::Trigger;
use crate::{Compile, Limits, Source, text};
use mlua::{
    AnyUserData, ChunkMode, Error, Function, HookTriggers, IntoLuaMulti, Lua, LuaOptions, Result, StdLib,
    String as Text, Table, UserData, UserDataMethods, Value, VmState,
};
use quaff_os::clock::steady_ns;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Maximum length of an error's text, bytes.
const TEXT_BYTES: usize = 400;
/// Lua values that Rust may reference at a time: arguments and results of nested calls.
const REFERENCES: usize = 4096;
/// Maximum number of triggers of a script: each has a reference, and may have a regular expression.
const TRIGGERS_MAX: usize = 256;
/// Lua's message for a refused allocation.
const NO_MEMORY: &[u8] = b"not enough memory";
/// Maximum length of a column's name, bytes.
const COLUMN_BYTES: usize = 256;
/// Maximum length of a line of `print`, bytes.
const PRINT_BYTES: usize = 64 << 10;

/// The parts that all scripts of a run share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) records: Rc<RefCell<Records>>,
    pub(crate) packet: Rc<RefCell<PacketView>>,
    /// Packet time, ns since 1970.
    pub(crate) now_ns: Rc<Cell<u64>>,
    /// True if packets can be saved.
    pub(crate) can_save: bool,
}

/// Rows by their fate. The functions of a script count, the engine reads.
#[derive(Debug, Default)]
struct Counts {
    rows: Cell<u64>,
    rows_dropped: Cell<u64>,
    alerts: Cell<u64>,
    saved: Cell<u64>,
}

/// A script.
pub(crate) struct Script {
    name: String,
    /// `None` once the script is stopped.
    state: Option<State>,
    pub(crate) triggers: Vec<Trigger>,
    budget: Rc<Budget>,
    failing: Failing,
    /// `None` for files.
    pace: Option<Pace>,
    /// True if packets are waiting for the lane.
    is_late: bool,
    /// Time after which no call starts, on the steady clock, ns.
    until_ns: u64,
    /// The state of a stopped script, while the lane has no time to free it.
    left: Option<State>,
    counts: Rc<Counts>,
    pub(crate) tally: ScriptTally,
}

/// The parts that use Lua's memory.
struct State {
    lua: Lua,
    flows: FlowObjects,
    shapes: Rc<Shapes>,
    collector: Collector,
}

impl Script {
    /// Loads one of `scripts` scripts: runs its chunk, which declares triggers.
    pub(crate) fn load(
        source: &Source,
        limits: &Limits,
        common: &Common,
        (compile, scripts): (&Compile, usize),
    ) -> std::result::Result<Self, String> {
        let budget = Rc::new(Budget::new(limits.call_time));
        let counts = Rc::new(Counts::default());
        let load = || load(source, limits, common, compile, (&budget, &counts));
        // mlua panics if there is no memory for a reference, as in a call.
        let loaded = catch_unwind(AssertUnwindSafe(load)).unwrap_or_else(|_| {
            budget.note_memory();
            Err(Error::MemoryError("no room for references".into()))
        });
        let (state, triggers) = loaded.map_err(|error| {
            if is_memory(&error) {
                budget.note_memory();
            }
            match budget.exceeded() {
                Some(exceeded) => {
                    stop_words(&source.name, exceeded, traced(&error, &source.name).or(budget.line()))
                }
                None => words(&error, &source.name),
            }
        })?;
        let stem = source.stem().to_owned();
        let tally = ScriptTally { name: stem, ..ScriptTally::default() };
        let pace = limits.lane_percent.map(|percent| Pace::new(percent, scripts));
        let (name, state, failing) = (source.name.clone(), Some(state), Failing::default());
        let (is_late, until_ns, left) = (false, u64::MAX, None);
        Ok(Self { name, state, triggers, budget, failing, pace, is_late, until_ns, left, counts, tally })
    }

    /// Calls the function of a trigger with the arguments that `build` creates.
    pub(crate) fn call<A: IntoLuaMulti>(
        &mut self,
        trigger: usize,
        build: impl FnOnce(&ScriptScope) -> Result<A>,
    ) {
        let Some(state) = &self.state else {
            self.tally.dropped += 1;
            return;
        };
        let begun_ns = steady_ns();
        let is_out_of_time = begun_ns > self.until_ns
            || self.is_late && self.pace.as_mut().is_some_and(|pace| !pace.has_time(begun_ns));
        if is_out_of_time {
            self.tally.skipped += 1;
            return;
        }
        self.budget.begin();
        let scope = ScriptScope { state };
        let function = &self.triggers[trigger].function;
        let call = || build(&scope).and_then(|arguments| function.call::<()>(arguments));
        let called = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
            // mlua panics for a script that holds more references than fit. Its state is left as it is and never used
            // again.
            self.budget.note_memory();
            self.state.take().into_iter().for_each(std::mem::forget);
            Ok(())
        });
        let took_ns = steady_ns() - begun_ns;
        self.tally.calls += 1;
        self.budget.end(took_ns);
        let has_failed = called.is_err() || self.budget.exceeded().is_some();
        if has_failed {
            self.fail(trigger, called.err());
        } else {
            self.failing.succeed();
        }
        let has_collected = self.state.as_mut().is_some_and(|state| state.collector.collect(&state.lua));
        let took_ns = if has_failed || has_collected { steady_ns() - begun_ns } else { took_ns };
        self.tally.ns += took_ns;
        if let Some(pace) = &mut self.pace {
            pace.spend(begun_ns, took_ns);
        }
    }

    /// Records whether packets are waiting for the lane.
    pub(crate) fn note_late(&mut self, is_late: bool) {
        self.is_late = is_late;
    }

    /// Sets the time after which no call starts, on the steady clock, ns.
    pub(crate) fn end_by(&mut self, until_ns: u64) {
        self.until_ns = until_ns;
    }

    /// Frees the state of a stopped script.
    pub(crate) fn free(&mut self) {
        self.left = None;
    }

    /// Removes a flow that has ended.
    pub(crate) fn forget(&mut self, flow: &Flow) {
        if let Some(state) = &self.state {
            state.flows.remove(flow);
        }
    }

    #[cold]
    fn fail(&mut self, trigger: usize, error: Option<Error>) {
        if error.as_ref().is_some_and(is_memory) {
            self.budget.note_memory();
        }
        if let Some(exceeded) = self.budget.exceeded() {
            let line = error.and_then(|error| traced(&error, &self.name)).or(self.budget.line());
            self.stop(exceeded, line.or(self.triggers[trigger].line));
        } else if let Some(error) = error {
            self.tally.errors += 1;
            self.note(words(&error, &self.name));
            if self.failing.fail(self.tally.calls) {
                self.stop(Exceeded::Errors, traced(&error, &self.name).or(self.triggers[trigger].line));
            }
        }
    }

    fn stop(&mut self, exceeded: Exceeded, line: Option<u32>) {
        self.tally.stopped = Some(exceeded);
        self.tally.stopped_by = Some(stop_words(&self.name, exceeded, line));
        self.note_memory();
        let state = self.state.take();
        // Freeing millions of objects takes a tenth of a second.
        if self.pace.is_some() {
            self.left = state;
        }
    }

    fn note(&mut self, text: String) {
        let failures = &mut self.tally.failures;
        match failures.iter().position(|failure| failure.text == text) {
            Some(at) => failures[at].count += 1,
            None if failures.len() < FAILURES_MAX => failures.push(Failure { text, count: 1 }),
            None => {}
        }
    }

    fn note_memory(&mut self) {
        if let Some(state) = &self.state {
            self.tally.memory_bytes = state.lua.used_memory() as u64;
        }
    }

    /// Returns the counters at the end of a run.
    pub(crate) fn finish(&mut self) -> ScriptTally {
        self.note_memory();
        let Counts { rows, rows_dropped, alerts, saved } = &*self.counts;
        self.tally.rows += rows.take();
        self.tally.rows_dropped += rows_dropped.take();
        self.tally.alerts += alerts.take();
        self.tally.saved += saved.take();
        self.tally.clone()
    }

    /// The name in rows and file names.
    pub(crate) fn stem(&self) -> &str {
        &self.tally.name
    }
}

/// Creates the arguments of a call in the script's state.
pub(crate) struct ScriptScope<'a> {
    state: &'a State,
}

impl ScriptScope<'_> {
    /// The object of a flow: the same as long as the flow exists.
    pub(crate) fn flow(&self, flow: &Rc<Flow>) -> Result<AnyUserData> {
        self.state.flows.object(&self.state.lua, flow)
    }

    /// A table of a shape with these fields.
    #[inline]
    pub(crate) fn table<const N: usize>(&self, shape: Shape, fields: [(&str, Value); N]) -> Result<Table> {
        self.state.shapes.table(&self.state.lua, shape, fields)
    }

    /// An empty table, for lists, and for fields by any name.
    pub(crate) fn list(&self) -> Result<Table> {
        self.state.lua.create_table()
    }

    pub(crate) fn text(&self, bytes: &[u8]) -> Result<Value> {
        self.state.lua.create_string(bytes).map(Value::String)
    }
}

fn load(
    source: &Source,
    limits: &Limits,
    common: &Common,
    compile: &Compile,
    (budget, counts): (&Rc<Budget>, &Rc<Counts>),
) -> Result<(State, Vec<Trigger>)> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::UTF8;
    let lua = Lua::new_with(libraries, LuaOptions::new())?;
    lua.set_memory_limit(limits.memory_bytes)?;
    let globals = lua.globals();
    text::install(&lua, &globals.get("string")?, budget, limits.memory_bytes)?;
    reserve_references(&lua)?;
    let (own, name) = (budget.clone(), source.name.clone());
    let triggers = HookTriggers::new().every_nth_instruction(HOOK_STEPS);
    lua.set_hook(triggers, move |_, debug| {
        let is_own = debug.source().short_src.is_some_and(|source| *source == *name);
        if let Some(line) = debug.current_line().filter(|_| is_own) {
            own.note_line(line as u32);
        }
        own.look().map_err(|exceeded| Error::RuntimeError(exceeded.to_string()))?;
        Ok(VmState::Continue)
    })?;
    let declared = Rc::new(RefCell::new(Vec::new()));
    let on = on_function(&lua, &declared, compile)?;
    globals.raw_set("on", on)?;
    let print = add_recorders(&lua, &globals, source.stem(), common, counts)?;
    let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude").set_mode(ChunkMode::Text);
    prelude.call::<()>((is_over(&lua, budget)?, print, spend(&lua, budget)?))?;
    add_rest(&lua, &globals, &source.arguments, common, counts)?;
    budget.begin_exactly();
    let name = format!("@{}", source.name);
    lua.load(&*source.text).set_name(name).set_mode(ChunkMode::Text).exec()?;
    budget.look().map_err(|exceeded| Error::RuntimeError(exceeded.to_string()))?;
    let late = |_: &Lua, ()| -> Result<()> {
        Err(Error::RuntimeError("on: only while the script is loaded, not in a call".into()))
    };
    globals.raw_set("on", lua.create_function(late)?)?;
    let shapes = Rc::new(Shapes::new(&lua)?);
    packet::install(&lua, &common.packet, &shapes)?;
    let triggers = std::mem::take(&mut *declared.borrow_mut());
    let collector = Collector::new(&lua, limits.memory_bytes);
    Ok((State { lua, flows: FlowObjects::default(), shapes, collector }, triggers))
}

/// Creates the function with which the prelude checks whether `pcall` caught the error of an exceeded budget, and gets
/// the text of any other error.
fn is_over(lua: &Lua, budget: &Rc<Budget>) -> Result<Function> {
    let own = budget.clone();
    lua.create_function(move |_, error: Value| {
        let is_memory = match &error {
            Value::String(text) => *text.as_bytes() == *NO_MEMORY,
            Value::Error(error) => is_memory(error),
            _ => false,
        };
        if is_memory {
            own.note_memory();
        }
        // Errors of Rust functions are objects; scripts expect a text, as from C functions.
        let text = if let Value::Error(error) = &error { Some(first_line(error)) } else { None };
        Ok((own.exceeded().is_some(), text))
    })
}

/// Creates the function with which the prelude counts the work of C functions.
fn spend(lua: &Lua, budget: &Rc<Budget>) -> Result<Function> {
    let own = budget.clone();
    lua.create_function(move |_, steps: i64| {
        let spent = own.steps(usize::try_from(steps).unwrap_or(0));
        spent.map_err(|exceeded| Error::RuntimeError(exceeded.to_string()))
    })
}

/// Reserves references from Rust to Lua values: mlua panics without memory for one more.
fn reserve_references(lua: &Lua) -> Result<()> {
    let references: Result<Vec<_>> = (0..REFERENCES).map(|_| lua.create_table()).collect();
    references.map(drop)
}

fn on_function(lua: &Lua, declared: &Rc<RefCell<Vec<Trigger>>>, compile: &Compile) -> Result<Function> {
    let (declared, compile) = (declared.clone(), compile.clone());
    lua.create_function(move |lua, (name, options, function): (String, Value, Option<Function>)| {
        let (options, function) = match (options, function) {
            (Value::Table(options), Some(function)) => (options, function),
            (Value::Nil, Some(function)) | (Value::Function(function), None) => {
                (lua.create_table()?, function)
            }
            _ => return Err(Error::RuntimeError("on needs an event, options and a function".into())),
        };
        if declared.borrow().len() >= TRIGGERS_MAX {
            return Err(Error::RuntimeError(format!("on: at most {TRIGGERS_MAX} triggers")));
        }
        let trigger = Trigger::new(&name, &options, function, &compile)?;
        declared.borrow_mut().push(trigger);
        Ok(())
    })
}

/// A list or a histogram as a Lua object.
struct RecorderObject {
    number: usize,
    records: Rc<RefCell<Records>>,
    counts: Rc<Counts>,
    kind: RecorderKind,
}

impl Counts {
    fn note(&self, fate: Fate) {
        let counter = if fate == Fate::Kept { &self.rows } else { &self.rows_dropped };
        counter.set(counter.get() + 1);
    }
}

impl UserData for RecorderObject {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("add", |_, this, row: Table| {
            if this.kind != RecorderKind::List {
                return Err(Error::RuntimeError("add is for lists; histograms have count".into()));
            }
            this.counts.note(this.records.borrow_mut().add(this.number, &row)?);
            Ok(())
        });
        methods.add_method("count", |_, this, (key, by): (Value, Option<i64>)| {
            if this.kind != RecorderKind::Histogram {
                return Err(Error::RuntimeError("count is for histograms; lists have add".into()));
            }
            let by = u64::try_from(by.unwrap_or(1));
            let by = by.map_err(|_| Error::RuntimeError("count: not less than 0".into()))?;
            if this.records.borrow_mut().count(this.number, &key, by)? == Fate::Dropped {
                this.counts.note(Fate::Dropped);
            }
            Ok(())
        });
    }
}

/// The names in a table of columns.
fn columns_of(list: &str, columns: &Table) -> Result<Vec<String>> {
    let name = |name: Result<Text>| -> Result<String> {
        let name = name?;
        if name.as_bytes().len() > COLUMN_BYTES {
            return Err(Error::RuntimeError(format!(
                "the name of a column has at most {COLUMN_BYTES} bytes"
            )));
        }
        Ok(String::from(&*name.to_str()?))
    };
    if columns.raw_len() > COLUMNS_MAX {
        return Err(Error::RuntimeError(format!("{list:?} needs columns: 1 to {COLUMNS_MAX}")));
    }
    columns.sequence_values::<Text>().map(name).collect()
}

/// Adds lists, histograms and alerts; returns the function that adds a line of `print`.
fn add_recorders(
    lua: &Lua,
    globals: &Table,
    script: &str,
    common: &Common,
    counts: &Rc<Counts>,
) -> Result<Function> {
    for (name, kind) in [("list", RecorderKind::List), ("histogram", RecorderKind::Histogram)] {
        let (records, counts, script) = (common.records.clone(), counts.clone(), script.to_owned());
        let make = move |_: &Lua, (name, columns): (String, Table)| {
            let columns = columns_of(&name, &columns)?;
            let number = records.borrow_mut().recorder(&script, &name, kind, columns)?;
            Ok(RecorderObject { number, records: records.clone(), counts: counts.clone(), kind })
        };
        globals.raw_set(name, lua.create_function(make)?)?;
    }
    let (common_, counts_, script_) = (common.clone(), counts.clone(), script.to_owned());
    let alert = move |_: &Lua, (text, fields): (Text, Option<Table>)| {
        let mut records = common_.records.borrow_mut();
        let number = records.recorder(&script_, "alerts", RecorderKind::Alerts, Vec::new())?;
        let text = text.to_string_lossy();
        let fate = records.alert(number, common_.now_ns.get(), &text, fields.as_ref())?;
        counts_.alerts.set(counts_.alerts.get() + u64::from(fate == Fate::Kept));
        counts_.rows_dropped.set(counts_.rows_dropped.get() + u64::from(fate == Fate::Dropped));
        Ok(())
    };
    globals.raw_set("alert", lua.create_function(alert)?)?;
    let (common_, counts_, script_) = (common.clone(), counts.clone(), script.to_owned());
    lua.create_function(move |_, line: Text| {
        if line.as_bytes().len() > PRINT_BYTES {
            return Err(Error::RuntimeError("print: the line is too long".into()));
        }
        let mut records = common_.records.borrow_mut();
        let number = records.recorder(&script_, "print", RecorderKind::Alerts, Vec::new())?;
        counts_.note(records.alert(number, common_.now_ns.get(), &line.to_string_lossy(), None)?);
        Ok(())
    })
}

fn add_rest(
    lua: &Lua,
    globals: &Table,
    arguments: &BTreeMap<String, String>,
    common: &Common,
    counts: &Rc<Counts>,
) -> Result<()> {
    let arguments = arguments.clone();
    // The type of the default determines the type of the result.
    let argument = move |lua: &Lua, (name, default): (String, Value)| {
        let Some(text) = arguments.get(&name) else { return Ok(default) };
        let wrong = |kind: &str| Error::RuntimeError(format!("argument {name}: {text:?} is not a {kind}"));
        match default {
            Value::Integer(_) | Value::Number(_) => {
                let text = Value::String(lua.create_string(text)?);
                let integer = lua.coerce_integer(text.clone())?.map(Value::Integer);
                let number = lua.coerce_number(text)?.map(Value::Number);
                integer.or(number).ok_or_else(|| wrong("number"))
            }
            Value::Boolean(_) => match text.as_str() {
                "true" => Ok(Value::Boolean(true)),
                "false" => Ok(Value::Boolean(false)),
                _ => Err(wrong("boolean: true or false")),
            },
            _ => lua.create_string(text).map(Value::String),
        }
    };
    globals.raw_set("argument", lua.create_function(argument)?)?;
    let (counts, can_save) = (counts.clone(), common.can_save);
    let save = move |_: &Lua, flow: AnyUserData| {
        let flow = flow.borrow::<FlowObject>()?.0.clone();
        if !can_save {
            return Err(Error::RuntimeError("save: there is no folder for packets".into()));
        }
        if flow.has_ended.get() {
            return Err(Error::RuntimeError("save: the flow has ended".into()));
        }
        counts.saved.set(counts.saved.get() + u64::from(!flow.is_saved.replace(true)));
        Ok(())
    };
    globals.raw_set("save", lua.create_function(save)?)
}

/// The original error in a chain of errors.
fn root(error: &Error) -> &Error {
    match error {
        Error::CallbackError { cause, .. } | Error::BadArgument { cause, .. } => root(cause),
        error => error,
    }
}

fn is_memory(error: &Error) -> bool {
    match root(error) {
        Error::MemoryError(_) => true,
        // An error that passed through Lua is a text.
        Error::RuntimeError(text) => {
            text.starts_with("not enough memory") || text.contains(": not enough memory")
        }
        _ => false,
    }
}

/// The first line of an error's text, without the name of its type.
fn first_line(error: &Error) -> String {
    let text = match root(error) {
        Error::RuntimeError(text) | Error::MemoryError(text) => text.clone(),
        Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    let line = text.lines().next().unwrap_or_default();
    // Addresses differ between errors.
    match line.split_once(": 0x") {
        Some((kind @ ("table" | "function" | "userdata"), _)) => format!("the error is a {kind}, not a text"),
        _ => line.chars().take(TEXT_BYTES).collect(),
    }
}

/// Formats an error: `name.lua:3: what`.
fn words(error: &Error, name: &str) -> String {
    let line = first_line(error);
    if line.starts_with(&format!("{name}:")) {
        return line;
    }
    // A function of the prelude was called with wrong arguments.
    let line =
        line.strip_prefix("prelude:").and_then(|rest| rest.split_once(": ")).map_or(&*line, |(_, what)| what);
    match traced(error, name) {
        Some(number) => format!("{name}:{number}: {line}"),
        None => format!("{name}: {line}"),
    }
}

fn stop_words(name: &str, exceeded: Exceeded, line: Option<u32>) -> String {
    match line {
        Some(line) => format!("{name}:{line}: {exceeded}"),
        None => format!("{name}: {exceeded}"),
    }
}

/// The line of the script that made the failed call, from the traceback.
fn traced(error: &Error, name: &str) -> Option<u32> {
    let trace = match error {
        Error::CallbackError { traceback, cause } => {
            if let Some(inner) = traced(cause, name) {
                return Some(inner);
            }
            traceback
        }
        // The traceback follows the text.
        Error::RuntimeError(text) => text,
        _ => return None,
    };
    let begin = format!("{name}:");
    let place = trace.lines().find_map(|line| line.trim().strip_prefix(&begin))?;
    place.split(':').next()?.parse().ok()
}
