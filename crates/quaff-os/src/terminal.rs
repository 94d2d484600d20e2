//! Stdout and stderr: the width of their terminal, and whether stdout was open at all.

use std::sync::atomic::{AtomicBool, Ordering};

/// Stdout was closed when the program started. Written before main by [`note_closed_stdout`], when there is one
/// thread, and read afterwards: Relaxed suffices.
static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// The C library calls it before main. The runtime of Rust would open /dev/null in the place of a closed stdout, and
/// what a user wanted to see or to pipe would vanish without a word.
#[used]
// SAFETY: .init_array is a list of pointers to functions, and this one needs nothing that is not initialised by then.
#[unsafe(link_section = ".init_array")]
static NOTE_CLOSED_STDOUT: extern "C" fn() = note_closed_stdout;

extern "C" fn note_closed_stdout() {
    // SAFETY: takes numbers only.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    STDOUT_CLOSED.store(flags < 0, Ordering::Relaxed);
}

/// Returns whether stdout was closed when the program started: output to it is lost.
pub fn was_stdout_closed() -> bool {
    STDOUT_CLOSED.load(Ordering::Relaxed)
}

/// Columns of the terminal on stdout; `None` if stdout is not a terminal.
pub fn terminal_columns() -> Option<u16> {
    columns(libc::STDOUT_FILENO)
}

/// Columns of the terminal on stderr, where progress is shown; `None` if stderr is not a terminal.
pub fn stderr_columns() -> Option<u16> {
    columns(libc::STDERR_FILENO)
}

/// ioctl_tty(2), TIOCGWINSZ.
fn columns(fd: libc::c_int) -> Option<u16> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one winsize, which is local.
    let done = unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) };
    (done == 0 && size.ws_col > 0).then_some(size.ws_col)
}
