//! `ferretto pprof FILE`.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use ferretto_text::amount::counted;
use ferretto_trace::profile::{DumpChoice, heap_pprof, pprof, processes};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::{PprofArgs, Samples, output};
use crate::output::write;
use crate::read::Extent;

pub(crate) fn run(args: &PprofArgs) -> Result<Extent> {
    let samples = Samples::read(&args.file, &args.selection)?;
    if let Some(folder) = &args.per_process {
        if samples.heap.is_some() {
            bail!("--per-process cannot be combined with --heap; select processes with -p");
        }
        each(&samples, &args.file, folder)?;
        return Ok(samples.extent);
    }
    let path = output(args.output.as_deref(), &args.file, "pb.gz");
    let profile = match samples.heap {
        Some(_) => {
            let dumps = samples.profile.chosen(&samples.selection, DumpChoice::Last);
            heap_pprof(&samples.profile, &dumps)
        }
        None => pprof(&samples.profile, &samples.counts, None),
    };
    write_compressed(&path, &args.file, &profile)?;
    if path.as_os_str() != "-" {
        eprintln!("{0}: look at it with go tool pprof {0}", path.display());
    }
    Ok(samples.extent)
}

/// Writes a file for each process, numbered from the one with the most samples.
fn each(samples: &Samples, trace: &Path, folder: &Path) -> Result<()> {
    let shown = folder.display();
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {shown}"))?;
    let processes = processes(&samples.profile, &samples.counts, samples.value());
    for (number, process) in processes.iter().enumerate() {
        let path = folder.join(format!("profile.{number}.pid.{}.pb.gz", process.id));
        let only = Some((process.machine, process.id));
        write_compressed(
            &path,
            trace,
            &pprof(&samples.profile, &samples.counts, only),
        )?;
    }
    eprintln!("{shown}: {}", counted(processes.len() as u64, "profile"));
    Ok(())
}

fn write_compressed(path: &Path, trace: &Path, bytes: &[u8]) -> Result<()> {
    write(path, &[trace], |out| {
        let mut gzip = GzEncoder::new(out, Compression::default());
        gzip.write_all(bytes)?;
        gzip.finish()?;
        Ok(())
    })
}
