//! The config of a data source.

use std::time::Duration;

use ferretto_heap::ring;
use ferretto_heap::wire::{ClientConfig, NAME_BYTES};
use ferretto_proto::{DataSourceConfig, HeapprofdConfig, decode_lazy};

use crate::refusal::Refusal;
use crate::target::Targets;

/// The default heap.
const LIBC: &[u8] = b"libc.malloc";
/// The default timeout of a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// The default limit of the wait of a blocked allocation, so that a hanging profiler does not block
/// programs.
const BLOCK_LIMIT_US: u64 = 10_000_000;

/// The validated config of an instance.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) client: ClientConfig,
    pub(crate) targets: Targets,
    pub(crate) ring_size: u64,
    pub(crate) dumps: Option<Dumps>,
    pub(crate) dump_at_max: bool,
    pub(crate) max_memory_kb: u64,
    pub(crate) max_cpu: Option<Duration>,
    pub(crate) unnamed: Vec<Vec<u8>>,
    pub(crate) stop_timeout: Duration,
    /// Notices about parts of the config that cannot be recorded.
    pub(crate) remarks: Vec<String>,
}

/// The times of continuous dumps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dumps {
    pub(crate) phase: Duration,
    pub(crate) interval: Duration,
}

impl Plan {
    pub(crate) fn new(config: &DataSourceConfig) -> Result<Self, Refusal> {
        let decoded = decode_lazy::<HeapprofdConfig>(&config.heapprofd_config);
        let heap = decoded.map_err(|_| Refusal::Malformed)?;
        if !heap.target_installed_by.is_empty() {
            return Err(Refusal::InstalledBy);
        }
        if heap.stream_allocations == Some(true) {
            return Err(Refusal::Streaming);
        }
        let mut remarks = Vec::new();
        let client = client_config(&heap, &mut remarks)?;
        let ring_size = match heap.shmem_size_bytes.unwrap_or(0) {
            0 => ring::DEFAULT_SIZE,
            size if size.is_power_of_two() && (ring::MIN_SIZE..=ring::MAX_SIZE).contains(&size) => {
                // The smallest ring is a page of the system.
                size.max(ferretto_heap::sys::page_size() as u64)
            }
            size => return Err(Refusal::RingSize(size)),
        };
        let dumps = &heap.continuous_dump_config;
        let interval = dumps.dump_interval_ms.filter(|&ms| ms != 0);
        let dumps = interval.map(|interval| Dumps {
            phase: Duration::from_millis(dumps.dump_phase_ms.unwrap_or(0).into()),
            interval: Duration::from_millis(interval.into()),
        });
        let cpu = heap.max_heapprofd_cpu_secs.filter(|&secs| secs != 0);
        let stop = config.stop_timeout_ms.filter(|&ms| ms != 0);
        Ok(Self {
            client,
            targets: Targets::new(&heap)?,
            ring_size,
            dumps,
            dump_at_max: heap.dump_at_max == Some(true),
            max_memory_kb: heap.max_heapprofd_memory_kb.unwrap_or(0).into(),
            max_cpu: cpu.map(Duration::from_secs),
            unnamed: heap.skip_symbol_prefix,
            stop_timeout: stop.map_or(STOP_TIMEOUT, |ms| Duration::from_millis(ms.into())),
            remarks,
        })
    }
}

fn client_config(
    heap: &HeapprofdConfig,
    remarks: &mut Vec<String>,
) -> Result<ClientConfig, Refusal> {
    let default = heap.sampling_interval_bytes.unwrap_or(0);
    let all_heaps = heap.all_heaps == Some(true);
    let mut heaps: Vec<&[u8]> = heap.heaps.iter().map(Vec::as_slice).collect();
    if heaps.is_empty() && !all_heaps {
        heaps.push(LIBC);
    }
    let mut intervals = heap.heap_sampling_intervals.clone();
    if intervals.is_empty() {
        intervals = vec![default; heaps.len()];
    }
    if intervals.len() != heaps.len() {
        return Err(Refusal::Lengths);
    }
    if intervals.contains(&0) || (all_heaps && default == 0) {
        return Err(Refusal::ZeroInterval);
    }
    let timeout = u64::from(heap.block_client_timeout_us.unwrap_or(0));
    let flag = |value: Option<bool>| u8::from(value == Some(true));
    let mut client = ClientConfig {
        default_interval: default,
        block_client_timeout_us: match timeout {
            0 => BLOCK_LIMIT_US,
            timeout => timeout,
        },
        adaptive_threshold: heap.adaptive_sampling_shmem_threshold.unwrap_or(0),
        adaptive_max_interval: heap
            .adaptive_sampling_max_sampling_interval_bytes
            .unwrap_or(0),
        block_client: flag(heap.block_client),
        disable_fork_teardown: flag(heap.disable_fork_teardown),
        disable_vfork_detection: flag(heap.disable_vfork_detection),
        all_heaps: u8::from(all_heaps),
        ..ClientConfig::EMPTY
    };
    let excluded = heap.exclude_heaps.iter().map(|name| (name.as_slice(), 0));
    for (name, interval) in heaps.into_iter().zip(intervals).chain(excluded) {
        if !client.add_heap(name, interval) {
            let name = String::from_utf8_lossy(name);
            remarks.push(if name.len() < NAME_BYTES {
                format!("heap {name:?} is not recorded: a config has room for 64 heaps")
            } else {
                format!("heap {name:?} is not recorded: the name is too long")
            });
        }
    }
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_proto::Message;

    fn plan(change: impl FnOnce(&mut HeapprofdConfig)) -> Result<Plan, Refusal> {
        let mut heap = HeapprofdConfig {
            sampling_interval_bytes: Some(4096),
            all: Some(true),
            ..Default::default()
        };
        change(&mut heap);
        Plan::new(&DataSourceConfig {
            heapprofd_config: Some(heap.encode_to_vec()),
            ..Default::default()
        })
    }

    fn interval(plan: &Plan, name: &str) -> u64 {
        let mut padded = [0; NAME_BYTES];
        padded[..name.len()].copy_from_slice(name.as_bytes());
        plan.client.interval(&padded)
    }

    #[test]
    fn heap_001_malloc_is_recorded_if_no_heap_is_named() {
        let simple = plan(|_| {}).unwrap();
        assert_eq!(interval(&simple, "libc.malloc"), 4096);
        assert_eq!(interval(&simple, "other"), 0);
        let zero = plan(|heap| heap.sampling_interval_bytes = None);
        assert_eq!(zero.unwrap_err(), Refusal::ZeroInterval);
        let mismatch = plan(|heap| {
            heap.heaps = vec!["a".into(), "b".into()];
            heap.heap_sampling_intervals = vec![1];
        });
        assert_eq!(mismatch.unwrap_err(), Refusal::Lengths);
        let own = plan(|heap| {
            heap.heaps = vec!["a".into(), "b".into()];
            heap.heap_sampling_intervals = vec![1, 2];
        });
        let own = own.unwrap();
        assert_eq!((interval(&own, "a"), interval(&own, "b")), (1, 2));
        assert_eq!(interval(&own, "libc.malloc"), 0);
    }

    #[test]
    fn heap_002_heaps_can_be_excluded() {
        let plan = plan(|heap| {
            heap.all_heaps = Some(true);
            heap.heaps = vec!["both".into()];
            heap.exclude_heaps = vec!["off".into(), "both".into()];
            heap.exclude_heaps.push(vec![b'n'; 64]);
            heap.exclude_heaps
                .extend((0..70).map(|n| format!("x{n}").into_bytes()));
        });
        let plan = plan.unwrap();
        assert_eq!(interval(&plan, "both"), 4096);
        assert_eq!(interval(&plan, "off"), 0);
        assert_eq!(interval(&plan, "any"), 4096);
        assert_eq!(plan.client.num_heaps, 64);
        assert_eq!(plan.remarks.len(), 1 + 74 - 1 - 64);
    }

    #[test]
    fn heap_005_rings_are_powers_of_two() {
        let size = |size| plan(move |heap| heap.shmem_size_bytes = Some(size));
        assert_eq!(size(0).unwrap().ring_size, 8 << 20);
        let least = (ferretto_heap::sys::page_size() as u64).max(8192);
        assert_eq!(size(8192).unwrap().ring_size, least);
        for wrong in [4096, 4096 * 3, 500 << 20, 1 << 40] {
            assert_eq!(size(wrong).unwrap_err(), Refusal::RingSize(wrong));
        }
    }

    #[test]
    fn invalid_configs_are_refused() {
        let installed = plan(|heap| heap.target_installed_by = vec!["@system".into()]);
        assert_eq!(installed.unwrap_err(), Refusal::InstalledBy);
        let streaming = plan(|heap| heap.stream_allocations = Some(true));
        assert_eq!(streaming.unwrap_err(), Refusal::Streaming);
        let nobody = plan(|heap| heap.all = None);
        assert_eq!(nobody.unwrap_err(), Refusal::NoTarget);
    }
}
