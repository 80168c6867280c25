//! The open events of one CPU.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::pace::{Change, Pace};
use crate::record::Record;
use crate::ring::{Drained, Mapping, RecordReader, syscall};

/// The open events of one CPU, and their ring if they are sampled.
///
/// Closed on drop. The descriptor ([`AsFd`]) becomes readable when the ring is half full.
#[derive(Debug)]
pub struct Reader {
    cpu: u32,
    /// The number of counters in each sample or reading.
    counters: usize,
    ring: Option<RecordReader<Mapping>>,
    /// The owner of the ring of events of tasks.
    owner: Option<OwnedFd>,
    groups: Vec<Group>,
    on_exec: bool,
    /// The rate of context switches, while counting.
    pace: Option<Pace>,
    /// Set if the followers are left out.
    lacks_followers: bool,
    /// Set if the kernel reports the number of lost samples by [`syscall`].
    counts_lost: bool,
    /// The number of lost records returned by `take_unreported_lost`.
    lost_before: u64,
}

/// The timebase with its followers, for a CPU or for one task on it.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) leader: OwnedFd,
    /// Only kept open.
    #[expect(dead_code, reason = "open as long as they are to be counted")]
    pub(super) followers: Vec<OwnedFd>,
    pub(super) paced: Option<Paced>,
}

/// The events beside a timebase that samples all of its counts up to a rate.
#[derive(Debug)]
pub(super) struct Paced {
    /// Samples some counts, in place of the timebase.
    pub(super) thinned: OwnedFd,
    /// Writes the records besides samples.
    pub(super) tracker: OwnedFd,
}

impl Paced {
    pub(super) fn events(&self) -> [&OwnedFd; 2] {
        [&self.thinned, &self.tracker]
    }
}

impl Group {
    /// Samples all context switches, or some. Neither event runs meanwhile, so that no switch has
    /// two samples.
    fn sample(&self, change: Change) {
        let Some(paced) = &self.paced else { return };
        let (from, to) = match change {
            Change::ToAll => (&paced.thinned, &self.leader),
            Change::ToSome => (&self.leader, &paced.thinned),
        };
        // An event that cannot be enabled leaves waits without callstacks, which are counted.
        let _ = syscall::disable(from.as_fd()).and_then(|()| syscall::enable(to.as_fd()));
    }

    /// Returns the events that write into the ring.
    fn sampled(&self) -> impl Iterator<Item = &OwnedFd> {
        let paced = self.paced.iter().flat_map(Paced::events);
        std::iter::once(&self.leader).chain(paced)
    }
}

/// The parts of a [`Reader`].
pub(super) struct Parts {
    pub(super) cpu: u32,
    pub(super) counters: usize,
    pub(super) ring: Option<RecordReader<Mapping>>,
    pub(super) owner: Option<OwnedFd>,
    pub(super) groups: Vec<Group>,
    pub(super) on_exec: bool,
    pub(super) pace: Option<Pace>,
    pub(super) counts_lost: bool,
    pub(super) lacks_followers: bool,
}

impl Reader {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            cpu: parts.cpu,
            counters: parts.counters,
            ring: parts.ring,
            owner: parts.owner,
            groups: parts.groups,
            on_exec: parts.on_exec,
            pace: parts.pace,
            counts_lost: parts.counts_lost,
            lacks_followers: parts.lacks_followers,
            lost_before: 0,
        }
    }

    /// Returns the number of the CPU.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Returns true if the followers of the plan are not counted, since the kernel is too old for
    /// followers of processes and their descendants.
    pub fn lacks_followers(&self) -> bool {
        self.lacks_followers
    }

    /// Returns the data size of the ring; 0 if the events are polled.
    pub fn ring_size(&self) -> usize {
        self.ring.as_ref().map_or(0, |ring| ring.memory().size())
    }

    /// Starts counting, unless the execution of a program does that.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn enable(&mut self) -> Result<(), Errno> {
        if self.on_exec {
            return Ok(());
        }
        for group in &self.groups {
            if let Some(paced) = &group.paced {
                syscall::enable(paced.tracker.as_fd())?;
            }
            syscall::enable(group.leader.as_fd())?;
        }
        Ok(())
    }

    /// Stops counting. The records in the ring can still be read.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn disable(&mut self) -> Result<(), Errno> {
        self.pace = None;
        let events = self.groups.iter().flat_map(Group::sampled);
        events
            .map(|event| syscall::disable(event.as_fd()))
            .fold(Ok(()), Result::and)
    }

    /// Passes records to `each` until the ring is empty or `limit` samples have been passed. Does
    /// nothing if the events are polled.
    ///
    /// A record borrows from the ring itself: nothing is copied, and its bytes are returned to the
    /// kernel afterwards.
    pub fn read(&mut self, limit: u64, each: &mut impl FnMut(Record<'_>)) -> Drained {
        let Some(ring) = &mut self.ring else {
            return Drained {
                samples: 0,
                empty: true,
            };
        };
        let Some(pace) = &mut self.pace else {
            return ring.read(limit, each);
        };
        let groups = &self.groups;
        let mut now = 0;
        let drained = ring.read(limit, &mut |record| {
            if let Record::Switch(switch) = &record {
                now = now.max(switch.time);
                // The idle thread has no callstacks.
                if switch.out && switch.tid != 0 {
                    pace.add(switch.time);
                    // At once, as the ring fills up meanwhile.
                    if let Some(change) = pace.too_many() {
                        groups.iter().for_each(|group| group.sample(change));
                    }
                }
            }
            each(record);
        });
        if let Some(change) = pace.few_enough(now) {
            groups.iter().for_each(|group| group.sample(change));
        }
        drained
    }

    /// Returns the number of lost records reported so far, by the ring or by
    /// [`take_unreported_lost`](Self::take_unreported_lost).
    pub fn lost(&self) -> u64 {
        let ring = self.ring.as_ref().map_or(0, RecordReader::lost);
        ring.saturating_add(self.lost_before)
    }

    /// Returns the number of malformed bytes that were skipped.
    pub fn malformed(&self) -> u64 {
        self.ring.as_ref().map_or(0, RecordReader::malformed)
    }

    /// Returns the number of lost records that the ring has not reported, which it only does with
    /// the next record that fits. Must be called once the events have been disabled and the ring
    /// has been read. 0 on kernels before 6.0.
    pub fn take_unreported_lost(&mut self) -> u64 {
        if !self.counts_lost {
            return 0;
        }
        let total: u64 = self.groups.iter().map(|group| self.lost_of(group)).sum();
        let unreported = total.saturating_sub(self.lost());
        self.lost_before += unreported;
        unreported
    }

    fn lost_of(&self, group: &Group) -> u64 {
        let events = group.sampled();
        events.map(|event| self.word_of(event, 1)).sum()
    }

    /// Returns the timebase count of tasks, and the part of it that samples cover: a task that ends
    /// before its first sample is in no sample, and its children start from zero. `None` if whole
    /// CPUs are observed, where samples cover everything.
    pub fn sampled_of_tasks(&self) -> Option<(u64, u64)> {
        self.owner.as_ref()?;
        let groups = self.groups.iter();
        let counted = groups.fold(0_u64, |sum, group| {
            sum.saturating_add(self.word_of(&group.leader, 0))
        });
        let totals = self.ring.as_ref()?.totals().counts();
        Some((counted, totals.first().copied().unwrap_or(0)))
    }

    /// Returns the timebase count, or the word after it: the number of lost samples.
    fn word_of(&self, event: &OwnedFd, which: usize) -> u64 {
        // In a group, the number of its events comes first.
        let at = which + usize::from(self.counters > 1);
        let mut words = vec![0; 1 + 2 * self.counters];
        match read_words(event.as_fd(), &mut words) {
            Ok(read) if read > at => words[at],
            _ => 0,
        }
    }

    /// Reads the counters: the timebase's, then those of the followers. For polled events.
    ///
    /// # Errors
    ///
    /// The kernel's error; [`Errno::IO`] if it returned fewer counters.
    pub fn counts(&self, counts: &mut Vec<u64>) -> Result<(), Errno> {
        counts.clear();
        counts.resize(self.counters, 0);
        let mut words = vec![0; 1 + self.counters];
        for group in &self.groups {
            let read = read_words(group.leader.as_fd(), &mut words)?;
            if read != words.len() || words[0] != self.counters as u64 {
                return Err(Errno::IO);
            }
            for (count, word) in counts.iter_mut().zip(&words[1..]) {
                *count = count.wrapping_add(*word);
            }
        }
        Ok(())
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.owner {
            Some(owner) => owner.as_fd(),
            None => self.groups[0].leader.as_fd(),
        }
    }
}

/// Reads words from an event and returns their number.
fn read_words(event: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
    let mut bytes = vec![0; words.len() * 8];
    let read = rustix::io::read(event, &mut bytes)?;
    let (chunks, _) = bytes[..read].as_chunks();
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u64::from_ne_bytes(*chunk);
    }
    Ok(chunks.len())
}
