//! Sorting by time, in bounded memory.
//!
//! Events that do not fit into memory are written to a temporary file, sorted part by part, and the
//! parts are merged at the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;

use crate::ImportError;

/// The bytes that are read at once of each part.
const BUFFER: usize = 64 << 10;

/// The place of an event: its time, and its rank among those of the same time. Events of one place
/// stay in their order.
type Place = (i64, i64);

/// The header of an event in the file: its place and length.
const HEADER: usize = 20;

/// Sorts events, given as bytes.
#[derive(Debug)]
pub(crate) struct Sorter {
    memory: usize,
    bytes: Vec<u8>,
    /// The events in `bytes`: place, begin and length.
    events: Vec<(Place, usize, usize)>,
    file: Option<File>,
    /// The parts in the file: the bytes from and to.
    parts: Vec<(u64, u64)>,
}

impl Sorter {
    /// Returns one that keeps about so many bytes in memory.
    pub(crate) fn new(memory: usize) -> Self {
        Self {
            memory,
            bytes: Vec::new(),
            events: Vec::new(),
            file: None,
            parts: Vec::new(),
        }
    }

    /// Adds an event.
    pub(crate) fn push(&mut self, place: Place, event: &[u8]) -> Result<(), ImportError> {
        let taken = self.bytes.len() + self.events.len() * size_of_val(&(place, 0usize, 0usize));
        if taken > self.memory {
            self.spill().map_err(no_room)?;
        }
        self.events.push((place, self.bytes.len(), event.len()));
        self.bytes.extend_from_slice(event);
        Ok(())
    }

    /// Hands out all events in their order.
    pub(crate) fn finish(
        mut self,
        mut each: impl FnMut(i64, &[u8]) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        if self.parts.is_empty() {
            self.events.sort_by_key(|(place, ..)| *place);
            return self.events.iter().try_for_each(|&(place, begin, length)| {
                each(place.0, &self.bytes[begin..begin + length])
            });
        }
        self.spill().map_err(no_room)?;
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut parts = Vec::new();
        let mut next = BinaryHeap::new();
        for (number, &(at, end)) in self.parts.iter().enumerate() {
            let part = PartOfFile { file, at, end };
            let mut part = Part {
                bytes: BufReader::with_capacity(BUFFER, part),
                event: Vec::new(),
            };
            if let Some(place) = part.next().map_err(no_room)? {
                next.push(Reverse((place, number)));
            }
            parts.push(part);
        }
        while let Some(Reverse((place, number))) = next.pop() {
            let part = &mut parts[number];
            each(place.0, &part.event)?;
            if let Some(place) = part.next().map_err(no_room)? {
                next.push(Reverse((place, number)));
            }
        }
        Ok(())
    }

    /// Writes the events in memory to the file.
    fn spill(&mut self) -> io::Result<()> {
        self.events.sort_by_key(|(place, ..)| *place);
        let begin = self.parts.last().map_or(0, |(_, end)| *end);
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile()?),
        };
        let mut out = BufWriter::with_capacity(BUFFER, file);
        let mut end = begin;
        for &((ts, rank), begin, length) in &self.events {
            let mut header = [0; HEADER];
            header[..8].copy_from_slice(&ts.to_ne_bytes());
            header[8..16].copy_from_slice(&rank.to_ne_bytes());
            header[16..].copy_from_slice(&(length as u32).to_ne_bytes());
            out.write_all(&header)?;
            out.write_all(&self.bytes[begin..begin + length])?;
            end += (HEADER + length) as u64;
        }
        out.flush()?;
        drop(out);
        self.parts.push((begin, end));
        self.events.clear();
        self.bytes.clear();
        Ok(())
    }
}

fn no_room(error: io::Error) -> ImportError {
    let what = format!("cannot sort the events in a temporary file: {error}");
    ImportError::Write(io::Error::new(error.kind(), what))
}

/// A part of the file, read from the front.
struct PartOfFile<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for PartOfFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let room = buffer.len().min(left);
        let count = self.file.read_at(&mut buffer[..room], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// A part that is merged with others.
struct Part<'a> {
    bytes: BufReader<PartOfFile<'a>>,
    /// The bytes of its next event.
    event: Vec<u8>,
}

impl Part<'_> {
    /// Reads the next event, and returns its place.
    fn next(&mut self) -> io::Result<Option<Place>> {
        if self.bytes.buffer().is_empty() && self.bytes.get_ref().at >= self.bytes.get_ref().end {
            return Ok(None);
        }
        let mut header = [0; HEADER];
        self.bytes.read_exact(&mut header)?;
        let word = |at: usize| {
            let word = header[at..at + 8].try_into();
            i64::from_ne_bytes(word.unwrap_or_default())
        };
        let length = header[16..].try_into().map(u32::from_ne_bytes);
        self.event.resize(length.unwrap_or(0) as usize, 0);
        self.bytes.read_exact(&mut self.event)?;
        Ok(Some((word(0), word(8))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_in_order_whether_they_fit_into_memory_or_not() {
        let order = |memory| {
            let mut sorter = Sorter::new(memory);
            for number in 0..1000u64 {
                let place = ((number * 7919 % 100) as i64 - 50, (number % 3) as i64);
                sorter.push(place, &number.to_ne_bytes()).unwrap();
            }
            let mut seen = Vec::new();
            let each = |ts, event: &[u8]| {
                seen.push((ts, u64::from_ne_bytes(event.try_into().unwrap())));
                Ok(())
            };
            sorter.finish(each).unwrap();
            seen
        };
        let whole = order(usize::MAX);
        assert_eq!(whole.len(), 1000);
        assert!(whole.is_sorted_by_key(|(ts, number)| (*ts, number % 3, *number)));
        assert_eq!(order(500), whole);
    }
}
