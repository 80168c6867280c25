//! Messages of `record` before and after a recording.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Result, bail};
use ferretto_proto::TraceConfig;
use ferretto_trace::Summary;
use ferretto_trace::summary::Cause;
use rustix::process::{Resource, getrlimit};

use super::output::Target;
use crate::errors::without_numbers;
use crate::session::Signals;
use crate::summary::terminal_width;
use crate::{json, output, print};
use ferretto_text::terminal::shown_bytes;

/// Returns the requested data sources that are not permitted, with a message about each.
pub(super) fn unavailable(config: &TraceConfig) -> Vec<(&'static str, String)> {
    let wanted = |name: &str| {
        let mut names = config
            .data_sources
            .iter()
            .filter_map(|source| source.config.name.as_ref());
        names.any(|wanted| wanted == name.as_bytes())
    };
    let missing = ferretto_probes::availability();
    missing
        .into_iter()
        .filter(|missing| wanted(missing.source))
        .map(|missing| {
            let text = format!(
                "{} is not recorded: {}; to allow it, {}",
                missing.source,
                without_numbers(&missing.reason),
                missing.how_to_allow
            );
            (missing.source, text)
        })
        .collect()
}

/// Checks that kernel events requested by name can be recorded.
///
/// # Errors
///
/// Fails if they are not permitted. The error names the remedy.
pub(super) fn must_have_kernel_events() -> Result<()> {
    let missing = ferretto_probes::availability();
    match missing
        .iter()
        .find(|it| it.source == ferretto_probes::FTRACE)
    {
        None => Ok(()),
        Some(missing) => bail!(
            "kernel events cannot be recorded: {}; to allow it, {}",
            without_numbers(&missing.reason),
            missing.how_to_allow
        ),
    }
}

/// The number of files that a recording has open on a machine without CPUs; each CPU adds two.
const OPEN_FILES: u64 = 56;

/// Checks that a recording may have enough open files, since a data source without them is only
/// missing in the trace.
///
/// # Errors
///
/// Fails if it may not. The error names the remedy.
pub(super) fn must_have_open_files(cpus: u32) -> Result<()> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let least = OPEN_FILES + 2 * u64::from(cpus);
    if limit < least {
        bail!(
            "this process may have {limit} open files, and a recording here needs at least {least}; \
             to allow it, ulimit -n 1024"
        );
    }
    Ok(())
}

/// The width of the closing summary without a terminal.
const PLAIN_WIDTH: usize = 100;

/// Returns the names of the triggers that a recording waits for.
pub(super) fn triggers(config: &TraceConfig) -> Vec<String> {
    let triggers = config.trigger_config.triggers.iter();
    triggers
        .map(|trigger| shown_bytes(trigger.name.as_deref().unwrap_or_default()))
        .collect()
}

/// The outcome of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It was written.
    Complete,
    /// It was aborted by a second signal, and its file is incomplete.
    Aborted,
    /// Its command succeeded, so its file is not written.
    Discarded,
    /// None of its triggers fired, so nothing was recorded.
    NotTriggered,
}

/// Prints the outcome of a recording for programs. `docs/schema/record.json` describes it.
pub(super) fn answer(
    output: &Path,
    state: State,
    earlier: Option<&Path>,
    summary: Option<&Summary>,
) -> Result<()> {
    let output = output.display().to_string();
    output::print(json::answer(|all| {
        all.add("output", &output);
        let state = match state {
            State::Complete => "complete",
            State::Aborted => "aborted",
            State::Discarded => "discarded",
            State::NotTriggered => "not-triggered",
        };
        all.add("state", state);
        let earlier = earlier.map(|path| path.display().to_string());
        all.add("earlier_file", earlier);
        match summary {
            Some(summary) => all
                .name("summary")
                .object(|all| print::json::members(all, &output, summary)),
            None => all.add("summary", None::<u64>),
        }
    }))
}

/// Prints the outcome of a recording that waited for `triggers` for programs. Returns false if a
/// signal to end came before the trace was forwarded.
pub(super) fn closing_answer(
    target: Target,
    output: &Path,
    triggers: &[String],
    signals: &mut Signals,
) -> Result<bool> {
    let draft = target.draft();
    let is_forwarded = target.are_parts();
    let Some(summary) = target.into_summary(signals)? else {
        answer(output, State::Complete, None, None)?;
        return Ok(!is_forwarded);
    };
    if summary.packets == 0 && !triggers.is_empty() {
        answer(output, State::NotTriggered, None, None)?;
        return Ok(true);
    }
    let earlier = draft.and_then(|draft| draft.old());
    answer(output, State::Complete, earlier.as_deref(), Some(&summary))?;
    Ok(true)
}

/// Prints the closing summary of a recording that waited for `triggers` on standard error; with
/// `quiet`, only the losses. Returns false if a signal to end came before the trace was forwarded.
pub(super) fn closing(
    target: Target,
    triggers: &[String],
    signals: &mut Signals,
    quiet: bool,
) -> Result<bool> {
    let name = target.name.clone();
    let draft = target.draft();
    let is_forwarded = target.is_standard_output() || target.are_parts();
    let Some(summary) = target.into_summary(signals)? else {
        return Ok(!is_forwarded);
    };
    if summary.packets == 0 && !triggers.is_empty() {
        // There is nothing else to report.
        let which = match triggers {
            [one] => format!("the trigger {one} never fired"),
            several => format!("none of the triggers {} fired", several.join(", ")),
        };
        eprintln!("ferretto: {which}, so nothing was recorded");
        return Ok(true);
    }
    let is_lossy =
        summary.losses.iter().any(|loss| loss.cause != Cause::Ring) || !summary.health.is_empty();
    if quiet && !is_lossy {
        return Ok(true);
    }
    let stderr = io::stderr();
    let width = terminal_width(&stderr).unwrap_or(PLAIN_WIDTH);
    let mut out = BufWriter::new(anstream::AutoStream::auto(stderr.lock()));
    if quiet {
        print::brief(&mut out, &name, &summary)?
    } else {
        print::summary(&mut out, &name, &summary, Some(width))?
    }
    if let Some(old) = draft.and_then(|draft| draft.old())
        && !quiet
    {
        writeln!(out, "the earlier file was renamed to {}", old.display())?;
    }
    out.flush()?;
    Ok(true)
}
