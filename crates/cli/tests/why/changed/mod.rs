//! Planted changes: a program of which one thing is changed is recorded with `record --why`, and
//! `diff` ranks that change first.
//!
//! `FERRETTO_CHANGES=FOLDER` compares recordings of all kinds, and makes those that the folder does
//! not have. `FERRETTO_TURNS=FIRST..END` selects them: the usual are 0..5.

mod judge;

use std::path::Path;
use std::process::Command;

use self::judge::{KINDS, Recordings, judge, judge_same};
use crate::world::World;

/// The program, as C. `PLANTED` names the thing that is changed.
const PROGRAM: &str = include_str!("program.c");

/// The kinds and the number of recordings of each that are made in every run.
const USUAL: [&str; 4] = ["function", "longlock", "locksleep", "newtimer"];
const USUAL_TURNS: std::ops::Range<usize> = 0..3;

/// The least percentages of kinds whose true cause is first, and among the first three.
const FIRST: usize = 90;
const THIRD: usize = 98;

impl Recordings {
    /// Makes the recordings that are missing, in turns.
    fn make(&self, world: &mut World, program: &Path, is_usual: impl Fn(&str) -> bool) {
        let data = world.path("");
        let (program, data) = (
            program.to_str().expect("text"),
            data.to_str().expect("text"),
        );
        // The first run makes the program's files.
        world.set("PLANTED", "nothing");
        let status = Command::new(program).arg(data).status();
        assert!(status.is_ok_and(|status| status.success()));
        for (at, _) in self.turns.clone().enumerate() {
            for (group, kinds) in KINDS.iter().enumerate() {
                let kinds = kinds.iter().map(|kind| [kind.0, kind.1]);
                let kinds = kinds.filter(|both| both.iter().all(|name| is_usual(name)));
                let mut names: Vec<&str> = kinds.flatten().collect();
                names.sort_unstable();
                names.dedup();
                for name in names {
                    let file = &self.files(name, group)[at];
                    if file.exists() {
                        continue;
                    }
                    world.set("PLANTED", if name.is_empty() { "none" } else { name });
                    let file = file.to_str().expect("text");
                    let record = ["record", "-q", "--why", "-o", file, "--", program, data];
                    let output = world.run("ferretto", &record);
                    // A busy machine may make the recording lose events.
                    assert!(matches!(output.code, 0 | 3), "{output:?}");
                }
            }
        }
    }
}

#[test]
fn planted_changes_are_ranked_first() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can record scheduling");
        return;
    }
    let mut world = World::new();
    let flags = ["-g", "-O1", "-pthread", "-w"];
    let Some(program) = world.compile("changed", PROGRAM, &flags) else {
        return;
    };
    if let Ok(folder) = std::env::var("FERRETTO_CHANGES") {
        let turns = std::env::var("FERRETTO_TURNS").unwrap_or("0..5".to_owned());
        let (first, end) = turns.split_once("..").expect("FIRST..END");
        let [first, end] = [first, end].map(|turn| turn.parse().expect("a number"));
        let recordings = Recordings {
            folder: folder.into(),
            turns: first..end,
        };
        recordings.make(&mut world, &program, |_| true);
        let counts = judge(&recordings, |_| true);
        judge_same(&recordings);
        assert!(counts.first * 100 >= counts.all * FIRST, "{counts:?}");
        assert!(counts.third * 100 >= counts.all * THIRD, "{counts:?}");
        return;
    }
    // A busy machine adds changes of its own, and hides others.
    let is_usual = |kind: &str| kind.is_empty() || USUAL.contains(&kind);
    let folder = world.path("recordings");
    std::fs::create_dir(&folder).expect("a folder");
    let recordings = Recordings {
        folder,
        turns: USUAL_TURNS,
    };
    recordings.make(&mut world, &program, is_usual);
    let counts = judge(&recordings, is_usual);
    assert!(
        counts.all == USUAL.len() && counts.first > 0 && counts.third >= 3,
        "{counts:?}"
    );
}
