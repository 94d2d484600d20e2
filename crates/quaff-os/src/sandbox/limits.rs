//! The rights of a process after it confined itself, as plain data.

use super::user::User;
use crate::disk::FileAccess;
use std::path::PathBuf;

/// The rights of a process after [`super::Sandbox::confine`], beyond those of its open descriptors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// The user that it becomes; `None` leaves it who it is.
    pub user: Option<User>,
    /// Files that it opens for reading; those that do not exist are left out.
    pub read: Vec<PathBuf>,
    /// Folders in which it opens, makes, renames and removes files.
    pub write: Vec<PathBuf>,
    /// Folders of `write` in which it makes folders too.
    pub make_folders: Vec<PathBuf>,
    /// TCP ports to which it connects.
    pub connect: Vec<u16>,
    /// It sends datagrams by sockets that are connected already, and decides about fragments and segments of them.
    pub sends_datagrams: bool,
    /// It sends frames by sendmmsg(2), of whose addresses a filter sees nothing: by an open packet socket, a process
    /// with this right can send on any interface.
    pub sends_frames: bool,
    /// It sets the modes of its terminal.
    pub draws: bool,
    /// It loads and runs BPF programs at network interfaces (CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN).
    pub loads_programs: bool,
    /// It changes the settings of a network card at its end (CAP_NET_ADMIN).
    pub changes_card: bool,
    /// The group and the mode that it gives to files.
    pub access: FileAccess,
    /// It binds packet sockets, which are open already, to interfaces, and makes these promiscuous.
    pub binds: bool,
}
