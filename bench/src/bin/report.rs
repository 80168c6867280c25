//! Runs all rows of each group in turns and prints the shortest times and their ratios.
//!
//! `report [NAME] [ROUNDS]`: only groups whose name contains NAME; 15 rounds by default.

use std::time::Duration;

use ferretto_bench::{GROUPS, Group};

/// The minimum duration of a round, which determines the number of iterations.
const ROUND: Duration = Duration::from_millis(5);

fn main() {
    let mut filter = String::new();
    let mut rounds = 15;
    for argument in std::env::args().skip(1) {
        match argument.parse() {
            Ok(number) => rounds = number,
            Err(_) => filter = argument,
        }
    }
    println!("| benchmark | who | time | GB/s | ours is | bar |");
    println!("|---|---|--:|--:|--:|--:|");
    for make in GROUPS {
        let mut group = make();
        if group.name.contains(&filter) {
            let best = measure(&mut group, rounds);
            print(&group, &best);
        }
    }
}

/// Returns the shortest time of one iteration for each row, in seconds.
fn measure(group: &mut Group, rounds: u32) -> Vec<f64> {
    let times: Vec<u64> = group
        .rows
        .iter_mut()
        .map(|row| {
            let mut times = 1;
            while row.run(times) < ROUND && times < 1 << 24 {
                times *= 4;
            }
            times
        })
        .collect();
    let mut best = vec![f64::INFINITY; group.rows.len()];
    for _ in 0..rounds {
        for (index, row) in group.rows.iter_mut().enumerate() {
            let one = row.run(times[index]).as_secs_f64() / times[index] as f64;
            best[index] = best[index].min(one);
        }
    }
    best
}

fn print(group: &Group, best: &[f64]) {
    let ours = best[0];
    for (row, &seconds) in group.rows.iter().zip(best) {
        let rate = group.bytes.map_or(String::new(), |bytes| {
            format!("{:.2}", bytes as f64 / seconds / 1e9)
        });
        let (ratio, bar) = if row.name.starts_with("upstream") {
            let bar = group.bar.map_or(String::new(), |bar| format!("{bar}×"));
            (format!("{:.2}× as fast", seconds / ours), bar)
        } else {
            (String::new(), String::new())
        };
        println!(
            "| {} | {} | {} | {rate} | {ratio} | {bar} |",
            group.name,
            row.name,
            shown(seconds)
        );
    }
}

fn shown(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.1} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.2} µs", s * 1e6),
        s => format!("{:.2} ms", s * 1e3),
    }
}
