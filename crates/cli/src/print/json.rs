//! The summary of a trace as JSON.
//!
//! Times are nanoseconds, sizes bytes. Unknown values are `null`.

use ferretto_trace::Summary;
use ferretto_trace::profile::{Count, Share};
use ferretto_trace::summary::{CommandResources, CommandSummary, Level, ProfileSummary};

use crate::json::{self, Json, Members, Value};

/// Adds fields of a struct as members with the same names.
macro_rules! fields {
    ($members:expr, $of:expr => $($field:ident),+) => {
        $($members.add(stringify!($field), &$of.$field);)+
    };
}

impl Value for Count {
    fn write(&self, json: &mut Json) {
        json.object(|members| {
            fields!(members, self => samples, weight);
        });
    }
}

/// Returns a summary as one JSON object on one line.
pub(crate) fn summary(name: &str, summary: &Summary) -> String {
    json::answer(|all| members(all, name, summary))
}

/// Adds the members of a summary.
pub(crate) fn members(all: &mut Members<'_>, name: &str, summary: &Summary) {
    all.add("file", name);
    all.add("bytes", summary.bytes);
    let compressed = summary.compressed.map(|(_, bytes)| bytes);
    all.add("compressed_bytes", compressed);
    fields!(all, summary => packets, duration_ns);
    all.add("complete", summary.is_complete());
    all.objects("left_out", summary.health.iter(), |members, reason| {
        members.add("reason", reason.stat.name());
        fields!(members, reason => count);
        members.add("text", reason.stat.description());
    });
    all.objects("losses", &summary.losses, |members, loss| {
        members.add("cause", loss.cause.as_str());
        members.add("place", &loss.source);
        fields!(members, loss => amount, advice);
    });
    let text = |json: &mut Json, text: &String| json.string(text);
    all.name("unknown").list(&summary.unknown, text);
    all.name("notes").list(&summary.notes, text);
    match &summary.command {
        Some(of_command) => all.name("command").object(|all| command(all, of_command)),
        None => all.add("command", None::<u64>),
    }
    sources(all, summary);
    machine(all, summary);
    all.objects("machines", &summary.machines, |members, machine| {
        fields!(members, machine => id, name, packets, gaps);
        members.add(
            "clock_offset_ns",
            machine.clock.map(|clock| clock.offset_ns),
        );
        members.add("clock_error_ns", machine.clock.map(|clock| clock.error_ns));
        let drift = machine.clock.and_then(|clock| clock.drift_ns_per_s);
        members.add("clock_drift_ns_per_s", drift);
    });
    all.objects("profiles", &summary.profiles, profile);
    all.objects("heaps", &summary.heaps, |members, heap| {
        fields!(members, heap => machine, pid, process, heap, dumps);
        members.add("interval_bytes", heap.interval);
        members.add("allocated", heap.total.allocated);
        members.add("freed", heap.total.freed);
        members.add("peak", heap.total.peak);
        let bytes = |json: &mut Json, bytes: &u64| bytes.write(json);
        members.name("live_bytes").list(&heap.live, bytes);
        members.objects("sites", &heap.sites, |members, site| {
            fields!(members, site.function => name, module);
            members.add("not_freed", site.function.own);
            members.add("growth_bytes", site.growth);
        });
    });
}

fn command(members: &mut Members<'_>, command: &CommandSummary) {
    fields!(members, command => command, pid, cpu_ns, processes, threads, events);
    match &command.resources {
        Some(used) => members
            .name("resources")
            .object(|members| resources(members, used)),
        None => members.add("resources", None::<u64>),
    }
    members.objects("slices", &command.slices, |members, slices| {
        fields!(members, slices => name, count, unfinished, total_ns, max_ns);
    });
}

fn resources(members: &mut Members<'_>, used: &CommandResources) {
    fields!(members, used => wall_ns, user_ns, system_ns);
    members.add("peak_memory_bytes", used.peak_memory);
    members.add("peak_memory_below_bytes", used.peak_memory_below);
    fields!(members, used => minor_faults, major_faults, voluntary_switches, involuntary_switches);
    fields!(members, used => disk_bytes_read, disk_bytes_written);
    fields!(members, used => read_calls, write_calls, bytes_read, bytes_written);
}

fn sources(all: &mut Members<'_>, summary: &Summary) {
    all.objects("sources", &summary.sources, |members, source| {
        fields!(members, source => name, events, bytes);
        members.name("kinds").object(|kinds| {
            for (kind, count) in &source.kinds {
                kinds.add(kind, count);
            }
        });
    });
    let counts = &summary.track_events;
    all.name("track_events").object(|members| {
        fields!(members, counts => begins, ends, instants, counters, others, tracks);
    });
    all.objects("counters", &summary.counters, |members, counter| {
        fields!(members, counter => name, series, samples);
    });
}

fn machine(all: &mut Members<'_>, summary: &Summary) {
    all.objects("cpus", &summary.cpus, |members, cpu| {
        fields!(members, cpu => machine, cpu, switches, missing_switches, busy_ns, idle_ns,
            unknown_ns);
    });
    all.objects("processes", &summary.processes, |members, process| {
        fields!(members, process => machine, pid, name, cpu_ns, threads);
    });
    all.add("threads", summary.threads);
    all.objects("frequencies", &summary.frequencies, |members, cpu| {
        fields!(members, cpu => cpu, lowest_khz, highest_khz, changes);
    });
    let memory = &summary.memory;
    all.name("memory").object(|members| {
        fields!(members, memory => page_faults, disk_page_faults, swapped_in, swapped_out, killed);
        match memory.available {
            Some(available) => members.name("available").object(|members| {
                level(members, available);
            }),
            None => members.add("available", None::<u64>),
        }
        members.objects("processes", &memory.processes, |members, process| {
            fields!(members, process => machine, pid, name);
            level(members, process.memory);
        });
    });
    all.objects("cgroups", &summary.cgroups, |members, group| {
        fields!(members, group => machine, path, name, engine, is_container, cpu_ns, processes, periods);
        fields!(members, group => throttled_periods, throttled_ns, memory_limit, killed);
        fields!(members, group => read_bytes, written_bytes);
        match group.memory {
            Some(memory) => members.name("memory").object(|members| level(members, memory)),
            None => members.add("memory", None::<u64>),
        }
    });
    all.objects("activity", &summary.activity, |members, activity| {
        members.add("kind", super::activity::word(activity.kind));
        fields!(members, activity => name, count, finished, errors, total_ns, max_ns, bytes);
    });
    let pid = |json: &mut Json, pid: &i32| pid.write(json);
    all.name("pids").list(&summary.pids, pid);
    all.objects(
        "own_system_calls",
        &summary.own_system_calls,
        |members, call| {
            fields!(members, call => name, count, finished, errors, total_ns, max_ns);
        },
    );
}

/// Adds the levels of an amount of memory.
fn level(members: &mut Members<'_>, level: Level) {
    members.add("first_bytes", level.first);
    members.add("lowest_bytes", level.lowest);
    members.add("highest_bytes", level.highest);
    members.add("last_bytes", level.last);
}

fn profile(members: &mut Members<'_>, profile: &ProfileSummary) {
    let share = |members: &mut Members<'_>, share: &Share| {
        fields!(members, share => machine, id, name, count);
    };
    members.add("off_cpu", profile.is_off_cpu);
    members.add("event", profile.event.name.as_str());
    members.add("unit", profile.event.unit.as_str());
    fields!(members, profile => total, unnamed);
    members.add("idle_samples", profile.idle);
    members.objects("functions", &profile.functions, |members, function| {
        fields!(members, function => name, module);
        members.add("self", function.own);
        members.add("total", function.total);
    });
    members.objects("processes", &profile.processes, share);
    members.objects("threads", &profile.threads, share);
}
