//! Flags of the lanes of interfaces, of their memory and of their cores, and the plan that they make.

use super::{FlagValue, of};
use crate::units::{self, Choice, choice};
use anyhow::bail;
use quaff::cores::{Nic, Topology, advise};
use quaff::memory;
use quaff::plan::{InputPlan, InterfacePlan, LANES_MAX, Spread, default_rings_bytes, lanes_of};
use quaff_os::cpu;
use std::path::Path;
use std::str::FromStr;

/// The rules, and what they are for.
const SPREADS: [Choice<Spread>; 4] = [
    ("hash", Spread::Hash, "addresses and ports; fragments may go to another lane"),
    ("queue", Spread::Queue, "the adapter's receive queue"),
    ("cpu", Spread::Cpu, "the core that receives the packet"),
    ("addresses", Spread::Addresses, "IP addresses: fragments, and both directions, in one lane"),
];

/// The lanes of each interface.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SpreadArgs {
    /// Lanes of each interface, each with a ring and a thread; 'auto' is one for each receive queue, but no more than
    /// there are cores [default: 1]. Of files, threads that share each of them; 'auto', the default, is one for each
    /// core, up to 4; at most 16
    ///
    /// The kernel deals the packets of the interface to them. All lanes begin and end together, and the file has one
    /// interface. The results of files are the same with any number.
    #[arg(long, value_name = "N|auto", help_heading = "Performance")]
    lanes: Option<Lanes>,
    /// Rule by which packets are dealt to the lanes of an interface [default: hash; addresses where fragments and both
    /// directions of a conversation have to be in one lane, as for flows, scripts, evidence of losses, a split and
    /// --decap]
    #[arg(long, value_name = "RULE", value_parser = choice(SPREADS), requires = "lanes", conflicts_with = "read", help_heading = "Performance")]
    spread: Option<Spread>,
}

flags! {
    /// Size of the kernel's receive ring, per lane [default: 1/64 of free memory, 16M to 128M]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Performance")]
    RingArg { ring: Option<u64> }

    /// Size of the buffer between input and output, such as 256M [default: 1/4 of free memory, 64M to 8G]
    #[arg(long, value_name = "SIZE", value_parser = B::parser())]
    BufferArg<B: FlagValue> { buffer: Option<B> }

    /// Core of the thread that reads or sends
    #[arg(long, value_name = "N", help_heading = "Performance")]
    CoreArg { cpu: Option<usize> }

    /// Cores for the lanes, in the order of -i; the last one also serves further lanes
    #[arg(long, value_name = "N[,N]", value_delimiter = ',')]
    CoresArg { cpu: Vec<usize> }

    /// Consider only these cores [default: all that the process may use]
    #[arg(long, value_name = "N[,N]", value_parser = C::parser())]
    CoreListArg<C: FlagValue> { cores: Option<C> }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes(pub(crate) u64);

values! {
    Bytes: |text: &str| units::bytes(text).map(Bytes);
    u32: clap::value_parser!(u32);
}

/// Cores of lanes, which may be those that suit the machine, and of the writer.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Performance")]
pub(crate) struct CaptureCores {
    /// Cores for the lanes, in the order of -i; the last one also serves further lanes and the writer.
    /// 'auto' takes the cores that 'quaff cores -i IF' recommends
    #[arg(long, value_name = "N[,N]|auto", value_delimiter = ',')]
    cpu: Vec<Core>,
    /// Core for the writer [default: from --cpu]
    #[arg(long, value_name = "N")]
    writer_cpu: Option<usize>,
}

/// One item of `--cpu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Core {
    Auto,
    Number(usize),
}

impl FromStr for Core {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            number => number.parse().map(Self::Number).map_err(|_| "expected a core number or 'auto'".into()),
        }
    }
}

impl CaptureCores {
    /// The cores of the lanes and of the writer.
    pub(crate) fn place(
        &self,
        names: &[String],
        lanes: usize,
    ) -> anyhow::Result<(Vec<usize>, Option<usize>)> {
        let number = |core: &Core| match core {
            Core::Number(number) => Some(*number),
            Core::Auto => None,
        };
        let numbers: Vec<_> = self.cpu.iter().filter_map(number).collect();
        if numbers.len() == self.cpu.len() {
            let last = numbers.last().copied();
            return Ok((numbers, self.writer_cpu.or(last)));
        }
        if !numbers.is_empty() {
            bail!("--cpu takes core numbers or 'auto', not both");
        }
        let nic = names.first().map(|name| Nic::read(Path::new("/"), name));
        let advice = advise(&Topology::here()?, nic.as_ref(), lanes);
        Ok(advice.map_or((Vec::new(), self.writer_cpu), |advice| {
            (advice.readers, self.writer_cpu.or(Some(advice.writer)))
        }))
    }
}

/// The lanes of each interface, and their rings.
#[derive(Debug, clap::Args)]
#[command(mut_args(of("ring", |arg| arg.conflicts_with("read"))))]
pub(crate) struct LaneArgs {
    #[command(flatten)]
    spread: SpreadArgs,
    #[command(flatten)]
    pub(crate) ring: RingArg,
}

impl LaneArgs {
    /// The plan of the lanes of these interfaces, with `more_rings` beside those of the lanes.
    pub(crate) fn plan(&self, names: Vec<String>, cores: &[usize], more_rings: usize) -> InputPlan {
        let plan = self.spread.plan(names, cores, more_rings);
        let ring_bytes = self.ring.map_or(plan.ring_bytes, |bytes| bytes as usize);
        InputPlan { ring_bytes, ..plan }
    }

    /// The number of lanes that was given for files.
    pub(crate) fn of_files(&self) -> Option<usize> {
        self.spread.of_files()
    }

    /// The number of all lanes of these interfaces.
    pub(crate) fn count(&self, names: &[String]) -> usize {
        self.spread.counts(names).iter().sum()
    }
}

/// The value of `--lanes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lanes {
    Auto,
    Number(usize),
}

impl FromStr for Lanes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let number = text.parse().ok().filter(|lanes| (1..=LANES_MAX).contains(lanes));
        number.map(Self::Number).ok_or_else(|| format!("expected 1 to {LANES_MAX}, or 'auto'"))
    }
}

impl SpreadArgs {
    /// The plan of the lanes of these interfaces, with rings of the default size beside `more_rings` others.
    pub(crate) fn plan(&self, names: Vec<String>, cores: &[usize], more_rings: usize) -> InputPlan {
        let counts = self.counts(&names);
        let rings = counts.iter().sum::<usize>() + more_rings;
        InputPlan {
            interfaces: interfaces(names, &counts, cores),
            spread: self.spread,
            ring_bytes: default_rings_bytes(memory::default_free_bytes(), rings),
            ..InputPlan::default()
        }
    }

    /// The number of lanes that was given for files.
    pub(crate) fn of_files(&self) -> Option<usize> {
        match self.lanes {
            Some(Lanes::Number(lanes)) => Some(lanes),
            Some(Lanes::Auto) | None => None,
        }
    }

    /// The number of lanes of each interface.
    fn counts(&self, names: &[String]) -> Vec<usize> {
        let count = |name: &String| match self.lanes {
            None => 1,
            Some(Lanes::Number(lanes)) => lanes,
            Some(Lanes::Auto) => lanes_of(name, cpu::allowed().map_or(1, |cores| cores.len())),
        };
        names.iter().map(count).collect()
    }
}

/// Interfaces with their numbers of lanes, which get cores in their order, the further ones the last core.
fn interfaces(names: Vec<String>, lanes: &[usize], cores: &[usize]) -> Vec<InterfacePlan> {
    let mut next =
        cores.iter().map(Some).chain(std::iter::repeat(cores.last())).map(Option::<&usize>::copied);
    let interface = |(name, lanes): (String, &usize)| {
        let cpus = next.by_ref().take(*lanes).collect();
        InterfacePlan { name, cpus }
    };
    names.into_iter().zip(lanes).map(interface).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_get_cores_in_their_order() {
        let plans = |lanes: &[usize], cores: &[usize]| {
            let names = ["eth0", "eth1"].map(str::to_owned).to_vec();
            interfaces(names, lanes, cores).into_iter().map(|of| of.cpus).collect::<Vec<_>>()
        };
        assert_eq!(plans(&[2, 1], &[4, 5]), [vec![Some(4), Some(5)], vec![Some(5)]]);
        assert_eq!(plans(&[1, 2], &[]), [vec![None], vec![None, None]]);
        assert_eq!(plans(&[1, 1], &[7]), [vec![Some(7)], vec![Some(7)]]);
    }

    #[test]
    fn files_have_no_ring() {
        for line in [
            "flows --read a",
            "flows top --read a",
            "streams --read a --script b",
            "split --read a --members 2",
        ] {
            let words = |line: &str| line.split(' ').map(std::ffi::OsString::from).collect::<Vec<_>>();
            assert!(crate::read(&words(line)).is_ok(), "{line}");
            let refused =
                crate::read(&words(&format!("{line} --ring 64M"))).map(drop).unwrap_err().to_string();
            assert!(refused.contains("--ring") && refused.contains("--read"), "{line}: {refused}");
        }
    }

    #[test]
    fn a_number_of_lanes_is_read() {
        assert_eq!(("auto".parse(), "4".parse()), (Ok(Lanes::Auto), Ok(Lanes::Number(4))));
        for wrong in ["0", "65", "many", "-1"] {
            assert!(wrong.parse::<Lanes>().is_err_and(|error| error.contains("'auto'")), "{wrong}");
        }
    }
}
