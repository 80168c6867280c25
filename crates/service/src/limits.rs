//! Limits on the cost of one client, and timeouts of the protocol.

pub(crate) const MAX_PRODUCERS: usize = 65535;
pub(crate) const MAX_WRITER_ID: u32 = (1 << 15) - 1;
pub(crate) const MAX_BUFFERS_PER_SESSION: usize = 128;
pub(crate) const MAX_SESSIONS: usize = 15;
pub(crate) const MAX_SESSIONS_PER_UID: usize = 5;
pub(crate) const MAX_DURATION_MS: u32 = 7 * 24 * 3600 * 1000;
pub(crate) const MAX_GUARDED_DURATION_MS: u32 = 24 * 3600 * 1000;
pub(crate) const MAX_GUARDED_BUFFERS_KB: u32 = 128 * 1024;
pub(crate) const GUARDED_COOLDOWN_NS: u64 = 300 * 1_000_000_000;
/// The number of remembered names of unattended sessions. Upstream sets no limit.
pub(crate) const MAX_COOLDOWNS: usize = 65_536;

pub(crate) const DEFAULT_FLUSH_TIMEOUT_MS: u64 = 5000;
pub(crate) const DEFAULT_STOP_TIMEOUT_MS: u32 = 5000;
/// The time for which a session without a timeout in its config waits for a producer that has not
/// confirmed such a command before.
pub(crate) const FIRST_WAIT_MS: u64 = 2000;
/// The time after which a data source that has not started is not waited for at the end.
pub(crate) const START_WAIT_MS: u64 = 1000;
/// The time for which a missed confirmation counts for new producers of the same user.
pub(crate) const SUSPECT_NS: u64 = 3600 * 1_000_000_000;
/// The number of users whose last miss is remembered.
pub(crate) const MAX_SUSPECTS: usize = 1024;
pub(crate) const DEFAULT_SNAPSHOT_INTERVAL_MS: u64 = 10_000;
pub(crate) const DEFAULT_WRITE_PERIOD_MS: u64 = 5000;
pub(crate) const MIN_WRITE_PERIOD_MS: u64 = 100;
pub(crate) const SLOW_START_MS: u64 = 20_000;
/// The time after which the end of a session is reported as slow, with the data sources it waits
/// for.
pub(crate) const SLOW_END_MS: u64 = 2_000;
pub(crate) const MAX_PENDING_FLUSHES: usize = 1000;
/// The number of data sources named in a report about slow ones.
pub(crate) const MAX_SLOW_LISTED: usize = 32;

pub(crate) const MAX_PATCHES_PER_CHUNK: usize = 1024;
/// The size of a chunk inside a commit: at least the chunk header, and a length that fits 16 bits.
pub(crate) const INLINE_CHUNK_SIZES: std::ops::RangeInclusive<usize> = 8..=65535;

/// The size of a batch of packets for a consumer. Its last packet may exceed it.
pub(crate) const READ_BATCH: usize = 32 * 1024;
/// The size of a batch of packets for a file.
pub(crate) const FILE_BATCH: usize = 1024 * 1024;
/// The largest size of a reply, so that its frame stays within 128 KiB.
pub(crate) const REPLY_BYTES: usize = 131_008;
/// The largest size of a packet's slice in a reply.
pub(crate) const MAX_SLICE: usize = 128 * 1024 - 512;
/// The size of the replies passed to the driver before the service waits for the consumer to read.
pub(crate) const READ_WINDOW: usize = 256 * 1024;

/// The time for which an activation counts towards `max_per_24_h`.
pub(crate) const TRIGGER_WINDOW_NS: u64 = 24 * 3600 * 1_000_000_000;
/// The number of triggers kept for a session's trace; the oldest are dropped. Upstream sets no
/// limit.
pub(crate) const MAX_RECEIVED_TRIGGERS: usize = 256;
/// The number of activations remembered for 24 hours, of all names; the oldest are dropped.
/// Upstream sets no limit.
pub(crate) const MAX_TRIGGER_HISTORY: usize = 65_536;
/// The number of clone triggers pending in a session or its consumer. Further ones are recorded,
/// but the consumer is not notified. Upstream notifies only of the last one.
pub(crate) const MAX_PENDING_HITS: usize = 64;

/// The largest length of the name of a producer or data source. Upstream sets no limit, but a
/// program's longest name is usually its path.
pub(crate) const MAX_NAME: usize = 4096;
/// The number of clock comparisons kept for each relay; the oldest are dropped.
pub(crate) const MAX_EXCHANGES: usize = 5;
/// The number of clocks of one comparison. Upstream's relays send seven, and upstream sets no
/// limit.
pub(crate) const MAX_CLOCKS_PER_EXCHANGE: usize = 64;

/// The number of transitions of other sessions kept between two reads; later ones are dropped.
pub(crate) const MAX_CONCURRENT_EVENTS: usize = 4096;
/// The size of the session names among these transitions. Upstream sets no limit.
pub(crate) const MAX_CONCURRENT_NAME_BYTES: usize = 1024 * 1024;
/// The number of pending requests for the service's state per consumer; more are rejected.
pub(crate) const MAX_STATE_QUERIES: usize = 1024;
/// The number of requests kept while the driver prepares a client's memory or file.
pub(crate) const MAX_DEFERRED_REQUESTS: usize = 1024;
