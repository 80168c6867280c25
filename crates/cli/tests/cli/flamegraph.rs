//! Flamegraphs in a viewer without scripts.

use ferretto_wire::{Encoder, encode};

use crate::world::World;

const SEQUENCE: u64 = 7;

/// Returns a trace of callstacks with the outermost function first, each with one sample.
fn trace(stacks: &[Vec<String>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut packet = |write: &dyn Fn(&mut Encoder<'_, Vec<u8>>)| {
        Encoder::new(&mut bytes).bytes(1, &encode(write));
    };
    packet(&|p| {
        p.varint(10, 1);
        p.nested(6, |snapshot| {
            snapshot.nested(1, |reading| {
                reading.varint(1, 6);
                reading.varint(2, 1_000);
            });
        });
    });
    packet(&|p| {
        p.varint(10, 2);
        p.nested(2, |tree| {
            tree.nested(1, |process| {
                process.varint(1, 100);
                process.string(3, "/usr/bin/compiler");
            });
        });
    });
    packet(&|p| {
        p.varint(10, SEQUENCE);
        p.varint(13, 1);
        p.nested(59, |defaults| {
            defaults.varint(58, 6);
            defaults.nested(100, |stack| stack.string(1, "linux.perf"));
        });
    });
    for stack in stacks {
        packet(&|p| {
            p.varint(8, 2_000);
            p.varint(10, SEQUENCE);
            p.varint(13, 2);
            p.nested(135, |sample| {
                sample.nested(1, |task| {
                    task.varint(2, 100);
                    task.varint(3, 100);
                });
                sample.nested(5, |frames| {
                    for name in stack {
                        frames.nested(1, |frame| frame.string(1, name));
                    }
                });
            });
        });
    }
    bytes
}

fn stack(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn draw(world: &World, args: &[&str]) -> String {
    let args = [&["flamegraph", "-o", "-"], args].concat();
    let output = world.run("ferretto", &args).returned(0);
    output.text().to_owned()
}

/// Returns the distance of a label from the top.
#[track_caller]
fn height_of(svg: &str, label: &str) -> f64 {
    let end = format!("\">{label}</text>");
    let before = svg
        .split(&end)
        .next()
        .filter(|before| before.len() < svg.len());
    let before = before.unwrap_or_else(|| panic!("no label {label}"));
    let (_, y) = before.rsplit_once("y=\"").unwrap();
    y.parse().unwrap()
}

#[test]
fn a_flamegraph_is_labelled_from_its_bottom_row_and_explains_its_colours() {
    let world = World::new();
    let mut stacks = vec![stack(&["main", "std::vector<int>::push_back"]); 90];
    stacks.extend(vec![stack(&["main", "a::very::long::path::to::parse"]); 10]);
    world.write("t.pftrace", trace(&stacks));
    let svg = draw(&world, &["t.pftrace"]);
    assert!(height_of(&svg, "all") > height_of(&svg, "compiler"));
    assert!(height_of(&svg, "compiler") > height_of(&svg, "main"));
    // Labels that do not fit keep their most specific part.
    assert!(height_of(&svg, "main") > height_of(&svg, "path::to::parse"));
    height_of(&svg, "std::vector::push_back");
    for text in ["process", "own code", "t.pftrace (100 samples"] {
        assert!(svg.contains(text), "{text}");
    }
    assert!(svg.contains("90.0 %, 90 samples; itself 90.0 %"));

    let svg = draw(&world, &["--icicle", "t.pftrace"]);
    assert!(height_of(&svg, "all") < height_of(&svg, "compiler"));
    assert!(height_of(&svg, "compiler") < height_of(&svg, "main"));

    let svg = draw(&world, &["--inverted", "t.pftrace"]);
    assert!(height_of(&svg, "main") > height_of(&svg, "compiler"));
}

#[test]
fn a_flamegraph_stays_small_and_merges_narrow_boxes() {
    let world = World::new();
    // A different callstack for each sample, as in a compiler, and one very deep recursion.
    let mut stacks: Vec<_> = (0..3_000_u64)
        .map(|sample| {
            let name = |depth: u64| {
                let number = (sample * 2_654_435_761) % (1 << depth.min(24));
                format!("compiler::pass_{depth}<std::allocator<node_{number}>>::visit_{number}")
            };
            (0..40).map(name).collect::<Vec<_>>()
        })
        .collect();
    stacks.extend(vec![vec!["recurse".to_owned(); 500]; 30]);
    world.write("t.pftrace", trace(&stacks));
    let svg = draw(&world, &["t.pftrace"]);
    assert!(svg.len() <= 1_000_000, "{} bytes", svg.len());
    assert!(svg.contains(">…</text>"));
    assert!(svg.contains("too small to show"));
    let (_, height) = svg.split_once("height=\"").unwrap();
    let (height, _) = height.split_once('"').unwrap();
    let height: f64 = height.parse().unwrap();
    assert!(height < 2_000.0, "a tower of {height}");
}

#[test]
fn a_comparison_names_its_baseline_and_compares_shares() {
    let world = World::new();
    let (slow, fast) = (stack(&["main", "slow"]), stack(&["main", "fast"]));
    let before = [vec![slow.clone(); 5], vec![fast.clone(); 5]].concat();
    let after = [vec![slow; 30], vec![fast; 10]].concat();
    world.write("old.pftrace", trace(&before));
    world.write("new.pftrace", trace(&after));
    let svg = draw(&world, &["--before", "old.pftrace", "new.pftrace"]);
    assert!(svg.contains("new.pftrace (40 samples"));
    assert!(svg.contains("compared with the baseline old.pftrace (10 samples"));
    assert!(svg.contains("slow: 75.0 %, 30 samples; itself 75.0 %; before 50.0 %, itself 50.0 %"));
    let colour = |label: &str| {
        let boxes = svg.split("<g class=\"b ");
        let of = boxes.filter(|of| of.contains(&format!("<title>{label}: ")));
        of.map(|of| of[..4].to_owned()).next()
    };
    assert_eq!(colour("slow").as_deref(), Some("more"));
    assert_eq!(colour("fast").as_deref(), Some("less"));
    assert_eq!(colour("main").as_deref(), Some("same"));
}
