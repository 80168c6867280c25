//! Encrypted connections with other machines, in builds that have them, and `ferretto relay-cert`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

/// Create certificates with which the machines of a recording authenticate
///
/// Creates a folder for each NAME, to copy to that machine: programs there with FERRETTO_TLS=FOLDER
/// encrypt their connections, and accept only peers with certificates of the same authority. A
/// host's certificate is for the address that others connect to, a machine's for its own name:
/// PERFETTO_MACHINE_NAME, or the host name.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferretto relay-cert -o certificates 10.0.0.1 guest1 guest2
  ferretto relay-cert -o certificates host.example,10.0.0.1   one machine, two names")]
#[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "they are refused"))]
pub(crate) struct RelayCertArgs {
    /// Folder of the authority, created if missing; its ca-key.pem stays there
    #[arg(short, long, value_name = "DIR", default_value = "certificates")]
    output: PathBuf,
    /// Number of days for which the certificates are valid
    #[arg(long, value_name = "DAYS", default_value = "365", value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Addresses and names of machines; separate several of one machine by commas
    #[arg(required = true, value_name = "NAME")]
    machines: Vec<String>,
}

#[cfg(feature = "tls")]
mod with {
    use std::time::{Duration, SystemTime};

    use anyhow::Context;
    use ferretto_tls::Authority;

    use crate::output::print_line;

    use super::*;

    pub(crate) fn install() -> Result<()> {
        ferretto_tls::install_from_environment().context("FERRETTO_TLS")?;
        Ok(())
    }

    pub(crate) fn run(args: &RelayCertArgs) -> Result<ExitCode> {
        let authority = Authority::open(&args.output)?;
        let until = SystemTime::now() + Duration::from_secs(u64::from(args.days) * 24 * 3600);
        for machine in &args.machines {
            let names: Vec<String> = machine.split(',').map(str::to_owned).collect();
            let folder = authority.issue(&names, until)?;
            print_line(folder.display())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use super::*;

    /// Makes connecting and listening fail if FERRETTO_TLS is set, since this build cannot use
    /// certificates.
    #[expect(clippy::unnecessary_wraps, reason = "with the feature it may fail")]
    pub(crate) fn install() -> Result<()> {
        Ok(())
    }

    pub(crate) fn run(_: &RelayCertArgs) -> Result<ExitCode> {
        anyhow::bail!(
            "this ferretto was built without TLS; build it with cargo install --features tls"
        )
    }
}

#[cfg(feature = "tls")]
pub(crate) use with::{install, run};
#[cfg(not(feature = "tls"))]
pub(crate) use without::{install, run};
