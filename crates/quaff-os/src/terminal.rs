//! Stdout and stderr: the width of their terminal, its restoration after a fault, and whether stdout was open at all.

use crate::{Result, Try};
use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stdout was closed when the program started. Written before main by [`note_closed_stdout`], when there is one
/// thread, and read afterwards: Relaxed suffices.
static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// The C library calls it before main. The runtime of Rust would open /dev/null in place of a closed stdout, and what a
/// user wanted to see or to pipe would vanish silently.
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

/// The state of the terminal on stdout, to which a fault returns it.
struct Restoration {
    settings: libc::termios,
    sequence: &'static [u8],
}

/// Written once, before the handlers of [`FAULTS`] that read it are installed.
static RESTORATION: OnceLock<Restoration> = OnceLock::new();

/// Signals that end a process at once because of a defect, which no thread can wait for.
const FAULTS: [libc::c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGSYS, libc::SIGTRAP];

/// Sets the terminal on stdout to raw mode: keys are read at once, unseen, and make no signals. The first call keeps
/// the settings before it; if a fault ends the process, they are restored after `sequence` was written.
pub fn enter_raw_mode(sequence: &'static str) -> Result<()> {
    let mut settings = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: tcgetattr writes one termios, which is local.
    let done = unsafe { libc::tcgetattr(libc::STDOUT_FILENO, settings.as_mut_ptr()) };
    if done < 0 {
        return Err(io::Error::last_os_error()).trying(|| "read the settings of the terminal");
    }
    // SAFETY: tcgetattr has succeeded, so it has written all of it.
    let mut settings = unsafe { settings.assume_init() };
    if RESTORATION.set(Restoration { settings, sequence: sequence.as_bytes() }).is_ok() {
        restore_on_fault();
    }
    // SAFETY: cfmakeraw changes, and tcsetattr reads, one termios, which is local.
    let done = unsafe {
        libc::cfmakeraw(&raw mut settings);
        libc::tcsetattr(libc::STDOUT_FILENO, libc::TCSANOW, &raw const settings)
    };
    if done < 0 {
        return Err(io::Error::last_os_error()).trying(|| "set the terminal to raw mode");
    }
    Ok(())
}

/// Restores the settings that the terminal on stdout had before the first [`enter_raw_mode`].
pub fn leave_raw_mode() {
    if let Some(Restoration { settings, .. }) = RESTORATION.get() {
        // SAFETY: tcsetattr reads one termios. A terminal that is gone needs none.
        unsafe { libc::tcsetattr(libc::STDOUT_FILENO, libc::TCSANOW, settings) };
    }
}

/// Installs the handlers of faults.
fn restore_on_fault() {
    for signal in FAULTS {
        // SAFETY: sigaction is plain data, of which all zero is a valid value; the handler is a function that lives as
        // long as the process and calls only what signal-safety(7) lists.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = restore as *const () as usize;
            // Once: the second signal, which the handler raises, has its usual effect.
            action.sa_flags = libc::SA_RESETHAND | libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Restores the terminal, and raises the signal again.
extern "C" fn restore(signal: libc::c_int) {
    if let Some(Restoration { settings, sequence }) = RESTORATION.get() {
        // SAFETY: write and tcsetattr read what was set before this handler was installed and is never freed. Nothing
        // can be done about their errors here.
        unsafe {
            libc::write(libc::STDOUT_FILENO, sequence.as_ptr().cast(), sequence.len());
            libc::tcsetattr(libc::STDOUT_FILENO, libc::TCSANOW, settings);
        }
    }
    // SAFETY: takes a number only. The signal is blocked until this handler returns.
    unsafe { libc::raise(signal) };
}
