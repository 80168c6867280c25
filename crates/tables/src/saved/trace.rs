//! Writing and reading whole traces.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::{Array, Element, Reader, Saved, Writer, check, damaged};
use crate::derived::SchedLog;
use crate::store::{DiskRequest, Loss, Lost, MissingSwitches};
use crate::strings::StringId;
use crate::trace::Trace;
use crate::trackers::flow::FlowEnds;

impl Trace {
    /// Returns true if the trace can be saved: it is a whole one, and all of it was imported.
    pub fn can_be_saved(&self) -> bool {
        let FlowEnds { first, last } = &self.flow_ends;
        !self.exceeds_memory && first.is_empty() && last.is_empty()
    }

    /// Writes the trace, with all tables computed.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        writer.number(self.remarks.len() as u64);
        for remark in &self.remarks {
            writer.bytes(remark.as_bytes())?;
        }
        writer.number(self.losses.len() as u64);
        self.losses.iter().for_each(|loss| save_loss(writer, loss));
        writer.number(self.missing_switches.len() as u64);
        for missing in &self.missing_switches {
            writer.number(missing.ucpu.into());
            writer.number(missing.missing);
            writer.number(missing.of);
        }
        self.disk_requests.save(writer)?;
        self.stats.save(writer)?;
        self.strings.save(writer)?;
        self.tables.save(writer)?;
        self.log.save(writer)
    }

    /// Runs code that reads this trace. Returns `None` if a part of its file turned out to be
    /// damaged: the code was ended, or its result may lack something.
    pub fn intact<R>(&self, read: impl FnOnce() -> R) -> Option<R> {
        let result = catch_unwind(AssertUnwindSafe(read));
        let is_damaged = self.saved.as_ref().is_some_and(|pages| pages.is_damaged());
        match result {
            _ if is_damaged => None,
            Ok(result) => Some(result),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Returns the number of bytes that were read of the file of this trace so far, of which most
    /// are kept in memory. A trace that was imported reads none.
    pub fn bytes_read(&self) -> u64 {
        self.saved.as_ref().map_or(0, |pages| pages.bytes_read())
    }

    /// Reads a written trace. Columns are read when they are needed.
    ///
    /// # Errors
    ///
    /// Fails if the file is damaged.
    pub fn load(reader: &mut Reader) -> io::Result<Self> {
        let mut remarks = Vec::new();
        for _ in 0..reader.count()? {
            let remark = String::from_utf8(reader.bytes()?);
            remarks.push(remark.map_err(|_| damaged())?);
        }
        let mut losses = Vec::new();
        for _ in 0..reader.count()? {
            losses.push(load_loss(reader)?);
        }
        let mut missing_switches = Vec::new();
        for _ in 0..reader.count()? {
            missing_switches.push(MissingSwitches {
                ucpu: reader.small()?,
                missing: reader.number()?,
                of: reader.number()?,
            });
        }
        let mut trace = Self {
            remarks,
            losses,
            missing_switches,
            exceeds_memory: false,
            flow_ends: FlowEnds::default(),
            disk_requests: Array::load(reader)?,
            stats: Saved::load(reader)?,
            strings: Saved::load(reader)?,
            tables: Saved::load(reader)?,
            log: Arc::new(SchedLog::load(reader)?),
            saved: Some(reader.pages()),
        };
        let first = trace.log.first_args();
        check(first.is_none_or(|first| first as usize == trace.tables.args.own_rows()))?;
        trace.tables.attach_args(&trace.log);
        Ok(trace)
    }
}

impl Element for DiskRequest {
    const BYTES: usize = 32;

    fn write(self, out: &mut Vec<u8>) {
        self.ts.write(out);
        self.dur.write(out);
        self.bytes.write(out);
        self.thread.unwrap_or(u32::MAX).write(out);
        self.name.0.write(out);
    }

    fn read(bytes: &[u8]) -> Self {
        let long = |at: usize| &bytes[at..at + 8];
        let short = |at: usize| u32::read(&bytes[at..at + 4]);
        Self {
            ts: i64::read(long(0)),
            dur: i64::read(long(8)),
            bytes: u64::read(long(16)),
            thread: Some(short(24)).filter(|thread| *thread != u32::MAX),
            name: StringId(short(28)),
        }
    }
}

/// The kinds of losses.
const PACKETS: u64 = 0;
const KERNEL_EVENTS: u64 = 1;
const SWITCHES: u64 = 2;

fn save_loss(writer: &mut Writer<'_>, loss: &Loss) {
    writer.signed(loss.ts);
    match loss.lost {
        Lost::Packets { sequence } => {
            writer.number(PACKETS);
            writer.number(sequence.into());
        }
        Lost::KernelEvents { ucpu } => {
            writer.number(KERNEL_EVENTS);
            writer.optional(ucpu.map(i64::from));
        }
        Lost::Switches {
            ucpu,
            from,
            thread,
            since,
        } => {
            writer.number(SWITCHES);
            writer.number(ucpu.into());
            writer.signed(from);
            writer.number(thread.into());
            writer.signed(since);
        }
    }
}

fn load_loss(reader: &mut Reader) -> io::Result<Loss> {
    let ts = reader.signed()?;
    let lost = match reader.number()? {
        PACKETS => Lost::Packets {
            sequence: reader.small()?,
        },
        KERNEL_EVENTS => Lost::KernelEvents {
            ucpu: reader.optional()?.and_then(|ucpu| u32::try_from(ucpu).ok()),
        },
        SWITCHES => Lost::Switches {
            ucpu: reader.small()?,
            from: reader.signed()?,
            thread: reader.small()?,
            since: reader.signed()?,
        },
        _ => return Err(damaged()),
    };
    Ok(Loss { ts, lost })
}
