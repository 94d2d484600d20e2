//! Collects the garbage of a script between its calls, in steps: never in a call, whose time is limited.
//!
//! Lua's own collector works while a script allocates. After a large allocation, such as that of a table that grows, it
//! does so much at once that a script with some 100,000 objects takes 50 ms: as long as a call may take on an
//! interface. It stays stopped here; only an allocation beyond the limit of memory makes Lua collect all in a call.

use mlua::Lua;

/// Bytes that are allocated for each step of the collector. A step looks at some 50,000 objects and entries of tables,
/// but at a table as a whole, however large it is.
const STEP_BYTES: usize = 64 << 10;
/// Fewest bytes that are allocated between two collections, unless the limit is near.
const BEGIN_BYTES_MIN: usize = 1 << 20;

/// The collector of one script.
#[derive(Debug)]
pub(crate) struct Collector {
    limit_bytes: usize,
    /// The next step is due when so many bytes are in use.
    due_bytes: usize,
    /// Bytes in use after the last step, of a collection that has not ended.
    stepped_bytes: Option<usize>,
}

impl Collector {
    /// Takes the place of Lua's own collector in `lua`, which may use `limit_bytes`.
    pub(crate) fn new(lua: &Lua, limit_bytes: usize) -> Self {
        lua.gc_stop();
        Self { limit_bytes, due_bytes: begin_bytes(lua.used_memory(), limit_bytes), stepped_bytes: None }
    }

    /// Does the steps that are due after a call; returns whether there were any.
    #[inline]
    pub(crate) fn collect(&mut self, lua: &Lua) -> bool {
        let used_bytes = lua.used_memory();
        let is_due = used_bytes >= self.due_bytes;
        if is_due {
            self.step(lua, used_bytes);
        }
        is_due
    }

    #[cold]
    fn step(&mut self, lua: &Lua, used_bytes: usize) {
        let allocated_bytes = self.stepped_bytes.map_or(0, |stepped| used_bytes.saturating_sub(stepped));
        for _ in 0..=allocated_bytes / STEP_BYTES {
            // An error is one of a finalizer, which scripts cannot have: the collection ends with it.
            if lua.gc_step().unwrap_or(true) {
                self.due_bytes = begin_bytes(lua.used_memory(), self.limit_bytes);
                self.stepped_bytes = None;
                return;
            }
        }
        let used_bytes = lua.used_memory();
        (self.due_bytes, self.stepped_bytes) = (used_bytes.saturating_add(STEP_BYTES), Some(used_bytes));
    }
}

/// The bytes in use at which the next collection begins, if so many are in use after one. Objects of Rust, such as
/// flows, are freed by the collection after the one that found them: with half as much again they are at most half of
/// what is in use. Half of what is left up to the limit is enough to end before it.
fn begin_bytes(used_bytes: usize, limit_bytes: usize) -> usize {
    let left_bytes = limit_bytes.saturating_sub(used_bytes);
    let more_bytes = (used_bytes / 2).max(BEGIN_BYTES_MIN);
    used_bytes + more_bytes.min(left_bytes / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlua::{AnyUserData, UserData};

    struct Object {
        _bytes: [u8; 1000],
    }

    impl UserData for Object {}

    #[test]
    fn a_collection_begins_at_half_as_much_again_and_well_before_the_limit() {
        const MIB: usize = 1 << 20;
        let begin = |used_mib: usize| begin_bytes(used_mib * MIB, 64 * MIB) / MIB;
        assert_eq!([0, 1, 10, 20, 40, 60, 64, 70].map(begin), [1, 2, 15, 30, 52, 62, 64, 70]);
    }

    #[test]
    fn garbage_goes_and_what_is_in_use_stays() {
        const LIMIT_BYTES: usize = 16 << 20;
        let lua = Lua::new();
        let mut collector = Collector::new(&lua, LIMIT_BYTES);
        lua.load("kept = {} for i = 1, 20000 do kept[i] = { i } end").exec().unwrap();
        let call = lua.load("local t = {} for i = 1, 100 do t[i] = { i } end").into_function().unwrap();
        let mut most_bytes = 0;
        for _ in 0..10_000 {
            call.call::<()>(()).unwrap();
            collector.collect(&lua);
            most_bytes = most_bytes.max(lua.used_memory());
        }
        // 10,000 calls leave 60 MB of garbage.
        assert!(most_bytes < LIMIT_BYTES / 2, "{most_bytes}");
        let make = lua.create_function(|lua, ()| lua.create_userdata(Object { _bytes: [0; 1000] })).unwrap();
        for _ in 0..50_000 {
            make.call::<AnyUserData>(()).unwrap();
            collector.collect(&lua);
            most_bytes = most_bytes.max(lua.used_memory());
        }
        // The same of 50 MB that are freed in two steps.
        assert!(most_bytes < LIMIT_BYTES / 2, "{most_bytes}");
        let sum: i64 =
            lua.load("local n = 0 for _, t in ipairs(kept) do n = n + t[1] end return n").eval().unwrap();
        assert_eq!(sum, 20_000 * 20_001 / 2);
    }
}
