//! Details, searches, summaries and neighbours.

use crate::common::{
    Frame, SCHED, in_groups, json, memory_of_a_process, of_a_command, slice, view, wakings,
    wakings_after_a_loss,
};
use ferretto_view::{
    By, Circumstances, PivotOf, PivotRequest, ProfileRequest, SearchIn, Step, View, Window,
};
use serde_json::{Value, json as value};

fn index(view: &View) -> Frame {
    Frame::read(&view.index(Circumstances::default()))
}

/// Returns the rows of a node with this name.
fn rows(view: &View, node: u32, name: &str) -> Vec<u32> {
    let all = Window {
        from: -1e15,
        to: 1e15,
        level: 0,
    };
    let tiles = Frame::read(&view.tiles(&[node], all));
    let names = tiles.texts("name").into_iter().zip(tiles.column("id"));
    names
        .filter(|(known, _)| *known == name)
        .map(|(_, id)| *id as u32)
        .collect()
}

fn nested() -> View {
    let flow = "{\"ph\":\"s\",\"pid\":1,\"tid\":1,\"id\":7,\"cat\":\"f\",\"name\":\"f\",\"ts\":12},\
                {\"ph\":\"f\",\"bp\":\"e\",\"pid\":1,\"tid\":2,\"id\":7,\"cat\":\"f\",\"name\":\"f\",\"ts\":105},";
    let slices = [
        slice(1, "request", 0, 100),
        slice(1, "parse <b>", 10, 20),
        slice(1, "parse <b>", 40, 30),
        slice(2, "answer \\u202e", 100, 50),
    ];
    json(&(slices.concat() + flow))
}

#[test]
fn details_of_a_slice_include_its_neighbours() {
    let view = nested();
    let node = index(&view).node(5, "*");
    let [first, second] = rows(&view, node, "parse <b>")[..] else {
        panic!("two slices");
    };
    let details = view.details(node, first).expect("details");
    assert_eq!(details["name"], "parse <b>");
    assert_eq!(details["category"], "c");
    assert_eq!(
        (&details["start"], &details["dur"]),
        (&value!(10e3), &value!(20e3))
    );
    assert_eq!(details["parents"][0]["name"], "request");
    assert_eq!(details["args"], value!([["args.at", "10", "int"]]));
    let to = &details["flows"][0];
    assert_eq!(
        (&to["out"], &to["to"]["name"]),
        (&value!(true), &value!("answer \u{202e}"))
    );
    let around = view.next(node, first, Step::Parent).expect("parent");
    assert_eq!(around["name"], "request");
    let parent = around["id"].as_u64().unwrap() as u32;
    assert_eq!(view.details(node, parent).expect("details")["children"], 2);
    let id = |found: Option<Value>| found.map(|found| found["id"].as_u64().unwrap() as u32);
    assert_eq!(id(view.next(node, parent, Step::Child)), Some(first));
    assert_eq!(id(view.next(node, first, Step::Next)), Some(second));
    assert_eq!(id(view.next(node, second, Step::Previous)), Some(first));
    assert_eq!(id(view.next(node, first, Step::Previous)), None);
    assert_eq!(view.details(node, u32::MAX), None);
    assert_eq!(view.details(u32::MAX, 0), None);
    let arrows = Frame::read(&view.arrows(0.0, 1e9, None, 10));
    assert_eq!(arrows.header["total"], 1);
    assert_eq!(arrows.column("from_id"), [f64::from(first)]);
}

#[test]
fn a_search_finds_names_and_arguments() {
    let view = nested();
    let found = |text: &str, search_in| {
        let frame = Frame::read(&view.search(text, search_in, 100).expect("valid"));
        let names: Vec<String> = frame
            .texts("name")
            .iter()
            .map(|t| (*t).to_owned())
            .collect();
        assert_eq!(frame.header["total"], names.len());
        names
    };
    assert_eq!(found("PARSE", SearchIn::Names), ["parse <b>", "parse <b>"]);
    assert_eq!(found("at=40", SearchIn::Args), ["parse <b>"]);
    assert_eq!(found("at=40", SearchIn::Names).len(), 0);
    assert_eq!(found("args.at:100", SearchIn::All), ["answer \u{202e}"]);
    assert_eq!(found("", SearchIn::All).len(), 0);
    let few = Frame::read(&view.search("parse", SearchIn::Names, 1).expect("valid"));
    assert_eq!(
        (few.header["total"].as_u64(), few.column("id").len()),
        (Some(2), 1)
    );
}

#[test]
fn a_summary_counts_intervals_within_its_window() {
    let view = nested();
    let all = view.summary(0.0, 1e9, None);
    let name = |sums: &Value, name: &str| {
        let names = sums["names"].as_array().unwrap().clone();
        names
            .into_iter()
            .find(|sum| sum["name"] == name)
            .expect("name")
    };
    let request = name(&all, "request");
    assert_eq!(
        (&request["total"], &request["self"]),
        (&value!(100_000), &value!(50_000))
    );
    let parse = name(&all, "parse <b>");
    assert_eq!(
        (&parse["count"], &parse["min"], &parse["max"]),
        (&value!(2), &value!(20_000), &value!(30_000))
    );
    // Half of the second slice.
    let part = view.summary(55_000.0, 1e9, None);
    assert_eq!(name(&part, "parse <b>")["total"], 15_000);
    assert_eq!(name(&part, "request")["self"], 30_000);
}

#[test]
fn details_of_a_thread_include_its_wakers() {
    let view = view(SCHED.as_bytes());
    let index = index(&view);
    let cpu = index.node(7, "CPU 0");
    let ran = rows(&view, cpu, "ping");
    assert_eq!(ran.len(), 2);
    let details = view.details(cpu, ran[1]).expect("details");
    let chain: Vec<&str> = details["chain"]
        .as_array()
        .expect("chain")
        .iter()
        .map(|link| link["text"].as_str().unwrap())
        .collect();
    assert_eq!(chain, ["pong 20 woke ping 10", "ping 10 woke pong 20"]);
    let facts = details["facts"].as_array().unwrap();
    assert!(
        facts
            .iter()
            .any(|fact| fact[0] == "Waited for a CPU" && fact[1] == "2000000 ns"),
        "{facts:?}"
    );
    let sums = view.summary(0.0, 1e9, None);
    let threads: Vec<(&str, u64)> = sums["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| {
            (
                thread["name"].as_str().unwrap(),
                thread["cpu"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(threads, [("ping 10", 6_000_000), ("pong 20", 3_000_000)]);
    // Idle processes are not shown.
    assert_eq!(rows(&view, cpu, "swapper").len(), 0);
}

#[test]
fn kernel_events_are_listed() {
    let view = wakings(&[1000, 2000, 3000, 4000]);
    let log = view.list(0.0, 2500.0, None, 1, 1);
    assert_eq!(
        (&log["total"], log["rows"].as_array().unwrap().len()),
        (&value!(3), 1)
    );
    let row = &log["rows"][0];
    assert_eq!(
        (&row["name"], &row["start"]),
        (&value!("sched_waking"), &value!(1000.0))
    );
    assert!(row["text"].as_str().unwrap().contains("comm=pong"));
}

#[test]
fn losses_have_a_time_and_a_text() {
    let view = wakings_after_a_loss(&[1000, 2000, 3000]);
    let losses = index(&view).header["losses"].clone();
    assert_eq!(losses.as_array().unwrap().len(), 1, "{losses}");
    assert_eq!(
        (&losses[0]["start"], &losses[0]["text"]),
        (&value!(500.0), &value!("kernel events were lost"))
    );
}

#[test]
fn processes_of_the_recorded_command_come_first() {
    for (has_command, wanted) in [
        (true, ["work", "sh", "other"]),
        (false, ["other", "work", "sh"]),
    ] {
        let index = index(&of_a_command(has_command));
        let kinds = index.column("kind").iter();
        let names = index.texts("name").into_iter().zip(kinds);
        let processes = names.filter(|(_, kind)| **kind == 2.0);
        let names: Vec<&str> = processes.map(|(name, _)| name).collect();
        assert_eq!(names, wanted);
    }
}

#[test]
fn a_unit_with_several_processes_is_a_group() {
    let groups = |all: [&str; 3]| {
        let groups = [(&b"other"[..], all[0]), (b"sh", all[1]), (b"work", all[2])];
        let index = index(&in_groups(false, &groups));
        ["other", "sh", "work"].map(|name| {
            let above = index.column("parent")[index.node(2, name) as usize];
            let is_group = above >= 0.0 && index.column("kind")[above as usize] == 4.0;
            let name = is_group.then(|| index.texts("name")[above as usize].to_owned());
            name.unwrap_or_default()
        })
    };
    let web = "/system.slice/web.service";
    let of_web = groups([
        web,
        "/system.slice/ssh.service",
        "/system.slice/web.service/worker",
    ]);
    assert_eq!(of_web, ["web.service", "", "web.service"]);
    // Sessions and service managers have all that a user starts.
    let session = "/user.slice/user-1.slice/session-2.scope";
    let manager = "/user.slice/user-1.slice/user@1.service";
    assert_eq!(groups([session, session, manager]), [""; 3]);
    let application = "/user.slice/user-1.slice/user@1.service/app.slice/app-editor.scope";
    assert_eq!(
        groups([application, manager, application]),
        ["app-editor.scope", "", "app-editor.scope"]
    );
}

#[test]
fn a_container_has_the_rows_of_its_processes() {
    let view = of_a_command(false);
    let index = index(&view);
    let container = index.node(4, "docker 0123456789ab") as usize;
    let process = |name| index.node(2, name) as usize;
    let parents = index.column("parent");
    assert_eq!(parents[process("work")], container as f64);
    assert_eq!(parents[process("sh")], parents[container]);
    assert_eq!(index.column("cpu")[container], 200.0);
    // The row of the container has the load of its processes.
    let window = Window {
        from: 0.0,
        to: 2000.0,
        level: 3,
    };
    let nodes = [container as u32, process("work") as u32];
    let [of_container, of_work] = nodes.map(|node| {
        Frame::read(&view.tiles(&[node], window))
            .column("load")
            .to_vec()
    });
    assert!(of_container.len() > 5 && of_container == of_work);
    let pivot = view.pivot(&PivotRequest {
        from: -1e15,
        to: 1e15,
        nodes: None,
        of: PivotOf::Cpu,
        by: &["container"],
    });
    let times = pivot["rows"].as_array().expect("rows").iter();
    let times: Vec<_> = times.map(|row| (&row["keys"][0], &row["total"])).collect();
    let expected = [("", 1090), ("docker 0123456789ab", 200)];
    let expected = expected.map(|(name, time)| (value!(name), value!(time)));
    assert_eq!(times, expected.each_ref().map(|(name, time)| (name, time)));
}

#[test]
fn samples_of_other_programs_count_by_their_weights() {
    let text = "\
app 7/7 5.100000: 1 cycles:\n\t401136 cold (/tmp/app)\n\n\
app 7/7 5.200000: 99 cycles:\n\t401200 hot (/tmp/app)\n\n\
app 7/7 5.300000: 1500000 task-clock:\n\t401300 busy (/tmp/app)\n\n";
    let mut trace = Vec::new();
    let options = ferretto_foreign::Options::default();
    ferretto_foreign::import(std::io::Cursor::new(text), &options, &mut trace).unwrap();
    let view = view(&trace);
    let index = index(&view);
    let profiles = index.header["profiles"].as_array().unwrap();
    let named = |name: &str, unit: &str| {
        let wanted = profiles
            .iter()
            .position(|it| it["name"] == name && it["unit"] == unit);
        wanted.unwrap_or_else(|| panic!("no {name} in {unit} among {profiles:?}"))
    };
    for (profile, expected) in [
        (
            named("cycles", "cycles"),
            &[("cold", 1.0), ("hot", 99.0)][..],
        ),
        (named("task-clock", "ns"), &[("busy", 1_500_000.0)]),
    ] {
        let request = ProfileRequest {
            profile,
            from: -1e15,
            to: 1e15,
            nodes: None,
            by: By::Function,
        };
        let tree = Frame::read(&view.profile(&request).unwrap());
        for (function, weight) in expected {
            let at = tree.texts("name").iter().position(|name| name == function);
            assert_eq!(tree.column("total")[at.unwrap()], *weight, "{function}");
        }
    }
}

#[test]
fn times_of_threads_have_causes() {
    let view = crate::common::view(SCHED.as_bytes());
    let index = index(&view);
    let nodes = index.column("kind").len() as u32;
    let mut explained = 0;
    for node in 0..nodes {
        for id in 0..8 {
            let Some(why) = view.why(node, id) else {
                continue;
            };
            let dur = view.details(node, id).expect("details")["dur"].clone();
            assert_eq!(why["dur"].as_f64(), dur.as_f64());
            let causes = why["causes"].as_array().expect("causes").iter();
            let sum: i64 = causes
                .map(|cause| cause["ns"].as_i64().expect("a time"))
                .sum();
            assert_eq!(Some(sum), why["dur"].as_i64());
            explained += 1;
        }
    }
    assert!(explained > 0);
    assert!(view.why(u32::MAX, 0).is_none());
    // Without scheduling, nothing can be said.
    let view = nested();
    let node = self::index(&view).node(5, "*");
    assert!(view.details(node, 0).is_some() && view.why(node, 0).is_none());
}

#[test]
fn the_memory_of_a_process_is_in_bytes_everywhere() {
    let view = memory_of_a_process([14_080, 14_082]);
    let summary = view.summary(0.0, 1e9, None);
    let counter = &summary["counters"][0];
    assert_eq!(
        [&counter["name"], &counter["unit"]],
        [&value!("mem.rss"), &value!("bytes")]
    );
    let node = counter["node"].as_u64().expect("a node") as u32;
    let details = view.details(node, 1).expect("details");
    let facts = details["facts"].as_array().expect("facts");
    let fact = |label: &str| &facts.iter().find(|fact| fact[0] == label).expect("a fact")[1];
    assert_eq!(fact("Value"), "14419968 bytes");
    assert_eq!(fact("Change"), "2048 bytes");
}
