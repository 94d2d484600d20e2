//! Network namespaces to try quaff in, and the methods that measure it beside its rivals.

#![forbid(unsafe_code)]
