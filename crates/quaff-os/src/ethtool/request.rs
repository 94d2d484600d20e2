//! One request by SIOCETHTOOL, and the strings in its structures.

use crate::rtnl::NAME_BYTES_MAX;
use crate::{Error, Result, Try};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use std::io;
use std::os::fd::AsRawFd;

const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// As [`ask`]; `false` where the driver does not support the command.
pub(super) fn ask_if_known(name: &str, command: u32, what: &str, words: &mut [u32]) -> Result<bool> {
    match ask(name, command, what, words) {
        Ok(()) => Ok(true),
        Err(error) if error.raw() == libc::EOPNOTSUPP => Ok(false),
        Err(error) => Err(error),
    }
}

/// Executes `command`. `words` is the whole structure of the command; this function sets its first word.
pub(super) fn ask(name: &str, command: u32, what: &str, words: &mut [u32]) -> Result<()> {
    let tried = || format!("{what} of {name} (ethtool)");
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::new(tried(), io::Error::from_raw_os_error(libc::ENODEV)));
    }
    // Any socket of the network namespace will do; the sandbox permits this one.
    let socket =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)
            .trying(|| "open a socket for ethtool requests")?;
    words[0] = command;
    // SAFETY: ifreq is plain data; all zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: each caller below `ethtool` passes the whole structure of its command, so the kernel writes
    // within `words`, which outlives the call. The name is NUL-terminated: its length was checked above.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut request) };
    if result < 0 { Err(Error::last(tried())) } else { Ok(()) }
}

/// A NUL-terminated string in the words of a structure.
pub(super) fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
