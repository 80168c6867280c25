//! The readers of a trace: the summary, the tables, the viewer, and `ferretto json`.

use ferretto_tables::{Options, Tables, Trace};
use ferretto_view::{By, ProfileRequest, View};
use serde_json::Value;

use crate::world::World;

/// The value of each reader for one number; `None` if it shows none.
pub(crate) type Answers = Vec<(&'static str, Option<i64>)>;

/// A trace as its readers see it.
#[derive(Debug)]
pub(crate) struct Readers {
    /// The output of `summary --json`.
    pub(crate) summary: Value,
    pub(crate) view: View,
    /// The viewer's statistics of the whole trace.
    pub(crate) range: Value,
    /// The events of `json`.
    pub(crate) events: Vec<Value>,
}

/// The count and the total duration of intervals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Intervals {
    pub(crate) count: i64,
    pub(crate) total: i64,
    pub(crate) longest: i64,
}

impl Intervals {
    pub(crate) fn add(&mut self, dur: i64) {
        self.count += 1;
        self.total += dur;
        self.longest = self.longest.max(dur);
    }
}

/// The values of a counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter {
    count: i64,
    lowest: f64,
    highest: f64,
    last: f64,
}

impl Counter {
    fn of(values: &[f64]) -> Option<Self> {
        Some(Self {
            count: values.len() as i64,
            lowest: values.iter().copied().reduce(f64::min)?,
            highest: values.iter().copied().reduce(f64::max)?,
            last: *values.last()?,
        })
    }

    pub(crate) fn count(&self) -> i64 {
        self.count
    }

    pub(crate) fn lowest(&self) -> i64 {
        self.lowest as i64
    }

    pub(crate) fn highest(&self) -> i64 {
        self.highest as i64
    }

    pub(crate) fn last(&self) -> i64 {
        self.last as i64
    }
}

impl Readers {
    /// Reads the file `name`.
    pub(crate) fn of(world: &World, name: &str) -> Self {
        let summary = world.run("ferretto", &["summary", "--json", name]);
        let summary =
            serde_json::from_str(summary.returned(0).text()).expect("the summary is JSON");
        let json = world
            .run("ferretto", &["json", name, "-o", "-"])
            .returned(0);
        let mut json: Value = serde_json::from_str(json.text()).expect("the events are JSON");
        let events = match json["traceEvents"].take() {
            Value::Array(events) => events,
            other => panic!("no events: {other}"),
        };
        let options = Options::default();
        let trace = Trace::read(world.read(name).as_slice(), &options).expect("the trace is read");
        let view = View::new(trace, name, 1);
        let range = view.summary(f64::MIN, f64::MAX, None);
        Self {
            summary,
            view,
            range,
            events,
        }
    }

    /// Returns the sum of the viewer's off-CPU callstacks in nanoseconds; `None` if it has none.
    pub(crate) fn waits(&self) -> Option<i64> {
        let of_profile = |profile| {
            self.view.profile(&ProfileRequest {
                profile,
                from: f64::MIN,
                to: f64::MAX,
                nodes: None,
                by: By::Thread,
            })
        };
        let mut frames = (0..).map_while(of_profile);
        frames.find_map(|frame| {
            // The header with its length, then the columns.
            let (length, rest) = frame.split_first_chunk()?;
            let (header, data) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            let header: Value = serde_json::from_slice(header).ok()?;
            if header["unit"] != "ns" {
                return None;
            }
            let column = &header["columns"]["self"];
            let (start, count) = (column["offset"].as_u64()?, column["length"].as_u64()?);
            let (values, _) = data.get(start as usize..)?.as_chunks();
            let values = values.iter().take(count as usize);
            Some(values.map(|value| f64::from_le_bytes(*value)).sum::<f64>() as i64)
        })
    }

    /// Returns the sum of the tables' off-CPU samples in nanoseconds.
    pub(crate) fn waits_of_tables(&self) -> i64 {
        let tables = self.tables();
        let rows = (0..tables.counter.len()).filter(|row| {
            let track = tables.counter.track_id().get(*row);
            self.text(tables.track.name().get(track)) == "off-cpu"
        });
        let sum: f64 = rows.map(|row| tables.counter.value().get(row)).sum();
        sum as i64
    }

    pub(crate) fn tables(&self) -> &Tables {
        self.view.trace().tables()
    }

    /// Returns the text of a table's column.
    pub(crate) fn text(&self, id: ferretto_tables::StringId) -> &str {
        self.view.trace().strings().text(id)
    }

    /// Returns one number of the slices of the recorded command with this name.
    pub(crate) fn slices(&self, name: &str, number: impl Fn(Intervals) -> i64) -> Answers {
        let of_summary = named(&self.summary["command"]["slices"], name).map(|slices| Intervals {
            count: whole(&slices["count"]),
            total: whole(&slices["total_ns"]),
            longest: whole(&slices["max_ns"]),
        });
        let mut answers = vec![("summary", of_summary.map(&number))];
        answers.extend(self.slices_of_tables(name, number));
        answers
    }

    /// The same for slices that the summary lacks: of other programs, and of the kernel.
    pub(crate) fn slices_of_tables(
        &self,
        name: &str,
        number: impl Fn(Intervals) -> i64,
    ) -> Answers {
        let slices = &self.tables().slice;
        let mut of_tables = None;
        for row in self.rows_named(name) {
            let dur = slices.dur().get(row).max(0);
            of_tables.get_or_insert_with(Intervals::default).add(dur);
        }
        let of_view = named(&self.range["names"], name).map(|slices| Intervals {
            count: whole(&slices["count"]),
            total: whole(&slices["total"]),
            longest: whole(&slices["max"]),
        });
        let mut of_json = None;
        for (phase, event) in self.events_named(name) {
            let dur = match phase {
                "X" => nanoseconds(&event["dur"]),
                _ => 0,
            };
            of_json.get_or_insert_with(Intervals::default).add(dur);
        }
        vec![
            ("tables", of_tables.map(&number)),
            ("view", of_view.map(&number)),
            ("json", of_json.map(&number)),
        ]
    }

    /// Returns the number of slices of the recorded command with this name that have no end.
    pub(crate) fn open(&self, name: &str) -> Answers {
        let of_summary = named(&self.summary["command"]["slices"], name);
        let rows = self.rows_named(name);
        let of_tables = rows.filter(|row| self.tables().slice.dur().get(*row) < 0);
        let of_json = self.events_named(name).filter(|(phase, _)| *phase == "B");
        vec![
            (
                "summary",
                of_summary.map(|slices| whole(&slices["unfinished"])),
            ),
            ("tables", Some(of_tables.count() as i64)),
            ("json", Some(of_json.count() as i64)),
        ]
    }

    /// Returns the slices with this name.
    pub(crate) fn rows_named(&self, name: &str) -> impl Iterator<Item = u32> {
        let slices = &self.tables().slice;
        (0..slices.len()).filter(move |row| self.text(slices.name().get(*row)) == name)
    }

    /// Returns one number of the counter with this name.
    pub(crate) fn counter(&self, name: &str, number: impl Fn(&Counter) -> i64) -> Answers {
        let (counters, tracks) = (&self.tables().counter, &self.tables().track);
        let of_name = |row: &u32| {
            let track = counters.track_id().get(*row);
            self.text(tracks.name().get(track)) == name
        };
        let rows = (0..counters.len()).filter(of_name);
        let of_tables: Vec<f64> = rows.map(|row| counters.value().get(row)).collect();
        let of_view = named(&self.range["counters"], name).and_then(|counter| {
            Some(Counter {
                count: whole(&counter["count"]),
                lowest: counter["min"].as_f64()?,
                highest: counter["max"].as_f64()?,
                last: counter["last"].as_f64()?,
            })
        });
        let events = self.events.iter();
        let events = events.filter(|event| event["ph"] == "C" && event["name"] == name);
        let of_json: Vec<f64> = events
            .filter_map(|event| event["args"]["value"].as_f64())
            .collect();
        let number = |counter: Option<Counter>| counter.as_ref().map(&number);
        vec![
            ("tables", number(Counter::of(&of_tables))),
            ("view", number(of_view)),
            ("json", number(Counter::of(&of_json))),
        ]
    }

    /// Returns an argument that is an integer.
    pub(crate) fn arg(&self, set: u32, key: &str) -> Option<i64> {
        let mut args = self.tables().args.set(set);
        let arg = args.find(|arg| self.text(arg.key) == key)?;
        arg.value.as_int()
    }

    /// Returns the events of `json` that are slices with this name, and their phase.
    fn events_named(&self, name: &str) -> impl Iterator<Item = (&str, &Value)> {
        let events = self
            .events
            .iter()
            .filter(move |event| event["name"] == name);
        let events = events.filter_map(|event| Some((event["ph"].as_str()?, event)));
        events.filter(|(phase, _)| matches!(*phase, "X" | "B" | "i"))
    }
}

/// Returns the entry of a list with this name.
pub(crate) fn named<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|entry| entry["name"] == name)
}

/// Returns an integer, also if it is written with decimals.
pub(crate) fn whole(value: &Value) -> i64 {
    let whole = value.as_i64();
    whole.unwrap_or_else(|| value.as_f64().map_or(i64::MIN, |value| value as i64))
}

/// Returns microseconds with decimals as nanoseconds.
pub(crate) fn nanoseconds(value: &Value) -> i64 {
    let micros = value.as_f64().expect("a time");
    (micros * 1000.0).round() as i64
}
