//! `quaff extcap --install`: a script in Wireshark's folder that runs this very program.

use crate::exit::Exit;
use crate::show::print;
use anyhow::Context;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the script.
const SCRIPT: &str = "quaff-extcap";
/// Folder of extcap programs of one user since Wireshark 4.2, if tshark does not report one.
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
    let told = folders();
    if global {
        return global_folder(&told).context(
            "tshark is not here to say where Wireshark's folder is; without --global it is in your home",
        );
    }
    let default = || Some(PathBuf::from(std::env::var_os("HOME")?).join(PERSONAL));
    personal_folder(&told).or_else(default).context("HOME is not set, so your folder cannot be told")
}

/// The folders that tshark reports; `None` without tshark.
fn folders() -> String {
    let told = Command::new("tshark").args(["-G", "folders"]).output();
    told.map(|told| String::from_utf8_lossy(&told.stdout).into_owned()).unwrap_or_default()
}

fn global_folder(told: &str) -> Option<PathBuf> {
    value(told, "Global Extcap path").or_else(|| value(told, "Extcap path"))
}

/// Up to Wireshark 4.0 it is in the configuration folder and not reported.
fn personal_folder(told: &str) -> Option<PathBuf> {
    let below = || Some(value(told, "Personal configuration")?.join("extcap"));
    value(told, "Personal Extcap path").or_else(below)
}

fn value(told: &str, name: &str) -> Option<PathBuf> {
    let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim()).filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wireshark_has_its_folders() {
        let old = "Personal configuration:\t/root/.config/wireshark\nExtcap path:         \t/usr/lib/wireshark/extcap\n";
        let new = "Personal configuration:\t/root/.config/wireshark\nPersonal Extcap path:\t/root/.local/lib/wireshark/extcap\nGlobal Extcap path:\t/usr/lib/wireshark/extcap\n";
        for (told, personal) in
            [(old, "/root/.config/wireshark/extcap"), (new, "/root/.local/lib/wireshark/extcap")]
        {
            assert_eq!(personal_folder(told), Some(personal.into()));
            assert_eq!(global_folder(told), Some("/usr/lib/wireshark/extcap".into()));
        }
        assert_eq!((personal_folder(""), global_folder("")), (None, None));
    }

    #[test]
    fn the_script_becomes_quaff() {
        assert!(
            script("/opt/it's here/quaff".as_ref()).contains(r#"exec '/opt/it'\''s here/quaff' extcap "$@""#)
        );
    }
}
