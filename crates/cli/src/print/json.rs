//! The summary of a trace for programs.
//!
//! Times are nanoseconds, sizes bytes. What is not known is `null`.

use std::fmt::Write as _;
use std::io::{self, Write};

use ferretto_trace::Summary;
use ferretto_trace::profile::{Count, Share};
use ferretto_trace::summary::{CommandSummary, ProfileSummary};

/// Adds fields of a struct as members of the same names.
macro_rules! fields {
    ($members:expr, $of:expr => $($field:ident),+) => {
        $($members.add(stringify!($field), &$of.$field);)+
    };
}

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

/// A value that stands for itself.
trait Value {
    fn write(&self, json: &mut Json);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            fn write(&self, json: &mut Json) {
                // Writing to a string cannot fail.
                let _ = write!(json.0, "{self}");
            }
        }
    )*};
}

numbers!(i32, u32, u64, usize);

impl Value for bool {
    fn write(&self, json: &mut Json) {
        json.0.push_str(if *self { "true" } else { "false" });
    }
}

impl Value for str {
    fn write(&self, json: &mut Json) {
        json.string(self);
    }
}

impl<T: Value + ?Sized> Value for &T {
    fn write(&self, json: &mut Json) {
        (**self).write(json);
    }
}

impl Value for String {
    fn write(&self, json: &mut Json) {
        json.string(self);
    }
}

impl<T: Value> Value for Option<T> {
    fn write(&self, json: &mut Json) {
        match self {
            Some(value) => value.write(json),
            None => json.0.push_str("null"),
        }
    }
}

impl Value for Count {
    fn write(&self, json: &mut Json) {
        json.object(|members| {
            fields!(members, self => samples, weight);
        });
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

    fn add(&mut self, name: &str, value: impl Value) {
        value.write(self.name(name));
    }

    /// Adds a list of objects.
    fn objects<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut members: impl FnMut(&mut Members<'_>, T),
    ) {
        let object = |json: &mut Json, item| json.object(|all| members(all, item));
        self.name(name).list(items, object);
    }
}

/// Prints a summary as one JSON object on one line.
pub(crate) fn summary(out: &mut impl Write, name: &str, summary: &Summary) -> io::Result<()> {
    let mut json = Json::default();
    json.object(|all| {
        all.add("file", name);
        all.add("bytes", summary.bytes);
        let compressed = summary.compressed.map(|(_, bytes)| bytes);
        all.add("compressed_bytes", compressed);
        fields!(all, summary => packets, duration_ns);
        all.add("complete", summary.is_complete());
        all.objects("losses", &summary.losses, |members, loss| {
            members.add("cause", loss.cause.as_str());
            fields!(members, loss => place, amount, advice);
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
        all.objects("profiles", &summary.profiles, profile);
    });
    json.0.push('\n');
    out.write_all(json.0.as_bytes())
}

fn command(members: &mut Members<'_>, command: &CommandSummary) {
    fields!(members, command => command, pid, cpu_ns, processes, threads, events);
    members.objects("slices", &command.slices, |members, slices| {
        fields!(members, slices => name, count, unfinished, total_ns, max_ns);
    });
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
        fields!(members, cpu => machine, cpu, switches, busy_ns, idle_ns);
    });
    all.objects("processes", &summary.processes, |members, process| {
        fields!(members, process => machine, pid, name, cpu_ns, threads);
    });
    all.add("threads", summary.threads);
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
            members.name("a").list([1, 2], |json, n| n.write(json));
            members.add("b", None::<u32>);
            members.name("c").object(|_| {});
        });
        assert_eq!(json.0, "{\"a\":[1,2],\"b\":null,\"c\":{}}");
    }
}
