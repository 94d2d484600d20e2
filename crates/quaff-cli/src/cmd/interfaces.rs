//! `quaff interfaces`: the interfaces of this machine, and who captures there.

use crate::exit::Exit;
use crate::shell::ReportArgs;
use crate::show::{self, Stream, name};
use crate::terminal_table::{self, Columns};
use quaff::interfaces::{self, CaptureSocket, InterfaceInfo, State};

/// List the network interfaces: names, state, speed, driver, addresses, and the programs that capture there
///
/// Each interface that can be given to 'quaff capture -i' is listed, in the order of the kernel. A program captures
/// on an interface if it has a packet socket there, or one for all interfaces (marked with *); the processes of other
/// users are named for root only.
///
/// Exit status: 0 done; 2 the interfaces could not be read.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    report: ReportArgs,
}

const EXAMPLES: &str = "\
Examples:
  quaff interfaces
  quaff interfaces --json
  sudo quaff capture -D";

/// The JSON of the list.
#[derive(serde::Serialize)]
struct Report {
    interfaces: Vec<InterfaceInfo>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    list(args.report.json)
}

/// Prints all interfaces.
pub(crate) fn list(json: bool) -> anyhow::Result<Exit> {
    let interfaces = interfaces::list()?;
    match json {
        true => show::json(Stream::Stdout, &Report { interfaces })?,
        false => show::print(&table(&interfaces)),
    }
    Ok(Exit::Done)
}

fn table(interfaces: &[InterfaceInfo]) -> String {
    let columns = [
        ("interface", false, 0),
        ("state", false, 0),
        ("speed", true, 2),
        ("MTU", true, 4),
        ("driver", false, 3),
        ("addresses", false, 1),
        ("captured by", false, 1),
    ];
    terminal_table::ranked(&columns, interfaces.iter().map(row), Columns::Fitting(None))
}

fn row(interface: &InterfaceInfo) -> Vec<String> {
    let mut state = match interface.state {
        State::Up => "up",
        State::NoCarrier => "no carrier",
        State::Down => "down",
    }
    .to_owned();
    if interface.linktype.is_none() {
        state += ", unknown link";
    }
    let driver = interface.driver.as_deref().unwrap_or(&interface.kind);
    let mut addresses: Vec<_> = interface.mac.iter().cloned().collect();
    addresses.extend(interface.addresses.iter().cloned());
    addresses.extend(interface.master.iter().map(|master| format!("in {}", name(master))));
    let captures: Vec<_> = interface.captures.iter().map(captured_by).collect();
    vec![
        name(&interface.name).into_owned(),
        state,
        interface.speed_bps.map_or_else(|| "-".into(), |bps| show::bits(bps as f64)),
        interface.mtu.to_string(),
        if driver.is_empty() { "-".into() } else { name(driver).into_owned() },
        addresses.join(" "),
        captures.join(", "),
    ]
}

/// The processes of a socket, or its inode number; `*` marks a socket for all interfaces.
fn captured_by(socket: &CaptureSocket) -> String {
    let mark = if socket.is_on_all { "*" } else { "" };
    if socket.processes.is_empty() {
        return format!("socket {}{mark}", socket.inode);
    }
    let process = |of: &interfaces::Process| format!("{} ({}){mark}", name(&of.name), of.pid);
    socket.processes.iter().map(process).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_on_all_interfaces_is_marked_and_one_without_a_process_has_its_number() {
        let process = interfaces::Process { pid: 7, name: "tcp\u{1b}dump".into() };
        let mut socket =
            CaptureSocket { is_on_all: true, protocol: 3, inode: 4711, processes: vec![process] };
        assert_eq!(captured_by(&socket), "tcp\u{fffd}dump (7)*");
        (socket.is_on_all, socket.processes) = (false, Vec::new());
        assert_eq!(captured_by(&socket), "socket 4711");
    }
}
