//! The noise of a machine, as the longest delay of a thread that does next to nothing: bounds on time are stated as a
//! sum of what the program under test takes and of this.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A thread that takes turns all the time.
pub(crate) struct Canary {
    /// Set once by the test, read by the thread; nothing else is published through it.
    over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Canary {
    /// Waits for a core every few milliseconds.
    pub(crate) fn on_cores() -> Self {
        Self::start(Duration::from_millis(5), || ())
    }

    /// Also writes and syncs a block of its own, in the file `path`, every 50 ms.
    pub(crate) fn on_disk(path: &str) -> Self {
        let file = File::create(path).unwrap();
        Self::start(Duration::from_millis(50), move || {
            file.write_all_at(&[0; 4096], 0).unwrap();
            file.sync_data().unwrap();
        })
    }

    fn start(pause: Duration, turn: impl Fn() + Send + 'static) -> Self {
        let over = Arc::<AtomicBool>::default();
        let is_over = over.clone();
        let thread = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                turn();
                std::thread::sleep(pause);
                longest = longest.max(begun.elapsed() - pause);
            }
            longest
        });
        Self { over, thread }
    }

    /// The longest turn, beyond its pause.
    pub(crate) fn stop(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
