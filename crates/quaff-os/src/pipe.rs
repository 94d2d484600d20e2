//! The fill level of a pipe. This module never reads or writes its data.

use std::os::fd::{AsFd, AsRawFd};

/// Bytes queued in a pipe (FIONREAD); 0 where the kernel does not report them.
pub fn queued_bytes(pipe: impl AsFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int, which is local.
    match unsafe { libc::ioctl(pipe.as_fd().as_raw_fd(), libc::FIONREAD, &mut bytes) } {
        0 => usize::try_from(bytes).unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn queued_bytes_are_counted() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert_eq!(queued_bytes(&reader), 0);
        writer.write_all(b"seven..").unwrap();
        assert_eq!(queued_bytes(&reader), 7);
    }
}
