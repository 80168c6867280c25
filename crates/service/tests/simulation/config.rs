//! Configs of sessions, drawn at random.

use ferretto_proto::TraceConfig;
use ferretto_proto::fields::trace_packet;
use ferretto_proto::trace_config::WriteFlushMode;
use ferretto_proto::trace_config::buffer_config::{ExperimentalMode, FillPolicy};
use ferretto_proto::trace_config::trigger_config::{Trigger, TriggerMode};

use crate::ledger::Plan;
use crate::random::Random;
use crate::world::pipeline::{SIMPLE, allow, deflate, zstd};
use crate::world::{ConfigBuilder, TEST_FIELD};

/// Names of data sources.
pub const SOURCES: [&str; 4] = ["s0", "s1", "s2", "s3"];

/// Returns a config for the session of this label. Its data sources contain the label and the index
/// of the buffer; its trace has the label as half of its UUID.
pub fn draw(r: &mut Random, label: u64) -> (TraceConfig, Plan) {
    let mut config = ConfigBuilder::default();
    let buffers = 1 + r.below(3) as u32;
    for _ in 0..buffers {
        config = config.buffer(r.of(&[4, 16, 64, 256]));
    }
    for _ in 0..1 + r.below(4) {
        let buffer = r.below(u64::from(buffers)) as u32;
        config = config.source_to(r.of(&SOURCES), buffer);
    }
    let mut config = config.0;
    for source in &mut config.data_sources {
        let source_config = source.config.get_or_insert_default();
        let buffer = source_config.target_buffer.unwrap_or(0);
        source_config.legacy_config = Some(format!("{label} {buffer}").into());
        if r.one_in(8) {
            source.producer_name_filter = vec![r.of(&[b"p0", b"p1"]).to_vec()];
        }
        if r.one_in(8) {
            source.producer_name_regex_filter = vec![b"p[01]".to_vec()];
        }
    }
    config.trace_uuid_msb = Some(1);
    config.trace_uuid_lsb = Some(label as i64);
    let mut plan = Plan::default();
    draw_life(r, &mut config, &mut plan);
    draw_file(r, &mut config, &mut plan);
    draw_buffers(r, &mut config, &mut plan);
    draw_pipeline(r, &mut config, &mut plan);
    draw_triggers(r, &mut config, &mut plan);
    draw_rules(r, &mut config);
    (config, plan)
}

fn period(r: &mut Random) -> u32 {
    100 + r.below(3000) as u32
}

/// Chooses start, end and periods.
fn draw_life(r: &mut Random, c: &mut TraceConfig, plan: &mut Plan) {
    c.deferred_start = Some(r.one_in(4));
    c.duration_ms = r.one_in(4).then(|| 2 * period(r));
    c.prefer_suspend_clock_for_duration = Some(r.one_in(2));
    c.flush_period_ms = r.one_in(4).then(|| period(r));
    c.flush_timeout_ms = r.one_in(4).then(|| period(r));
    c.data_source_stop_timeout_ms = r.one_in(4).then(|| period(r));
    c.trace_all_machines = Some(r.one_in(2));
    let state = c.incremental_state_config.get_or_insert_default();
    state.clear_period_ms = r.one_in(2).then(|| period(r));
    let builtin = c.builtin_data_sources.get_or_insert_default();
    builtin.snapshot_interval_ms = r.one_in(4).then(|| period(r));
    builtin.prefer_suspend_clock_for_snapshot = Some(r.one_in(2));
    builtin.disable_clock_snapshotting = Some(r.one_in(8));
    builtin.disable_trace_config = Some(r.one_in(8));
    if r.one_in(16) {
        builtin.disable_service_events = Some(true);
        plan.partial = true;
    }
}

fn draw_file(r: &mut Random, c: &mut TraceConfig, plan: &mut Plan) {
    c.write_into_file = Some(r.one_in(3));
    c.output_path = r.one_in(4).then(|| r.of(&[b"/out1", b"/out2"]).to_vec());
    c.file_write_period_ms = Some(period(r));
    if r.one_in(6) {
        c.max_file_size_bytes = Some(20_000);
        plan.partial = true;
    }
    c.write_flush_mode = r.one_in(3).then_some(WriteFlushMode::WRITE_FLUSH_ENABLED);
}

fn draw_buffers(r: &mut Random, c: &mut TraceConfig, plan: &mut Plan) {
    for buffer in &mut c.buffers {
        if !r.one_in(8) {
            buffer.experimental_mode = Some(ExperimentalMode::TRACE_BUFFER_V2);
        }
        if r.one_in(6) {
            buffer.fill_policy = Some(FillPolicy::DISCARD);
        }
        if r.one_in(12) {
            buffer.transfer_on_clone = Some(true);
            plan.gives_away = true;
        }
        if r.one_in(12) {
            buffer.clear_before_clone = Some(true);
            plan.gives_away = true;
        }
    }
    for source in &mut c.data_sources {
        if cfg!(feature = "protovm") && r.one_in(3) {
            let config = source.config.get_or_insert_default();
            let vm = config.protovm_config.get_or_insert_default();
            vm.memory_limit_kb = Some(r.below(8) as u32);
        }
    }
}

fn draw_pipeline(r: &mut Random, c: &mut TraceConfig, plan: &mut Plan) {
    match r.below(24) {
        0 => deflate(c),
        1 => zstd(c, r.below(8) as i32 - 3),
        _ => {}
    }
    if r.one_in(8) {
        let fields = [
            (TEST_FIELD, SIMPLE),
            (trace_packet::PREVIOUS_PACKET_DROPPED, SIMPLE),
        ];
        allow(c, &fields);
        plan.filtered = true;
    }
}

fn draw_triggers(r: &mut Random, c: &mut TraceConfig, plan: &mut Plan) {
    if !r.one_in(12) {
        return;
    }
    let triggers = c.trigger_config.get_or_insert_default();
    let mode = r.of(&[
        TriggerMode::START_TRACING,
        TriggerMode::STOP_TRACING,
        TriggerMode::CLONE_SNAPSHOT,
    ]);
    triggers.trigger_mode = Some(mode);
    let stops = mode == TriggerMode::STOP_TRACING;
    triggers.use_clone_snapshot_if_available = Some(stops && r.one_in(2));
    triggers.trigger_timeout_ms = Some(3 * period(r));
    triggers.triggers = vec![Trigger {
        name: Some(b"t".to_vec()),
        stop_delay_ms: Some(period(r)),
        max_per_24_h: r.one_in(4).then_some(2),
        skip_probability: r.one_in(4).then_some(0.5),
        producer_name_regex: r.one_in(4).then(|| b"p.".to_vec()),
        ..Default::default()
    }];
    c.duration_ms = None;
    if mode != TriggerMode::START_TRACING {
        c.write_into_file = Some(false);
    }
    plan.partial = true;
}

/// Chooses the conditions on other sessions.
fn draw_rules(r: &mut Random, c: &mut TraceConfig) {
    c.exclusive_prio = r.one_in(64).then(|| 1 + r.below(2) as u32);
    c.unique_session_name = r.one_in(8).then(|| r.of(&[b"x", b"y"]).to_vec());
    c.bugreport_score = r.one_in(8).then(|| r.below(3) as i32);
}
