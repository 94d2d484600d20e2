//! Power saving of cores: frequency and idle states (Documentation/admin-guide/pm/cpufreq.rst and cpuidle.rst).

use super::{number, text};
use std::fs;
use std::path::{Path, PathBuf};

/// The power saving of one core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Power {
    pub(crate) core: usize,
    /// `None` where Linux does not control the frequency, as in most virtual machines.
    pub(crate) frequency: Option<Frequency>,
    /// The idle states in the kernel's order.
    pub(crate) idle: Vec<IdleState>,
}

/// The frequency control of a core (cpufreq).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frequency {
    /// The governor, such as "performance" or "schedutil".
    pub(crate) governor: String,
    /// The available governors.
    pub(crate) governors: Vec<String>,
    pub(crate) khz_min: u64,
    pub(crate) khz_max: u64,
    /// The file that sets the governor.
    pub(crate) path: PathBuf,
}

/// An idle state of a core (cpuidle).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdleState {
    /// The name, such as "C6".
    pub(crate) name: String,
    /// Exit latency, µs.
    pub(crate) latency_us: u64,
    pub(crate) is_enabled: bool,
    /// The file that disables it.
    pub(crate) path: PathBuf,
}

/// Reads the power saving of `cores` below `root`. Missing files are omitted.
pub(crate) fn power(root: &Path, cores: &[usize]) -> Vec<Power> {
    let one = |core: &usize| {
        let dir = root.join(format!("sys/devices/system/cpu/cpu{core}"));
        Power { core: *core, frequency: frequency(&dir.join("cpufreq")), idle: idle(&dir.join("cpuidle")) }
    };
    cores.iter().map(one).collect()
}

fn frequency(dir: &Path) -> Option<Frequency> {
    let path = dir.join("scaling_governor");
    let governors = text(&dir.join("scaling_available_governors")).unwrap_or_default();
    Some(Frequency {
        governor: text(&path).ok()?,
        governors: governors.split_whitespace().map(str::to_owned).collect(),
        khz_min: number(&dir.join("scaling_min_freq")).unwrap_or(0),
        khz_max: number(&dir.join("scaling_max_freq")).unwrap_or(0),
        path,
    })
}

fn idle(dir: &Path) -> Vec<IdleState> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let number_of = |path: &Path| path.file_name()?.to_str()?.strip_prefix("state")?.parse::<usize>().ok();
    let mut states: Vec<_> =
        entries.flatten().filter_map(|entry| Some((number_of(&entry.path())?, entry.path()))).collect();
    states.sort();
    states.iter().filter_map(|(_, dir)| state(dir)).collect()
}

fn state(dir: &Path) -> Option<IdleState> {
    let path = dir.join("disable");
    Some(IdleState {
        name: text(&dir.join("name")).ok()?,
        latency_us: number(&dir.join("latency")).ok()?,
        is_enabled: number(&path).is_ok_and(|disabled| disabled == 0),
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_laptop_is_read() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join("sys/devices/system/cpu/cpu1").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (file, text) in [
            ("cpufreq/scaling_governor", "powersave\n"),
            ("cpufreq/scaling_available_governors", "performance powersave\n"),
            ("cpufreq/scaling_min_freq", "800000\n"),
            ("cpufreq/scaling_max_freq", "3600000\n"),
            ("cpuidle/state10/name", "C10\n"),
            ("cpuidle/state10/latency", "890\n"),
            ("cpuidle/state10/disable", "1\n"),
            ("cpuidle/state2/name", "C1E\n"),
            ("cpuidle/state2/latency", "10\n"),
            ("cpuidle/state2/disable", "0\n"),
            ("cpuidle/notes", ""),
        ] {
            put(file, text);
        }
        let [nothing, core] = &power(root.path(), &[0, 1])[..] else { panic!() };
        assert_eq!((nothing.frequency.as_ref(), nothing.idle.len()), (None, 0));
        let frequency = core.frequency.as_ref().unwrap();
        assert_eq!((frequency.governor.as_str(), frequency.khz_min), ("powersave", 800_000));
        assert_eq!(frequency.governors, ["performance", "powersave"]);
        let states: Vec<_> =
            core.idle.iter().map(|it| (it.name.as_str(), it.latency_us, it.is_enabled)).collect();
        assert_eq!(states, [("C1E", 10, true), ("C10", 890, false)]);
    }
}
