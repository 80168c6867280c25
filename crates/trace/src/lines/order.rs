//! Sorting of lines by time, within a memory limit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use crate::limits::Limits;

/// The memory overhead of a line, without its text.
const LINE_BYTES: usize = 96;

/// Sorts lines by time: holds them back in a heap, and writes the earliest one when the heap is
/// full.
pub(super) struct Order<'a, W> {
    out: &'a mut W,
    /// The time, the position in the trace, and the text of each line.
    waiting: BinaryHeap<Reverse<(u64, u64, Vec<u8>)>>,
    bytes: usize,
    limit: usize,
    written: Option<u64>,
    lines: u64,
    unordered: u64,
    error: Option<io::Error>,
}

impl<'a, W: Write> Order<'a, W> {
    pub(super) fn new(limits: Limits, out: &'a mut W) -> Self {
        Self {
            out,
            waiting: BinaryHeap::new(),
            bytes: 0,
            limit: limits.waiting_bytes(),
            written: None,
            lines: 0,
            unordered: 0,
            error: None,
        }
    }

    pub(super) fn add(&mut self, time: u64, mut line: Vec<u8>) {
        line.push(b'\n');
        self.lines += 1;
        self.bytes += line.capacity() + LINE_BYTES;
        self.waiting.push(Reverse((time, self.lines, line)));
        while self.bytes > self.limit {
            self.write_one();
        }
    }

    fn write_one(&mut self) {
        let Some(Reverse((time, _, line))) = self.waiting.pop() else {
            return;
        };
        self.bytes -= line.capacity() + LINE_BYTES;
        self.unordered += u64::from(self.written.is_some_and(|written| time < written));
        self.written = self.written.max(Some(time));
        if self.error.is_none() {
            self.error = self.out.write_all(&line).err();
        }
    }

    /// Returns true if writing has not failed.
    pub(super) fn is_writable(&self) -> bool {
        self.error.is_none()
    }

    /// Writes the rest. Returns the number of lines, and the number of those that follow later
    /// ones.
    pub(super) fn finish(mut self) -> io::Result<(u64, u64)> {
        while !self.waiting.is_empty() {
            self.write_one();
        }
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| (self.lines, self.unordered)),
        }
    }
}
