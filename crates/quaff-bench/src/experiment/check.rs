//! Checks that plans share: each returns one sentence that names the fault.

/// Maximum number of repetitions.
const COUNT_MAX: u32 = 1000;
/// Maximum duration of a trial: a day.
const SECONDS_MAX: f64 = 86_400.0;

/// Returns `what` as an error unless the condition holds.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// True for 0 to 1.
pub(crate) fn is_share(number: f64) -> bool {
    (0.0..=1.0).contains(&number)
}

/// Validates a list of frame sizes, each by `check`.
pub(crate) fn check_sizes<S>(sizes: &[S], check: impl Fn(&S) -> Result<(), String>) -> Result<(), String> {
    ensure(!sizes.is_empty(), || "there are no sizes".into())?;
    sizes.iter().try_for_each(check)
}

/// Validates the duration of a trial, s.
pub(crate) fn check_seconds(seconds: f64) -> Result<(), String> {
    ensure(seconds > 0.0 && seconds <= SECONDS_MAX, || {
        format!("a trial takes more than 0 s and at most a day, not {seconds} s")
    })
}

/// Validates a number of repetitions.
pub(crate) fn check_count(what: &str, times: u32) -> Result<(), String> {
    ensure((1..=COUNT_MAX).contains(&times), || format!("{what} 1 to {COUNT_MAX} times, not {times} times"))
}

/// Validates a seed: whole numbers of TOML are those of i64.
pub(crate) fn check_seed(seed: u64) -> Result<(), String> {
    ensure(i64::try_from(seed).is_ok(), || format!("a seed is 0 to {}, not {seed}", i64::MAX))
}

/// Validates the relative width, (upper − lower) / upper, at which a search ends.
pub(crate) fn check_width(width: f64) -> Result<(), String> {
    ensure(width > 0.0 && width < 1.0, || format!("a search is done at a width between 0 and 1, not {width}"))
}
