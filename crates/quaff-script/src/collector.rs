//! Collects the garbage of a script between its calls, in steps; never inside a call, whose time is limited.
//!
//! Lua's own collector works while a script allocates. After a large allocation, such as that of a growing table, it
//! does so much at once that a script with some 100,000 objects takes 50 ms: as long as a call may take on an
//! interface. It stays stopped here; only an allocation beyond the memory limit makes Lua run a full collection inside
//! a call.

use mlua::Lua;

/// Allocated bytes per step of the collector. A step visits some 50,000 objects and table entries, but always a whole
/// table, however large it is.
const STEP_BYTES: usize = 64 << 10;
/// Minimum number of bytes allocated between two collections, unless the limit is near.
const BEGIN_BYTES_MIN: usize = 1 << 20;

/// The collector of one script.
#[derive(Debug)]
pub(crate) struct Collector {
    limit_bytes: usize,
    /// Bytes in use at which the next step is due.
    due_bytes: usize,
    /// Bytes in use after the last step of a running collection.
    stepped_bytes: Option<usize>,
}

impl Collector {
    /// Replaces Lua's own collector in `lua`, which may use `limit_bytes`.
    pub(crate) fn new(lua: &Lua, limit_bytes: usize) -> Self {
        lua.gc_stop();
        Self { limit_bytes, due_bytes: begin_bytes(lua.used_memory(), limit_bytes), stepped_bytes: None }
    }

    /// Runs the steps that are due after a call; returns whether there were any.
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
            // Errors come from finalizers, which scripts cannot define: the collection ends with one.
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

/// Bytes in use at which the next collection starts, given the bytes in use after the last one. Rust objects, such as
/// flows, are freed by the collection after the one that found them: with an increase by half they are at most half of
/// the memory in use. Half of what remains up to the limit suffices to finish before it.
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
        // The same for 50 MB that are freed in two steps.
        assert!(most_bytes < LIMIT_BYTES / 2, "{most_bytes}");
        let sum: i64 =
            lua.load("local n = 0 for _, t in ipairs(kept) do n = n + t[1] end return n").eval().unwrap();
        assert_eq!(sum, 20_000 * 20_001 / 2);
    }
}
