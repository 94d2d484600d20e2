//! `quaff cores`: shared caches and data rates between cores, and recommended cores.

use crate::exit::Exit;
use crate::flags::{CoreListArg, InterfaceArg, of};
use crate::shell::ReportArgs;
use crate::show::{self, Stream};
use anyhow::bail;
use clap::ArgAction;
use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use quaff::cores::{Advice, Nic, Pair, Topology, advise, measure};
use quaff_os::rtnl;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Measure how fast cores exchange data, and recommend cores for a capture
///
/// For each pair of cores: the caches they share, the latency of a cache line between them, and the
/// throughput of the rings that connect quaff's threads. From the shared caches it recommends cores for the
/// reader and the writer of a capture and for the interface's interrupts; 'quaff capture --cpu auto' uses the
/// same recommendation. On a busy machine the measured values are too low; the recommendation is the same.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_args(of("interface", |arg| {
        arg.action(ArgAction::Set).help("Recommend cores for this interface, and show its NUMA node and interrupts")
    }))
)]
pub(crate) struct Args {
    #[command(flatten)]
    interface: InterfaceArg,
    #[command(flatten, next_help_heading = "Input")]
    cores: CoreListArg<Box<[u32]>>,
    /// Show shared caches and the recommendation without measuring
    #[arg(long, help_heading = "Report")]
    no_measure: bool,
    #[command(flatten)]
    report: ReportArgs,
}

const EXAMPLES: &str = "\
Examples:
  quaff cores -i eth0
  quaff cores --json | jq '.advice'";

/// Approximate duration for all pairs together.
const ALL: Duration = Duration::from_secs(20);
/// Shortest and longest duration for one pair.
const PAIR_MIN: Duration = Duration::from_millis(6);
const PAIR_MAX: Duration = Duration::from_millis(300);

/// The text of a pair in a matrix.
type Cell = fn(&Pair) -> String;

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let mut topology = Topology::here()?;
    let cores: Vec<_> = args.cores.iter().flatten().map(|core| *core as usize).collect();
    if let Some(unknown) = cores.iter().find(|core| !topology.allowed().contains(core)) {
        bail!("core {unknown} may not be used; allowed are {}", numbers(&topology.allowed()));
    }
    if !cores.is_empty() {
        for core in &mut topology.cores {
            core.is_allowed &= cores.contains(&core.id);
        }
    }
    let nic = match args.interface.first() {
        Some(name) => {
            rtnl::link(name)?;
            Some(Nic::read(Path::new("/"), name))
        }
        None => None,
    };
    let Some(advice) = advise(&topology, nic.as_ref(), 1) else { bail!("no core may be used") };
    let pairs = if args.no_measure { Vec::new() } else { measure_all(&topology.allowed())? };
    if args.report.json {
        show::json(Stream::Stdout, &as_json(&topology, nic.as_ref(), &pairs, &advice))?;
    } else {
        print_all(&topology, nic.as_ref(), &pairs, &advice);
    }
    Ok(Exit::Done)
}

fn measure_all(cores: &[usize]) -> anyhow::Result<Vec<Pair>> {
    let wanted: Vec<_> = cores
        .iter()
        .enumerate()
        .flat_map(|(i, from)| cores[i + 1..].iter().map(move |to| (*from, *to)))
        .collect();
    let time = (ALL / wanted.len().max(1) as u32).clamp(PAIR_MIN, PAIR_MAX);
    let line = ProgressStyle::with_template("{spinner} {bar:20} {pos}/{len} pairs of cores");
    let bar = ProgressBar::new(wanted.len() as u64);
    bar.set_style(line.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut pairs = Vec::new();
    for (from, to) in wanted {
        pairs.push(measure(from, to, time)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(pairs)
}

fn print_all(topology: &Topology, nic: Option<&Nic>, pairs: &[Pair], advice: &Advice) {
    show::print(&cores_table(topology).trim_fmt());
    if let Some(nic) = nic {
        show::print(&format!("\n{}", describe_nic(nic)));
    }
    let cores = topology.allowed();
    if cores.len() < 2 {
        show::print("\nThere is only one core, so there is no pair to measure.");
    } else if !pairs.is_empty() {
        let matrices: [(&str, Cell); 3] = [
            ("Latency of a cache line from core to core, ns", |pair| format!("{:.0}", pair.latency_ns)),
            ("Messages through a ring, millions per second", |pair| {
                format!("{:.1}", pair.messages_per_second / 1e6)
            }),
            ("Buffers filled by one core and read by the other, GB/s", |pair| {
                format!("{:.1}", pair.bytes_per_second / 1e9)
            }),
        ];
        show::print(&format!(
            "\nCaches shared by two cores, nearest first\n{}",
            shared_matrix(topology, &cores).trim_fmt()
        ));
        for (title, cell) in matrices {
            show::print(&format!("\n{title}\n{}", matrix(&cores, pairs, cell).trim_fmt()));
        }
    }
    show::print("\nAdvice");
    show::print(&format!("  reader      {}", advice.reader_reason));
    show::print(&format!("  writer      {}", advice.writer_reason));
    show::print(&format!("  interrupts  {}", advice.interrupts_reason));
    if let Some(nic) = nic.filter(|nic| nic.receiving_cores() != [advice.interrupts]) {
        for irq in &nic.irqs {
            show::print(&format!(
                "    echo {} > /proc/irq/{}/smp_affinity_list   # {}",
                advice.interrupts, irq.number, irq.name
            ));
        }
    }
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table
}

fn cores_table(topology: &Topology) -> Table {
    let mut table = table();
    table.set_header(["core", "same physical core", "same L2", "same L3", "node", "may be used"]);
    for core in &topology.cores {
        let others = |cores: &[usize]| {
            let others: Vec<_> = cores.iter().copied().filter(|other| *other != core.id).collect();
            if others.is_empty() { "-".to_owned() } else { numbers(&others) }
        };
        table.add_row([
            core.id.to_string(),
            others(&core.siblings),
            others(&core.l2),
            others(&core.l3),
            core.node.map_or("-".to_owned(), |node| node.to_string()),
            if core.is_allowed { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table
}

fn describe_nic(nic: &Nic) -> String {
    let node = nic.node.map_or("on no particular node".to_owned(), |node| format!("on node {node}"));
    if nic.irqs.is_empty() {
        return format!("{} is {node}; it has no interrupts", nic.name);
    }
    let mut words = format!("{} is {node}; its interrupts", nic.name);
    for irq in &nic.irqs {
        words += &format!("\n  {:>4}  {:20}  core {}", irq.number, irq.name, numbers(&irq.cores));
    }
    words
}

fn shared_matrix(topology: &Topology, cores: &[usize]) -> Table {
    square(cores, |from, to| (from != to).then(|| topology.sharing(from, to).to_string()))
}

fn matrix(cores: &[usize], pairs: &[Pair], cell: Cell) -> Table {
    square(cores, |from, to| {
        let (from, to) = (from.min(to), from.max(to));
        pairs.iter().find(|pair| (pair.from, pair.to) == (from, to)).map(cell)
    })
}

fn square(cores: &[usize], cell: impl Fn(usize, usize) -> Option<String>) -> Table {
    let mut table = table();
    table.set_header(std::iter::once(String::new()).chain(cores.iter().map(usize::to_string)));
    for from in cores {
        let cells = cores.iter().map(|to| cell(*from, *to).unwrap_or_default());
        table.add_row(std::iter::once(from.to_string()).chain(cells));
    }
    table
}

fn as_json(topology: &Topology, nic: Option<&Nic>, pairs: &[Pair], advice: &Advice) -> Value {
    let cores: Vec<_> = topology
        .cores
        .iter()
        .map(|core| {
            json!({ "core": core.id, "smt": core.siblings, "l2": core.l2, "l3": core.l3,
                    "node": core.node, "allowed": core.is_allowed })
        })
        .collect();
    let pairs: Vec<_> = pairs
        .iter()
        .map(|pair| {
            json!({ "from": pair.from, "to": pair.to, "shared": topology.sharing(pair.from, pair.to).to_string(),
                    "latency_ns": pair.latency_ns, "messages_per_second": pair.messages_per_second,
                    "bytes_per_second": pair.bytes_per_second })
        })
        .collect();
    let nic = nic.map(|nic| {
        let irqs = nic.irqs.iter();
        let irqs = irqs.map(|irq| json!({ "irq": irq.number, "name": irq.name, "cores": irq.cores }));
        json!({ "interface": nic.name, "node": nic.node, "irqs": irqs.collect::<Vec<_>>() })
    });
    json!({
        "cores": cores,
        "interface": nic,
        "pairs": pairs,
        "advice": {
            "reader": advice.readers[0], "reader_reason": advice.reader_reason,
            "writer": advice.writer, "writer_reason": advice.writer_reason,
            "interrupts": advice.interrupts, "interrupts_reason": advice.interrupts_reason,
        },
    })
}

/// `0-3,8`, as the kernel writes lists.
fn numbers(cores: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for core in cores {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *core => *last = *core,
            _ => runs.push((*core, *core)),
        }
    }
    let runs = runs.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_written_as_the_kernel_does() {
        assert_eq!(numbers(&[]), "");
        assert_eq!(numbers(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10,11");
    }
}
