//! The paths that stay within reach, as a Landlock ruleset (landlock(7)).
//!
//! Descriptors that are open already are not affected. What the kernel's version lacks is left out: TCP before Linux
//! 6.7, truncation before 6.2.

use super::Limits;
use crate::{Error, Result};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr,
};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Read at any time: counters and free memory, the time zone, and the names of services and protocols in a filter
/// expression that is compiled for a link type of the input.
const READABLE: [&str; 11] = [
    "/proc",
    "/sys",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/etc/services",
    "/etc/protocols",
    "/etc/ethers",
    "/etc/networks",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/dev/null",
];

/// The newest rights that this code knows, as tested with.
const KNOWN: ABI = ABI::V7;

/// The version of Landlock's rules; 0 where the kernel has none, or it is not enabled.
pub(super) fn abi() -> u32 {
    const CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: with this flag the kernel reads nothing and returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// Makes a ruleset that permits no more than the paths and TCP ports of `limits`. `None` where the kernel has no
/// Landlock.
///
/// # Errors
/// A folder that is written cannot be opened.
pub(super) fn ruleset(limits: &Limits) -> Result<Option<OwnedFd>> {
    let made = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(KNOWN)))
        .and_then(Ruleset::create);
    let mut made = made.map_err(|error| failed("make a Landlock ruleset", error))?;
    for path in READABLE.iter().map(Path::new).chain(limits.read.iter().map(PathBuf::as_path)) {
        // Missing ones need no rule; pipes by /dev/fd need none either, and the kernel refuses one for them.
        let _ = permit(&mut made, path, reading(path));
    }
    for path in &limits.write {
        permit(&mut made, path, writing())?;
    }
    for path in &limits.make_folders {
        permit(&mut made, path, AccessFs::MakeDir.into())?;
    }
    for port in &limits.connect {
        let added = (&mut made).add_rule(NetPort::new(*port, AccessNet::ConnectTcp));
        added.map_err(|error| failed(format!("permit TCP to port {port}"), error))?;
    }
    Ok(made.into())
}

fn permit(ruleset: &mut RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<()> {
    let tried = || format!("permit the use of {}", path.display());
    let folder = PathFd::new(path).map_err(|error| failed(tried(), error))?;
    ruleset.add_rule(PathBeneath::new(folder, access)).map(drop).map_err(|error| failed(tried(), error))
}

fn reading(path: &Path) -> BitFlags<AccessFs> {
    if path.is_dir() { AccessFs::ReadFile | AccessFs::ReadDir } else { AccessFs::ReadFile.into() }
}

fn writing() -> BitFlags<AccessFs> {
    AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::RemoveFile
}

fn failed(tried: impl Into<String>, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(tried, io::Error::other(error))
}
