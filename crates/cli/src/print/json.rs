//! The summary of a trace for programs.
//!
//! Times are nanoseconds, sizes bytes. What is not known is `null`.

use std::fmt::Write as _;
use std::io::{self, Write};

use ferretto_trace::Summary;
use ferretto_trace::profile::{Count, Share};
use ferretto_trace::summary::{CommandSummary, ProfileSummary};

/// A JSON text under construction. Members and elements are given by the closures.
#[derive(Default)]
struct Json(String);

impl Json {
    fn string(&mut self, text: &str) {
        self.0.push('"');
        for c in text.chars() {
            match c {
                '"' => self.0.push_str("\\\""),
                '\\' => self.0.push_str("\\\\"),
                '\n' => self.0.push_str("\\n"),
                // Writing to a string cannot fail.
                c if c.is_control() => drop(write!(self.0, "\\u{:04x}", u32::from(c))),
                c => self.0.push(c),
            }
        }
        self.0.push('"');
    }

    fn number(&mut self, number: impl std::fmt::Display) {
        let _ = write!(self.0, "{number}");
    }

    fn optional(&mut self, number: Option<impl std::fmt::Display>) {
        match number {
            Some(number) => self.number(number),
            None => self.0.push_str("null"),
        }
    }

    fn bool(&mut self, value: bool) {
        self.0.push_str(if value { "true" } else { "false" });
    }

    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut each: impl FnMut(&mut Self, T)) {
        self.0.push('[');
        for (place, item) in items.into_iter().enumerate() {
            if place > 0 {
                self.0.push(',');
            }
            each(self, item);
        }
        self.0.push(']');
    }

    fn object(&mut self, members: impl FnOnce(&mut Members<'_>)) {
        self.0.push('{');
        members(&mut Members {
            json: self,
            is_first: true,
        });
        self.0.push('}');
    }
}

/// The members of an object.
struct Members<'a> {
    json: &'a mut Json,
    is_first: bool,
}

impl Members<'_> {
    fn name(&mut self, name: &str) -> &mut Json {
        if !std::mem::take(&mut self.is_first) {
            self.json.0.push(',');
        }
        self.json.string(name);
        self.json.0.push(':');
        self.json
    }
}

/// Prints a summary as one JSON object on one line.
pub(crate) fn summary(out: &mut impl Write, name: &str, summary: &Summary) -> io::Result<()> {
    let mut json = Json::default();
    json.object(|all| {
        all.name("file").string(name);
        all.name("bytes").number(summary.bytes);
        let compressed = summary.compressed.map(|(_, bytes)| bytes);
        all.name("compressed_bytes").optional(compressed);
        all.name("packets").number(summary.packets);
        all.name("duration_ns").optional(summary.duration_ns);
        all.name("complete").bool(summary.is_complete());
        all.name("losses").list(&summary.losses, |json, loss| {
            json.object(|members| {
                members.name("cause").string(loss.cause.as_str());
                members.name("place").string(&loss.place);
                members.name("amount").string(&loss.amount);
                members.name("advice").string(&loss.advice);
            });
        });
        let text = |json: &mut Json, text: &String| json.string(text);
        all.name("unknown").list(&summary.unknown, text);
        all.name("notes").list(&summary.notes, text);
        match &summary.command {
            Some(of_command) => command(all.name("command"), of_command),
            None => all.name("command").optional(None::<u8>),
        }
        sources(all, summary);
        machine(all, summary);
        all.name("profiles").list(&summary.profiles, profile);
    });
    json.0.push('\n');
    out.write_all(json.0.as_bytes())
}

fn command(json: &mut Json, command: &CommandSummary) {
    json.object(|members| {
        members.name("command").string(&command.command);
        members.name("pid").optional(command.pid);
        members.name("cpu_ns").optional(command.cpu_ns);
        members.name("processes").number(command.processes);
        members.name("threads").number(command.threads);
        members.name("events").number(command.events);
        members
            .name("slices")
            .list(&command.slices, |json, slices| {
                json.object(|members| {
                    members.name("name").string(&slices.name);
                    members.name("count").number(slices.count);
                    members.name("unfinished").number(slices.unfinished);
                    members.name("total_ns").number(slices.total_ns);
                    members.name("max_ns").number(slices.max_ns);
                });
            });
    });
}

fn sources(all: &mut Members<'_>, summary: &Summary) {
    all.name("sources").list(&summary.sources, |json, source| {
        json.object(|members| {
            members.name("name").string(&source.name);
            members.name("events").number(source.events);
            members.name("bytes").number(source.bytes);
            members.name("kinds").object(|kinds| {
                for (kind, count) in &source.kinds {
                    kinds.name(kind).number(count);
                }
            });
        });
    });
    let counts = &summary.track_events;
    all.name("track_events").object(|members| {
        members.name("begins").number(counts.begins);
        members.name("ends").number(counts.ends);
        members.name("instants").number(counts.instants);
        members.name("counters").number(counts.counters);
        members.name("others").number(counts.others);
        members.name("tracks").number(counts.tracks);
    });
    all.name("counters")
        .list(&summary.counters, |json, counter| {
            json.object(|members| {
                members.name("name").string(counter.name);
                members.name("series").number(counter.series);
                members.name("samples").number(counter.samples);
            });
        });
}

fn machine(all: &mut Members<'_>, summary: &Summary) {
    all.name("cpus").list(&summary.cpus, |json, cpu| {
        json.object(|members| {
            members.name("machine").number(cpu.machine);
            members.name("cpu").number(cpu.cpu);
            members.name("switches").number(cpu.switches);
            members.name("busy_ns").number(cpu.busy_ns);
            members.name("idle_ns").number(cpu.idle_ns);
        });
    });
    all.name("processes")
        .list(&summary.processes, |json, process| {
            json.object(|members| {
                members.name("machine").number(process.machine);
                members.name("pid").number(process.pid);
                members.name("name").string(&process.name);
                members.name("cpu_ns").number(process.cpu_ns);
                members.name("threads").number(process.threads);
            });
        });
    all.name("threads").number(summary.threads);
}

fn profile(json: &mut Json, profile: &ProfileSummary) {
    let count = |members: &mut Members<'_>, name: &str, count: Count| {
        members.name(name).object(|members| {
            members.name("samples").number(count.samples);
            members.name("weight").number(count.weight);
        });
    };
    let share = |json: &mut Json, share: &Share| {
        json.object(|members| {
            members.name("machine").number(share.machine);
            members.name("id").number(share.id);
            members.name("name").string(&share.name);
            count(members, "count", share.count);
        });
    };
    json.object(|members| {
        members.name("off_cpu").bool(profile.is_off_cpu);
        members.name("event").string(&profile.event.name);
        members.name("unit").string(&profile.event.unit);
        count(members, "total", profile.total);
        count(members, "unnamed", profile.unnamed);
        members.name("idle_samples").number(profile.idle);
        members
            .name("functions")
            .list(&profile.functions, |json, function| {
                json.object(|members| {
                    members.name("name").string(&function.name);
                    members.name("module").string(&function.module);
                    count(members, "self", function.own);
                    count(members, "total", function.total);
                });
            });
        members.name("processes").list(&profile.processes, share);
        members.name("threads").list(&profile.threads, share);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        let mut json = Json::default();
        json.string("a\"b\\c\nd\u{1b}\u{9b}é");
        assert_eq!(json.0, "\"a\\\"b\\\\c\\nd\\u001b\\u009bé\"");
    }

    #[test]
    fn members_and_elements_are_separated() {
        let mut json = Json::default();
        json.object(|members| {
            members.name("a").list([1, 2], |json, n| json.number(n));
            members.name("b").optional(None::<u8>);
            members.name("c").object(|_| {});
        });
        assert_eq!(json.0, "{\"a\":[1,2],\"b\":null,\"c\":{}}");
    }
}
