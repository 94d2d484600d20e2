//! The flags that choose flow records, by an expression and a span of time, and those of lists of flows.

use super::{FlagValue, SpanArgs, of};
use anyhow::{bail, ensure};
use quaff::plan::TimeBound;
use quaff_flow::choice::{Choice, Expression};
use std::path::PathBuf;

flags! {
    /// Show the first N rows
    #[arg(long, value_name = "N", help_heading = "Report")]
    TopArg { top: Option<usize> }

    /// Column to sort by
    #[arg(long, value_name = "COLUMN", value_parser = O::parser())]
    SortArg<O: FlagValue> { sort: Option<O> }

    /// Write each record to FILE as a line of JSON; '-' is stdout
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    JsonlArg { jsonl: Option<PathBuf> }

    /// Write records to FILE as CSV, with a line of names; '-' is stdout
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    CsvArg { csv: Option<PathBuf> }
}

/// The flow records that are wanted.
#[derive(Debug, clap::Args)]
#[command(
    mut_args(of("from", |arg| arg.help(FROM))),
    mut_args(of("to", |arg| arg.help("Only flows that had begun before TIME, written as for --from")))
)]
pub(crate) struct ChoiceArgs {
    /// Only flows that match, with the words of tcpdump and nfdump, such as 'host 192.168.1.7 and port 443'
    ///
    /// [src|dst] host ADDRESS, net NET, port N or N-N; tcp, udp, icmp, ip, ip6, proto N, vlan N, tos N, flags SA, in if
    /// N; bytes, packets, duration, pps, bps, bpp with <, <=, =, >=, > and a number such as 64k; application NAME;
    /// server NAME, in which * stands for any characters; and, or, not, parentheses. A flow longer than --active has
    /// several records, and each is tested.
    #[arg(long = "where", value_name = "EXPR", help_heading = "Filter")]
    condition: Option<Expression>,
    #[command(flatten, next_help_heading = "Filter")]
    span: SpanArgs,
}

const FROM: &str = "Only flows that were there at TIME or later: '2026-11-23 04:55:00' (local time, or UTC with --utc), \
                    with Z or +01:00 at its end (UTC or that offset), or @SECONDS since 1970";

impl ChoiceArgs {
    /// The records that are wanted.
    pub(crate) fn choice(&self) -> anyhow::Result<Choice> {
        let bound = |name: &str, bound: Option<TimeBound>| match bound {
            Some(TimeBound::AfterFirst(_)) => {
                bail!("{name}: flow records have no first packet: give a date and a time")
            }
            Some(TimeBound::At(ns)) => Ok(Some(ns)),
            None => Ok(None),
        };
        let (from_ns, to_ns) = (bound("--from", self.span.from)?, bound("--to", self.span.to)?);
        ensure!(
            from_ns.zip(to_ns).is_none_or(|(from_ns, to_ns)| from_ns < to_ns),
            "--from is not before --to: no flow is in between; exchange them, or leave one out"
        );
        Ok(Choice { expression: self.condition.clone(), from_ns, to_ns })
    }

    /// The expression asks for the application or the server of a flow.
    pub(crate) fn needs_applications(&self) -> bool {
        self.condition.as_ref().is_some_and(Expression::needs_applications)
    }

    /// The flags that choose records, as they were given.
    pub(crate) fn words(&self) -> String {
        let condition = self.condition.as_ref().map(|condition| condition.text().to_owned());
        let given = [
            ("--where", condition),
            ("--from", self.span.from.map(|_| String::new())),
            ("--to", self.span.to.map(|_| String::new())),
        ];
        let words = given.into_iter().filter_map(|(name, text)| {
            let text = text?;
            Some(if text.is_empty() { name.to_owned() } else { format!("{name} '{text}'") })
        });
        words.collect::<Vec<_>>().join(", ")
    }
}
