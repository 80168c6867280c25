//! `linux.systemd_journald`: entries of systemd's journal, as they are written.
//!
//! `journalctl` reads the journal: it comes with systemd, knows all formats of its files, and
//! writes one that is meant for other programs.

mod availability;
mod entry;
mod follow;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ferretto_format::clock;
use ferretto_proto::fields::{systemd_journald_event as field, trace_packet};
use ferretto_proto::{SystemdJournaldConfig, decode_lazy};

use crate::PacketSink;
use crate::clock::{boottime_ns, realtime_ns};
use crate::source::{CreateError, DataSource, Kind};
pub(crate) use availability::{NoJournal, usable};
use entry::Entry;
use follow::{Follower, Look};

/// Name of the data source of the journal.
pub const SYSTEMD_JOURNALD: &str = "linux.systemd_journald";

/// Time between looks for new entries, milliseconds.
const PERIOD_MS: u32 = 200;
/// The least important level that the journal knows.
const LEAST: u32 = 7;
/// The bytes of all conditions together.
const MAX_CONDITIONS: usize = 64 << 10;
/// The longest time that a flush looks for the last entries.
const CATCH_UP: Duration = Duration::from_secs(1);

/// A `linux.systemd_journald` data source.
#[derive(Debug)]
pub struct Journal {
    program: PathBuf,
    conditions: Vec<OsString>,
    follower: Option<Follower>,
    /// The time at which it began, and the last entry that was found by a flush.
    since: Since,
    /// The look at the journal of a flush that is under way.
    look: Option<Look>,
    /// Entries that a flush has found, and that are still to come the usual way.
    found: HashSet<Vec<u8>>,
    written: u64,
    failed: u64,
    sink: Box<dyn PacketSink>,
}

/// A position in the journal.
#[derive(Debug, Clone)]
enum Since {
    /// Microseconds of the real time.
    Time(u64),
    /// Behind this entry.
    Cursor(Vec<u8>),
}

impl Journal {
    /// Opens the journal of this machine.
    ///
    /// # Errors
    ///
    /// Fails if the config has conditions that no journal supports.
    pub fn new(config: &SystemdJournaldConfig, sink: Box<dyn PacketSink>) -> Result<Self, String> {
        Self::with_program(Path::new(availability::PROGRAM), config, sink)
    }

    /// Opens the journal by another program, which takes the arguments of `journalctl`.
    ///
    /// # Errors
    ///
    /// Fails if the config has conditions that no journal supports.
    pub fn with_program(
        program: &Path,
        config: &SystemdJournaldConfig,
        sink: Box<dyn PacketSink>,
    ) -> Result<Self, String> {
        Ok(Self {
            program: program.to_owned(),
            conditions: conditions(config)?,
            follower: None,
            since: Since::Time(0),
            look: None,
            found: HashSet::new(),
            written: 0,
            failed: 0,
            sink,
        })
    }

    pub(crate) const KIND: Kind = Kind {
        name: SYSTEMD_JOURNALD,
        create: |config, sink, _| {
            let config = decode_lazy(&config.journald_config)?;
            usable().map_err(|error| CreateError::Unavailable(error.to_string()))?;
            let source = Self::new(&config, sink).map_err(CreateError::Unavailable)?;
            Ok(Box::new(source))
        },
        starting: None,
        polling: None,
        on_metadata: None,
        has_incremental_state: false,
    };

    /// Writes new entries.
    fn take(&mut self) {
        let Some(follower) = &mut self.follower else {
            return;
        };
        let mut new_entries = Vec::new();
        while let Some(entry) = follower.next() {
            new_entries.push(entry);
        }
        if follower.has_failed() {
            self.failed += 1;
        }
        for entry in new_entries {
            // A flush was quicker.
            if !self.found.remove(&entry.cursor) {
                self.since = Since::Cursor(entry.cursor.clone());
                self.write(&entry);
            }
        }
    }

    /// Begins to look for entries that the follower has not reported yet.
    fn begin_look(&mut self) {
        if self.follower.is_none() {
            return;
        }
        self.take();
        let (since, conditions) = (&self.since, &self.conditions);
        self.look = Look::start(&self.program, since, conditions, CATCH_UP).ok();
    }

    /// Ends a flush: writes what was found, and statistics.
    fn end_flush(&mut self) {
        let found = self.look.take().map(|mut look| look.take());
        for entry in found.into_iter().flatten() {
            self.since = Since::Cursor(entry.cursor.clone());
            self.write(&entry);
            self.found.insert(entry.cursor);
        }
        let (written, failed) = (self.written, self.failed);
        self.sink.write_packet(&ferretto_wire::encode(|packet| {
            packet.varint(trace_packet::TIMESTAMP, boottime_ns());
            packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, clock::BOOTTIME.into());
            packet.nested(trace_packet::JOURNALD_EVENT, |message| {
                message.varint(field::NUM_TOTAL, written);
                message.varint(field::NUM_FAILED, failed);
            });
        }));
        self.sink.flush();
    }

    fn write(&mut self, entry: &Entry) {
        let Some(timestamp) = entry.monotonic_us.and_then(|time| time.checked_mul(1000)) else {
            self.failed += 1;
            return;
        };
        self.written += 1;
        self.sink.write_packet(&ferretto_wire::encode(|packet| {
            packet.varint(trace_packet::TIMESTAMP, timestamp);
            packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, clock::MONOTONIC.into());
            packet.nested(trace_packet::JOURNALD_EVENT, |message| {
                for (number, value) in &entry.numbers {
                    message.varint(*number, u64::from(*value));
                }
                for (number, text) in &entry.texts {
                    message.string(*number, &String::from_utf8_lossy(text));
                }
            });
        }));
    }
}

impl DataSource for Journal {
    fn start(&mut self) {
        self.since = Since::Time(realtime_ns() / 1000);
        match Follower::start(&self.program, &self.since, &self.conditions) {
            Ok(follower) => self.follower = Some(follower),
            Err(_) => self.failed += 1,
        }
    }

    fn poll_period_ms(&self) -> Option<u32> {
        Some(PERIOD_MS)
    }

    fn poll(&mut self) {
        // Entries that a look finds come first.
        if self.look.is_none() {
            self.take();
        }
    }

    fn flush(&mut self) {
        if self.look.is_none() {
            self.begin_look();
        }
        if let Some(look) = &mut self.look {
            look.wait();
        }
        self.end_flush();
    }

    fn begin_flush(&mut self) -> bool {
        if self.look.is_none() {
            self.begin_look();
        }
        self.is_flushed()
    }

    fn is_flushed(&mut self) -> bool {
        if self.look.as_mut().is_some_and(|look| !look.go_on()) {
            return false;
        }
        self.end_flush();
        true
    }
}

/// Returns the arguments that select entries: of one field any value fits, and all fields have to.
fn conditions(config: &SystemdJournaldConfig) -> Result<Vec<OsString>, String> {
    let mut conditions = Vec::new();
    for level in 0..=config.min_prio.unwrap_or(LEAST).min(LEAST) {
        conditions.push(format!("PRIORITY={level}").into_bytes());
    }
    let named = [
        ("SYSLOG_IDENTIFIER", &config.filter_identifiers),
        ("_SYSTEMD_UNIT", &config.filter_units),
    ];
    for (name, values) in named {
        for value in values {
            if value.contains(&0) {
                return Err(format!("its filter for {name} has a byte that is 0"));
            }
            conditions.push([name.as_bytes(), b"=", value].concat());
        }
    }
    if conditions.iter().map(Vec::len).sum::<usize>() > MAX_CONDITIONS {
        return Err(format!("its filters have more than {MAX_CONDITIONS} bytes"));
    }
    use std::os::unix::ffi::OsStringExt as _;
    Ok(conditions.into_iter().map(OsString::from_vec).collect())
}
