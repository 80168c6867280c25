//! Kernel events as lines of text.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::failed;
use crate::engine::Engine;

const HEADER: &str = "# tracer: nop\n#\n\
    #           TASK-PID    (  TGID) [CPU] FLAGS TIMESTAMP: FUNCTION\n";

/// The text before compressed lines.
const COMPRESSED: &[u8] = b"TRACE:\n";

pub(super) fn write(engine: &mut Engine, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = 0_u64;
    let mut result = Ok(());
    engine
        .each_row(
            "SELECT to_ftrace(id) FROM ftrace_event ORDER BY ts, id",
            &mut |row| {
                let Ok(line) = row[0].as_str() else { return };
                if result.is_err() {
                    return;
                }
                if rows == 0 {
                    result = out.write_all(HEADER.as_bytes());
                }
                rows += 1;
                // Line breaks in texts would end the event.
                let line = line.replace('\n', " ");
                result = result.as_ref().map_or_else(
                    |error| Err(io::Error::from(error.kind())),
                    |()| writeln!(out, "{line}"),
                );
            },
        )
        .map_err(failed)?;
    if rows == 0 {
        let message = "the trace has no kernel events, which are all that systrace shows";
        return Err(io::Error::other(message));
    }
    result
}

pub(super) fn write_compressed(engine: &mut Engine, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(COMPRESSED)?;
    let mut encoder = ZlibEncoder::new(out, Compression::default());
    write(engine, &mut encoder)?;
    encoder.finish()?;
    Ok(())
}
