//! Physical interfaces. The sender is on this machine, or on another one that ssh reaches.
//!
//! The sender is `quaff generate -o IF`, which the other machine finds in PATH. There it gets SIGINT when its stdin is
//! closed: when this process ends in any way, or the connection breaks.

use super::arrivals::Arrivals;
use super::{Sent, Site, Watch, sending};
use crate::traffic::{Out, Size, Traffic};
use crate::{Error, Result, interface_facts};
use quaff_os::packet::hold_promiscuous;
use quaff_os::rtnl;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program on the other machine.
const REMOTE_QUAFF: &str = "quaff";
/// ssh never prompts, and abandons an unreachable host after 10 s.
const SSH: [&str; 5] = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"];

/// One sending and one receiving interface.
#[derive(Debug)]
pub struct Real {
    quaff: PathBuf,
    send_on: String,
    receive_on: String,
    sender: Option<String>,
}

impl Real {
    /// Sends on `send_on` of `sender` (`user@host`) or of this machine, and captures on `receive_on` here.
    ///
    /// # Errors
    /// The receiving interface does not exist, or a name would be misinterpreted by ssh or its shell.
    pub fn new(quaff: PathBuf, send_on: &str, receive_on: &str, sender: Option<&str>) -> Result<Self> {
        rtnl::link(receive_on)?;
        match sender {
            None => drop(rtnl::link(send_on)?),
            Some(host) => check(host, send_on)?,
        }
        let [send_on, receive_on] = [send_on, receive_on].map(str::to_owned);
        Ok(Self { quaff, send_on, receive_on, sender: sender.map(str::to_owned) })
    }

    /// The sender's command.
    fn sending(&self, traffic: &Traffic) -> Result<Command> {
        let words = traffic.words(Out::Send(&self.send_on), 1);
        let Some(host) = &self.sender else {
            let mut command = Command::new(&self.quaff);
            command.args(words);
            return Ok(command);
        };
        if let Size::From(file) | Size::Replay(file) = &traffic.size {
            let what = format!("{file} is on this machine, and {host} cannot read it; use sizes or a mix");
            return Err(Error::Tool { name: "the sender".into(), what });
        }
        let mut command = Command::new(SSH[0]);
        // No word contains special characters of the shell: sizes were parsed.
        let sends = format!("{REMOTE_QUAFF} {}", words.join(" "));
        let line = format!(
            "exec sh -c 'exec 3<&0; {sends} & p=$!; (cat <&3; kill -INT $p) >/dev/null 2>&1 & w=$!; wait $p; r=$?; \
             kill $w; exit $r'"
        );
        command.args(&SSH[1..]).args([host, "--", &line]);
        Ok(command)
    }
}

impl Site for Real {
    fn interface(&self) -> &str {
        &self.receive_on
    }

    fn command(&self, program: &Path) -> Result<Command> {
        Ok(Command::new(program))
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = interface_facts(&self.receive_on);
        if self.sender.is_none() {
            facts.extend(interface_facts(&self.send_on));
        }
        facts
    }

    fn send(&self, traffic: &Traffic, core: usize, watch: Watch<'_>, look: &mut dyn FnMut()) -> Result<Sent> {
        let command = self.sending(traffic)?;
        let link = rtnl::link(&self.receive_on)?;
        // Capturers do this, too; otherwise the card drops frames for other addresses.
        let _all = hold_promiscuous(link.index)?;
        let arrivals = Arrivals::begin(&link)?;
        let core = self.sender.is_none().then_some(core);
        let sum = sending::send(vec![command], core, traffic, watch, look)?;
        let arrived = arrivals.finish(sum.offered)?;
        // Other traffic on the wire arrives as well.
        let offered = arrived.frames.min(sum.offered);
        let others = arrived.frames.saturating_sub(sum.offered);
        Ok(Sent { offered, others, receiver_drops: arrived.dropped.min(offered), ..sum })
    }
}

/// ssh treats a host that begins with a hyphen as an option, and the remote shell splits the rest into words.
fn check(host: &str, interface: &str) -> Result<()> {
    let plain = |text: &str, more: &str| {
        !text.is_empty()
            && !text.starts_with('-')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    match (plain(host, "@.-_:[]%"), plain(interface, ".-_:@")) {
        (true, true) => Ok(()),
        (false, _) => Err(refused(host, "a host is written as user@host")),
        (_, false) => Err(refused(interface, "invalid name of an interface")),
    }
}

fn refused(name: &str, why: &str) -> Error {
    Error::Tool { name: "the sender".into(), what: format!("{name:?}: {why}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote() -> Real {
        Real::new("/x/quaff".into(), "eth1", "lo", Some("me@there")).expect("names that will do")
    }

    #[test]
    fn a_sender_elsewhere_is_reached_by_ssh() {
        let command = remote().sending(&Traffic::bytes(64, Some(9), 5)).expect("a command");
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        assert_eq!(command.get_program(), "ssh");
        assert_eq!(
            words.join(" "),
            "-o BatchMode=yes -o ConnectTimeout=10 me@there -- exec sh -c 'exec 3<&0; quaff generate -o eth1 \
             --json --count 5 --size 64 --stream 1 --pps 9 & p=$!; (cat <&3; kill -INT $p) >/dev/null 2>&1 & w=$!; \
             wait $p; r=$?; kill $w; exit $r'"
        );
        let file = Traffic { size: Size::Replay("a.pcap".into()), ..Traffic::bytes(64, None, 5) };
        assert!(
            remote().sending(&file).expect_err("not there").to_string().contains("a.pcap is on this machine")
        );
    }

    #[test]
    fn a_sender_here_is_our_own_program() {
        let real = Real::new("/x/quaff".into(), "lo", "lo", None).expect("lo is there");
        assert_eq!(real.sending(&Traffic::bytes(64, None, 5)).expect("a command").get_program(), "/x/quaff");
    }

    #[test]
    fn names_that_mean_more_are_refused() {
        for (host, interface) in
            [("-oProxyCommand=x", "eth1"), ("a;b", "eth1"), ("", "eth1"), ("a", "e;x"), ("a", "-x")]
        {
            assert!(Real::new("q".into(), interface, "lo", Some(host)).is_err(), "{host} {interface}");
        }
        assert!(Real::new("q".into(), "lo", "no-such0", None).is_err());
        assert!(Real::new("q".into(), "no-such0", "lo", None).is_err());
    }
}
