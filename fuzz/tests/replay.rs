//! Runs every target over its corpus, and over mutations of it that are the same each time.

use std::fs;
use std::path::Path;

use ferretto_fuzz::{TARGETS, Target};
use ferretto_testing::Random;

/// Mutations of each corpus.
const MUTATIONS: u32 = 3000;

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder that can be read").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "the corpus of {name} is empty");
    files
        .iter()
        .map(|file| fs::read(file).expect("a seed that can be read"))
        .collect()
}

fn mutate(seed: &mut Vec<u8>, other: &[u8], numbers: &mut Random) {
    for _ in 0..numbers.below(6) + 1 {
        let at = numbers.below(seed.len() + 1);
        match numbers.below(6) {
            0 => seed.truncate(at),
            1 => seed.insert(at, numbers.below(256) as u8),
            2 => seed.extend_from_slice(&other[..at.min(other.len())]),
            3 => seed
                .splice(at.., other.iter().skip(at).copied())
                .for_each(drop),
            _ if seed.is_empty() => seed.push(0xff),
            4 => {
                let at = at % seed.len();
                seed[at] ^= 1 << numbers.below(8);
            }
            _ => {
                let at = at % seed.len();
                seed[at] = [0, 1, 0x7f, 0x80, 0xff][numbers.below(5)];
            }
        }
    }
}

fn replay(name: &str) {
    let target = TARGETS.iter().find(|target| target.0 == name);
    let run: Target = target.expect("a target of this name").1;
    let seeds = corpus(name);
    run(&[]);
    for seed in &seeds {
        run(seed);
    }
    let mut numbers = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..MUTATIONS {
        let mut seed = seeds[numbers.below(seeds.len())].clone();
        let other = &seeds[numbers.below(seeds.len())];
        mutate(&mut seed, other, &mut numbers);
        run(&seed);
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_target_is_replayed() {
            let replayed = [$(stringify!($name)),*];
            let all = TARGETS.map(|target| target.0);
            assert_eq!(all, replayed);
        }
    };
}

targets! { wire_fields ipc_frames smb_pages commits patches packets config_text trace_filter perf_records perf_config elf_file unwind_tables kallsyms elf_symbols jit traces protovm tables view_requests }
