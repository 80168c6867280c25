//! The time that the threads of each process ran, in steps of the whole trace.

use std::io;

use ferretto_tables::saved::{Data, Reader, Writer};
use rustc_hash::FxHashMap;

use crate::varints::{self, Varints};

/// A trace has at most 2^`STEPS` steps.
const STEPS: u32 = 14;

/// The time that the threads of each process ran in steps of 2^`shift` ns, which count from the
/// start of the trace.
#[derive(Debug)]
pub(crate) struct Loads {
    shift: u32,
    /// The end of the steps of each process in the data.
    ends: Vec<u64>,
    steps: Steps,
}

/// The steps with load of all processes: the distance to the one before, and nanoseconds.
#[derive(Debug)]
enum Steps {
    Built(Vec<u8>),
    Saved(Data),
}

impl Loads {
    /// Returns the length of the steps of a trace of this length, as a power of two.
    pub(crate) fn shift(duration: u64) -> u32 {
        (u64::BITS - duration.leading_zeros()).saturating_sub(STEPS)
    }

    /// Adds up times. `each_run` calls its argument with a process, and with the start and the end
    /// of a time in which one of its threads ran, in nanoseconds from the start of the trace.
    pub(crate) fn new(
        duration: u64,
        processes: usize,
        each_run: impl FnOnce(&mut dyn FnMut(u32, u64, u64)),
    ) -> Self {
        let shift = Self::shift(duration);
        let mut sums: Vec<FxHashMap<u64, u64>> = vec![FxHashMap::default(); processes];
        each_run(&mut |process, mut at, end| {
            let Some(sums) = sums.get_mut(process as usize) else {
                return;
            };
            while at < end {
                let step = at >> shift;
                let until = ((step + 1) << shift).min(end);
                *sums.entry(step).or_default() += until - at;
                at = until;
            }
        });
        let (mut ends, mut bytes) = (Vec::new(), Vec::new());
        for sums in sums {
            let mut steps: Vec<(u64, u64)> = sums.into_iter().collect();
            steps.sort_unstable();
            let mut before = 0;
            for (step, sum) in steps {
                varints::put(&mut bytes, step - before);
                varints::put(&mut bytes, sum);
                before = step;
            }
            ends.push(bytes.len() as u64);
        }
        Self {
            shift,
            ends,
            steps: Steps::Built(bytes),
        }
    }

    /// Calls `each` with the steps in which a process ran: the start of the step, and nanoseconds.
    pub(crate) fn of(&self, process: u32, mut each: impl FnMut(u64, u64)) {
        let end = |index: usize| self.ends.get(index).map_or(0, |end| *end as usize);
        let index = process as usize;
        let part = index.checked_sub(1).map_or(0, end)..end(index);
        if part.is_empty() {
            return;
        }
        let read;
        let bytes = match &self.steps {
            Steps::Built(bytes) => &bytes[part],
            Steps::Saved(data) => {
                read = data.read(part);
                &read[..]
            }
        };
        let mut varints = Varints::new(bytes);
        let mut step = 0_u64;
        while !varints.is_empty() {
            step = step.wrapping_add(varints.next());
            each(step << self.shift, varints.next());
        }
    }

    /// Returns the memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        let steps = match &self.steps {
            Steps::Built(bytes) => bytes.capacity(),
            Steps::Saved(_) => 0,
        };
        8 * self.ends.capacity() + steps
    }

    /// Writes the loads of an imported trace.
    pub(crate) fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        writer.number(self.shift.into());
        writer.number(self.ends.len() as u64);
        let mut before = 0;
        for end in &self.ends {
            writer.number(end - before);
            before = *end;
        }
        match &self.steps {
            Steps::Built(bytes) => Data::save(bytes, writer),
            Steps::Saved(data) => Data::save(&data.read(0..data.length()), writer),
        }
    }

    /// Reads written loads. The steps of a process are read when they are needed.
    pub(crate) fn load(reader: &mut Reader) -> io::Result<Self> {
        let shift = reader.small()?;
        let mut ends = Vec::new();
        let mut before = 0_u64;
        for _ in 0..reader.count()? {
            let more = reader.number()?;
            before = before.checked_add(more).ok_or(io::ErrorKind::InvalidData)?;
            ends.push(before);
        }
        let data = Data::load(reader)?;
        if before != data.length() as u64 || shift >= u64::BITS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self {
            shift,
            ends,
            steps: Steps::Saved(data),
        })
    }
}
