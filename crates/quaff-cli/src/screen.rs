//! The terminal as a screen: raw mode, the alternate screen, and keys. Whatever ends the process, the terminal gets
//! its old settings: the end of [`Screen`], a panic of any thread, and faults restore it. It draws nothing itself.

use crate::show;
use anyhow::{Context as _, ensure};
use quaff_os::{Signal, Wakeup, enter_raw_mode, leave_raw_mode, process, spawn};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};
use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write as _};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// Switches to the alternate screen without a cursor, and clears it (xterm's private modes 1049 and 25).
const ENTER: &str = "\x1b[?1049h\x1b[2J\x1b[?25l";
/// Returns to the screen as it was before, with its cursor.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l\x1b[0m";

/// The terminal is a screen. Written by the thread that draws, and by one that panics; `swap` lets one of them restore
/// it: Relaxed, as nothing else is published by it.
static IS_OPEN: AtomicBool = AtomicBool::new(false);
/// The panic hook is installed.
static HOOK: Once = Once::new();

/// Signals that end a process which does not wait for them, besides those of the shell: they too must not leave the
/// terminal in raw mode. SIGKILL and the real-time signals stay.
pub(crate) const ENDING: [Signal; 9] = [
    Signal::SIGQUIT,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGXCPU,
    Signal::SIGIO,
    Signal::SIGPWR,
];
/// Signals after which the screen is drawn anew.
pub(crate) const DRAWING: [Signal; 3] = [Signal::SIGWINCH, Signal::SIGTSTP, Signal::SIGCONT];

/// The screen, until it is dropped.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
    keys: Receiver<Vec<u8>>,
}

/// The bytes of keys that were pressed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pressed {
    Bytes(Vec<u8>),
    Nothing,
    /// The terminal is gone.
    Closed,
}

/// The terminal's keys.
pub(crate) struct Keyboard(Box<dyn Read + Send>);

impl Keyboard {
    /// Stdin if it is a terminal; packets may come from it. Open it before the paths of the process are restricted.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let is_terminal = io::stdout().is_terminal();
        ensure!(is_terminal, "stdout is not a terminal: use --once for a table that a program reads");
        Ok(match io::stdin().is_terminal() {
            true => Self(Box::new(io::stdin())),
            false => Self(Box::new(File::open("/dev/tty").context("open /dev/tty for keys")?)),
        })
    }

    /// Reads keys until the terminal is gone. It ends with the process, as nothing can interrupt its wait.
    fn read(mut self, sender: &Sender<Vec<u8>>, wakeup: &Wakeup) {
        let mut bytes = [0; 256];
        loop {
            let read = match self.0.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break,
                Ok(read) => read,
            };
            if sender.send(bytes[..read].to_vec()).is_err() {
                return;
            }
            wakeup.signal();
        }
    }
}

impl Screen {
    /// Turns the terminal into a screen; `wakeup` is signalled with each key.
    pub(crate) fn open(keyboard: Keyboard, wakeup: Wakeup) -> anyhow::Result<Self> {
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                leave();
                usual(panic);
            }));
        });
        let terminal = enter()?;
        let (sender, keys) = channel();
        // From here on an error drops it, which restores the terminal.
        let screen = Self { terminal, keys };
        spawn("quaff-keys", move || {
            keyboard.read(&sender, &wakeup);
            // The receiver hears of the end.
            drop(sender);
            wakeup.signal();
        })?;
        Ok(screen)
    }

    /// Draws. The screen has the size of the terminal at this moment.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> anyhow::Result<()> {
        self.terminal.draw(draw).context("draw on the terminal")?;
        Ok(())
    }

    /// The next bytes of keys.
    pub(crate) fn pressed(&self) -> Pressed {
        match self.keys.try_recv() {
            Ok(bytes) => Pressed::Bytes(bytes),
            Err(TryRecvError::Empty) => Pressed::Nothing,
            Err(TryRecvError::Disconnected) => Pressed::Closed,
        }
    }

    /// Returns whether the terminal is still a screen: a thread that panicked has restored it.
    pub(crate) fn is_open(&self) -> bool {
        IS_OPEN.load(Ordering::Relaxed)
    }

    /// Stops the process as ^Z does, and draws again when it continues.
    pub(crate) fn suspend(&mut self) -> anyhow::Result<()> {
        leave();
        process::stop_self()?;
        self.resume()
    }

    /// Turns the terminal into a screen again, after the process was stopped.
    pub(crate) fn resume(&mut self) -> anyhow::Result<()> {
        // A shell may have changed the settings meanwhile.
        leave();
        self.terminal = enter()?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn enter() -> anyhow::Result<Terminal<CrosstermBackend<io::Stdout>>> {
    enter_raw_mode(LEAVE)?;
    IS_OPEN.store(true, Ordering::Relaxed);
    let mut out = show::screen();
    let entered = out.write_all(ENTER.as_bytes()).and_then(|()| out.flush());
    let terminal = entered.and_then(|()| Terminal::new(CrosstermBackend::new(out)));
    if terminal.is_err() {
        leave();
    }
    terminal.context("open a screen on the terminal")
}

/// Restores the terminal, once. There is no other place for an error of it.
fn leave() {
    if IS_OPEN.swap(false, Ordering::Relaxed) {
        let mut out = show::screen();
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
        leave_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_testkit::skip;
    use std::process::Command;
    use std::time::{Duration, Instant};

    const TERMINAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flows/terminal.py");

    #[test]
    #[ignore = "called by a_panic_restores_the_terminal_before_its_message, on a terminal"]
    fn a_thread_panics_while_a_screen_is_open() {
        let screen = Keyboard::open()
            .and_then(|keyboard| Screen::open(keyboard, Wakeup::new().expect("an eventfd")))
            .expect("a screen");
        // The key comes when the other end has seen the screen.
        let begun = Instant::now();
        while screen.pressed() == Pressed::Nothing {
            assert!(begun.elapsed() < Duration::from_secs(60), "no key comes");
            std::thread::sleep(Duration::from_millis(5));
        }
        let panicked = std::thread::spawn(|| panic!("on purpose")).join();
        // No destructor runs from here on.
        std::process::exit(if panicked.is_err() && !screen.is_open() { 7 } else { 8 });
    }

    #[test]
    fn a_panic_restores_the_terminal_before_its_message() {
        let name = "screen::tests::a_thread_panics_while_a_screen_is_open";
        let mut python = Command::new("python3");
        python.args([TERMINAL, "key:x", ""]).arg(std::env::current_exe().expect("a path"));
        let Ok(done) = python.args(["--exact", name, "--ignored", "--nocapture"]).output() else {
            return skip("a_panic_restores_the_terminal_before_its_message", "there is no python3");
        };
        let state = String::from_utf8_lossy(&done.stdout).into_owned();
        for words in ["\"raw\": true", "\"restored\": true", "\"left\": true", "\"code\": 7"] {
            assert!(state.contains(words), "{words}: {state}, {}", String::from_utf8_lossy(&done.stderr));
        }
        let after = state.split_once("\"after\"").map_or("", |(_, after)| after);
        assert!(after.split("\"text\"").next().is_some_and(|after| after.contains("on purpose")), "{state}");
    }
}
