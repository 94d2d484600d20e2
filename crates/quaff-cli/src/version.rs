//! `quaff --version`: the program, the library, and what the kernel permits this user. It changes nothing.

use quaff_os::bpf::ArrayMap;
use quaff_os::{filter, probe};

/// The commit of the source; set by `make`.
const COMMIT: Option<&str> = option_env!("QUAFF_COMMIT");

/// Three lines: quaff, libpcap, the kernel.
pub(crate) fn text() -> String {
    let commit = COMMIT.filter(|commit| !commit.is_empty()).map_or("unknown", |commit| commit);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let permitted = |is_permitted: bool| if is_permitted { "yes" } else { "no" };
    format!(
        "quaff {}, commit {commit}\n{}\nLinux {}: packet sockets {}, io_uring {}, BPF {}",
        env!("CARGO_PKG_VERSION"),
        filter::libpcap_version(),
        release.trim(),
        permitted(probe::packet_socket().is_ok()),
        permitted(probe::io_uring().is_ok()),
        permitted(ArrayMap::new("quaff_version", 1).is_ok()),
    )
}
