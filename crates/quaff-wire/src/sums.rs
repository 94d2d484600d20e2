//! Sums of counters, field by field.

/// Adds the named fields of a struct to those of another: `add_each!(self, other; sent, received)`.
#[macro_export]
macro_rules! add_each {
    ($sum:expr, $one:expr; $($field:ident),+ $(,)?) => {
        $($sum.$field += $one.$field;)+
    };
}
