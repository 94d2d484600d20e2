//! The terms of the identity of packets, in one table: its sums, its check, the reports and their words derive from it.
//!
//! `offered = received + all terms`. A new term is a row here, its count in a stage, and a row of docs/capture.md.

use serde::Serialize;

/// The fate of the packets of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Wanted packets that are missing.
    Lost,
    /// Wanted packets that the output cannot hold.
    Unsuited,
    /// Packets that were not requested.
    Unwanted,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The name in JSON.
    pub name: &'static str,
    pub fate: Fate,
    /// The words after a number of packets; for lost ones, after "lost" and the number. Settings are in backquotes.
    pub words: &'static str,
}

macro_rules! terms {
    ($($(#[$doc:meta])+ $name:ident: $fate:ident, $words:literal;)+) => {
        /// Packets that were offered and not received, by reason.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct Terms {
            $($(#[$doc])+ pub $name: u64,)+
        }

        /// The table, in the order of reports.
        pub const TERMS: &[Term] =
            &[$(Term { name: stringify!($name), fate: Fate::$fate, words: $words },)+];

        /// The identity that the terms are in.
        pub(crate) const IDENTITY: &str = concat!("offered = received", $(" + ", stringify!($name),)+);

        impl Terms {
            /// The counts, in the order of the table.
            fn counts(&self) -> [u64; TERMS.len()] {
                [$(self.$name,)+]
            }

            #[cfg(test)]
            fn counts_mut(&mut self) -> [&mut u64; TERMS.len()] {
                [$(&mut self.$name,)+]
            }

            /// Adds the counts of another lane.
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

terms! {
    /// Dropped by the interface (`rx_missed`, `rx_fifo`, `rx_over` of its counters).
    nic_dropped: Lost, "at the interface (its ring was full: 'ethtool -g' shows its size)";
    /// Dropped because the kernel's ring was full.
    kernel_dropped: Lost, "in the kernel's ring (raise `ring`, or give the lane a core with `cpu`)";
    /// Excluded by filters.
    filtered: Unwanted, "rejected by the filter";
    /// After the limit of `--count`, or after the reader of the output had closed it.
    after_count: Unwanted, "arrived after the end";
    /// Not in a tunnel (`--decap-only`).
    not_tunnel: Unwanted, "dropped: not in a tunnel";
    /// Fragments that became part of another packet.
    merged: Unwanted, "fragments reassembled into other packets";
    /// Of a link type that the output's format cannot hold together with the others (pcap), or of more interfaces than
    /// it can have.
    unsuited: Unsuited, "dropped: of another link type (pcap has one: `ethernet` or `decap-only` may help), or of more \
                         interfaces than the output can have";
    /// Outside the requested times, by the times in the file.
    out_of_time: Unwanted, "outside the times of `from` and `to`";
    /// Outside the requested packet numbers.
    out_of_range: Unwanted, "left out by `include` or `exclude`";
    /// Equal to a packet before them.
    duplicates: Unwanted, "duplicates dropped";
}

impl Terms {
    /// Each term with its count.
    pub fn each(&self) -> impl Iterator<Item = (&'static Term, u64)> {
        TERMS.iter().zip(self.counts())
    }

    /// The sum of all terms.
    pub(crate) fn sum(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// Packets that were wanted, and are not in the output.
    pub(crate) fn lost(&self) -> u64 {
        self.each().filter(|(term, _)| term.fate != Fate::Unwanted).map(|(_, count)| count).sum()
    }

    /// A different count of each.
    #[cfg(test)]
    pub(super) fn numbered() -> Self {
        let mut terms = Self::default();
        terms.counts_mut().into_iter().zip(1..).for_each(|(count, number)| *count = number);
        terms
    }

    /// The same without one of them.
    #[cfg(test)]
    pub(super) fn without(&self, at: usize) -> Self {
        let mut without = *self;
        *without.counts_mut()[at] = 0;
        without
    }

    /// The sum of the terms of all lanes.
    pub(crate) fn of<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        all.into_iter().fold(Self::default(), |mut sum, terms| {
            sum.add(terms);
            sum
        })
    }
}
