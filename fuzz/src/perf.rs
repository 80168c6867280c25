//! Rings of perf events, and the configs of their data source.

use std::path::PathBuf;

use ferretto_perf::config::{Kernel, Plan};
use ferretto_perf::record::{Counts, Format, Record};
use ferretto_perf::ring::{Memory, Overrun, RecordReader, Unread};

use crate::input::Input;

/// A ring that holds any bytes, and says anything of how many.
struct Ring {
    data: Vec<u8>,
    head: u64,
    tail: u64,
}

impl Memory for Ring {
    fn unread(&mut self) -> Result<Unread<'_>, Overrun> {
        let length = self.head.wrapping_sub(self.tail);
        if length > self.data.len() as u64 {
            return Err(Overrun(length));
        }
        let at = self.tail as usize & (self.data.len() - 1);
        Ok(Unread::new(&self.data, at, length as usize))
    }

    fn consume(&mut self, count: usize) {
        let unread = self.head.wrapping_sub(self.tail);
        self.tail = self.tail.wrapping_add(unread.min(count as u64));
    }
}

/// Reads a ring whose samples have any format: it ends, everything is consumed, and nothing is
/// handed out that was not there.
pub fn perf_records(data: &[u8]) {
    let mut input = Input(data);
    let flags = input.u8();
    let format = Format {
        cpu: 0,
        counters: usize::from(input.u8() % 5),
        counts: match flags & 3 {
            0 => Counts::Period,
            kind => Counts::Read {
                group: kind & 1 != 0,
                lost: flags & 4 != 0,
                of_task: kind & 2 != 0,
            },
        },
        callchain: flags & 8 != 0,
        registers: if flags & 16 != 0 {
            input.u16().into()
        } else {
            0
        },
        sample_id: flags & 32 != 0,
    };
    let start = u64::from_ne_bytes(input.array());
    let beyond = if flags & 64 != 0 {
        u64::from(input.u16())
    } else {
        0
    };
    let limit = if flags & 128 != 0 {
        u64::from(input.u8())
    } else {
        u64::MAX
    };
    let written = input.bytes(usize::MAX);
    let size = written.len().max(64).next_power_of_two();
    let mut ring = Ring {
        data: vec![0; size],
        head: start.wrapping_add(written.len() as u64 + beyond),
        tail: start,
    };
    for (at, byte) in written.iter().enumerate() {
        ring.data[(start as usize).wrapping_add(at) & (size - 1)] = *byte;
    }
    let mut reader = RecordReader::new(ring, format);
    let mut rounds = 0;
    loop {
        let drained = reader.read(limit.max(1), &mut |record| check(&format, size, &record));
        rounds += 1;
        assert!(rounds <= size / 8 + 1, "it does not end");
        if drained.empty {
            break;
        }
    }
    assert_eq!(reader.memory().head, reader.memory().tail);
}

fn check(format: &Format, size: usize, record: &Record<'_>) {
    let Record::Sample(sample) = record else {
        return;
    };
    assert_eq!(sample.counts.len(), format.counters);
    let chain = sample.callchain;
    let frames = chain.kernel.len() + chain.user.map_or(0, |user| user.len());
    let registers = sample.registers.map_or(0, |registers| {
        assert_eq!(registers.values.len(), registers.mask.count_ones() as usize);
        for number in 0..70 {
            let there = number < 64 && registers.mask >> number & 1 != 0;
            assert_eq!(registers.get(number).is_some(), there);
        }
        registers.values.len()
    });
    assert!(8 * (frames + registers) + sample.stack.len() <= size);
}

/// Any bytes as a `PerfEventConfig`: refused with a sentence, or a plan that holds together.
pub fn perf_config(data: &[u8]) {
    let nowhere = || PathBuf::from("/nonexistent");
    let kernel = Kernel {
        tracefs: vec![nowhere()],
        sysfs: nowhere(),
        procfs: nowhere(),
    };
    match Plan::new(data, &kernel) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(plan) => {
            assert_eq!(plan.count_of_counters(), plan.events().count());
            assert!(plan.online_cpus(&kernel).is_empty());
            if let Some(sampling) = plan.sampling() {
                assert!(sampling.samples_per_read > 0);
                assert!(!sampling.read_period.is_zero());
            }
            assert!(!plan.cache_clear_period.is_zero());
        }
    }
}
