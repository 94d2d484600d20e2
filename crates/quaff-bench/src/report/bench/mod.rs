//! The report of a bench: sentences, tables and charts of its cases, searches and bursts.

mod cells;
mod charts;
mod lanes;
mod points;
mod readings;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod view;

use super::Reported;
use super::chart::sections;
use super::document::{self, Brief, Document, filled};
use crate::bench::result::{Report, Results};
use view::View;

impl Reported for Report {
    const KIND: &'static str = "bench";
    type Body = Results;

    fn document(&self) -> Document {
        let view = View::new(self);
        let (warnings, remarks) = text::warnings(&view);
        Document {
            headline: text::headline(&view),
            findings: text::findings(&view),
            summary: Some(tables::summary(&view)).filter(|table| !table.rows.is_empty()),
            warnings,
            remarks,
            sections: sections(charts::charts(&view)),
            tables: filled([
                points::table(&view),
                tables::source(&view),
                tables::contents(&view),
                lanes::table(&view),
                tables::searches(&view),
                tables::bursts(&view),
                readings::table(&view),
                tables::cases(&view),
                tables::rivals(&view),
                tables::calibration(&view),
                document::machine(&self.machine),
            ]),
            method: text::method(self),
            details: filled([
                tables::runs(&view),
                tables::cores(&view),
                tables::trials(&view),
                readings::programs(&view),
            ]),
            ..Document::of("quaff bench", self, &self.plan.name, &self.plan.title, self.plan.source.as_ref())
        }
    }

    fn brief(&self) -> Brief {
        let view = View::new(self);
        let mut tables = filled([points::table(&view)]);
        tables.extend(tables::pivots(&view));
        tables.extend(filled([
            lanes::table(&view),
            tables::contents(&view),
            tables::searches(&view),
            tables::bursts(&view),
            readings::table(&view),
            tables::summary(&view),
            tables::source(&view),
        ]));
        Brief {
            heading: document::heading(self, &self.plan.name, &self.plan.title),
            findings: text::headline(&view).into_iter().collect(),
            tables,
            details: filled([
                tables::calibration(&view),
                tables::cases(&view),
                tables::runs(&view),
                tables::trials(&view),
                readings::programs(&view),
                tables::rivals(&view),
                document::machine(&self.machine),
            ]),
            notes: text::notes(self),
        }
    }
}
