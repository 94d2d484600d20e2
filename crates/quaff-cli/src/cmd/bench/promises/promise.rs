//! The promises by name.

use clap::ValueEnum;

/// The promises. Aliases are the numbers that `quaff lab bench` had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Promise {
    /// Capture 1500 B at 400 kpps without loss, beside tcpdump and dumpcap
    #[value(name = "400kpps", alias = "1")]
    Paced,
    /// Capture 64 B and 512 B as fast as they can be sent, without loss
    #[value(alias = "2")]
    SmallFrames,
    /// Capture 1500 B as fast as they can be sent, without loss, beside stenographer
    #[value(alias = "3")]
    LargeFrames,
    /// A quarter of the CPU time per frame of tcpdump or dumpcap
    #[value(alias = "4")]
    Cpu,
    /// 1.3 times the CPU time per frame of stenographer, which copies no packets
    CpuStenographer,
    /// No more CPU time per frame into /dev/null than tcpdump
    CpuNull,
    /// 1.3 times the CPU time with a buffer of 256 MiB, with the default buffer
    CpuDefault,
    /// Capture 512 B of 1,024 flows at 400 kpps by two lanes, without loss
    Lanes,
    /// Forward and record 64 B and 1500 B at 100 kpps by a tap in the line, without loss
    Tap,
    /// Under 1 % of a core without traffic
    #[value(alias = "8")]
    Idle,
    /// Decapsulate ERSPAN at 500 kpps without loss; filter its contents in the kernel for a fifth of the CPU time
    #[value(alias = "32")]
    Tunnels,
    /// Decapsulate a file twice as fast as editcap
    #[value(alias = "33")]
    TunnelFile,
    /// Meter a file at 4 times the speed of softflowd and 8 times that of nfpcapd; 3 times softflowd on one core
    FlowsFile,
    /// Verify a file at 5 times the speed of softflowd and 7 times that of tcptrace; 5.2 times tcptrace on one core
    Verify,
    /// Put the streams of a file together 4 times as fast as tcpflow
    StreamsFile,
    /// Filter a file 3 times as fast as tcpdump
    ReadFile,
    /// Merge two files 3 times as fast as mergecap
    Merge,
    /// Summarise a file 20 times as fast as capinfos
    Info,
    /// Pipe 1.5 times the bytes per second of mbuffer and buffer; halve the loss of tcpdump
    #[value(alias = "34")]
    Pipe,
    /// Replay 2.5 times as fast as tcpreplay to a network stack, 5 times to an XDP program
    #[value(alias = "41")]
    ReplaySpeed,
    /// Replay every byte in order, at the times of the file
    #[value(alias = "42")]
    ReplayFidelity,
    /// Keep the mean rate of a replay within 0.1 %
    #[value(alias = "43")]
    ReplayPace,
    /// Generate frames that are each a new flow, 5 times as fast as tcpreplay sends
    #[value(alias = "44")]
    NewFlows,
    /// Replay a file of 30 GB at 95 % of the read rate of the disk, in 1 GB of memory
    #[value(alias = "45")]
    LargeFile,
    /// End a replay within 0.2 s of an interrupt, with a true report
    #[value(alias = "48")]
    Interrupts,
}

impl Promise {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
