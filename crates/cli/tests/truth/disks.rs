//! Requests to disks.

use std::fs;
use std::path::Path;

use crate::compare::{Topic, exactly};
use crate::readers::{Intervals, Readers, named, whole};
use crate::world::World;

pub(crate) const DISKS: Topic = Topic {
    name: "requests to disks",
    numbers: 5,
};

/// Returns the disk of a file system, such as `vda`, and the number of bytes written to it so far.
pub(crate) fn disk_of(path: &Path) -> Option<(String, i64)> {
    use std::os::unix::fs::MetadataExt;
    let device = fs::metadata(path).ok()?.dev();
    let numbers = ferretto_format::disk::disk_numbers(device);
    let link = fs::read_link(format!("/sys/dev/block/{numbers}")).ok()?;
    let name = link.file_name()?.to_str()?.to_owned();
    let stat = fs::read_to_string(format!("/sys/dev/block/{numbers}/stat")).ok()?;
    // Sectors have 512 bytes here, whatever the disk has.
    let sectors: i64 = stat.split_whitespace().nth(6)?.parse().ok()?;
    Some((name, sectors * 512))
}

#[test]
fn written_bytes() {
    let world = World::new();
    let Some((disk, before)) = disk_of(&world.path(".")) else {
        println!("skipped: the temporary files are not on a disk");
        return;
    };
    if ferretto_probes::ftrace::kernel_events().is_empty() {
        println!("skipped: kernel events are not allowed here");
        return;
    }
    let dd = [
        "dd",
        "if=/dev/zero",
        "of=data",
        "bs=1M",
        "count=32",
        "conv=fsync",
    ];
    let args = [&["record", "-q", "--io", "-o", "t", "--"], &dd[..]].concat();
    world.run("ferretto", &args).returned(0);
    let written = disk_of(&world.path(".")).map_or(0, |(_, after)| after - before);
    let readers = Readers::of(&world, "t");
    let mut all = DISKS.compare();
    let name = format!("{disk} write");
    let of_summary = named(&readers.summary["activity"], &name);
    let requests = |key: &str, number: fn(Intervals) -> i64| {
        let of_summary = of_summary.map(|of| whole(&of[key]));
        let mut answers = vec![("summary", of_summary)];
        answers.extend(readers.slices_of_tables(&name, number));
        answers
    };
    let slices = &readers.tables().slice;
    let rows = || readers.rows_named(&name);
    let open = rows().filter(|row| slices.dur().get(*row) < 0).count();
    if open > 0 {
        // The viewer shows them until the end of the trace.
        println!("skipped: {open} requests of other programs had not ended");
        return;
    }
    let bytes = rows().filter_map(|row| readers.arg(slices.arg_set_id().get(row)?, "bytes"));
    let bytes = [
        ("summary", of_summary.map(|of| whole(&of["bytes"]))),
        ("tables", Some(bytes.sum())),
    ];
    all.number("bytes", 32 << 20..=written, &bytes);
    all.number("count", 1.., &requests("count", |of| of.count));
    all.number("total", 1.., &requests("total_ns", |of| of.total));
    all.number("longest", 1.., &requests("max_ns", |of| of.longest));
    // Requests overlap, and no two on a track do.
    let mut tracks = std::collections::HashMap::new();
    let overlaps = rows().filter(|row| {
        let (ts, dur) = (slices.ts().get(*row), slices.dur().get(*row));
        let last = tracks.insert(slices.track_id().get(*row), ts + dur);
        last.is_some_and(|end| end > ts)
    });
    let overlaps = Some(overlaps.count() as i64);
    all.number("overlaps on a track", exactly(0), &[("tables", overlaps)]);
    all.finish();
}
