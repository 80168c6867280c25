//! Records raw ring-buffer pages of the running kernel, together with the format files that
//! describe them, as a fixture for the tests: `capture FOLDER MILLISECONDS PAGES GROUP/EVENT...`.
//! Needs root.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use ferretto_probes::ftrace::Tracefs;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, milliseconds, pages, events @ ..] = &arguments[..] else {
        return Err("capture FOLDER MILLISECONDS PAGES GROUP/EVENT...".into());
    };
    let folder = Path::new(folder);
    let top = Tracefs::find_or_mount()?;
    let path = top.root().join("instances/ferretto-capture");
    std::fs::create_dir(&path)?;
    let result = capture(
        &Tracefs::at(&path),
        folder,
        milliseconds.parse()?,
        pages.parse()?,
        events,
    );
    std::fs::remove_dir(&path)?;
    result
}

fn capture(
    fs: &Tracefs,
    folder: &Path,
    milliseconds: u64,
    pages: usize,
    events: &[String],
) -> Result<(), Box<dyn std::error::Error>> {
    let formats = folder.join("events");
    std::fs::create_dir_all(&formats)?;
    std::fs::write(formats.join("header_page"), fs.read("events/header_page")?)?;
    fs.write("trace_clock", "boot")?;
    fs.write("buffer_size_kb", "65536")?;
    fs.write("trace_marker", "B|42|a marker")?;
    for event in events {
        let (group, name) = event.split_once('/').ok_or("GROUP/EVENT")?;
        std::fs::create_dir_all(formats.join(event))?;
        std::fs::write(formats.join(event).join("format"), fs.format(group, name)?)?;
        if group != "ftrace" {
            fs.enable_event(group, name, true)?;
        }
    }
    std::thread::sleep(Duration::from_millis(milliseconds));
    fs.write("tracing_on", "0")?;
    for cpu in fs.cpus() {
        let mut file = fs.open_raw(cpu)?;
        let mut page = vec![0; fs.page_size()];
        let mut raw = Vec::new();
        for _ in 0..pages {
            match file.read(&mut page) {
                Ok(length) if length > 0 => raw.extend_from_slice(&page[..length]),
                _ => break,
            }
        }
        std::fs::write(folder.join(format!("cpu{cpu}.pages")), raw)?;
    }
    Ok(())
}
