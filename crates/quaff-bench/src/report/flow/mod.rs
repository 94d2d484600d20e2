//! The report of a bench of flow meters: packets, bytes and flows sent and reported, CPU time and memory.

mod charts;
mod tables;
#[cfg(test)]
mod tests;
mod text;

use super::Reported;
use super::chart::sections;
use super::document::{self, Brief, Document, filled};
use crate::flow::result::{Report, Results};

impl Reported for Report {
    const KIND: &'static str = "bench of flow meters";
    type Body = Results;

    fn document(&self) -> Document {
        Document {
            headline: text::headline(self),
            findings: text::findings(self),
            summary: Some(tables::summary(self)).filter(|table| !table.rows.is_empty()),
            first: filled([tables::live(self), tables::files(self), tables::searches(self)]),
            warnings: text::warnings(self),
            sections: sections(charts::charts(self)),
            tables: filled([
                tables::source(self),
                tables::meters(self),
                tables::calibration(self),
                document::machine(&self.machine),
            ]),
            method: text::method(self),
            details: filled([tables::runs(self), tables::trials(self)]),
            ..Document::of(
                "quaff bench flow",
                self,
                &self.plan.name,
                &self.plan.title,
                self.plan.source.as_ref(),
            )
        }
    }

    fn brief(&self) -> Brief {
        Brief {
            heading: document::heading(self, &self.plan.name, &self.plan.title),
            findings: text::headline(self).into_iter().chain(text::findings(self)).collect(),
            tables: filled([
                tables::live(self),
                tables::files(self),
                tables::searches(self),
                tables::source(self),
            ]),
            details: filled([
                tables::meters(self),
                tables::calibration(self),
                tables::runs(self),
                tables::trials(self),
                document::machine(&self.machine),
            ]),
            notes: text::warnings(self),
        }
    }
}
