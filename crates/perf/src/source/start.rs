//! The start of an instance.

use ferretto_client::{InstanceId, Timer};
use ferretto_shm::{Clock, TraceWriter};

use super::dispatch::RecordDispatch;
use super::names::Names;
use super::{MEMORY_PERIOD, PerfSource, SWEEP_PERIOD, period};
use crate::barrier::SourceKey;
use crate::config::{ConfigError, EventKind, Interval, Plan};
use crate::event::{OpenError, Scope, open_all};
use crate::filter::{Filter, Shard, Shards};
use crate::options::Options;
use crate::output::{Defaults, Mailbox, Message, OFF_CPU, Start};
use crate::unwinding;

/// The reason why an instance cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Open(#[from] OpenError),
    #[error(
        "time off the CPU is seen in the kernel, which this user may not observe; {}",
        off_cpu_advice(rustix::process::geteuid().is_root())
    )]
    OffCpu,
    #[error("CPU {cpu}: counting cannot be switched on: {error}")]
    Enable { cpu: u32, error: rustix::io::Errno },
}

/// The parameters of an instance.
#[derive(Debug)]
pub(crate) struct Started<'a> {
    pub(crate) key: SourceKey,
    pub(crate) id: InstanceId,
    /// The tracing session of the instance.
    pub(crate) session: u64,
    /// The encoded `PerfEventConfig`.
    pub(crate) config: &'a [u8],
    pub(crate) options: &'a Options,
    /// An unpredictable number.
    pub(crate) random: u32,
}

/// Starts counting. Passes notices for the user to `remark`.
pub(crate) fn start(
    wanted: &Started<'_>,
    shards: &mut Shards,
    writer: impl FnOnce() -> TraceWriter,
    mailbox: &Mailbox,
    mut remark: impl FnMut(String),
) -> Result<PerfSource, StartError> {
    let mut plan = Plan::new(wanted.config, &wanted.options.kernel)?;
    if let Some(bytes) = wanted.options.stack_bytes {
        plan.set_stack_bytes(bytes)?;
    }
    let is_off_cpu = is_off_cpu(&plan);
    if let Some(sampling) = plan.sampling_mut() {
        sampling.side_band.tasks = true;
        sampling.side_band.switches = is_off_cpu;
    }
    plan.notices.drain(..).for_each(&mut remark);
    let mut opened = open_all(&plan, &wanted.options.kernel, wanted.options.scope.as_ref())?;
    if opened.user_only && is_off_cpu {
        return Err(StartError::OffCpu);
    }
    opened.notices.drain(..).for_each(&mut remark);
    if opened.user_only {
        plan.callstacks.kernel = false;
    }
    let shard = choose_shard(&plan, wanted, shards, &mut remark);
    for reader in &mut opened.readers {
        let cpu = reader.cpu();
        reader
            .enable()
            .map_err(|error| StartError::Enable { cpu, error })?;
    }
    let watch = opened.watch();
    let filter = match opened.scope {
        Scope::Machine => Filter::new(plan.filter.clone(), shard),
        Scope::Processes { .. } => Filter::default(),
    };
    let defaults = Defaults::new(&plan, shard, wanted.options.format, is_off_cpu);
    mailbox.send(Message::Start(Box::new(Start {
        source: wanted.key,
        writer: writer(),
        defaults,
        wants_kernel_symbols: plan.callstacks.kernel,
        is_off_cpu,
    })));
    let source = unwinding::Source::new(wanted.key, plan.callstacks);
    let mut dispatch = RecordDispatch::new(source, &plan, filter, is_off_cpu);
    dispatch.names = wanted.options.write_names.then(Names::default);
    let now = Clock::Monotonic.now();
    let salt = wanted.id.0;
    let has_limit = plan.max_daemon_memory_kb.is_some() && plan.sampling().is_some();
    Ok(PerfSource {
        key: wanted.key,
        id: wanted.id,
        readers: opened.readers,
        watch,
        failed_cpus: Vec::new(),
        dispatch,
        is_stopping: false,
        stopped: None,
        tick: Timer::next(now, period(&plan), salt),
        sweep: Timer::next(now, SWEEP_PERIOD, salt),
        clear: Timer::next(now, plan.cache_clear_period, salt),
        memory: has_limit.then(|| Timer::next(now, MEMORY_PERIOD, salt)),
        plan,
    })
}

fn choose_shard(
    plan: &Plan,
    wanted: &Started<'_>,
    shards: &mut Shards,
    remark: &mut impl FnMut(String),
) -> Option<Shard> {
    let count = plan.filter.process_shard_count;
    if count == 0 {
        return None;
    }
    let (shard, error) = shards.choose(wanted.id, wanted.session, count, wanted.random);
    if let Some(error) = error {
        remark(error.to_string());
    }
    Some(shard)
}

fn off_cpu_advice(is_root: bool) -> &'static str {
    if is_root {
        "root is without CAP_PERFMON here, as in many containers: allow it there (docker run --cap-add PERFMON)"
    } else {
        "run as root, or ask the administrator for: sudo sysctl kernel.perf_event_paranoid=1"
    }
}

/// Returns true if the config requests off-CPU times, see [`crate::output`].
fn is_off_cpu(plan: &Plan) -> bool {
    use ferretto_proto::perf_events::Counter;
    let is_switch = match &plan.timebase.kind {
        EventKind::Tracepoint { name, .. } => {
            name == b"sched:sched_switch" || name == b"sched/sched_switch"
        }
        EventKind::Counter(counter) => *counter == Counter::SW_CONTEXT_SWITCHES,
        EventKind::Raw => false,
    };
    let is_sampled = plan.sampling().is_some_and(|sampling| {
        matches!(
            sampling.interval,
            Interval::Period(1) | Interval::Frequency(_)
        )
    });
    plan.timebase.name == OFF_CPU.as_bytes() && is_switch && is_sampled && plan.callstacks.sampled()
}
