//! A client: its socket, its ring and its process.

use std::io::{self, Read as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ferretto_heap::ring::{Read, Reader, error_state};
use ferretto_heap::wire::{AllocMetadata, HELLO_EXTENDED, NAME_BYTES, Record};
use ferretto_profiling::{Frame, HandOver};
use ferretto_shm::Clock;
use ferretto_unwind::Cache;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::books::{Kind, Operation};
use crate::output::{State, Unwinding};
use crate::unwind::Unwinder;

/// The number of stack bytes that our clients copy.
const STACK_BYTES: u32 = 32 << 10;

/// The time that reading the maps of a process again may take at once.
const MAPS_BURST: Duration = Duration::from_millis(500);
/// The share of the time that it may take in the long run.
const MAPS_SHARE: u32 = 10;

/// The size of the shortest record in a ring, with its header.
const SHORTEST_RECORD: u64 = 16;

/// The result of reading a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The ring may have more records.
    More,
    /// Records were read, and the ring is empty.
    Some,
    /// The ring was empty.
    None,
    /// The ring is unusable.
    Corrupt,
}

/// A client in a session.
#[derive(Debug)]
pub(crate) struct Client {
    stream: UnixStream,
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) is_extended: bool,
    reader: Reader,
    unwinder: Unwinder,
    unwinding: Unwinding,
    is_corrupt: bool,
    /// Set if code was unmapped since the maps were read.
    maps_changed: bool,
    /// The time that reading the maps again has taken.
    maps_time: Duration,
    /// The beginning of the session.
    since: Instant,
    trusted: bool,
    /// The number of records that are still read once the client has left.
    rest: Option<u64>,
    /// The last time at which the process certainly existed.
    seen: u64,
}

/// A record, with its callstack.
#[derive(Debug)]
pub(crate) enum Event {
    Operation {
        pid: u32,
        heap: u32,
        operation: Operation,
        time: u64,
        frames: Vec<Frame>,
    },
    Heap {
        pid: u32,
        heap: u32,
        name: Box<[u8]>,
        interval: u64,
    },
}

impl Client {
    /// Creates a client, and the ring to send to it.
    pub(crate) fn new(hello: HandOver, ring_size: u64) -> io::Result<(Self, OwnedFd)> {
        let Some((reader, ring)) = Reader::create(ring_size) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let is_extended = hello.byte == HELLO_EXTENDED;
        if is_extended {
            reader.extend(STACK_BYTES);
        }
        let HandOver {
            stream,
            pid,
            uid,
            maps,
            memory,
            ..
        } = hello;
        let client = Self {
            stream,
            pid,
            uid,
            is_extended,
            reader,
            unwinder: Unwinder::new(pid, maps, memory),
            unwinding: Unwinding::default(),
            is_corrupt: false,
            maps_changed: false,
            maps_time: Duration::ZERO,
            since: Instant::now(),
            trusted: false,
            rest: None,
            seen: Clock::Boottime.now(),
        };
        Ok((client, ring))
    }

    pub(crate) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Returns true if the process has ended, its client has ended the session, or
    /// [`leave`](Self::leave) was called.
    pub(crate) fn has_left(&mut self) -> bool {
        if self.rest.is_some() {
            return true;
        }
        let now = Clock::Boottime.now();
        let has_left = !is_quiet(&self.stream) && !drain(&self.stream);
        if has_left {
            self.leave();
        } else {
            self.seen = now;
        }
        has_left
    }

    /// Reads no more than the present records. The memory of a client that is gone may still be
    /// written.
    pub(crate) fn leave(&mut self) {
        let present = self.unread() / SHORTEST_RECORD + 1;
        self.rest.get_or_insert(present);
    }

    /// Returns true if the client has left, and only the rest of its records is read.
    pub(crate) fn is_leaving(&self) -> bool {
        self.rest.is_some()
    }

    /// Ends the session for the client.
    pub(crate) fn shut_down(&self) {
        self.reader.shut_down();
        // Errors are ignored, since the client may be gone.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    pub(crate) fn unread(&self) -> u64 {
        self.reader.unread()
    }

    /// Reads some records; of a client that has left, only those that were there then.
    pub(crate) fn read(
        &mut self,
        count: usize,
        cache: &Cache,
        buffer: &mut [u8],
        take: &mut dyn FnMut(Event),
    ) -> Progress {
        let Some(rest) = self.rest else {
            return self.read_up_to(count, cache, buffer, take);
        };
        let count = count.min(usize::try_from(rest).unwrap_or(usize::MAX));
        let rest = rest - count as u64;
        self.rest = Some(rest);
        match self.read_up_to(count, cache, buffer, take) {
            Progress::More if rest == 0 => Progress::Some,
            progress => progress,
        }
    }

    fn read_up_to(
        &mut self,
        count: usize,
        cache: &Cache,
        buffer: &mut [u8],
        take: &mut dyn FnMut(Event),
    ) -> Progress {
        for done in 0..count {
            let size = match self.reader.read(buffer) {
                Read::Record(size) => size,
                Read::Nothing => {
                    if self.maps_changed {
                        self.read_maps();
                    }
                    if done == 0 {
                        self.reader.pause();
                        // The client skipped sequence numbers.
                        return match self.reader.unread() {
                            0 => Progress::None,
                            _ => Progress::Some,
                        };
                    }
                    return Progress::Some;
                }
                Read::Corrupt => {
                    self.is_corrupt = true;
                    return Progress::Corrupt;
                }
            };
            let record = buffer.get(..size).and_then(Record::parse);
            if matches!(record, Some(Record::MapsChanged)) {
                self.maps_changed = true;
                continue;
            }
            if self.maps_changed {
                self.read_maps();
            }
            if let Some(event) = record.and_then(|record| self.event(cache, record)) {
                take(event);
            } else {
                self.is_corrupt = true;
            }
        }
        Progress::More
    }

    /// Reads the maps of the process again after code was unmapped, before the next callstack. A
    /// client may report that with every record, so it takes at most a tenth of the time.
    fn read_maps(&mut self) {
        let began = Instant::now();
        if self.maps_time <= MAPS_BURST + (began - self.since) / MAPS_SHARE {
            self.maps_changed = false;
            self.unwinder.unmapped();
            self.maps_time += began.elapsed();
        }
    }

    fn event(&mut self, cache: &Cache, record: Record<'_>) -> Option<Event> {
        let pid = self.pid;
        match record {
            Record::Malloc(metadata, chain, is_cut, stack) => {
                let metadata = AllocMetadata::parse(metadata);
                let began = Instant::now();
                let (frames, result) = self.unwinder.unwind(cache, &metadata, chain, is_cut, stack);
                self.unwinding.add(began.elapsed(), result.is_err());
                let trusts = self.is_extended && self.unwinder.trusts_chains();
                if trusts != self.trusted {
                    self.trusted = trusts;
                    self.reader.set_chain_enough(trusts);
                }
                Some(Event::Operation {
                    pid,
                    heap: metadata.heap_id,
                    operation: Operation {
                        sequence: metadata.sequence_number,
                        address: metadata.alloc_address,
                        kind: Kind::Malloc {
                            size: metadata.sample_size,
                            callstack: 0,
                        },
                    },
                    time: metadata.timestamp,
                    frames,
                })
            }
            Record::MapsChanged => None,
            Record::Free(free) => Some(Event::Operation {
                pid,
                heap: free.heap_id,
                operation: Operation {
                    sequence: free.sequence_number,
                    address: free.address,
                    kind: Kind::Free,
                },
                time: 0,
                frames: Vec::new(),
            }),
            Record::HeapName(name) => {
                let length = name.name.iter().position(|&byte| byte == 0);
                let text = name.name.get(..length.unwrap_or(NAME_BYTES))?;
                Some(Event::Heap {
                    pid,
                    heap: name.heap_id,
                    name: text.into(),
                    interval: name.sample_interval,
                })
            }
        }
    }

    /// Returns the state of its process for a dump.
    pub(crate) fn state(&self, is_disconnected: bool, hit_guardrail: bool) -> State {
        let error = match self.reader.error_state() {
            error @ (error_state::HIT_TIMEOUT | error_state::INVALID_STACK_BOUNDS) => error,
            _ => error_state::NONE,
        };
        let has_overrun = error == error_state::HIT_TIMEOUT || self.reader.lost() > 0;
        State {
            pid: self.pid,
            seen: if is_disconnected {
                self.seen
            } else {
                Clock::Boottime.now()
            },
            is_disconnected,
            is_corrupt: self.is_corrupt || self.reader.is_corrupt(),
            hit_guardrail,
            has_overrun,
            client_error: error,
            blocked_us: self.reader.blocked_us(),
            unwinding: self.unwinding.clone(),
        }
    }
}

/// Reads the bytes that a client sends as wake-ups. Returns false if the client is gone.
fn drain(mut stream: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

/// Returns true if there is nothing to read.
fn is_quiet(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)];
    !poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_of_an_ended_process_has_a_time_of_its_life() {
        let (stream, process) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let open = |path| std::fs::File::open(path).unwrap();
        let hello = HandOver {
            byte: HELLO_EXTENDED,
            stream,
            pid: std::process::id(),
            uid: 0,
            maps: open("/proc/self/maps"),
            memory: open("/proc/self/mem"),
        };
        let (mut client, _ring) = Client::new(hello, 8192).unwrap();
        assert!(!client.has_left());
        let last = Clock::Boottime.now();
        assert!(client.state(false, false).seen >= last, "it is there now");
        drop(process);
        while Clock::Boottime.now() == last {}
        assert!(client.has_left());
        let noted = client.state(true, false).seen;
        assert!(
            noted <= last,
            "a reader takes later ones for another process"
        );
    }
}
