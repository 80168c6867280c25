//! Entries of the log in their order.

use super::{Created, Entry, RawWake, SchedLog, Switch, Wake, flag, kind, of_switch, of_wake};
use crate::column::Packed;
use crate::strings::StringId;

impl SchedLog {
    /// Returns the entries with these columns of switches and wake-ups. All other columns are 0.
    pub(in super::super) fn entries<const SWITCH: u32, const WAKE: u32>(
        &self,
    ) -> Entries<'_, SWITCH, WAKE> {
        Entries {
            heads: Reader::new(&self.heads),
            times: Reader::new(&self.times),
            switches: self
                .switches
                .each_ref()
                .map(|columns| columns.each_ref().map(Reader::new)),
            wakes: self
                .wakes
                .each_ref()
                .map(|columns| columns.each_ref().map(Reader::new)),
            others: Reader::new(&self.others),
        }
    }
}

fn decode_bool(bits: u8) -> Option<bool> {
    match bits & 3 {
        0 => None,
        bits => Some(bits == 2),
    }
}

/// A reader of packed integers in sequence.
#[derive(Debug)]
struct Reader<'a> {
    numbers: &'a Packed,
    /// Some integers, unpacked.
    read: Vec<i64>,
    at: usize,
    /// The index after the unpacked integers.
    next: usize,
}

impl<'a> Reader<'a> {
    fn new(numbers: &'a Packed) -> Self {
        Self {
            numbers,
            read: Vec::new(),
            at: 0,
            next: 0,
        }
    }

    #[inline]
    fn next(&mut self) -> Option<i64> {
        if self.at == self.read.len() {
            self.refill();
        }
        let number = *self.read.get(self.at)?;
        self.at += 1;
        Some(number)
    }

    #[inline]
    fn number(&mut self) -> i64 {
        self.next().unwrap_or(0)
    }

    #[inline(never)]
    fn refill(&mut self) {
        /// The number of integers that are unpacked together.
        const NUMBERS: usize = 1024;
        self.read.clear();
        self.numbers
            .read(self.next..self.next + NUMBERS, &mut self.read);
        self.next += self.read.len();
        self.at = 0;
    }
}

/// The entries of a log.
#[derive(Debug)]
pub(in super::super) struct Entries<'a, const SWITCH: u32, const WAKE: u32> {
    heads: Reader<'a>,
    times: Reader<'a>,
    switches: [[Reader<'a>; of_switch::COUNT]; 2],
    wakes: [[Reader<'a>; of_wake::COUNT]; 2],
    others: Reader<'a>,
}

impl<const SWITCH: u32, const WAKE: u32> Entries<'_, SWITCH, WAKE> {
    #[inline]
    fn switch(&mut self, head: u8) -> Switch {
        let is_raw = head & flag::RAW != 0;
        let columns = &mut self.switches[usize::from(is_raw)];
        let mut number = |column: usize| match SWITCH >> column & 1 {
            0 => 0,
            _ => columns[column].number(),
        };
        Switch {
            ts: self.times.number(),
            ucpu: number(of_switch::UCPU) as u32,
            ends: head & flag::ENDS != 0,
            is_raw,
            prev: number(of_switch::PREV) as u32,
            prev_prio: number(of_switch::PREV_PRIO) as i32,
            prev_comm: StringId(number(of_switch::PREV_COMM) as u32),
            state: (
                number(of_switch::STATE),
                StringId(number(of_switch::LETTERS) as u32),
            ),
            next: number(of_switch::NEXT) as u32,
            next_prio: number(of_switch::NEXT_PRIO) as i32,
            next_comm: StringId(number(of_switch::NEXT_COMM) as u32),
        }
    }

    #[inline]
    fn wake(&mut self, head: u8) -> Wake {
        let is_raw = head & flag::RAW != 0;
        let columns = &mut self.wakes[usize::from(is_raw)];
        let mut number = |column: usize| match WAKE >> column & 1 {
            0 => 0,
            _ => columns[column].number(),
        };
        Wake {
            ts: self.times.number(),
            utid: number(of_wake::UTID) as u32,
            waker: number(of_wake::WAKER) as u32,
            irq_context: decode_bool(head >> flag::CONTEXT),
            raw: is_raw.then(|| RawWake {
                ucpu: number(of_wake::UCPU) as u32,
                target_cpu: number(of_wake::TARGET_CPU) as u16,
                prio: number(of_wake::PRIO) as u16,
                common_flags: number(of_wake::FLAGS) as u16,
                comm: StringId(number(of_wake::COMM) as u32),
            }),
        }
    }

    #[inline]
    fn other(&mut self) -> u32 {
        self.others.number() as u32
    }
}

impl<const SWITCH: u32, const WAKE: u32> Iterator for Entries<'_, SWITCH, WAKE> {
    type Item = Entry;

    // An entry is large, and its users need a few of its fields.
    #[inline(always)]
    fn next(&mut self) -> Option<Entry> {
        let head = self.heads.next()? as u8;
        Some(match head & ((1 << kind::BITS) - 1) {
            kind::SWITCH => Entry::Switch(self.switch(head)),
            kind::WAKE => Entry::Wake(self.wake(head)),
            kind::CREATED => Entry::Created(Created {
                ts: self.times.number(),
                utid: self.other(),
                creator: self.other(),
            }),
            kind::BLOCKED => {
                let utid = self.other();
                let has_function = head & flag::FUNCTION != 0;
                Entry::Blocked {
                    utid,
                    io_wait: decode_bool(head >> flag::IO_WAIT),
                    function: has_function.then(|| StringId(self.other())),
                }
            }
            kind::END => Entry::End {
                ts: self.times.number(),
                ucpu: self.other(),
                state: StringId(self.other()),
            },
            _ => Entry::Rows([(); 3].map(|()| self.other())),
        })
    }
}
