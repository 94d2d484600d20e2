//! Parses Gulp's command line as Gulp does: getopt(3), from left to right. No translation.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Options without and with a value.
const FLAGS: &[u8] = b"BFXYcdqtvx";
const VALUES: &[u8] = b"CGVWZfinoprsz";

/// The filter that Gulp's `-d` sets; a later `-f` replaces it.
const DECAP_FILTER: &str = "proto gre";
/// Gulp's default interface.
const INTERFACE: &str = "eth1";
/// Gulp's ring, MB, and the size of a file in rings.
const RING_MB: u64 = 100;
const RINGS_PER_FILE: u64 = 10;
/// Gulp keeps whole packets from this snaplen on.
const SNAPLEN_ALL: i64 = 65_535;
/// Number of files that Gulp's `-t` keeps, regardless of `-W`.
const STAMPED_FILES: u64 = 1000;

/// The options of a Gulp command line, in Gulp's units.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// `-i`: an interface, or `-` for a capture on stdin.
    pub(super) interface: OsString,
    /// `-f`, or what `-d` set it to.
    pub(super) filter: Option<OsString>,
    /// `-d`
    pub(super) decap: bool,
    /// `-s`; `None` is all.
    pub(super) snaplen: Option<u16>,
    /// `-F`
    pub(super) skip_check: bool,
    /// `-c`
    pub(super) copy: bool,
    /// `-r`, MB.
    pub(super) ring: Option<u64>,
    /// `-x`, `-X`: the last one applies.
    pub(super) lock: Lock,
    /// `-v`
    pub(super) version: bool,
    /// `-V`.
    pub(super) status: Option<Status>,
    /// `-o`
    pub(super) dir: Option<OsString>,
    /// `-n`
    pub(super) name: OsString,
    /// `-t`
    pub(super) stamp: bool,
    /// `-C`, ring sizes.
    rings_per_file: u64,
    /// `-G`, s.
    pub(super) seconds: Option<u64>,
    /// `-W`
    files: Option<u64>,
    /// `-Z`
    pub(super) command: Option<OsString>,
    /// Given options without effect, in order.
    pub(super) idle: Vec<u8>,
}

/// Gulp's lock among its own instances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lock {
    /// Other instances may run, unless one runs exclusively.
    #[default]
    Shared,
    /// `-x`: no other instance runs.
    Exclusive,
    /// `-X`: run regardless of other instances.
    Ignored,
}

/// The place where `-V` shows progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// A text of fewer than ten characters, too short for Gulp to overwrite.
    Stderr,
    /// Ten characters or more, which Gulp overwrites.
    Ps,
}

impl Options {
    /// Parses a command line. `cap_iface` is `$CAP_IFACE`.
    ///
    /// # Errors
    /// All mistakes in Gulp's wording, because Gulp continues after a mistake.
    pub(super) fn read(args: &[OsString], cap_iface: Option<OsString>) -> Result<Self, Vec<String>> {
        let mut options = Self {
            interface: cap_iface.unwrap_or_else(|| INTERFACE.into()),
            name: "pcap".into(),
            rings_per_file: RINGS_PER_FILE,
            ..Self::default()
        };
        let mut mistakes = Vec::new();
        for given in getopt(args) {
            if let Err(mistake) = given.and_then(|(letter, value)| options.take(letter, value)) {
                mistakes.push(mistake);
            }
        }
        if mistakes.is_empty() { Ok(options) } else { Err(mistakes) }
    }

    /// `-C` times `-r`, MB.
    pub(super) fn file_mb(&self) -> u64 {
        self.rings_per_file * self.ring.unwrap_or(RING_MB)
    }

    /// Number of files to keep.
    pub(super) fn files(&self) -> Option<u64> {
        if self.stamp { Some(STAMPED_FILES) } else { self.files }
    }

    fn take(&mut self, letter: u8, value: OsString) -> Result<(), String> {
        let number = || atoi(&value);
        let least_one = || match atoi(&value) {
            1.. => Ok(atoi(&value) as u64),
            _ => Err(format!("-{} # must be 1 or greater", char::from(letter))),
        };
        match letter {
            b'd' => (self.decap, self.filter) = (true, Some(DECAP_FILTER.into())),
            b'f' => self.filter = Some(value).filter(|filter| !filter.is_empty()),
            b'i' => self.interface = value,
            b's' => self.snaplen = Some(number()).filter(|n| (1..SNAPLEN_ALL).contains(n)).map(|n| n as u16),
            b'F' => self.skip_check = true,
            b'c' => self.copy = true,
            b'r' if !(1..=1024).contains(&number()) => return Err("-r number must be 1-1024".into()),
            b'r' => self.ring = Some(number() as u64),
            b'x' => self.lock = Lock::Exclusive,
            b'X' => self.lock = Lock::Ignored,
            b'v' => self.version = true,
            b'V' if value.as_bytes().starts_with(b"-") => {
                return Err(format!("{} is suspicious as argument of -V", value.display()));
            }
            b'V' => self.status = Some(if value.len() < 10 { Status::Stderr } else { Status::Ps }),
            b'o' => self.dir = Some(value),
            b'n' => self.name = value,
            b't' => self.stamp = true,
            b'C' => self.rings_per_file = least_one()?,
            b'G' => self.seconds = Some(least_one()?),
            b'W' => self.files = Some(least_one()?),
            b'Z' => self.command = Some(value),
            b'p' if !(0..=1_000_000).contains(&number()) => {
                return Err("-p number must be 0-1000000".into());
            }
            b'z' if number() > 65_536 || !u64::try_from(number()).is_ok_and(u64::is_power_of_two) => {
                return Err("-z number must be a power of 2".into());
            }
            _ => self.idle.push(letter),
        }
        Ok(())
    }
}

/// As getopt(3): letters may share a dash, a value is in the same word or in the next one, and any other word is a
/// mistake. Flags have an empty value.
fn getopt(args: &[OsString]) -> Vec<Result<(u8, OsString), String>> {
    let mut given = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut letters = match arg.as_bytes() {
            [b'-', letters @ ..] if !letters.is_empty() && letters != b"-" => letters,
            b"--" => {
                given.extend(args.map(|arg| Err(stranger(arg))));
                break;
            }
            _ => {
                given.push(Err(stranger(arg)));
                continue;
            }
        };
        while let [letter, rest @ ..] = letters {
            letters = rest;
            if FLAGS.contains(letter) {
                given.push(Ok((*letter, OsString::new())));
            } else if !VALUES.contains(letter) {
                given.push(Err(format!("invalid option -- '{}'", char::from(*letter))));
            } else {
                letters = b"";
                let value = match rest {
                    [] => args.next().cloned(),
                    _ => Some(OsString::from_vec(rest.to_vec())),
                };
                let missing = || format!("option requires an argument -- '{}'", char::from(*letter));
                given.push(value.map(|value| (*letter, value)).ok_or_else(missing));
            }
        }
    }
    given
}

fn stranger(arg: &OsStr) -> String {
    format!("'{}' is not an option, and Gulp takes only options", arg.display())
}

/// As atoi(3): the leading digits, or 0 without any.
fn atoi(text: &OsStr) -> i64 {
    let text = text.to_string_lossy();
    let text = text.trim_start();
    let digits = text.trim_start_matches(['-', '+']);
    let end = digits.find(|char: char| !char.is_ascii_digit()).unwrap_or(digits.len());
    let sign = if text.starts_with('-') { -1 } else { 1 };
    sign * digits[..end].parse::<i64>().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, Vec<String>> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Options::read(&args, None)
    }

    #[test]
    fn words_are_read_as_getopt_reads_them() {
        let options = read("-dxqV xxxxxxxxxx -r50 -C 2 -oout -n tap").unwrap();
        assert_eq!((options.decap, options.lock, &options.idle[..]), (true, Lock::Exclusive, &b"q"[..]));
        assert_eq!((options.status, options.file_mb()), (Some(Status::Ps), 100));
        assert_eq!((options.dir, options.name), (Some("out".into()), "tap".into()));
        assert_eq!(read("-V x").unwrap().status, Some(Status::Stderr));
        assert_eq!(read("-i -").unwrap().interface, "-");
    }

    #[test]
    fn the_order_of_d_and_f_decides() {
        assert_eq!(read("-f udp -d").unwrap().filter, Some("proto gre".into()));
        assert_eq!(read("-d -f udp").unwrap().filter, Some("udp".into()));
        assert_eq!(read("-x -X").unwrap().lock, Lock::Ignored);
    }

    #[test]
    fn the_environment_names_the_interface_unless_the_line_does() {
        let of = |args: &[&str], env: Option<&str>| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            Options::read(&args, env.map(OsString::from)).unwrap().interface
        };
        assert_eq!(of(&[], None), "eth1");
        assert_eq!(of(&[], Some("eth7")), "eth7");
        assert_eq!(of(&["-i", "lo"], Some("eth7")), "lo");
    }

    #[test]
    fn numbers_have_gulps_limits() {
        for line in [
            "-r 0",
            "-r 1025",
            "-r x",
            "-p -1",
            "-p 1000001",
            "-z 3",
            "-z 131072",
            "-z 0",
            "-C 0",
            "-G 0",
            "-W 0",
        ] {
            assert_eq!(read(line).unwrap_err().len(), 1, "{line}");
        }
        for line in ["-r 1", "-r 1024", "-p 0", "-z 1", "-z 65536", "-C 1", "-G 1", "-W 1"] {
            assert!(read(line).is_ok(), "{line}");
        }
        assert_eq!(read("-s 0").unwrap().snaplen, None);
        assert_eq!(read("-s 65535").unwrap().snaplen, None);
        assert_eq!(read("-s 128").unwrap().snaplen, Some(128));
        assert_eq!(read("-t -W 5").unwrap().files(), Some(1000));
    }

    #[test]
    fn all_mistakes_are_reported() {
        let mistakes = read("-Q file -V -d -r").unwrap_err();
        assert_eq!(mistakes.len(), 4, "{mistakes:?}");
        assert!(read("-- x").is_err());
    }
}
