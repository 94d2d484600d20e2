//! Flags of the rights of a process and of its files: the user, the sandbox, the owner, the group and the mode. It
//! makes folders, and opens no file.

use anyhow::Context;
use quaff::plan::SandboxPlan;
use quaff_os::disk::FileAccess;
use quaff_os::sandbox::{User, group_id};
use std::fs::{DirBuilder, File};
use std::path::Path;

flags! {
    /// Do not restrict the process after its start: it keeps its privileges, and may use any file and system call
    #[arg(long, help_heading = "Privileges")]
    NoSandboxArg { no_sandbox: bool }
}

/// The help of --user for commands that read files and no interfaces.
pub(crate) const USER_OF_FILES: &str = "Become the user NAME before the inputs are opened; outputs belong to NAME, who must \
                                        be able to read and write these files [default after sudo: files belong to \
                                        who called it]";

/// The user that the process becomes, unless it is not restricted.
#[derive(Debug, clap::Args)]
pub(crate) struct UserArgs {
    /// Become the user NAME once the sockets are open; files belong to NAME, who must be able to write there
    /// [default after sudo: files belong to who called it]
    #[arg(long, value_name = "NAME", conflicts_with = "no_sandbox", help_heading = "Privileges")]
    user: Option<String>,
    #[command(flatten)]
    no_sandbox: NoSandboxArg,
}

/// Whose files are written, and with which rights the process does it.
#[derive(Debug, clap::Args)]
pub(crate) struct OwnerArgs {
    #[command(flatten)]
    pub(crate) user: UserArgs,
    /// Group of the files; their owner must be a member unless root starts this
    #[arg(long, value_name = "GROUP", help_heading = "Privileges")]
    group: Option<String>,
    /// Mode of the files, octal, whatever the umask is [default: 640 without the bits of the umask]
    #[arg(long, value_name = "MODE", value_parser = mode, help_heading = "Privileges")]
    mode: Option<u32>,
}

impl UserArgs {
    /// `None` without a sandbox.
    pub(crate) fn sandbox(&self) -> Option<SandboxPlan> {
        (!*self.no_sandbox).then(|| SandboxPlan { user: self.user.clone() })
    }

    /// The owner of files if --user names none: who called sudo(8).
    pub(crate) fn caller(&self) -> Option<User> {
        if self.user.is_some() { None } else { User::caller_of_sudo() }
    }

    /// The owner of files: of --user, or who called sudo(8).
    pub(crate) fn owner(&self) -> anyhow::Result<Option<User>> {
        Ok(self.user.as_deref().map(User::find).transpose()?.or_else(|| self.caller()))
    }
}

impl OwnerArgs {
    /// The group and the mode of files.
    pub(crate) fn access(&self) -> anyhow::Result<FileAccess> {
        Ok(FileAccess { group: self.group.as_deref().map(group_id).transpose()?, mode: self.mode })
    }

    /// Makes a folder for files unless it exists, and none above it: a mistyped path is an error.
    pub(crate) fn make_folder(&self, dir: &Path) -> anyhow::Result<()> {
        if dir.exists() {
            return Ok(());
        }
        let failed = || format!("cannot make the folder {}", dir.display());
        let owner = self.user.owner()?;
        let rights = owner.as_ref().map(User::use_files).transpose()?;
        let made = DirBuilder::new().create(dir).and_then(|()| File::open(dir));
        let made = made.with_context(failed)?;
        drop(rights);
        // Root may give it any group; another user, one of its own.
        self.access()?.of_folder().apply(&made).with_context(failed)
    }
}

/// A mode as chmod(1) takes it, without the bits that are for programs.
fn mode(text: &str) -> Result<u32, String> {
    // '+640' would be read too, which means something else to chmod(1).
    let octal = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match u32::from_str_radix(octal.unwrap_or(""), 8) {
        Ok(mode) if mode <= 0o777 && mode & 0o600 == 0o600 => Ok(mode),
        Ok(mode) if mode <= 0o777 => Err("the owner must be able to read and write: 6 first".into()),
        _ => Err("a mode is octal, such as 640 or 0660".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal_and_leave_the_owner_in() {
        assert_eq!((mode("640"), mode("0660"), mode("777")), (Ok(0o640), Ok(0o660), Ok(0o777)));
        for refused in ["", "8", "rw", "0o640", "1777", "440", "060", "-640", "+640", " 640"] {
            assert!(mode(refused).is_err(), "{refused}");
        }
    }
}
