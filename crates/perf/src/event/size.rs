//! The size of rings, and fallbacks if memory is limited.

use std::borrow::Cow;

use crate::config::{Interval, Plan, RingSize, Sampling};

/// The smallest useful ring: two samples with stacks.
const LEAST_WITH_STACKS: u32 = 32;
const LEAST: u32 = 4;
/// The smallest useful stack copy.
const LEAST_STACK: u64 = 8 << 10;

/// Returns the number of pages of each ring for a plan that needs `rings`: the configured number,
/// or space for all samples of several reads, since other programs may keep the reader from its CPU
/// for a while.
pub(super) fn ring_pages(plan: &Plan, rings: usize) -> u32 {
    const AT_LEAST: u64 = 256;
    /// The limit of all rings together.
    const MEMORY: u64 = 512 << 20;
    let Some(sampling) = plan.sampling() else {
        return 0;
    };
    let asked = match sampling.ring {
        RingSize::Pages(pages) => return pages,
        RingSize::Auto => bytes_a_second(plan, sampling),
    };
    let page = rustix::param::page_size() as u64;
    // Four read periods, but at least half a second.
    let milliseconds = (sampling.read_period.as_millis() as u64).saturating_mul(4);
    let bytes = asked.saturating_mul(milliseconds.max(500)) / 1000;
    let most = (MEMORY / page / rings.max(1) as u64).max(AT_LEAST);
    let pages = (bytes / page).clamp(AT_LEAST, most);
    // The kernel requires a power of two, at most the share.
    let pages = pages.checked_next_power_of_two().unwrap_or(most);
    let pages = if pages > most {
        1 << most.ilog2()
    } else {
        pages
    };
    u32::try_from(pages).unwrap_or(1 << 18)
}

fn bytes_a_second(plan: &Plan, sampling: &Sampling) -> u64 {
    let mut sample = 64 + 16 * plan.count_of_counters() as u64;
    if plan.callstacks.user.copies_stack() {
        sample += 200 + u64::from(sampling.stack_bytes);
    }
    if plan.callstacks.sampled() {
        sample += 8 * 135;
    }
    rate(plan, sampling).saturating_mul(sample)
}

fn rate(plan: &Plan, sampling: &Sampling) -> u64 {
    /// The rate assumed for events with a fixed period.
    const UNKNOWN_RATE: u64 = 1000;
    match sampling.interval {
        // The frequency applies to each task; there may be many.
        Interval::Frequency(frequency) if !plan.timebase.counts_nanoseconds() => {
            frequency.max(UNKNOWN_RATE)
        }
        Interval::Frequency(frequency) => frequency,
        Interval::Period(period) if plan.timebase.counts_nanoseconds() => 1_000_000_000 / period,
        Interval::Period(_) => UNKNOWN_RATE,
    }
}

/// Returns a smaller size to try when a ring of `pages` is not available.
pub(super) fn smaller(plan: &Plan, pages: u32) -> Option<u32> {
    let least = if plan.callstacks.user.copies_stack() {
        LEAST_WITH_STACKS
    } else {
        LEAST
    };
    Some(pages / 2).filter(|pages| *pages >= least)
}

/// Adapts a plan to rings of `pages`. If they are smaller than wanted and the config sets no stack
/// size, stack copies are reduced, so that the samples of a quarter of a second fit. Frame pointers
/// continue where a copy ends.
pub(super) fn fitted(plan: &Plan, pages: u32, wanted: u32) -> Cow<'_, Plan> {
    let Some(sampling) = plan.sampling() else {
        return Cow::Borrowed(plan);
    };
    let copies = plan.callstacks.user.copies_stack();
    if pages >= wanted || sampling.ring != RingSize::Auto || !copies {
        return Cow::Borrowed(plan);
    }
    let ring = u64::from(pages) * rustix::param::page_size() as u64;
    let samples = (rate(plan, sampling) / 4).max(8);
    let bytes = (ring / samples).max(LEAST_STACK) & !7;
    let bytes = u32::try_from(bytes).map_or(sampling.stack_bytes, |bytes| {
        bytes.min(sampling.stack_bytes)
    });
    let mut fitted = plan.clone();
    if let Some(sampling) = fitted.sampling_mut() {
        sampling.stack_bytes = bytes;
    }
    Cow::Owned(fitted)
}

/// Returns a notice about rings that are smaller than wanted.
pub(super) fn notice(plan: &Plan, pages: u32, wanted: u32) -> String {
    let stack = |plan: &Plan| plan.sampling().map_or(0, |sampling| sampling.stack_bytes);
    let (fitted, asked) = (stack(&fitted(plan, pages, wanted)), stack(plan));
    let cut = if fitted < asked {
        format!("{fitted} bytes of each stack are copied instead of {asked}")
    } else {
        "samples may be lost at high rates".to_owned()
    };
    format!(
        "the rings have {pages} pages instead of {wanted}, as this user may not lock more memory \
         (kernel.perf_event_mlock_kb, ulimit -l): {cut}"
    )
}
