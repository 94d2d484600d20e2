//! Translates Gulp's options to a native command line of `quaff`.

use super::options::{Options, Status};
use crate::Native;
use quaff_wire::printable::quote;
use std::ffi::OsStr;

/// Smallest file of a rotation, MB.
const FILE_MB_MIN: u64 = 2;
/// Smallest number of files to keep.
const FILES_MIN: u64 = 2;

impl Native {
    /// Translates Gulp's `options`.
    pub(super) fn gulp(options: &Options) -> Self {
        let mut native = Self::default();
        if options.copy {
            native.pipe(options)
        } else {
            native.capture(options)
        }
        for letter in &options.idle {
            native.note(format!("-{} has no effect: {}", char::from(*letter), idle(*letter)));
        }
        native
    }

    fn capture(&mut self, options: &Options) {
        self.add(["capture"]);
        match options.interface.as_encoded_bytes() {
            b"-" => self.add(["--read", "-"]),
            _ => self.value("-i", &options.interface),
        }
        if options.decap {
            self.add(["--decap", "erspan"]);
        }
        self.given("-f", options.filter.as_ref());
        self.given("-s", options.snaplen.map(|bytes| bytes.to_string()));
        self.given("--buffer", options.ring.map(|mb| format!("{mb}M")));
        self.add(["--format", "pcap-us"]);
        match &options.dir {
            Some(dir) => self.folder(options, dir),
            None => self.add(["-w", "-"]),
        }
        match options.status {
            None => {}
            Some(Status::Stderr) => self.add(["--stats", "500ms"]),
            Some(Status::Ps) => {
                self.add(["--stats", "500ms", "--stats-name"]);
                self.note("-V shows it as the name of the process ('ps -o comm', top), not in its arguments");
            }
        }
    }

    fn folder(&mut self, options: &Options, dir: &OsStr) {
        if options.file_mb() < FILE_MB_MIN {
            self.note(format!("files have {FILE_MB_MIN} MB, the smallest size"));
        }
        self.rotation(options, dir, options.seconds);
        if let Some(files) = options.files() {
            if files < FILES_MIN {
                self.note("-W 1 keeps 2 files: the current one and the one before");
            }
            self.add(["--wrap"]);
        }
        // Gulp's command is the name of a program, not a line for a shell.
        self.given("--exec", options.command.as_deref().map(|name| quote(&name.to_string_lossy())));
    }

    /// The options that `capture` and `pipe` share; `pipe` does not rotate by time.
    fn rotation(&mut self, options: &Options, dir: &OsStr, seconds: Option<u64>) {
        self.value("--dir", dir);
        self.value("--name", name(options));
        self.value("--rotate-size", format!("{}M", options.file_mb().max(FILE_MB_MIN)));
        self.given("--rotate-time", seconds.map(|seconds| format!("{seconds}s")));
        self.given("--keep-files", options.files().map(|files| files.max(FILES_MIN).to_string()));
    }

    fn pipe(&mut self, options: &Options) {
        self.add(["pipe"]);
        self.given("--buffer", options.ring.map(|mb| format!("{mb}M")));
        if let Some(dir) = &options.dir {
            self.rotation(options, dir, None);
            if options.seconds.is_some() || options.command.is_some() {
                self.note("-c with -o rotates by size only: -G and -Z are ignored");
            }
        }
        if options.status.is_some() {
            self.note("-c reports progress at its end only: -V is ignored");
        }
    }
}

/// `-n` and `-t` as a template.
fn name(options: &Options) -> String {
    let name = options.name.to_string_lossy().replace('%', "%%");
    format!("{name}{}%3i", if options.stamp { "%s." } else { "" })
}

/// The reason why an option has no effect.
fn idle(letter: u8) -> &'static str {
    match letter {
        b'B' | b'Y' => "writes do not block, so no select(2) is needed before them",
        b'p' => "no thread polls: threads sleep until there is work",
        b'q' => "a full buffer is counted, not warned about",
        b'z' => "the size of writes follows the disk",
        _ => "it has no successor",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn native(line: &str) -> Native {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Native::gulp(&Options::read(&args, None).expect("Gulp accepts it"))
    }

    /// The examples of Gulp's paper, and each option.
    #[test]
    fn gulps_lines_become_native_ones() {
        let to_stdout = "--format pcap-us -w -";
        for (gulp, quaff) in [
            ("-c", "pipe".to_owned()),
            ("-i eth1 -f udp", format!("capture -i eth1 -f udp {to_stdout}")),
            ("-i eth1 -d", format!("capture -i eth1 --decap erspan -f 'proto gre' {to_stdout}")),
            ("-i eth1", format!("capture -i eth1 {to_stdout}")),
            ("", format!("capture -i eth1 {to_stdout}")),
            ("-d -i -", format!("capture --read - --decap erspan -f 'proto gre' {to_stdout}")),
            (
                "-i eth1 -C 10 -W 10 -o pcapdir",
                "capture -i eth1 --format pcap-us --dir pcapdir --name pcap%3i --rotate-size 1000M --keep-files 10 --wrap"
                    .to_owned(),
            ),
            ("-d -f udp", format!("capture -i eth1 --decap erspan -f udp {to_stdout}")),
            ("-s 96 -F -x", format!("capture -i eth1 -s 96 {to_stdout}")),
            ("-r 512", format!("capture -i eth1 --buffer 512M {to_stdout}")),
            ("-V x", format!("capture -i eth1 {to_stdout} --stats 500ms")),
            ("-V xxxxxxxxxx", format!("capture -i eth1 {to_stdout} --stats 500ms --stats-name")),
            ("-f -x", format!("capture -i eth1 -f-x {to_stdout}")),
            (
                "-o d -n tap -t -C 2 -r 5 -G 60 -Z gzip",
                "capture -i eth1 --buffer 5M --format pcap-us --dir d --name tap%s.%3i --rotate-size 10M --rotate-time 60s --keep-files 1000 --wrap --exec gzip"
                    .to_owned(),
            ),
            ("-o d -n 50% -C 1 -r 1 -W 1", "capture -i eth1 --buffer 1M --format pcap-us --dir d --name 50%%%3i --rotate-size 2M --keep-files 2 --wrap".to_owned()),
            // Without -o nothing is rotated.
            ("-n tap -t -C 2 -G 60 -W 3 -Z gzip", format!("capture -i eth1 {to_stdout}")),
            ("-c -r 200 -o d -C 1", "pipe --buffer 200M --dir d --name pcap%3i --rotate-size 200M".to_owned()),
            // Options that Gulp's copy ignored.
            ("-c -i eth3 -d", "pipe".to_owned()),
        ] {
            assert_eq!(native(gulp).line(), format!("quaff {quaff}"), "gulp {gulp}");
        }
    }

    #[test]
    fn options_without_effect_are_noted() {
        let notes = native("-BYq -p 5 -z 4096").notes;
        assert_eq!(notes.len(), 5, "{notes:?}");
        assert!(notes[1].starts_with("-Y has no effect"), "{notes:?}");
        assert!(native("-o d -C 1 -r 1 -W 1").notes.len() == 2);
        assert!(native("-i eth0 -d -s 5 -r 7 -o d -C 2").notes.is_empty());
    }
}
