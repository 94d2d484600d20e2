//! The report of a service test: verdicts, tables and charts of ITU-T Y.1564 and RFC 2544.

mod charts;
mod rates;
mod second;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod trials;
mod view;

use super::Reported;
use super::chart::sections;
use super::document::{self, Brief, Document, filled};
use crate::service::result::{Report, Results};
use view::View;

impl Reported for Report {
    const KIND: &'static str = "service test";
    type Body = Results;

    fn document(&self) -> Document {
        let view = View::new(self);
        Document {
            verdict: Some(text::banner(self)),
            headline: Some(text::headline(&view)),
            summary: Some(tables::glance(&view)).filter(|table| !table.rows.is_empty()),
            findings: text::details(&view),
            first: filled([tables::checks(&view, true), tables::performance(&view)]),
            warnings: text::warnings(&view),
            sections: sections(charts::charts(&view)),
            tables: filled([
                tables::tap(&view),
                tables::source(&view),
                tables::configuration(&view),
                trials::throughput(&view),
                trials::latency(&view),
                trials::frame_loss(&view),
                trials::back_to_back(&view),
                trials::recovery(&view),
                tables::variation(&view),
                tables::services(&view),
                tables::null(self),
                document::machine(&self.machine),
            ]),
            method: text::method(&view),
            details: filled([tables::checks(&view, false), trials::trials(&view)]),
            ..Document::of(
                "quaff service",
                self,
                &self.plan.name,
                &self.plan.title,
                self.plan.source.as_ref(),
            )
        }
    }

    fn brief(&self) -> Brief {
        let view = View::new(self);
        Brief {
            heading: document::heading(self, &self.plan.name, &self.plan.title),
            findings: text::findings(&view),
            tables: filled([
                tables::glance(&view),
                tables::performance(&view),
                tables::tap(&view),
                tables::checks(&view, true),
                tables::configuration(&view),
                trials::throughput(&view),
                trials::latency(&view),
                trials::frame_loss(&view),
                trials::back_to_back(&view),
                trials::recovery(&view),
                tables::source(&view),
            ]),
            details: filled([
                tables::variation(&view),
                tables::checks(&view, false),
                trials::trials(&view),
                tables::services(&view),
                tables::null(self),
                document::machine(&self.machine),
            ]),
            notes: text::warnings(&view),
        }
    }
}
