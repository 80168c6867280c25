//! Calls of functions of a program, by probes at the functions and at their returns.

use std::fs;

use crate::compare::{Topic, exactly};
use crate::programs::Known;
use crate::readers::{Intervals, Readers, whole};
use crate::world::World;

/// Calls `work` 40 times, for a millisecond each; `nest` 10 times, which calls itself 4 times; and
/// does not return from `main`.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

__attribute__((noinline)) int nest(int n) {
    volatile int deeper = n > 1 ? nest(n - 1) : 0;
    return deeper + n;
}

__attribute__((noinline)) void work(void) {
    struct timespec time = {0, 1000000};
    nanosleep(&time, NULL);
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(void) {
    long long begin = now();
    for (int i = 0; i < 40; i++) work();
    printf("\ntruth: work %lld\n", now() - begin);
    for (int i = 0; i < 10; i++) nest(5);
    printf("\ntruth: all %lld\n", now() - begin);
    fflush(stdout);
    exit(0);
}
"#;

pub(crate) const FUNCTIONS: Topic = Topic {
    name: "calls of functions",
    numbers: 10,
};

#[test]
fn calls_and_returns_are_slices() {
    if fs::metadata("/sys/kernel/tracing/uprobe_events").is_err() {
        println!("skipped: this kernel or user has no probes in programs");
        return;
    }
    let world = World::new();
    let Some(path) = world.compile("calls", PROGRAM, &["-O0"]) else {
        return;
    };
    let path = path.to_str().expect("the path is text");
    let mut args: Vec<String> = ["record", "-q", "-o", "t"].map(str::to_owned).to_vec();
    for function in ["work", "nest", "main"] {
        for suffix in ["", "%return"] {
            args.push(format!("--uprobe={path}:{function}{suffix}"));
        }
    }
    args.extend(["--", path].map(str::to_owned));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let known = Known::of(world.run("ferretto", &args).returned(0));
    let readers = Readers::of(&world, "t");
    let mut all = FUNCTIONS.compare();
    let activity = readers.summary["activity"].as_array().expect("activities");
    let of_summary = |name: &str, key: &str| {
        let mut functions = activity.iter().filter(|of| of["kind"] == "probe");
        let function = functions.find(|of| of["name"] == name);
        ("summary", function.map(|of| whole(&of[key])))
    };
    for (name, count) in [("work", 40), ("nest", 50), ("main", 1)] {
        let mut answers = readers.slices_of_tables(name, |of| of.count);
        answers.push(of_summary(name, "count"));
        all.number(&format!("{name}: count"), exactly(count), &answers);
        let open = readers.rows_named(name);
        let open = open.filter(|row| readers.tables().slice.dur().get(*row) < 0);
        let ended = count - open.count() as i64;
        let answers = [("tables", Some(ended)), of_summary(name, "finished")];
        all.number(&format!("{name}: ended"), exactly(count), &answers);
    }
    let mut answers = readers.slices_of_tables("work", |of| of.total);
    answers.push(of_summary("work", "total_ns"));
    let times = 40_000_000..=known.get("work");
    all.number("work: total", times, &answers);
    let mut answers = readers.slices_of_tables("work", |of| of.longest);
    answers.push(of_summary("work", "max_ns"));
    all.number("work: longest", 1_000_000..=known.get("work"), &answers);
    let mut answers = readers.slices_of_tables("main", |of: Intervals| of.total);
    answers.push(of_summary("main", "total_ns"));
    all.number("main: total", known.get("all").., &answers);
    let slices = &readers.tables().slice;
    let depths = readers
        .rows_named("nest")
        .map(|row| i64::from(slices.depth().get(row)));
    let deepest = [("tables", depths.max())];
    all.number("nest: depth", exactly(5), &deepest);
    all.finish();
    let text = world
        .run("ferretto", &["text", "--resolve", "t"])
        .returned(0);
    for event in ["work: __probe_ip=0x", "work__return: __probe_func=0x"] {
        assert!(text.text().contains(event), "no {event} in {}", text.text());
    }
}
