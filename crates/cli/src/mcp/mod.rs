//! `ferretto mcp`: the tools of an agent, over the Model Context Protocol.

mod flatten;
mod loaded;
mod loading;
mod overview;
mod queries;
mod recording;
mod schema;
mod screenshot;
mod slices;
mod timeline;
mod tools;
mod traces;

use std::io;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use ferretto_mcp::Root;
use ferretto_tables::machine_memory;

use self::tools::Tools;
use self::traces::Traces;
use crate::read::parse_bytes;

/// Serve traces to AI agents: the Model Context Protocol on standard input and output
///
/// Its tools give an overview of a trace, explain why something took so long, compare traces, run
/// SQL, and draw a time as text. Answers are JSON of at most 8 KiB unless asked, with a cursor for
/// the rest. Traces stay loaded between calls. Nothing is written, and no file outside of the root
/// is read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferretto mcp --root traces
  ferretto mcp --root /home/me/traces --allow-record")]
pub(crate) struct McpArgs {
    /// The folder whose files may be read
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    root: PathBuf,
    /// Also offer a tool that records this machine, or a command that it starts, into the root
    #[arg(long)]
    allow_record: bool,
    /// The memory of loaded traces, such as 8G; those that were not used for the longest time are
    /// closed
    /// [default: half of the machine's, or of what its control group may have; at least 4G, but at
    /// most three quarters]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_memory: Option<u64>,
}

/// The memory of loaded traces on small machines.
const MIN_MEMORY: usize = 4 << 30;

/// Returns the memory of loaded traces if it is not given, on a machine with this memory: half of
/// it, and on small machines more, but never all.
fn default_memory(machine: Option<usize>) -> usize {
    machine.map_or(MIN_MEMORY, |all| (all / 2).max(MIN_MEMORY.min(all / 4 * 3)))
}

pub(crate) fn run(args: &McpArgs) -> Result<()> {
    let shown = args.root.display();
    let root = Root::open(&args.root).with_context(|| format!("cannot open {shown}"))?;
    let max = args.max_memory.map_or_else(
        || default_memory(machine_memory()),
        |given| usize::try_from(given).unwrap_or(usize::MAX),
    );
    let mut tools = Tools::new(Traces::new(root, max), args.allow_record);
    ferretto_mcp::serve(&mut tools, io::stdin(), io::stdout()).context("cannot serve")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_memory_leaves_some_to_others() {
        const MIB: usize = 1 << 20;
        for (machine, memory) in [
            (65536, 32768),
            (8192, 4096),
            (6144, 4096),
            (4096, 3072),
            (2048, 1536),
        ] {
            assert_eq!(default_memory(Some(machine * MIB)), memory * MIB);
        }
        assert_eq!(default_memory(None), MIN_MEMORY);
    }
}
