//! `quaff extcap --install`: a script in Wireshark's folder that runs this very program.

use crate::exit::Exit;
use crate::show::print;
use anyhow::{Context, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the script is called.
const SCRIPT: &str = "quaff-extcap";
/// Where programs of this kind are for one user, since Wireshark 4.2; tshark knows better.
const PERSONAL: &str = ".local/lib/wireshark/extcap";

pub(super) fn install(global: bool) -> anyhow::Result<Exit> {
    let dir = folder(global)?;
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let path = dir.join(SCRIPT);
    let is_written = fs::write(&path, script(&program))
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)));
    is_written.with_context(|| format!("cannot write {}", path.display()))?;
    print(&format!(
        "{}\n'tshark -D' lists quaff's interfaces now, and Wireshark after a restart",
        path.display()
    ));
    Ok(Exit::Done)
}

/// Runs quaff in the script's place, so that it is quaff that Wireshark's signals reach.
fn script(program: &Path) -> String {
    let program = program.to_string_lossy().replace('\'', r"'\''");
    format!("#!/bin/sh\n# Written by 'quaff extcap --install'.\nexec '{program}' extcap \"$@\"\n")
}

fn folder(global: bool) -> anyhow::Result<PathBuf> {
    let kind = if global { "Global Extcap path" } else { "Personal Extcap path" };
    if let Some(dir) = told_by_tshark(kind) {
        return Ok(dir);
    }
    if global {
        bail!("tshark is not here to say where Wireshark's folder is; without --global it is in your home");
    }
    let home = std::env::var_os("HOME").context("HOME is not set, so your folder cannot be told")?;
    Ok(PathBuf::from(home).join(PERSONAL))
}

/// Where this tshark looks: the place has moved over the years.
fn told_by_tshark(kind: &str) -> Option<PathBuf> {
    let told = Command::new("tshark").args(["-G", "folders"]).output().ok()?;
    let text = String::from_utf8(told.stdout).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
    // Older ones name several, the writable one first.
    let dir = line.trim_start_matches(':').trim().split(':').next()?;
    (!dir.is_empty()).then(|| dir.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_becomes_quaff() {
        assert!(
            script("/opt/it's here/quaff".as_ref()).contains(r#"exec '/opt/it'\''s here/quaff' extcap "$@""#)
        );
    }
}
