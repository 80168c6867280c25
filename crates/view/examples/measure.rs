//! Measures the cost of viewing a trace: `measure FILE`. `measure FILE FOLDER` opens it from its
//! index in that folder, and writes the index if there is none.

use std::error::Error;
use std::time::{Duration, Instant};

use ferretto_tables::{Continue, Options, Trace};
use ferretto_view::{Cache, Circumstances, Export, SearchIn, View, Window};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: measure FILE")?;
    let options = Options::default();
    if let Some(folder) = std::env::args().nth(2) {
        return Ok(from_cache(&path, &folder, &options)?);
    }
    let start = Instant::now();
    let trace = Trace::open(path, &options, |_| Continue::Yes)?;
    println!("import: {:?}, {} MB", start.elapsed(), trace.memory() >> 20);
    let tables = trace.tables();
    let (slices, sched) = (tables.slice.len(), tables.sched_slice.len());
    println!(
        "{slices} slices, {sched} CPU slices, {} values",
        tables.counter.len()
    );
    let start = Instant::now();
    let view = View::new(trace, "trace", options.threads);
    println!(
        "ready: {:?}, {} MB more",
        start.elapsed(),
        view.memory() >> 20
    );
    let start = Instant::now();
    let index = view.index(Circumstances::default());
    println!(
        "index: {:?}, {} nodes, {} KB",
        start.elapsed(),
        view.nodes(),
        index.len() >> 10
    );
    tiles(&view);
    let start = Instant::now();
    let found = view.search("a", SearchIn::Names, 1000).unwrap_or_default();
    println!("search: {:?}, {} KB", start.elapsed(), found.len() >> 10);
    let start = Instant::now();
    view.summary(0.0, view.duration() as f64, None);
    println!("summary of all: {:?}", start.elapsed());
    let start = Instant::now();
    let export = Export::new(&view, u64::MAX, options.threads)?;
    println!("export: {:?}, {} KB", start.elapsed(), export.size() >> 10);
    Ok(())
}

fn from_cache(path: &str, folder: &str, options: &Options) -> anyhow::Result<()> {
    let start = Instant::now();
    let cache = Cache::new(folder.into());
    let (view, index) = cache.open(path.as_ref(), options, |_| Continue::Yes)?;
    println!("open: {:?}", start.elapsed());
    if let Some(index) = index {
        let start = Instant::now();
        index.write(&view)?;
        println!("index: {:?}", start.elapsed());
    }
    memory("opened");
    let start = Instant::now();
    view.index(Circumstances::default());
    println!("nodes: {:?}", start.elapsed());
    memory("nodes");
    tiles(&view);
    memory("drawn");
    let start = Instant::now();
    view.summary(0.0, view.duration() as f64, None);
    println!("summary of all: {:?}", start.elapsed());
    memory("all read");
    Ok(())
}

/// Prints the memory of this process.
fn memory(what: &str) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status
        .lines()
        .filter(|line| line.starts_with("RssAnon") || line.starts_with("VmHWM"));
    println!("{what}: {}", lines.collect::<Vec<_>>().join(", "));
}

/// Requests screens of 1500 pixels, from the whole trace down to microseconds: each node alone, and
/// 60 at once.
fn tiles(view: &View) {
    let length = view.duration() as f64;
    let nodes: Vec<u32> = (0..view.nodes() as u32).collect();
    let mut width = length;
    while width > 1000.0 {
        let level = (width / 1500.0).max(1.0).log2() as u8;
        let from = (length - width) / 3.0;
        let window = Window {
            from,
            to: from + width,
            level,
        };
        let mut longest = Duration::ZERO;
        let start = Instant::now();
        for node in nodes.iter().take(1000) {
            let one = Instant::now();
            view.tiles(&[*node], window);
            longest = longest.max(one.elapsed());
        }
        let mean = start.elapsed() / nodes.len().clamp(1, 1000) as u32;
        let start = Instant::now();
        let screen = view.tiles(&nodes[..nodes.len().min(60)], window);
        println!(
            "{:>12.6} s at level {level}: mean {mean:?}, longest {longest:?}; 60 nodes {:?}, {} KB",
            width / 1e9,
            start.elapsed(),
            screen.len() >> 10
        );
        width /= 8.0;
    }
}
