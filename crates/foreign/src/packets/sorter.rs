//! Sorting by time, in bounded memory.
//!
//! An external merge sort: events that do not fit into memory are sorted and written to a temporary
//! file, run by run, and the runs are merged at the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;

use crate::packets::ImportError;

/// The size of the read buffer of each run.
const BUFFER: usize = 64 << 10;

/// The sort key of an event: its time, and its rank among events of the same time. The sort is
/// stable.
type Key = (i64, i64);

/// The size of an event's header in the file: its key and length.
const HEADER: usize = 20;

/// Sorts events, given as bytes.
#[derive(Debug)]
pub(crate) struct Sorter {
    memory: usize,
    bytes: Vec<u8>,
    /// The events in `bytes`: key, start and length.
    events: Vec<(Key, usize, usize)>,
    file: Option<File>,
    /// The runs in the file: start and end offset.
    runs: Vec<(u64, u64)>,
}

impl Sorter {
    /// Creates a sorter that keeps about `memory` bytes in memory.
    pub(crate) fn new(memory: usize) -> Self {
        Self {
            memory,
            bytes: Vec::new(),
            events: Vec::new(),
            file: None,
            runs: Vec::new(),
        }
    }

    /// Adds an event.
    pub(crate) fn push(&mut self, key: Key, event: &[u8]) -> Result<(), ImportError> {
        let taken = self.bytes.len() + self.events.len() * size_of_val(&(key, 0usize, 0usize));
        if taken > self.memory {
            self.spill().map_err(sort_error)?;
        }
        self.events.push((key, self.bytes.len(), event.len()));
        self.bytes.extend_from_slice(event);
        Ok(())
    }

    /// Calls `each` with all events in order.
    pub(crate) fn finish(
        mut self,
        mut each: impl FnMut(i64, &[u8]) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        if self.runs.is_empty() {
            self.events.sort_by_key(|(key, ..)| *key);
            return self.events.iter().try_for_each(|&(key, begin, length)| {
                each(key.0, &self.bytes[begin..begin + length])
            });
        }
        self.spill().map_err(sort_error)?;
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut runs = Vec::new();
        let mut next = BinaryHeap::new();
        for (number, &(at, end)) in self.runs.iter().enumerate() {
            let run = RunBytes { file, at, end };
            let mut run = Run {
                bytes: BufReader::with_capacity(BUFFER, run),
                event: Vec::new(),
            };
            if let Some(key) = run.next().map_err(sort_error)? {
                next.push(Reverse((key, number)));
            }
            runs.push(run);
        }
        while let Some(Reverse((key, number))) = next.pop() {
            let run = &mut runs[number];
            each(key.0, &run.event)?;
            if let Some(key) = run.next().map_err(sort_error)? {
                next.push(Reverse((key, number)));
            }
        }
        Ok(())
    }

    /// Writes the events in memory to the file as a sorted run.
    fn spill(&mut self) -> io::Result<()> {
        self.events.sort_by_key(|(key, ..)| *key);
        let begin = self.runs.last().map_or(0, |(_, end)| *end);
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
        self.runs.push((begin, end));
        self.events.clear();
        self.bytes.clear();
        Ok(())
    }
}

fn sort_error(error: io::Error) -> ImportError {
    let what = format!("cannot sort the events in a temporary file: {error}");
    ImportError::Write(io::Error::new(error.kind(), what))
}

/// The bytes of one run in the file.
struct RunBytes<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for RunBytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let length = buffer.len().min(left);
        let count = self.file.read_at(&mut buffer[..length], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// A run that is being merged.
struct Run<'a> {
    bytes: BufReader<RunBytes<'a>>,
    /// The bytes of the next event.
    event: Vec<u8>,
}

impl Run<'_> {
    /// Reads the next event, and returns its key.
    fn next(&mut self) -> io::Result<Option<Key>> {
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
    fn spilled_events_are_in_the_same_order_as_events_in_memory() {
        let order = |memory| {
            let mut sorter = Sorter::new(memory);
            for number in 0..1000u64 {
                let key = ((number * 7919 % 100) as i64 - 50, (number % 3) as i64);
                sorter.push(key, &number.to_ne_bytes()).unwrap();
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
