//! Bundles of kernel events: their CPU, their times, and the rows of the compact encoding.

use ferretto_proto::fields::ftrace_event_bundle::compact_sched as compact;
use ferretto_proto::views::FtraceEventBundleView;
use ferretto_proto::views::ftrace_clock::{
    FTRACE_CLOCK_GLOBAL, FTRACE_CLOCK_LOCAL, FTRACE_CLOCK_MONO_RAW,
};
use ferretto_wire::{Field, Fields, Value, Varints};

use crate::clock::MONOTONIC_RAW;
use crate::sequence::Clocks;

/// The header of a `FtraceEventBundle`.
#[derive(Debug, Clone, Copy, Default)]
pub struct BundleHeader {
    /// The CPU of all its events.
    pub cpu: Option<u32>,
    /// The boot time since which the events of the CPU are complete, if this is its first bundle.
    pub begin: Option<u64>,
    /// The difference between boot time and times in the bundle.
    shift: u64,
}

impl BundleHeader {
    /// Reads the header of a machine's bundle, with the clocks of the trace so far.
    pub fn read(bytes: &[u8], machine: u32, clocks: &Clocks) -> Self {
        Self::of(&FtraceEventBundleView::read(bytes), machine, clocks)
    }

    /// Returns the header of a machine's bundle, with the clocks of the trace so far.
    pub fn of(bundle: &FtraceEventBundleView<'_>, machine: u32, clocks: &Clocks) -> Self {
        let shift = match bundle.ftrace_clock.unwrap_or(0) {
            FTRACE_CLOCK_GLOBAL | FTRACE_CLOCK_LOCAL => {
                let boot = bundle.boot_timestamp.unwrap_or(0) as u64;
                boot.wrapping_sub(bundle.ftrace_timestamp.unwrap_or(0) as u64)
            }
            FTRACE_CLOCK_MONO_RAW => {
                let raw = bundle.ftrace_timestamp.map_or(1 << 40, |time| time as u64);
                let boot = clocks.to_boot(machine, raw, MONOTONIC_RAW);
                boot.unwrap_or(raw).wrapping_sub(raw)
            }
            _ => 0,
        };
        let begin = bundle.previous_bundle_end_timestamp;
        let begin = begin.or(bundle.last_read_event_timestamp);
        let begin = begin.map(|time| match time {
            0 => 0,
            time => time.wrapping_add(shift),
        });
        Self {
            cpu: bundle.cpu,
            begin,
            shift,
        }
    }

    /// Converts a time in the bundle to boot time.
    #[inline]
    pub fn to_boot(&self, time: u64) -> u64 {
        time.wrapping_add(self.shift)
    }
}

/// The kinds of events with a compact encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactKind {
    /// Context switches.
    Switches,
    /// Wake-ups.
    Wakings,
}

impl CompactKind {
    /// The fields of the columns of a row: the differences of times, the previous state or the
    /// thread, the next thread or the target CPU, the priority, and the index of the name.
    pub fn columns(self) -> [u32; 5] {
        match self {
            Self::Switches => [
                compact::SWITCH_TIMESTAMP,
                compact::SWITCH_PREV_STATE,
                compact::SWITCH_NEXT_PID,
                compact::SWITCH_NEXT_PRIO,
                compact::SWITCH_NEXT_COMM_INDEX,
            ],
            Self::Wakings => [
                compact::WAKING_TIMESTAMP,
                compact::WAKING_PID,
                compact::WAKING_TARGET_CPU,
                compact::WAKING_PRIO,
                compact::WAKING_COMM_INDEX,
            ],
        }
    }
}

/// A row of a compact bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactRow<'a> {
    /// The time, on the clock of the bundle.
    pub time: u64,
    /// The previous thread's state of a switch, the woken thread of a wake-up.
    pub first: u64,
    /// The next thread of a switch, the target CPU of a wake-up.
    pub second: u64,
    /// The priority of the next or woken thread.
    pub priority: u64,
    /// Its name.
    pub name: &'a [u8],
    /// The index of the name.
    pub name_index: u64,
    /// The common flags of a wake-up; 0 in older traces.
    pub flags: u64,
}

/// The columns of a `CompactSched`.
///
/// A row needs a value in each column except for the flags, and a name: the rows end with the
/// shortest column, or before the first index without a name.
#[derive(Debug)]
pub struct CompactSched<'a> {
    /// The names.
    pub names: Vec<&'a [u8]>,
    packed: [&'a [u8]; COLUMNS],
    /// The fields that are neither names nor packed columns.
    pub others: Vec<Field<'a>>,
}

/// The number of field numbers of columns, with 0.
const COLUMNS: usize = compact::WAKING_COMMON_FLAGS as usize + 1;

impl<'a> CompactSched<'a> {
    /// Reads the columns.
    pub fn read(bytes: &'a [u8]) -> Self {
        const FIRST: u32 = compact::SWITCH_TIMESTAMP;
        const LAST: u32 = compact::WAKING_COMMON_FLAGS;
        let mut columns = Self {
            names: Vec::new(),
            packed: [&[]; COLUMNS],
            others: Vec::new(),
        };
        // Most of a trace of the scheduler is read here: a view would pass over the names twice.
        for field in Fields::new(bytes).map_while(Result::ok) {
            match (field.number, field.value) {
                (compact::INTERN_TABLE, Value::Bytes(name)) => columns.names.push(name),
                (number @ FIRST..=LAST, Value::Bytes(packed)) => {
                    columns.packed[number as usize] = packed;
                }
                _ => columns.others.push(field),
            }
        }
        columns
    }

    /// Returns a packed column.
    pub fn column(&self, number: u32) -> &'a [u8] {
        let column = self.packed.get(number as usize);
        column.copied().unwrap_or_default()
    }

    /// Returns the rows of a kind, in the order of the bundle.
    pub fn rows<'s>(&'s self, kind: CompactKind) -> impl Iterator<Item = CompactRow<'a>> + 's {
        let mut columns = kind.columns().map(|number| values(self.column(number)));
        let mut flags = match kind {
            CompactKind::Switches => values(&[]),
            CompactKind::Wakings => values(self.column(compact::WAKING_COMMON_FLAGS)),
        };
        let mut time = 0_u64;
        std::iter::from_fn(move || {
            let [ahead, first, second, priority, name] = columns.each_mut().map(Iterator::next);
            let name_index = name?;
            let name = self.names.get(usize::try_from(name_index).ok()?).copied()?;
            let (first, second, priority) = (first?, second?, priority?);
            time = time.wrapping_add(ahead?);
            Some(CompactRow {
                time,
                first,
                second,
                priority,
                name,
                name_index,
                flags: flags.next().unwrap_or(0),
            })
        })
        .fuse()
    }
}

/// Returns the numbers of a packed column.
fn values(packed: &[u8]) -> Varints<'_> {
    let field = Field {
        number: 1,
        value: Value::Bytes(packed),
    };
    field.as_varints()
}
