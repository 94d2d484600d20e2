//! Options of `quaff capture` by the letters of tcpdump and dumpcap: how packets are printed, and when the next file
//! begins. Where quaff has an option for the same, the letter sets that.

use crate::flags::Rotation;
use crate::{show, units};
use anyhow::{bail, ensure};
use quaff_file::write::ROTATE_BYTES_MIN;
use std::str::FromStr;
use std::time::Duration;

/// tcpdump's unit of `-C`, and dumpcap's of `filesize`, bytes.
const MILLION: u64 = 1_000_000;
const KB: u64 = 1000;
/// Forms of the times that are printed.
const TIMES_MAX: u8 = 5;

/// Letters of tcpdump and dumpcap.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct HabitArgs {
    /// Print the link-layer header of each packet too
    #[arg(short = 'e', help_heading = "Printing")]
    print_link: bool,
    /// Print more of each packet; -vv and -vvv print still more
    #[arg(short = 'v', action = clap::ArgAction::Count, help_heading = "Printing")]
    verbose: u8,
    /// Print the bytes of each packet in hexadecimal; -xx with the link-layer header
    #[arg(short = 'x', action = clap::ArgAction::Count, help_heading = "Printing")]
    hex: u8,
    /// Print the bytes of each packet in hexadecimal and ASCII; -XX with the link-layer header
    #[arg(short = 'X', action = clap::ArgAction::Count, help_heading = "Printing")]
    hex_ascii: u8,
    /// Print the bytes of each packet in ASCII
    #[arg(short = 'A', action = clap::ArgAction::Count, help_heading = "Printing")]
    ascii: u8,
    /// Print no times; -tt seconds since 1970, -ttt since the packet before, -tttt with the date, -ttttt since the
    /// first packet
    #[arg(short = 't', action = clap::ArgAction::Count, help_heading = "Printing")]
    times: u8,
    /// Print absolute sequence numbers of TCP
    #[arg(short = 'S', help_heading = "Printing")]
    absolute: bool,
    /// Print the number of each packet before it, as tcpdump's -# does
    #[arg(long, short_alias = '#', help_heading = "Printing")]
    number: bool,
    /// Do not check the checksums of IP, TCP and UDP for what is printed
    #[arg(short = 'K', help_heading = "Printing")]
    unchecked: bool,
    /// Look for draft 802.11s mesh headers in what is printed
    #[arg(short = 'H', help_heading = "Printing")]
    mesh: bool,
    /// Accepted for tcpdump's sake: numbers and whole lines are always printed
    #[arg(short = 'n', short_aliases = ['l', 'N'], action = clap::ArgAction::Count, help_heading = "Printing")]
    _numbers: u8,
    /// Pass each packet on at once: --flush 1ms
    #[arg(short = 'U', conflicts_with = "flush", help_heading = "Output")]
    pub(super) at_once: bool,
    /// Start the next file before SIZE million bytes (at least 2), or with K, M, G as --rotate-size; with -w FILE the
    /// files are FILE-000000 and so on, in its folder
    #[arg(short = 'C', value_name = "SIZE", value_parser = millions, conflicts_with = "rotate_size", help_heading = "Rotation")]
    file_size: Option<u64>,
    /// Start a file every SECONDS from the start on, with or without traffic; --rotate-time is aligned to midnight
    #[arg(short = 'G', value_name = "SECONDS", value_parser = seconds, conflicts_with = "rotate_time", help_heading = "Rotation")]
    file_time: Option<Duration>,
    /// With -C keep the newest N files, as --keep-files; with -G stop after N files, as --stop-files
    #[arg(short = 'W', value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Rotation")]
    file_count: Option<u64>,
    /// Start the next file at a condition of dumpcap: filesize:KB (1000 bytes, at least 2000), duration:SECONDS from
    /// the start on, interval:SECONDS aligned to midnight, packets:N; keep the newest N with files:N; repeat it for
    /// more
    #[arg(short = 'b', value_name = "CONDITION", help_heading = "Rotation")]
    ring_parts: Vec<RingPart>,
}

/// A condition of dumpcap's `-b`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum RingPart {
    /// Bytes.
    FileSize(u64),
    Packets(u64),
    /// From the start on.
    Duration(Duration),
    /// Aligned to midnight.
    Interval(Duration),
    Files(u64),
}

impl FromStr for RingPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const KNOWN: &str = "filesize:KB, duration:SECONDS, interval:SECONDS, packets:N or files:N";
        let Some((what, value)) = text.split_once(':') else { return Err(format!("expected {KNOWN}")) };
        let number = || match value.trim().parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("'{value}' is no whole number above 0")),
        };
        match what.trim() {
            "filesize" => Ok(Self::FileSize(number()?.checked_mul(KB).ok_or("that is too large")?)),
            "duration" => seconds(value.trim()).map(Self::Duration),
            "interval" => seconds(value.trim()).map(Self::Interval),
            "packets" => number().map(Self::Packets),
            "files" => number().map(Self::Files),
            "nametimenum" => Err("names are those of --name".to_owned()),
            "printname" => Err("--exec 'echo' prints the name of each complete file".to_owned()),
            other => Err(format!("unknown condition '{other}': expected {KNOWN}")),
        }
    }
}

impl HabitArgs {
    /// Words for tcpdump.
    pub(super) fn of_printing(&self) -> Vec<String> {
        let repeated = [
            ('e', u8::from(self.print_link)),
            ('v', self.verbose),
            ('x', self.hex),
            ('X', self.hex_ascii),
            ('A', self.ascii),
            ('t', self.times),
            ('S', u8::from(self.absolute)),
            ('#', u8::from(self.number)),
            ('K', u8::from(self.unchecked)),
            ('H', u8::from(self.mesh)),
        ];
        let given = repeated.into_iter().filter(|(_, times)| *times > 0);
        given.map(|(letter, times)| format!("-{}", letter.to_string().repeat(times.into()))).collect()
    }

    /// Names contain the time: those of -G are templates, as for tcpdump.
    pub(super) fn has_times_in_names(&self) -> bool {
        self.file_time.is_some()
    }

    /// Refuses more of a letter than it has meanings.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.times <= TIMES_MAX, "-t is given {} times: at most -ttttt", self.times);
        Ok(())
    }

    /// Refuses files that are too small or too few, by the letters that were given.
    pub(super) fn check_files(&self) -> anyhow::Result<()> {
        let is_small = |bytes: u64| bytes < ROTATE_BYTES_MIN;
        ensure!(
            !self.file_size.is_some_and(is_small),
            "-C {} is too small, since a file may end 512 KiB before its size: type -C {} (million bytes) or more",
            self.file_size.map_or_else(String::new, millions_text),
            ROTATE_BYTES_MIN.div_ceil(MILLION)
        );
        let of_one = |letter: &str, next: &str, all: &str| {
            format!(
                "{letter} keeps no file but the one that is being written: type {next} to keep the one before it too, \
                 or --stop-size SIZE in the place of {all} to stop after one file"
            )
        };
        for part in &self.ring_parts {
            match part {
                RingPart::FileSize(bytes) if is_small(*bytes) => bail!(
                    "-b filesize:{} is smaller than a file may be: type -b filesize:{} (KB of 1000 bytes) or more",
                    bytes / KB,
                    ROTATE_BYTES_MIN.div_ceil(KB)
                ),
                RingPart::Files(1) => bail!(of_one("-b files:1", "-b files:2", "-b")),
                _ => {}
            }
        }
        ensure!(self.file_size.is_none() || self.file_count != Some(1), of_one("-W 1", "-W 2", "-C and -W"));
        Ok(())
    }

    /// The time of a file, and whether it is counted from the start.
    fn time(&self) -> anyhow::Result<(Option<Duration>, bool)> {
        let least = |of: fn(&RingPart) -> Option<Duration>| self.ring_parts.iter().filter_map(of).min();
        let duration = least(|part| if let RingPart::Duration(time) = part { Some(*time) } else { None });
        let interval = least(|part| if let RingPart::Interval(time) = part { Some(*time) } else { None });
        let from_start = duration.into_iter().chain(self.file_time).min();
        ensure!(
            from_start.is_none() || interval.is_none(),
            "-G and -b duration: count from the start, and -b interval: from midnight: leave one of them out"
        );
        Ok((from_start.or(interval), from_start.is_some()))
    }

    /// The rotation that is asked for; `None` without one.
    pub(super) fn rotation(&self) -> anyhow::Result<Option<Rotation>> {
        let least = |of: fn(&RingPart) -> Option<u64>| self.ring_parts.iter().filter_map(of).min();
        let packets = least(|part| if let RingPart::Packets(packets) = part { Some(*packets) } else { None });
        let size = least(|part| if let RingPart::FileSize(bytes) = part { Some(*bytes) } else { None });
        let files = least(|part| if let RingPart::Files(files) = part { Some(*files) } else { None });
        let (of_size, of_time) = match (self.file_count, self.file_size, self.file_time) {
            (None, ..) => (None, None),
            (Some(_), None, None) => bail!("-W is the number of files of -C or -G: give one of them too"),
            (Some(_), Some(_), Some(_)) => {
                bail!(
                    "-W with both -C and -G has two meanings: type --keep-files N in its place to keep the newest N files, \
                     or --stop-files N to stop after N"
                )
            }
            (files, Some(_), _) => (files, None),
            (files, ..) => (None, files),
        };
        let (time, is_from_start) = self.time()?;
        let rotation = Rotation {
            bytes: self.file_size.into_iter().chain(size).min(),
            packets,
            time,
            is_from_start,
            keep: of_size.into_iter().chain(files).min(),
            stop: of_time,
        };
        Ok((rotation != Rotation::default()).then_some(rotation))
    }
}

/// Millions of bytes, or a size with a unit.
fn millions(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) => number.checked_mul(MILLION).ok_or_else(|| format!("'{text}' is too large")),
        Err(_) => units::bytes(text),
    }
}

/// The value of -C that is this number of bytes.
fn millions_text(bytes: u64) -> String {
    if bytes.is_multiple_of(MILLION) { (bytes / MILLION).to_string() } else { show::bytes(bytes) }
}

/// A whole number of seconds, or a time with a unit.
fn seconds(text: &str) -> Result<Duration, String> {
    let time = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => units::duration(text)?,
    };
    if time.is_zero() { Err("a file needs a time above 0".to_owned()) } else { Ok(time) }
}
