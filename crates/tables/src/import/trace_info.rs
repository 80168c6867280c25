//! Metadata of the trace and its system.

use ferretto_format::Fnv1a;
use ferretto_proto::fields::trace_config::{self, buffer_config};
use ferretto_proto::fields::trace_packet as field;
use ferretto_proto::fields::{chrome_trigger, system_info, trace_uuid, trigger, utsname};
use ferretto_text::print::message_to_text;
use ferretto_wire::{Field, Fields};

use super::context::Context;
use super::reflect::base64;
use super::{Input, diagnostics, service, trace_stats};
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::metadata::{Fact, FactScope};
use crate::trackers::slice::SliceStart;
use crate::trackers::track::TrackSpec;

/// The state of the metadata.
#[derive(Debug, Default)]
pub(crate) struct TraceInfo {
    /// Set if the trace has its own uuid.
    has_uuid: bool,
    trigger: Option<TriggerKind>,
    /// Set if the config writes into a file without periodic flushes.
    has_no_flush: bool,
    /// The config, for advice at the end.
    config: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TriggerKind {
    Plain,
    Clone,
}

/// The first version of the service that flushes before it writes into a file.
const FLUSHING_VERSION: u32 = 54;
/// The maximum size of a config that gets advice, in bytes.
const MAX_CONFIG: usize = 1 << 20;
/// The number of first bytes of a trace from which a uuid is derived.
const HASHED: usize = 4096;

impl TraceInfo {
    /// Returns true if this field of `TracePacket` is about the trace itself.
    pub(super) fn has(field: u32) -> bool {
        matches!(
            field,
            field::TRACE_UUID
                | field::UI_STATE
                | field::TRACE_STATS
                | field::TRACE_CONFIG
                | field::TRIGGER
                | field::CLONE_SNAPSHOT_TRIGGER
                | field::CHROME_TRIGGER
                | field::SYSTEM_INFO
        )
    }

    /// Reads a packet in the order of the file. Returns true if it remains to be parsed.
    pub(super) fn tokenize(&mut self, cx: &mut Context, input: &Input<'_>) -> bool {
        let bytes = input.bytes;
        match input.field {
            field::TRACE_STATS => trace_stats::read(cx, input.state.sequences, bytes),
            field::TRACE_CONFIG => {
                self.note_config(cx, bytes);
                return true;
            }
            field::SYSTEM_INFO => system(cx, bytes),
            field::TRACE_UUID => {
                let number = |field| Fields::find(field, bytes).and_then(|f| f.as_u64());
                let msb = number(trace_uuid::MSB).unwrap_or(0);
                let lsb = number(trace_uuid::LSB).unwrap_or(0);
                self.set_uuid(cx, msb, lsb);
            }
            field::UI_STATE => {
                let text = base64(bytes);
                set_text(cx, "ui_state", text.as_bytes(), FactScope::Trace);
            }
            _ => return true,
        }
        false
    }

    /// Parses a packet.
    pub(super) fn parse(&mut self, cx: &mut Context, ts: i64, number: u32, bytes: &[u8]) {
        match number {
            field::TRIGGER => self.trigger(cx, ts, bytes, TriggerKind::Plain),
            field::CLONE_SNAPSHOT_TRIGGER => self.trigger(cx, ts, bytes, TriggerKind::Clone),
            field::CHROME_TRIGGER => chrome_trigger(cx, ts, bytes),
            field::TRACE_CONFIG => self.config(cx, bytes),
            _ => {}
        }
    }

    fn set_uuid(&mut self, cx: &mut Context, msb: u64, lsb: u64) {
        if (msb, lsb) != (0, 0) {
            cx.metadata.restrict_to_file(&mut cx.store, "trace_uuid");
            set_text(
                cx,
                "trace_uuid",
                uuid(msb, lsb).as_bytes(),
                FactScope::Trace,
            );
            self.has_uuid = true;
        }
    }

    /// Reads a `TraceConfig` in the order of the file.
    pub(super) fn note_config(&mut self, cx: &mut Context, bytes: &[u8]) {
        let attributes = Fields::find(trace_config::TRACE_ATTRIBUTES, bytes);
        if let Some(attributes) = attributes.and_then(|field| field.as_bytes()) {
            service::attributes(cx, attributes);
        }
        let number = |field| Fields::find(field, bytes).and_then(|field| field.as_u64());
        let is_set = |field| number(field).is_some_and(|value| value != 0);
        if !is_set(trace_config::WRITE_INTO_FILE) {
            return;
        }
        self.has_no_flush = !is_set(trace_config::FLUSH_PERIOD_MS);
        let buffers = Fields::new(bytes).map_while(Result::ok);
        let buffers = buffers.filter(|field| field.number == trace_config::BUFFERS);
        for (index, buffer) in buffers.enumerate() {
            const DISCARD: u64 = 2;
            let policy = buffer_config::FILL_POLICY;
            let policy = Fields::find(policy, buffer.as_bytes().unwrap_or_default());
            if policy.and_then(|policy| policy.as_u64()) == Some(DISCARD) {
                let stat = Stat::config_write_into_file_discard;
                cx.store.stats.add_indexed(stat, index as i64, 1);
            }
        }
    }

    fn config(&mut self, cx: &mut Context, bytes: &[u8]) {
        if bytes.len() <= MAX_CONFIG {
            self.config = bytes.to_owned();
        }
        let number = |field| Fields::find(field, bytes).and_then(|field| field.as_u64());
        if !self.has_uuid {
            let msb = number(trace_config::TRACE_UUID_MSB).unwrap_or(0);
            let lsb = number(trace_config::TRACE_UUID_LSB).unwrap_or(0);
            self.set_uuid(cx, msb, lsb);
        }
        let name = Fields::find(trace_config::UNIQUE_SESSION_NAME, bytes);
        if let Some(name) = name.and_then(|name| name.as_bytes()) {
            set_text(cx, "unique_session_name", name, FactScope::Trace);
        }
        if let Some(text) = message_to_text("perfetto.protos.TraceConfig", bytes) {
            let text = text.trim_ascii_end();
            set_text(cx, "trace_config_pbtxt", text, FactScope::Trace);
        }
    }

    fn trigger(&mut self, cx: &mut Context, ts: i64, bytes: &[u8], kind: TriggerKind) {
        let text = |field| Fields::find(field, bytes).and_then(|field| field.as_bytes());
        let name = cx
            .store
            .strings
            .intern_bytes(text(trigger::TRIGGER_NAME).unwrap_or_default());
        let mut args = ArgSet::default();
        let producer = text(trigger::PRODUCER_NAME).unwrap_or_default();
        let producer = cx.store.strings.intern_bytes(producer);
        args.put(&mut cx.store, "producer_name", ArgValue::Text(producer));
        let uid = Fields::find(trigger::TRUSTED_PRODUCER_UID, bytes);
        if let Some(uid) = uid.and_then(|uid| uid.as_i64()) {
            args.int(&mut cx.store, "trusted_producer_uid", uid);
        }
        instant(cx, ts, name, &mut args);
        if self.trigger.is_some_and(|known| known >= kind) {
            return;
        }
        self.trigger = Some(kind);
        cx.metadata.set(
            &mut cx.store,
            "trace_trigger",
            Fact::Text(name),
            FactScope::Trace,
        );
        if kind == TriggerKind::Clone {
            cx.store
                .stats
                .set(Stat::traced_clone_trigger_timestamp_ns, ts);
        }
    }

    /// Completes the metadata after all events were parsed.
    pub(super) fn finish(&mut self, cx: &mut Context) {
        diagnostics::run(cx, &self.config);
        overwritten(cx, &self.config);
        if !self.has_no_flush {
            return;
        }
        let version = match cx.metadata.get(&cx.store, "tracing_service_version") {
            Some(Fact::Text(text)) => major_version(cx.store.strings.text(text)),
            _ => None,
        };
        if version.is_none_or(|version| version < FLUSHING_VERSION) {
            cx.store.stats.add(Stat::config_write_into_file_no_flush, 1);
        }
    }
}

/// Counts the overwritten data of a recording that writes it into a file regularly: it is lost.
fn overwritten(cx: &mut Context, config: &[u8]) {
    /// The period from which a recording is rather a ring: a day.
    const SELDOM_MS: u64 = 86_400_000;
    let number = |field| Fields::find(field, config).and_then(|field| field.as_u64());
    let is_written = number(trace_config::WRITE_INTO_FILE).is_some_and(|value| value != 0);
    let period = number(trace_config::FILE_WRITE_PERIOD_MS).unwrap_or(0);
    if !is_written || period >= SELDOM_MS {
        return;
    }
    let buffers = Fields::new(config).map_while(Result::ok);
    let buffers = buffers.filter(|field| field.number == trace_config::BUFFERS);
    for index in 0..buffers.count() as i64 {
        let stats = &mut cx.store.stats;
        let bytes = stats.get(Stat::traced_buf_bytes_overwritten, Some(index));
        if let Some(bytes) = bytes.filter(|bytes| *bytes > 0) {
            stats.set_indexed(Stat::long_trace_mode_bytes_overwritten, index, bytes);
        }
    }
}

/// Sets a uuid derived from the first bytes, until the trace has its own.
pub(crate) fn guess_uuid(cx: &mut Context, head: &[u8]) {
    let guess = uuid(0, Fnv1a::hash(&head[..head.len().min(HASHED)]));
    set_text(cx, "trace_uuid", guess.as_bytes(), FactScope::Global);
}

/// Sets the format of the current file.
pub(crate) fn begin_file(cx: &mut Context, format: &str) {
    set_text(cx, "trace_type", format.as_bytes(), FactScope::Trace);
}

/// Sets the size of the current file.
pub(crate) fn end_file(cx: &mut Context, bytes: u64) {
    let size = Fact::Int(bytes as i64);
    cx.metadata
        .set(&mut cx.store, "trace_size_bytes", size, FactScope::Trace);
}

/// Returns the number after `Perfetto v`, or that of our own versions, all of which flush.
fn major_version(version: &str) -> Option<u32> {
    let Some(number) = version.strip_prefix("Perfetto v") else {
        return version.starts_with("Ferretto").then_some(FLUSHING_VERSION);
    };
    let end = number.find(['.', '-']).unwrap_or(number.len());
    number[..end].parse().ok()
}

fn chrome_trigger(cx: &mut Context, ts: i64, bytes: &[u8]) {
    let name = Fields::find(chrome_trigger::TRIGGER_NAME, bytes).and_then(|name| name.as_bytes());
    let hash = Fields::find(chrome_trigger::TRIGGER_NAME_HASH, bytes);
    let hash = hash.and_then(|hash| hash.as_u64()).unwrap_or(0);
    let mut args = ArgSet::default();
    args.put(
        &mut cx.store,
        "chrome_trigger.name_hash",
        ArgValue::Uint(hash),
    );
    let text = cx
        .store
        .strings
        .intern_bytes(name.unwrap_or(b"chrome_trigger"));
    if name.is_some() {
        args.put(&mut cx.store, "chrome_trigger.name", ArgValue::Text(text));
    }
    cx.translations.add_names(&mut cx.store, &mut args);
    let rule = "cr-triggered_rule_name_hash";
    let fact = Fact::Int(hash as i64);
    cx.metadata.set(&mut cx.store, rule, fact, FactScope::Trace);
    instant(cx, ts, text, &mut args);
}

/// Adds an instant to the track of triggers.
fn instant(cx: &mut Context, ts: i64, name: StringId, args: &mut ArgSet) {
    let track = cx.store.strings.intern("Trace Triggers");
    let track = cx.tracks.intern(
        &mut cx.store,
        TrackSpec::slices("triggers", &[]).named(track),
    );
    let start = SliceStart {
        ts,
        track,
        category: StringId::NULL,
        name,
    };
    cx.slices.complete(&mut cx.store, start, 0, args);
}

/// Reads a `SystemInfo`.
fn system(cx: &mut Context, bytes: &[u8]) {
    let machine = cx.store.machine;
    // The memory is set last, independent of its position.
    let is_memory = |field: &Field<'_>| field.number == system_info::SYSTEM_RAM_BYTES;
    let fields = || Fields::new(bytes).map_while(Result::ok);
    let all = fields().filter(|field| !is_memory(field));
    let mut build = None;
    for field in all.chain(fields().filter(is_memory)) {
        let text = field.as_bytes().unwrap_or_default();
        let scope = FactScope::Machine;
        let mut int = |name: &str, value: i64| {
            cx.metadata
                .set(&mut cx.store, name, Fact::Int(value), scope);
        };
        match field.number {
            system_info::UTSNAME => uts_name(cx, text),
            system_info::MACHINE_NAME => {
                let name = cx.store.strings.intern_bytes(text);
                cx.store.tables.machine.name.set(machine, name);
            }
            system_info::TRACING_SERVICE_VERSION => {
                set_text(cx, "tracing_service_version", text, scope);
            }
            system_info::TIMEZONE_OFF_MINS => {
                int("timezone_off_mins", field.as_i64().unwrap_or(0));
            }
            system_info::NUM_CPUS => {
                cx.store
                    .tables
                    .machine
                    .num_cpus
                    .set(machine, field.as_u32());
            }
            system_info::SYSTEM_RAM_BYTES => {
                let ram = field.as_u64().unwrap_or(0) as i64;
                let gigabytes = (ram as f64 / 1e9).round() as i64;
                int("system_ram_bytes", ram);
                int("system_ram_gb", gigabytes);
                cx.store
                    .tables
                    .machine
                    .system_ram_bytes
                    .set(machine, Some(ram));
                cx.store
                    .tables
                    .machine
                    .system_ram_gb
                    .set(machine, Some(gigabytes));
            }
            system_info::ANDROID_BUILD_FINGERPRINT => {
                let text = set_text(cx, "android_build_fingerprint", text, scope);
                cx.store
                    .tables
                    .machine
                    .android_build_fingerprint
                    .set(machine, text);
                build = Some(text);
            }
            system_info::ANDROID_DEVICE_MANUFACTURER => {
                let text = set_text(cx, "android_device_manufacturer", text, scope);
                cx.store
                    .tables
                    .machine
                    .android_device_manufacturer
                    .set(machine, text);
            }
            system_info::ANDROID_SDK_VERSION => {
                let version = field.as_i64().unwrap_or(0);
                int("android_sdk_version", version);
                cx.store
                    .tables
                    .machine
                    .android_sdk_version
                    .set(machine, Some(version));
            }
            _ => {}
        }
    }
    if let Some(build) = build {
        let has_version = fields().any(|field| field.number == system_info::ANDROID_SDK_VERSION);
        android_build(cx, build, has_version);
    }
}

/// Sets what the fingerprint of an Android build says:
/// `brand/product/device:release/id/incremental:type/tags`.
fn android_build(cx: &mut Context, fingerprint: StringId, has_version: bool) {
    let text = cx.store.strings.text(fingerprint).to_owned();
    let parts = text.split_once(':').map(|(_, build)| build.splitn(3, '/'));
    let Some((release, incremental)) =
        parts.and_then(|mut parts| Some((parts.next()?, parts.nth(1)?)))
    else {
        return;
    };
    let Some((incremental, _)) = incremental.split_once(':') else {
        return;
    };
    let scope = FactScope::Machine;
    set_text(
        cx,
        "android_incremental_build",
        incremental.as_bytes(),
        scope,
    );
    if let Some(version) = sdk_version(release).filter(|_| !has_version) {
        let machine = cx.store.machine;
        let fact = Fact::Int(version);
        cx.metadata
            .set(&mut cx.store, "android_sdk_version", fact, scope);
        let table = &mut cx.store.tables.machine;
        table.android_sdk_version.set(machine, Some(version));
    }
}

/// Returns the version of the interface of a release of Android.
fn sdk_version(release: &str) -> Option<i64> {
    Some(match release {
        "5.0" | "5.0.1" | "5.0.2" => 21,
        "5.1" | "5.1.1" => 22,
        "6.0" => 23,
        "7.0" => 24,
        "7.1" => 25,
        "8.0" => 26,
        "8.1" => 27,
        "9" => 28,
        "10" => 29,
        "11" => 30,
        "12" => 31,
        "13" => 33,
        "14" => 34,
        "15" => 35,
        "16" => 36,
        _ => return None,
    })
}

fn uts_name(cx: &mut Context, bytes: &[u8]) {
    let machine = cx.store.machine;
    let text = |number| {
        let text = Fields::find(number, bytes).and_then(|field| field.as_bytes());
        text.unwrap_or_default()
    };
    let scope = FactScope::Machine;
    let name = set_text(cx, "system_name", text(utsname::SYSNAME), scope);
    cx.store.tables.machine.sysname.set(machine, name);
    let version = set_text(cx, "system_version", text(utsname::VERSION), scope);
    cx.store.tables.machine.version.set(machine, version);
    let release = set_text(cx, "system_release", text(utsname::RELEASE), scope);
    cx.store.tables.machine.release.set(machine, release);
    let arch = set_text(cx, "system_machine", text(utsname::MACHINE), scope);
    cx.store.tables.machine.arch.set(machine, arch);
}

/// Sets an entry to a text, and returns the text.
fn set_text(cx: &mut Context, name: &str, text: &[u8], scope: FactScope) -> StringId {
    let text = cx.store.strings.intern_bytes(text);
    cx.metadata
        .set(&mut cx.store, name, Fact::Text(text), scope);
    text
}

/// Formats a uuid.
fn uuid(msb: u64, lsb: u64) -> String {
    let (high, low) = (format!("{msb:016x}"), format!("{lsb:016x}"));
    format!(
        "{}-{}-{}-{}-{}",
        &high[..8],
        &high[8..12],
        &high[12..],
        &low[..4],
        &low[4..]
    )
}
