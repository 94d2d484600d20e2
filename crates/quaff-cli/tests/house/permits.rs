//! Each command by each kind of user: root, a member of the group, a member without the capabilities of the program,
//! and a user outside of the group.

use crate::install::{Installed, install};
use crate::support::{Bench, QUAFF, run};
use quaff_testkit::test_name;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The rights that a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// None beyond the right to run the program.
    Nothing,
    /// A packet socket, which members have by the program's capabilities.
    Socket,
    /// Root.
    Root,
}
use Needs::{Nothing, Root, Socket};

/// Each command, with each kind of input, and what it needs. `FILE` is a capture, `OUT` a new path of the user.
const COMMANDS: [(&str, Needs); 37] = [
    ("capture -i rx0 --buffer 64M -d 100ms -w OUT", Socket),
    ("capture --read FILE -w OUT", Nothing),
    ("split -i rx0 --buffer 64M -d 100ms -w OUT", Socket),
    ("split --read FILE -w OUT", Nothing),
    ("flows -i rx0 -d 100ms --csv OUT", Socket),
    ("flows --read FILE --csv OUT", Nothing),
    ("flows top -i rx0 --once -d 100ms", Socket),
    ("flows top --read FILE --once", Nothing),
    ("flows report FILE", Nothing),
    ("flows list FILE", Nothing),
    ("streams -i rx0 -d 100ms --script default", Socket),
    ("streams --read FILE --script default", Nothing),
    ("streams extract --read FILE --dir OUT", Nothing),
    ("streams list FILE", Nothing),
    ("verify -i rx0 -d 100ms", Socket),
    ("verify FILE", Nothing),
    ("nprobe -i FILE -n none", Nothing),
    ("gulp -i rx0", Socket),
    ("generate -o rx0 --count 1", Socket),
    ("generate --count 1 -w OUT", Nothing),
    ("replay FILE -o rx0", Socket),
    ("replay FILE -w OUT", Nothing),
    ("tcpreplay -i rx0 FILE", Socket),
    ("extcap --extcap-interfaces", Nothing),
    ("info FILE", Nothing),
    ("merge FILE -w OUT", Nothing),
    ("interfaces", Nothing),
    ("pipe", Nothing),
    ("doctor", Nothing),
    ("cores --no-measure", Nothing),
    ("bench list", Nothing),
    ("service list", Nothing),
    ("lab list", Root),
    ("lab run --new -- true", Root),
    ("tap rx0 lo -w OUT", Root),
    ("man OUT", Nothing),
    ("completions bash", Nothing),
];

/// Words of a refusal for want of rights.
const REFUSALS: [&str; 4] = ["CAP_NET_RAW", "Operation not permitted", "Permission denied", "os error 13"];

/// The commands that have a manual page; those of a group are parts of one.
fn commands(installed: &Installed) -> BTreeSet<String> {
    let pages = fs::read_dir(installed.dir.path().join("usr/share/man/man1")).expect("pages");
    let names = pages.map(|page| page.expect("a page").file_name().into_string().expect("a name"));
    let command = |name: String| name.strip_prefix("quaff-")?.strip_suffix(".1").map(str::to_owned);
    names.filter_map(command).filter(|name| !name.contains('-')).collect()
}

/// Runs each command in the lab by `words`; calls `judge` with the command, its status and what it said on stderr.
fn each(bench: &Bench, words: &[String], out: &Path, judge: impl Fn(&str, Needs, Option<i32>, &str)) {
    let file = bench.path("made.pcapng");
    for (number, (line, needs)) in COMMANDS.iter().enumerate() {
        let path = out.join(number.to_string()).display().to_string();
        let args = line.split(' ').map(|word| match word {
            "FILE" => file.as_str(),
            "OUT" => &path,
            word => word,
        });
        let mut command = bench.lab.rx.command("timeout").expect("a command in the lab");
        // Only the copies of other programs' commands have no end of their own.
        command.args(["--signal=INT", "--kill-after=20", if line.starts_with("gulp") { "2" } else { "30" }]);
        let done = command.args(words).args(args).output().expect("timeout runs");
        judge(line, *needs, done.status.code(), &String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn each_command_does_for_each_user_what_the_rights_of_the_user_permit() {
    let test = test_name!();
    let Some(installed) = install(test).filter(|installed| installed.has_capabilities) else { return };
    let Some(bench) = Bench::new(test, 1 << 27) else { return };
    let tested = COMMANDS.iter().filter_map(|(line, _)| line.split(' ').next()).map(str::to_owned);
    assert_eq!(tested.collect::<BTreeSet<_>>(), commands(&installed), "a command is not in the table");
    run(Command::new(QUAFF).args(["generate", "--count", "3", "-w", &bench.path("made.pcapng")]));
    run(Command::new("chmod").arg("a+rX").arg(bench.dir.path()).arg(bench.path("made.pcapng")));
    let folder = |name: &str| {
        let dir = installed.dir.path().join(name);
        fs::create_dir(&dir).expect("a folder");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("our folder");
        dir
    };
    let is_refused = |said: &str| REFUSALS.iter().any(|words| said.contains(words));
    let root = [installed.program.display().to_string()];
    each(&bench, &root, &folder("root"), |line, _, code, said| {
        assert!(!is_refused(said) && code.is_some(), "root: {line}: {code:?} {said}");
    });
    each(&bench, &installed.unprivileged(true), &folder("member"), |line, needs, code, said| {
        assert_eq!(is_refused(said) && code == Some(2), needs == Root, "a member: {line}: {code:?} {said}");
    });
    run(Command::new("setcap").arg("-r").arg(&installed.program));
    each(&bench, &installed.unprivileged(true), &folder("bare"), |line, needs, code, said| {
        assert_eq!(is_refused(said) && code == Some(2), needs != Nothing, "bare: {line}: {code:?} {said}");
        assert!(needs != Socket || said.contains("CAP_NET_RAW"), "bare: {line}: {said}");
    });
    each(&bench, &installed.unprivileged(false), &folder("other"), |line, _, code, said| {
        assert!(code == Some(126) && said.contains("Permission denied"), "another user: {line}: {said}");
    });
}
