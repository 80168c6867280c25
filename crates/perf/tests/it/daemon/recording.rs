//! Recordings of callstacks that run until there are enough samples.

use ferretto_proto::perf_event_config::{CallstackSampling, Scope};
use ferretto_proto::perf_events::Timebase;
use ferretto_proto::perf_events::timebase::Interval;
use ferretto_proto::{PerfEventConfig, TraceConfig, TracePacket};

use crate::daemon::stacks::Read;
use crate::daemon::target::Target;
use crate::daemon::world::{LIMIT, World, read, wait_until};

/// Returns a config of callstacks at a hundred samples per second.
pub(crate) fn callstacks(fill: impl FnOnce(&mut CallstackSampling, &mut Scope)) -> PerfEventConfig {
    let mut sampling = CallstackSampling::default();
    let mut scope = Scope::default();
    fill(&mut sampling, &mut scope);
    sampling.scope = scope.into();
    PerfEventConfig {
        timebase: Timebase {
            interval: Some(Interval::Frequency(100)),
            ..Default::default()
        }
        .into(),
        callstack_sampling: sampling.into(),
        remote_descriptor_timeout_ms: Some(20),
        ..Default::default()
    }
}

/// Records until there are enough samples.
pub(crate) fn record_until(
    world: &World,
    config: TraceConfig,
    what: &str,
    mut is_enough: impl FnMut(&[TracePacket]) -> bool,
) -> Vec<TracePacket> {
    let mut packets = Vec::new();
    let rest = world.record(config, |consumer| {
        wait_until(what, || {
            consumer.flush(LIMIT).expect("a flush");
            packets.extend(read(consumer));
            is_enough(&packets)
        });
    });
    packets.extend(rest);
    packets
}

/// Returns the samples of one process.
pub(crate) fn of<'a>(reads: &'a [Read], target: &Target) -> Vec<&'a Read> {
    let pid = target.pid();
    reads.iter().filter(|read| read.pid() == pid).collect()
}
