//! Converts the output of `strace` to track events.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use crate::packets::events::TrackEvents;
use crate::packets::report::Report;
use crate::packets::sorter::Sorter;
use crate::packets::writer::Writer;
use crate::packets::{ImportError, Options, pieces};
use crate::strace::{Call, NoCall, is_remark};
use crate::{Format, LineBuffer};

/// Imports a file.
pub(crate) fn import<R: Read + Seek>(
    input: R,
    options: &Options,
    writer: &mut Writer<'_>,
) -> Result<Report, ImportError> {
    let mut events = TrackEvents::new(Format::Strace, writer);
    let mut sorter = Sorter::new(options.memory);
    let mut lines = LineBuffer::default();
    let mut number = 0;
    let mut bad: BTreeMap<&str, (i64, u64)> = BTreeMap::new();
    let mut each = |line: &str| {
        number += 1;
        let what = match Call::parse(line) {
            Ok(call) if call.tid.is_some() => {
                return sorter.push((call.ts, number), line.as_bytes());
            }
            Ok(_) => "calls without a thread, as without the option -f",
            Err(NoCall::NoDate) => "calls without a date, as without the option -ttt",
            Err(NoCall::Other) if line.trim().is_empty() => return Ok(()),
            Err(NoCall::Other) if is_remark(line) => {
                events.report.losses.add("signals and exits");
                return Ok(());
            }
            Err(NoCall::Other) => "lines that are no call",
        };
        bad.entry(what).or_insert((number, 0)).1 += 1;
        Ok(())
    };
    pieces(input, |bytes| lines.push(bytes, &mut each))?;
    lines.finish(&mut each)?;
    for (what, (first, count)) in bad {
        let what = format!("{what} (the first is line {first})");
        events.report.losses.add_many(&what, count);
        events.report.is_damaged = true;
    }
    sorter.finish(|ts, line| {
        let line = String::from_utf8_lossy(line);
        events.event(true, |sink| match Call::parse(&line) {
            Ok(call) => call.interpret(ts, sink),
            Err(_) => Ok(()),
        })
    })?;
    Ok(events.report)
}
