//! Lines in the order of time, as far as memory allows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use crate::limits::Limits;

/// The memory that a line takes beside its text.
const LINE_BYTES: usize = 96;

/// Holds lines back until they are the earliest of so many that earlier ones cannot be expected.
pub(super) struct Order<'a, W> {
    out: &'a mut W,
    /// Time, place in the trace, text.
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

    /// Writes the rest. Returns how many lines there were, and how many of them stand behind later
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
