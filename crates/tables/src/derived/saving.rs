//! Saved logs.

use std::io;

use super::log::{SchedLog, Thread};
use super::raw::Names;
use crate::column::Packed;
use crate::saved::{Reader, Saved, Writer, check};

impl Saved for SchedLog {
    /// Writes what arguments are computed from, which is all that remains to be computed once the
    /// tables are.
    fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        let raw = self.switches[1].iter().chain(&self.wakes[1]);
        for column in raw {
            column.save(writer)?;
        }
        for count in self.raw {
            writer.number(count.into());
        }
        writer.optional(self.first_args.map(i64::from));
        let names = self.names.filter(|_| self.first_args.is_some());
        writer.number(names.is_some().into());
        names.iter().try_for_each(|names| names.save(writer))?;
        writer.number(self.threads.len() as u64);
        for thread in &self.threads {
            writer.number(thread.tid.into());
        }
        Ok(())
    }

    fn load(reader: &mut Reader) -> io::Result<Self> {
        let mut log = Self::default();
        let [_, switches] = &mut log.switches;
        let [_, wakes] = &mut log.wakes;
        for column in switches.iter_mut().chain(wakes) {
            *column = Packed::load(reader)?;
        }
        for count in &mut log.raw {
            *count = reader.small()?;
        }
        let first = reader.optional()?;
        log.first_args = first.and_then(|first| u32::try_from(first).ok());
        if reader.number()? != 0 {
            log.names = Some(Names::load(reader)?);
        }
        for _ in 0..reader.count()? {
            log.threads.push(Thread {
                tid: reader.small()?,
                is_idle: false,
                is_scheduled: false,
            });
        }
        let raw = [log.switches[1][0].len(), log.wakes[1][0].len()];
        for (rows, count) in raw.into_iter().zip(log.raw) {
            check(rows == count as usize)?;
        }
        let end = match log.first_args {
            None => Some(0),
            Some(first) => log.count_args().and_then(|count| first.checked_add(count)),
        };
        check(end.is_some())?;
        Ok(log)
    }
}
