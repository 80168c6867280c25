//! The truth: programs with a known answer are recorded, and every reader of the trace gives that
//! answer.
//!
//! Each module records programs that count what they do, and compares their own numbers (and those
//! of `/proc`) with what [`readers`] say: `summary --json`, the tables that SQL sees, the viewer's
//! replies, and `json`. Numbers that two readers give are equal, not only close.
//!
//! To add a module, list its [`Topic`](compare::Topic) in [`TOPICS`]. Programs are texts in C
//! ([`World::compile`](world::World::compile)), or functions of this test that it starts as
//! another process ([`programs`]).

#[path = "../cli/world.rs"]
#[allow(dead_code, reason = "this program uses a part of it")]
mod world;

mod compare;
mod programs;
mod readers;

mod cpu;
mod disks;
mod functions;
mod random;
mod resources;
mod slices;
mod syscalls;
mod waits;

/// The topics, each with the numbers that it compares at least.
#[rustfmt::skip]
const TOPICS: &[compare::Topic] = &[
    cpu::CPU,
    disks::DISKS,
    functions::FUNCTIONS,
    resources::FORKS,
    resources::PAGES,
    resources::WRITES,
    slices::EVENTS,
    slices::SLICES,
    syscalls::SYSCALLS,
    waits::WAITS,
];

#[test]
fn the_numbers_of_all_topics_are_listed() {
    let all: usize = TOPICS.iter().map(|topic| topic.numbers).sum();
    for topic in TOPICS {
        println!("{}: {}", topic.name, topic.numbers);
    }
    println!("{all} numbers");
    assert!(all >= 60, "only {all}");
}
