//! The description of an event for the kernel (`struct perf_event_attr`).

use perf_event_open_sys::bindings::{
    PERF_FORMAT_GROUP, PERF_FORMAT_LOST, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_PERIOD,
    PERF_SAMPLE_READ, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER, PERF_SAMPLE_TID,
    PERF_SAMPLE_TIME, perf_event_attr,
};

use crate::config::{Event, Interval, Plan, Sampling, UserFrames};
use crate::record::{Counts, Format, REGISTER_MASK};

/// The differences between attempts to open the events of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Variant {
    /// Set for tasks and their descendants, instead of all tasks of a CPU.
    pub(super) tasks: bool,
    /// Set if counting starts when the task executes a program.
    pub(super) on_exec: bool,
    /// Set if the kernel is excluded, as for unprivileged users.
    pub(super) user_only: bool,
    /// Set to omit fields that kernels before 6.0 do not know.
    pub(super) old_kernel: bool,
    /// Set to leave the followers out. Before 6.12, kernels cannot count them for tasks and their
    /// descendants.
    pub(super) no_followers: bool,
}

impl Variant {
    /// Returns this variant, and those to try if the kernel rejects it, from the most complete.
    pub(super) fn attempts(self, plan: &Plan) -> impl Iterator<Item = Self> {
        let has_followers = self.tasks && !plan.followers.is_empty();
        let all = [(false, false), (true, false), (false, true), (true, true)];
        all.into_iter()
            .map(move |(old_kernel, no_followers)| Self {
                old_kernel,
                no_followers,
                ..self
            })
            .filter(move |next| has_followers || !next.no_followers)
            // Rejected variants are not tried again.
            .skip_while(move |next| *next != self)
    }

    /// Returns the number of counters in each sample or reading.
    pub(super) fn count_of_counters(self, plan: &Plan) -> usize {
        if self.no_followers {
            1
        } else {
            plan.count_of_counters()
        }
    }
}

/// Returns the layout of samples.
pub(super) fn format(plan: &Plan, variant: Variant, cpu: u32) -> Format {
    Format {
        cpu,
        counters: variant.count_of_counters(plan),
        counts: counts(plan, variant),
        callchain: callchain(plan, variant),
        registers: if plan.callstacks.user.copies_stack() {
            REGISTER_MASK
        } else {
            0
        },
        sample_id: true,
    }
}

/// Returns the format of counts. Samples can contain the count of a single task only since Linux
/// 6.12, so if only the timebase is counted, its periods are summed up instead.
fn counts(plan: &Plan, variant: Variant) -> Counts {
    let group = variant.count_of_counters(plan) > 1;
    // Two events count in turn.
    let in_turn = plan.samples_all_up_to().is_some();
    if (variant.tasks || in_turn) && !group {
        return Counts::Period;
    }
    Counts::Read {
        group,
        lost: !variant.old_kernel,
        of_task: variant.tasks,
    }
}

fn callchain(plan: &Plan, variant: Variant) -> bool {
    let (kernel, user) = chains(plan, variant);
    kernel || user
}

/// Returns which frames the kernel finds: its own, and those of the program. The latter also with
/// stack copies: its frame pointers continue where the copy ends.
fn chains(plan: &Plan, variant: Variant) -> (bool, bool) {
    let kernel = plan.callstacks.kernel && !variant.user_only;
    (kernel, plan.callstacks.user != UserFrames::None)
}

/// Returns the attributes of the timebase.
pub(super) fn leader(plan: &Plan, variant: Variant) -> perf_event_attr {
    let mut attr = event(&plan.timebase, variant);
    attr.set_disabled(1);
    attr.set_enable_on_exec(variant.on_exec.into());
    let Some(sampling) = plan.sampling() else {
        attr.read_format = PERF_FORMAT_GROUP as u64;
        return attr;
    };
    sample(&mut attr, plan, sampling, variant);
    if plan.samples_all_up_to().is_some() {
        attr.set_freq(0);
        attr.__bindgen_anon_1.sample_period = 1;
    } else {
        set_side_band(&mut attr, sampling);
    }
    attr
}

/// Returns the attributes of the event that samples some counts of the timebase, when there are too
/// many to sample all of them.
pub(super) fn thinned(plan: &Plan, sampling: &Sampling, variant: Variant) -> perf_event_attr {
    let mut attr = event(&plan.timebase, variant);
    attr.set_disabled(1);
    sample(&mut attr, plan, sampling, variant);
    attr
}

/// Returns the attributes of the event that writes the records besides samples, whichever event
/// samples.
pub(super) fn tracker(sampling: &Sampling, variant: Variant) -> perf_event_attr {
    let mut attr = dummy(sampling);
    attr.set_exclude_kernel(variant.user_only.into());
    attr.set_inherit(variant.tasks.into());
    attr.set_enable_on_exec(variant.on_exec.into());
    if !variant.old_kernel {
        attr.read_format = PERF_FORMAT_LOST as u64;
    }
    set_side_band(&mut attr, sampling);
    attr
}

/// Returns the attributes of a follower, which counts whenever the timebase does, and never
/// samples. It must use the timebase's clock.
pub(super) fn follower(plan: &Plan, follower: &Event, variant: Variant) -> perf_event_attr {
    let mut attr = event(follower, variant);
    if let Some(sampling) = plan.sampling() {
        set_clock(&mut attr, sampling);
    }
    attr
}

/// Returns the attributes of the event that owns the ring of a CPU for events of tasks. It exists
/// as long as this process, while tasks end.
pub(super) fn ring_owner(sampling: &Sampling) -> perf_event_attr {
    let mut attr = dummy(sampling);
    attr.set_exclude_kernel(1);
    attr
}

/// Returns the attributes of a disabled event that counts nothing.
fn dummy(sampling: &Sampling) -> perf_event_attr {
    const DUMMY: u64 = 9;
    let mut attr = perf_event_attr {
        type_: Event::SOFTWARE,
        config: DUMMY,
        sample_type: (PERF_SAMPLE_TID | PERF_SAMPLE_TIME) as u64,
        ..Default::default()
    };
    attr.set_disabled(1);
    attr.set_exclude_hv(1);
    attr.set_watermark(1);
    attr.set_sample_id_all(1);
    set_clock(&mut attr, sampling);
    attr
}

fn event(event: &Event, variant: Variant) -> perf_event_attr {
    let mut attr = perf_event_attr {
        type_: event.r#type,
        config: event.config,
        ..Default::default()
    };
    attr.__bindgen_anon_3.config1 = event.config1;
    attr.__bindgen_anon_4.config2 = event.config2;
    let modifiers = event.modifiers;
    attr.set_exclude_user(modifiers.exclude_user.into());
    attr.set_exclude_kernel((modifiers.exclude_kernel || variant.user_only).into());
    attr.set_exclude_hv((modifiers.exclude_hypervisor || variant.user_only).into());
    attr.set_inherit(variant.tasks.into());
    attr
}

fn sample(attr: &mut perf_event_attr, plan: &Plan, sampling: &Sampling, variant: Variant) {
    match sampling.interval {
        Interval::Frequency(frequency) => {
            attr.set_freq(1);
            attr.__bindgen_anon_1.sample_freq = frequency;
        }
        Interval::Period(period) => attr.__bindgen_anon_1.sample_period = period,
    }
    let mut fields = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    fields |= match counts(plan, variant) {
        Counts::Period => PERF_SAMPLE_PERIOD,
        Counts::Read { .. } => PERF_SAMPLE_READ,
    };
    let group = if variant.count_of_counters(plan) > 1 {
        PERF_FORMAT_GROUP
    } else {
        0
    };
    let lost = if variant.old_kernel {
        0
    } else {
        PERF_FORMAT_LOST
    };
    attr.read_format = (group | lost) as u64;
    if plan.callstacks.user.copies_stack() {
        fields |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
        attr.sample_regs_user = REGISTER_MASK;
        attr.sample_stack_user = sampling.stack_bytes;
    }
    if callchain(plan, variant) {
        let (kernel, user) = chains(plan, variant);
        fields |= PERF_SAMPLE_CALLCHAIN;
        attr.set_exclude_callchain_kernel((!kernel).into());
        attr.set_exclude_callchain_user((!user).into());
    }
    attr.sample_type = fields as u64;
    attr.set_sample_id_all(1);
    attr.set_watermark(1);
    set_clock(attr, sampling);
}

fn set_clock(attr: &mut perf_event_attr, sampling: &Sampling) {
    attr.set_use_clockid(1);
    attr.clockid = sampling.clock.id();
}

/// Requests the records besides samples, and makes the ring readable when it is half full.
fn set_side_band(attr: &mut perf_event_attr, sampling: &Sampling) {
    let side_band = sampling.side_band;
    attr.set_sample_id_all(1);
    attr.set_watermark(1);
    attr.set_task(side_band.tasks.into());
    attr.set_comm(side_band.tasks.into());
    attr.set_comm_exec(side_band.tasks.into());
    attr.set_mmap(side_band.mappings.into());
    attr.set_mmap2(side_band.mappings.into());
    attr.set_context_switch(side_band.switches.into());
}

#[cfg(test)]
mod tests {
    use ferretto_proto::perf_events::timebase;
    use ferretto_proto::{FollowerEvent, Message as _, PerfEventConfig};

    use super::*;
    use crate::config::Kernel;

    fn plan(followers: usize) -> Plan {
        let mut config = PerfEventConfig::default();
        let timebase = config.timebase.get_or_insert_default();
        timebase.interval = Some(timebase::Interval::Frequency(10));
        config.followers = vec![FollowerEvent::default(); followers];
        Plan::new(&config.encode_to_vec(), &Kernel::default()).unwrap()
    }

    #[test]
    fn perf_012_kernels_without_inherited_followers_sample_without_them() {
        let tasks = Variant {
            tasks: true,
            ..Variant::default()
        };
        let plan = plan(2);
        let attempts: Vec<_> = tasks.attempts(&plan).collect();
        assert_eq!(attempts.len(), 4);
        for (index, variant) in attempts.into_iter().enumerate() {
            let attr = leader(&plan, variant);
            // Kernels before 6.12 reject counts in samples of inherited events.
            let has_counts = attr.sample_type & PERF_SAMPLE_READ as u64 != 0;
            assert_eq!(has_counts, index < 2);
            assert_eq!(variant.no_followers, index >= 2);
            let format = format(&plan, variant, 0);
            assert_eq!(format.counters, if index < 2 { 3 } else { 1 });
            let is_group = attr.read_format & PERF_FORMAT_GROUP as u64 != 0;
            assert_eq!(is_group, index < 2);
            // From then on, only simpler ones are tried.
            assert_eq!(variant.attempts(&plan).count(), 4 - index);
        }
    }

    #[test]
    fn perf_012_only_followers_of_tasks_are_left_out() {
        let tasks = Variant {
            tasks: true,
            ..Variant::default()
        };
        assert_eq!(tasks.attempts(&plan(0)).count(), 2);
        let machine = Variant::default();
        assert!(machine.attempts(&plan(2)).all(|next| !next.no_followers));
    }
}
