//! Names of interfaces in the lines of `--print`, as in those of `tcpdump -i any`: tcpdump(1) gets each packet with the
//! index of its interface and its direction (LINKTYPE_LINUX_SLL2), and finds the name itself. The packets pass through
//! here on their way to it. A tcpdump that does not know that header gets them as they are.

use anyhow::Context;
use quaff_os::process::Prepare;
use quaff_os::rtnl::Rtnl;
use quaff_wire::cooked::Cooker;
use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};

/// Bytes of the output that are read at once; a longer block gets a longer buffer.
const BLOCKS_BYTES: usize = 256 << 10;
/// The first versions of tcpdump and of its libpcap that know the header.
const VERSIONS: [(&str, [u32; 2]); 2] = [("tcpdump version ", [4, 99]), ("libpcap version ", [1, 10])];

/// The indexes of the interfaces that are there. After the start none can be looked up.
#[derive(Debug)]
pub(super) struct InterfaceIndexes {
    by_name: HashMap<String, u32>,
}

impl InterfaceIndexes {
    /// Those of this moment.
    pub(super) fn now() -> anyhow::Result<Self> {
        let links = Rtnl::open()?.links()?;
        Ok(Self { by_name: links.into_iter().map(|link| (link.name, link.index)).collect() })
    }

    /// Passes packets on to `tcpdump`, on a thread that ends with either end; returns the end that takes pcapng.
    /// `failed` gets what else ends it.
    pub(super) fn pass_on(
        self,
        tcpdump: ChildStdin,
        failed: impl FnOnce(String) + Send + 'static,
    ) -> anyhow::Result<File> {
        let (from, end) = std::io::pipe().context("make a pipe")?;
        let body = move || {
            if let Err(error) = self.relay(from, tcpdump) {
                failed(format!("cannot pass packets on to tcpdump: {error:#}"));
            }
        };
        quaff_os::spawn("quaff-print-in", body)?;
        Ok(OwnedFd::from(end).into())
    }

    /// The index of an interface; 0, which no interface has, for one that came later.
    fn of(&self, name: &[u8]) -> u32 {
        let index = std::str::from_utf8(name).ok().and_then(|name| self.by_name.get(name));
        index.copied().unwrap_or(0)
    }

    fn relay(&self, mut from: PipeReader, mut tcpdump: ChildStdin) -> anyhow::Result<()> {
        let (mut cooker, mut packets) = (Cooker::default(), Vec::new());
        let (mut blocks, mut len) = (vec![0; BLOCKS_BYTES], 0);
        loop {
            len += match from.read(&mut blocks[len..]) {
                Ok(0) => return Ok(()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let mut rest = &blocks[..len];
            let needed = cooker.take(&mut rest, |name| self.of(name), &mut packets)?;
            let left = rest.len();
            match tcpdump.write_all(&packets) {
                // It has ended, which the printer reports.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                written => written?,
            }
            packets.clear();
            blocks.copy_within(len - left..len, 0);
            len = left;
            if needed > blocks.len() {
                blocks.resize(needed, 0);
            }
        }
    }
}

/// Returns whether the tcpdump at `path` prints the names of interfaces.
pub(super) fn are_known_to(path: &Path) -> bool {
    let mut command = Command::new(path);
    command.arg("--version").stdin(Stdio::null()).reset_signals().leave_privileges();
    command.output().is_ok_and(|said| has_versions(&[said.stdout, said.stderr].concat()))
}

/// Returns whether a program that printed this as its version has those of [`VERSIONS`], or later ones.
fn has_versions(said: &[u8]) -> bool {
    let said = String::from_utf8_lossy(said);
    VERSIONS.iter().all(|(before, least)| {
        let Some((_, version)) = said.split_once(*before) else { return false };
        let numbers: Vec<u32> = version
            .split(|c: char| !c.is_ascii_digit())
            .take(2)
            .map_while(|part| part.parse().ok())
            .collect();
        numbers.len() == 2 && numbers[..] >= least[..]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let has = |tcpdump: &str, libpcap: &str| {
            let said = format!(
                "tcpdump version {tcpdump}\nlibpcap version {libpcap} (with TPACKET_V3)\nOpenSSL 3.0.19\n"
            );
            has_versions(said.as_bytes())
        };
        for (tcpdump, libpcap) in [("4.99.3", "1.10.3"), ("4.99.0", "1.10.0"), ("5.0.0", "1.11.0-PRE-GIT")] {
            assert!(has(tcpdump, libpcap), "{tcpdump} {libpcap}");
        }
        for (tcpdump, libpcap) in [("4.9.3", "1.10.1"), ("4.99.1", "1.9.1"), ("4", "1.10"), ("x", "y")] {
            assert!(!has(tcpdump, libpcap), "{tcpdump} {libpcap}");
        }
        assert!(!has_versions(b"BusyBox") && !has_versions(b""));
    }
}
