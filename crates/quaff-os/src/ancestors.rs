//! The parents of this process, as /proc/PID/stat describes them (proc_pid_stat(5)). It reads files only.

use std::fs;

/// Longest way up: a table of processes that changes meanwhile could be a circle.
const ANCESTORS_MAX: usize = 64;

/// A running process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStat {
    pub pid: u32,
    /// Of its program, 15 bytes at most.
    pub name: String,
    pub parent: u32,
    /// Its start, clock ticks after boot: numbers are used again.
    pub start: u64,
}

/// The parents of this process, the nearest first.
pub fn ancestors() -> impl Iterator<Item = ProcessStat> {
    let mut next = std::os::unix::process::parent_id();
    let parents = std::iter::from_fn(move || {
        let stat = ProcessStat::read(next)?;
        next = stat.parent;
        Some(stat)
    });
    parents.take(ANCESTORS_MAX)
}

impl ProcessStat {
    /// `None` of a process that has ended.
    pub fn read(pid: u32) -> Option<Self> {
        if pid == 0 {
            return None;
        }
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(pid: u32, text: &str) -> Option<Self> {
        // The program's name may contain a parenthesis.
        let (front, rest) = text.rsplit_once(')')?;
        let fields: Vec<_> = rest.split_whitespace().collect();
        let [state, parent, ..] = fields[..] else { return None };
        let name = front.split_once('(')?.1.to_owned();
        let (parent, start) = (parent.parse().ok()?, fields.get(19)?.parse().ok()?);
        (!matches!(state, "Z" | "X")).then_some(Self { pid, name, parent, start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whole_or_not_at_all() {
        let line = "77 (a) (b) S 5 77 77 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1";
        let of = ProcessStat::parse(77, line).expect("a process");
        assert_eq!((of.name.as_str(), of.parent, of.start), ("a) (b", 5, 4711));
        assert!(ProcessStat::parse(77, &line.replace(" S ", " Z ")).is_none(), "it has ended");
        for end in 0..line.len() {
            let _ = ProcessStat::parse(77, &line[..end]);
        }
    }

    #[test]
    fn the_first_ancestor_is_the_parent() {
        let parents: Vec<_> = ancestors().collect();
        assert!(parents.first().is_none_or(|parent| parent.pid == std::os::unix::process::parent_id()));
        assert!(parents.windows(2).all(|two| two[0].parent == two[1].pid));
    }
}
