//! Bounds on the cost of one client, and timeouts of the protocol.

pub(crate) const MAX_PRODUCERS: usize = 65535;
pub(crate) const MAX_WRITER_ID: u32 = (1 << 15) - 1;
pub(crate) const MAX_BUFFERS_PER_SESSION: usize = 128;
pub(crate) const MAX_SESSIONS: usize = 15;
pub(crate) const MAX_SESSIONS_PER_UID: usize = 5;
pub(crate) const MAX_DURATION_MS: u32 = 7 * 24 * 3600 * 1000;
pub(crate) const MAX_GUARDED_DURATION_MS: u32 = 24 * 3600 * 1000;
pub(crate) const MAX_GUARDED_BUFFERS_KB: u32 = 128 * 1024;
pub(crate) const GUARDED_COOLDOWN_NS: u64 = 300 * 1_000_000_000;
/// Names of unattended sessions that are remembered for so long. Upstream sets no bound.
pub(crate) const MAX_COOLDOWNS: usize = 65_536;

pub(crate) const DEFAULT_FLUSH_TIMEOUT_MS: u64 = 5000;
pub(crate) const DEFAULT_STOP_TIMEOUT_MS: u32 = 5000;
pub(crate) const DEFAULT_SNAPSHOT_INTERVAL_MS: u64 = 10_000;
pub(crate) const DEFAULT_WRITE_PERIOD_MS: u64 = 5000;
pub(crate) const MIN_WRITE_PERIOD_MS: u64 = 100;
pub(crate) const SLOW_START_MS: u64 = 20_000;
/// The time the end of a session may take before it is told who is waited for.
pub(crate) const SLOW_END_MS: u64 = 2_000;
pub(crate) const MAX_PENDING_FLUSHES: usize = 1000;
/// Data sources named in a report about slow ones.
pub(crate) const MAX_SLOW_LISTED: usize = 32;

pub(crate) const MAX_PATCHES_PER_CHUNK: usize = 1024;
/// Chunk bytes inside a commit: at least the chunk header, and a length that fits 16 bits.
pub(crate) const INLINE_CHUNK_SIZES: std::ops::RangeInclusive<usize> = 8..=65535;

/// Packets gathered at a time for a consumer, in bytes; the last packet may exceed it.
pub(crate) const READ_BATCH: usize = 32 * 1024;
/// Packets gathered at a time for a file.
pub(crate) const FILE_BATCH: usize = 1024 * 1024;
/// Bytes one reply may hold, so that its frame stays within 128 KiB.
pub(crate) const REPLY_BYTES: usize = 131_008;
/// Longest slice of a packet in a reply.
pub(crate) const MAX_SLICE: usize = 128 * 1024 - 512;
/// Reply bytes handed to the driver before the service waits for the consumer to have read them.
pub(crate) const READ_WINDOW: usize = 256 * 1024;

/// The time for which an activation counts against `max_per_24_h`.
pub(crate) const TRIGGER_WINDOW_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Triggers of a session kept for its trace; the oldest go first. Upstream sets no bound.
pub(crate) const MAX_RECEIVED_TRIGGERS: usize = 256;
/// Activations remembered for 24 hours, of all names; the oldest go first. Upstream sets no bound.
pub(crate) const MAX_TRIGGER_HISTORY: usize = 65_536;
/// Clone triggers of a session, or on their way to its consumer, at a time; later ones are
/// recorded, but not told. Upstream tells the last one only.
pub(crate) const MAX_PENDING_HITS: usize = 64;

/// Longest name of a producer or data source. Upstream sets no bound; programs call themselves by
/// their path, at most.
pub(crate) const MAX_NAME: usize = 4096;
/// Comparisons of clocks kept for each relay; the oldest go first.
pub(crate) const MAX_EXCHANGES: usize = 5;
/// Clocks of one comparison. Upstream's relays send seven, and upstream sets no bound.
pub(crate) const MAX_CLOCKS_PER_EXCHANGE: usize = 64;

/// Transitions of other sessions kept between two reads; later ones are dropped.
pub(crate) const MAX_CONCURRENT_EVENTS: usize = 4096;
/// Bytes the session names among them may take. Upstream sets no bound.
pub(crate) const MAX_CONCURRENT_NAME_BYTES: usize = 1024 * 1024;
/// Requests for the service's state that one consumer may have waiting; more are rejected.
pub(crate) const MAX_STATE_QUERIES: usize = 1024;
/// Requests kept while the driver prepares a client's memory or file.
pub(crate) const MAX_DEFERRED_REQUESTS: usize = 1024;
