//! `quaff extcap --install`: a script in Wireshark's folder that runs this program.

use crate::exit::Exit;
use crate::show::print;
use anyhow::Context;
use quaff_os::disk::write_output;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the script.
const SCRIPT: &str = "quaff-extcap";
/// Rights of the script: every user of its folder runs it.
const SCRIPT_MODE: u32 = 0o755;
/// Folder of extcap programs of one user since Wireshark 4.2, if tshark does not report one.
const PERSONAL: &str = ".local/lib/wireshark/extcap";

pub(super) fn install(global: bool) -> anyhow::Result<Exit> {
    let dir = folder(global)?;
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let program = std::env::current_exe().context("find the running program")?;
    let path = dir.join(SCRIPT);
    let written = write_output(&path, script(&program).as_bytes(), SCRIPT_MODE);
    written.with_context(|| format!("write {}", path.display()))?;
    print(&format!(
        "{}\n'tshark -D' lists quaff's interfaces now, and Wireshark after a restart",
        path.display()
    ));
    Ok(Exit::Done)
}

/// Replaces the shell by quaff, so that Wireshark's signals reach quaff.
fn script(program: &Path) -> String {
    let program = program.to_string_lossy().replace('\'', r"'\''");
    format!("#!/bin/sh\n# Written by 'quaff extcap --install'.\nexec '{program}' extcap \"$@\"\n")
}

fn folder(global: bool) -> anyhow::Result<PathBuf> {
    let reported = folders();
    if global {
        return global_folder(&reported).context(
            "tshark, which knows the folder for all users, is not installed; without --global the folder in your home is used",
        );
    }
    let default = || Some(PathBuf::from(std::env::var_os("HOME")?).join(PERSONAL));
    personal_folder(&reported)
        .or_else(default)
        .context("HOME is not set, so the folder in your home is unknown")
}

/// The folders that tshark reports; empty without tshark.
fn folders() -> String {
    let reported = Command::new("tshark").args(["-G", "folders"]).output();
    reported.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn global_folder(reported: &str) -> Option<PathBuf> {
    value(reported, "Global Extcap path").or_else(|| value(reported, "Extcap path"))
}

/// Up to Wireshark 4.0 it is in the configuration folder and not reported.
fn personal_folder(reported: &str) -> Option<PathBuf> {
    let below = || Some(value(reported, "Personal configuration")?.join("extcap"));
    value(reported, "Personal Extcap path").or_else(below)
}

fn value(reported: &str, name: &str) -> Option<PathBuf> {
    let line = reported.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim()).filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wireshark_has_its_folders() {
        let old = "Personal configuration:\t/root/.config/wireshark\nExtcap path:         \t/usr/lib/wireshark/extcap\n";
        let new = "Personal configuration:\t/root/.config/wireshark\nPersonal Extcap path:\t/root/.local/lib/wireshark/extcap\nGlobal Extcap path:\t/usr/lib/wireshark/extcap\n";
        for (reported, personal) in
            [(old, "/root/.config/wireshark/extcap"), (new, "/root/.local/lib/wireshark/extcap")]
        {
            assert_eq!(personal_folder(reported), Some(personal.into()));
            assert_eq!(global_folder(reported), Some("/usr/lib/wireshark/extcap".into()));
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
