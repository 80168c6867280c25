//! Encrypted connections with other machines, in builds that have them, and `ferretto relay-cert`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

/// Make certificates by which the machines of a recording know each other
///
/// Makes a folder for each NAME, to be copied to that machine: programs there with
/// FERRETTO_TLS=FOLDER encrypt their connections, and accept only peers whose certificates were
/// made in the same place. A host's certificate is for the address that others connect to, a
/// machine's for the name that it gives itself, its host name unless PERFETTO_MACHINE_NAME says
/// otherwise.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferretto relay-cert -o certificates 10.0.0.1 guest1 guest2
  ferretto relay-cert -o certificates host.example,10.0.0.1   one machine, two names")]
#[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "they are refused"))]
pub(crate) struct RelayCertArgs {
    /// Folder of the authority, made if it is not there; its ca-key.pem stays there
    #[arg(short, long, value_name = "DIR", default_value = "certificates")]
    output: PathBuf,
    /// Number of days for which the certificates are valid
    #[arg(long, value_name = "DAYS", default_value = "365", value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Addresses and names of machines; with commas, several of one machine
    #[arg(required = true, value_name = "NAME")]
    machines: Vec<String>,
}

#[cfg(feature = "tls")]
mod with {
    use std::time::{Duration, SystemTime};

    use anyhow::Context;
    use ferretto_tls::Authority;

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
            anstream::println!("{}", folder.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use super::*;

    /// This build cannot use certificates: with one set, connecting and listening fail.
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
