//! Objects of HTTP: the body of a message, decoded, in a file named for its URL, with its kind and its digest.
//!
//! | module | task |
//! |---|---|
//! | `line` | the body of an object, and its entry in the index |
//! | `coding` | gzip, deflate, br and zstd |
//! | `limit` | most bytes of an object, and of all |
//! | `kind` | the kind by the first bytes |
//! | `name` | the name by the URL |
//! | `page`, `table` | all objects for people and for programs |
//!
//! A body is written as it was sent, and becomes an object when it ends: its file is renamed, or, if it has a content
//! coding, decoded to another one. An object that lacks bytes is what could be had, and its name ends in `.partial`; so
//! does the name of one that is being decoded.

mod coding;
mod kind;
mod limit;
mod line;
mod name;
mod page;
mod table;

pub(super) use line::{Body, Object};
pub(super) use page::PAGE;
pub(super) use table::TABLE;

use super::super::folder::Folder;
use crate::Result;
use crate::output::ObjectTally;
use coding::{Coding, Decoded};
use kind::Kind;
use limit::Limit;
use line::Lack;
use name::partial;
use ring::digest::{Context, SHA256};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};

/// The objects of a run.
#[derive(Debug)]
pub(super) struct Objects {
    page: Listing,
    table: Listing,
    limit: Limit,
    tally: ObjectTally,
}

impl Objects {
    /// Begins the page and the table.
    pub(super) fn open(folder: &Folder) -> Result<Self> {
        Ok(Self {
            page: Listing::create(folder, PAGE, page::HEAD)?,
            table: Listing::create(folder, TABLE, table::HEAD)?,
            limit: Limit::default(),
            tally: ObjectTally::default(),
        })
    }

    /// Makes an object of a body that has ended. The file of the body is gone then.
    pub(super) fn make(&mut self, folder: &Folder, body: &Body) -> Result<Object> {
        let object = self.write(folder, body)?;
        self.page.add(folder, &page::row(&object, body))?;
        self.table.add(folder, &table::row(&object, body))?;
        self.tally.bytes += object.bytes;
        self.tally.partial += u64::from(object.partial.is_some());
        self.tally.damaged += u64::from(object.partial == Some(Lack::Damaged));
        self.tally.limited += u64::from(object.partial == Some(Lack::Limit));
        Ok(object)
    }

    fn write(&mut self, folder: &Folder, body: &Body) -> Result<Object> {
        self.tally.files += 1;
        let (coding, sent) = (Coding::of(body.coding), BufReader::new(folder.read(body.file)?));
        let mut draft = Draft::new(folder, body, self.tally.files, coding);
        if !coding.is_decoded() {
            coding.decode(sent, u64::MAX, |bytes| draft.add(bytes))?;
            return draft.finish(Decoded::Whole);
        }
        let room = self.limit.room(body.bytes);
        let end = coding.decode(sent, room, |bytes| draft.add(bytes))?;
        self.limit.note(draft.bytes);
        draft.finish(end)
    }

    /// Ends the page and the table.
    pub(super) fn finish(&mut self, folder: &Folder) -> Result<()> {
        self.page.end(folder, page::TAIL)?;
        self.table.end(folder, "")
    }

    pub(super) fn tally(&self) -> ObjectTally {
        self.tally
    }
}

/// A file with an entry for each object.
#[derive(Debug)]
struct Listing {
    name: &'static str,
    file: BufWriter<File>,
}

impl Listing {
    fn create(folder: &Folder, name: &'static str, head: &str) -> Result<Self> {
        let mut listing = Self { name, file: BufWriter::new(folder.create(name)?) };
        listing.add(folder, head)?;
        Ok(listing)
    }

    fn add(&mut self, folder: &Folder, text: &str) -> Result<()> {
        self.file.write_all(text.as_bytes()).map_err(|error| folder.error("write to", self.name, error))
    }

    fn end(&mut self, folder: &Folder, tail: &str) -> Result<()> {
        self.add(folder, tail)?;
        self.file.flush().map_err(|error| folder.error("write to", self.name, error))
    }
}

/// An object that is being made.
struct Draft<'a> {
    folder: &'a Folder,
    body: &'a Body<'a>,
    number: u64,
    coding: Coding,
    /// Its name when it is whole, from the first bytes on, and its file if it is decoded.
    name: Option<String>,
    file: Option<File>,
    kind: Kind,
    sha256: Context,
    bytes: u64,
}

impl<'a> Draft<'a> {
    fn new(folder: &'a Folder, body: &'a Body<'a>, number: u64, coding: Coding) -> Self {
        let (kind, sha256) = (Kind::DATA, Context::new(&SHA256));
        Self { folder, body, number, coding, name: None, file: None, kind, sha256, bytes: 0 }
    }

    /// Adds bytes. The first ones decide the kind, which ends the name.
    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        if self.name.is_none() {
            self.kind = Kind::by_content(bytes);
            let name = name::name(self.number, self.body, self.kind);
            if self.coding.is_decoded() {
                self.file = Some(self.folder.create(&partial(&name))?);
            }
            self.name = Some(name);
        }
        self.sha256.update(bytes);
        self.bytes += bytes.len() as u64;
        let written = self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes));
        written
            .map_err(|error| self.folder.error("write to", self.name.as_deref().unwrap_or_default(), error))
    }

    /// Names the file.
    fn finish(mut self, end: Decoded) -> Result<Object> {
        if self.name.is_none() {
            self.add(&[])?;
        }
        let lack = match end {
            _ if !self.body.is_whole => Some(Lack::Missing),
            Decoded::Whole => None,
            Decoded::Damaged => Some(Lack::Damaged),
            Decoded::TooLong => Some(Lack::Limit),
        };
        let name = self.name.take().unwrap_or_default();
        let (unfinished, sent) = (partial(&name), self.body.file);
        let from = if self.coding.is_decoded() { unfinished.as_str() } else { sent };
        let file = if lack.is_some() { unfinished.clone() } else { name };
        if from != file {
            self.folder.rename(from, &file)?;
        }
        if self.coding.is_decoded() {
            self.folder.remove(sent)?;
        }
        let (bytes, decoded) = (self.bytes, self.coding != Coding::Other);
        let sha256 = self.sha256.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Object { file, bytes, kind: self.kind.name, sha256, partial: lack, decoded })
    }
}

#[cfg(test)]
mod tests;
