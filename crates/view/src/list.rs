//! Lines of logs and kernel events, as a list.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde_json::{Value, json};

use crate::details::arg_text;
use crate::lanes::Rows;
use crate::nodes::{Content, Kind, NONE};
use crate::view::View;

/// The maximum number of rows of a list.
const MAX_ROWS: usize = 1000;
/// The maximum number of arguments of an event in a list.
const MAX_VALUES: usize = 64;

impl View {
    /// Returns the lines and kernel events of these or all nodes between two times, as JSON.
    pub fn list(
        &self,
        from: f64,
        to: f64,
        nodes: Option<&[u32]>,
        offset: usize,
        limit: usize,
    ) -> Value {
        let window = self.absolute(from)..self.absolute(to);
        let logs = self.with_events(nodes).into_iter();
        let logs = logs.filter(|node| self.scene().nodes()[*node as usize].kind == Kind::Log);
        let lanes: Vec<(u32, Rows<'_>)> = logs
            .filter_map(|node| {
                let of = &self.scene().nodes()[node as usize];
                let (lanes, times) = self.lanes(&of.content)?;
                Some((node, lanes.rows_within(of.lane, window.clone(), times)))
            })
            .collect();
        let total: usize = lanes.iter().map(|(_, rows)| rows.len()).sum();
        let time = |list: usize, at: usize| {
            let (node, rows) = lanes[list];
            let (_, times) = self.lanes(&self.scene().nodes()[node as usize].content)?;
            Some((times.start(rows.get(at)?), list, at))
        };
        let mut next: BinaryHeap<_> = (0..lanes.len())
            .filter_map(|list| time(list, 0).map(Reverse))
            .collect();
        let mut rows = Vec::new();
        let mut skipped = 0;
        while rows.len() < limit.min(MAX_ROWS) {
            let Some(Reverse((_, list, at))) = next.pop() else {
                break;
            };
            next.extend(time(list, at + 1).map(Reverse));
            if skipped < offset {
                skipped += 1;
            } else {
                let (node, all) = lanes[list];
                rows.extend(all.get(at).map(|row| self.listed(node, row)));
            }
        }
        json!({"total": total, "rows": rows})
    }

    fn listed(&self, node: u32, row: u32) -> Value {
        let (tables, strings) = (self.trace().tables(), self.trace().strings());
        let content = &self.scene().nodes()[node as usize].content;
        let start = self.time_of(content, row).unwrap_or_default().0;
        let label = self.label(content, row);
        let (text, level, utid) = match content {
            Content::Lines => {
                let logs = &tables.logs;
                let source = strings.text(logs.log_source().get(row));
                let level = level(source, logs.prio().get(row));
                (
                    strings.text(logs.msg().get(row)).to_owned(),
                    level,
                    logs.utid().get(row),
                )
            }
            _ => {
                let table = &tables.ftrace_event;
                let text = table.arg_set_id().get(row).map_or(String::new(), |set| {
                    let args = tables.args.set(set).take(MAX_VALUES);
                    let args = args.map(|arg| {
                        let key = strings.text(arg.key);
                        format!("{key}={}", arg_text(arg.value, strings))
                    });
                    args.collect::<Vec<_>>().join(" ")
                });
                (text, "", Some(table.utid().get(row)))
            }
        };
        let thread = utid.map(|utid| {
            let name = strings.text(tables.thread.name().get(utid));
            let title = format!("{name} {}", tables.thread.tid().get(utid));
            let node = (label.other != NONE).then_some(label.other);
            json!([title.trim_start(), node])
        });
        json!({
            "node": node, "id": row, "start": start, "level": level,
            "name": strings.text(label.name), "text": text, "thread": thread,
        })
    }
}

/// Returns the name of a priority.
pub(crate) fn level(source: &str, priority: u32) -> &'static str {
    const ANDROID: [&str; 8] = [
        "", "", "verbose", "debug", "info", "warning", "error", "fatal",
    ];
    const SYSLOG: [&str; 8] = [
        "emergency",
        "alert",
        "critical",
        "error",
        "warning",
        "notice",
        "info",
        "debug",
    ];
    let levels = if source.starts_with("android") {
        ANDROID
    } else {
        SYSLOG
    };
    levels.get(priority as usize).copied().unwrap_or("")
}
