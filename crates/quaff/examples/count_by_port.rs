//! Counts packets by TCP and UDP destination port: `count_by_port FILE…`, or `count_by_port -i INTERFACE…` until
//! Enter. An output of its own on the engine's lanes, live and from files, with the ledger intact.

use quaff::Run;
use quaff::batch::{Frame, Memory};
use quaff::output::{Now, Output, OutputTally};
use quaff::plan::InputPlan;
use quaff_file::tally::Counts;
use quaff_os::{Reason, Stop};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Ports = BTreeMap<u16, u64>;

/// The output of one lane. It shares nothing until it ends.
struct CountByPort {
    ports: Ports,
    taken: u64,
    sum: Arc<Mutex<Ports>>,
}

impl Output for CountByPort {
    fn take(&mut self, memory: Memory<'_>, frames: &mut [Frame], _: Now) -> usize {
        for frame in frames.iter() {
            let bytes = memory.of(frame);
            let ip = quaff_wire::net::layers(bytes).and_then(|layers| layers.ip);
            if let Some([_, destination]) = ip.and_then(|ip| ip.ports(bytes)) {
                *self.ports.entry(destination).or_default() += 1;
            }
        }
        self.taken += frames.len() as u64;
        frames.len()
    }

    fn finish(&mut self, _: u64, _: &dyn Fn(&mut Counts)) {
        let mut sum = self.sum.lock().expect("no lane panicked");
        self.ports.iter().for_each(|(port, packets)| *sum.entry(*port).or_default() += packets);
    }

    fn tally(&self) -> OutputTally {
        OutputTally { taken: self.taken, ..OutputTally::default() }
    }
}

#[allow(clippy::print_stdout, reason = "an example is a command")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (plan, is_live) = match args.split_first() {
        Some((first, names)) if first == "-i" => (InputPlan::live(names.to_vec()), true),
        _ => (InputPlan::files(args.iter().map(Into::into)), false),
    };
    let (stop, sum) = (Stop::default(), Arc::<Mutex<Ports>>::default());
    let output = |_, _: &_| Box::new(CountByPort { ports: Ports::new(), taken: 0, sum: sum.clone() }) as _;
    let run = Run::start(plan, stop.clone(), output)?;
    if is_live {
        println!("capturing");
        std::io::stdin().read_line(&mut String::new())?;
        stop.raise(Reason::Signal);
    }
    let ledger = run.finish();
    sum.lock().expect("no lane panicked").iter().for_each(|(port, packets)| println!("{port} {packets}"));
    println!("offered {}, counted {}, lossless {}", ledger.offered, ledger.written, ledger.lossless);
    ledger.failure.map_or(Ok(()), |failure| Err(failure.into()))
}
