//! Statistics by columns and arguments, expressions in searches, and properties of processes.

use crate::common::{
    Frame, SCHED, counter, disk_request, json, of_a_command, slice, view, wakings,
};
use ferretto_view::{Circumstances, PivotOf, PivotRequest, SearchIn, View, Window};
use serde_json::{Value, json as value};

fn pivot(view: &View, of: PivotOf, by: &[&str], nodes: Option<&[u32]>) -> Value {
    view.pivot(&PivotRequest {
        from: 0.0,
        to: 1e15,
        nodes,
        of,
        by,
    })
}

fn row<'a>(pivot: &'a Value, keys: &Value) -> &'a Value {
    let rows = pivot["rows"].as_array().expect("rows");
    let found = rows.iter().find(|row| row["keys"] == *keys);
    found.unwrap_or_else(|| panic!("no {keys} in {rows:?}"))
}

#[test]
fn slices_are_counted_by_columns_and_arguments() {
    let mut events = slice(1, "outer", 0, 10_000);
    for n in 0..100 {
        events += &slice(1, "inner", n * 100, n / 2 + 1);
    }
    events += &slice(2, "inner", 0, 7);
    let view = json(&events);
    let by_name = pivot(&view, PivotOf::Slices, &["name"], None);
    let inner = row(&by_name, &value!(["inner"]));
    assert_eq!(inner["count"], 101);
    assert_eq!(
        (&inner["min"], &inner["max"]),
        (&value!(1000), &value!(50_000))
    );
    // 1, 1, 2, 2, …, 7, 7, 7, …, 50, 50: the nearest ranks.
    assert_eq!(
        (&inner["p50"], &inner["p90"], &inner["p99"]),
        (&value!(25_000), &value!(45_000), &value!(50_000))
    );
    let bins = inner["bins"].as_array().expect("bins").iter();
    assert_eq!(bins.map(|count| count.as_u64().unwrap()).sum::<u64>(), 101);
    let outer = row(&by_name, &value!(["outer"]));
    let inside: i64 = (0..100).map(|n| n / 2 + 1).sum();
    assert_eq!(outer["self"], (10_000 - inside) * 1000);
    assert_eq!(by_name["args"], value!(["args.at"]));
    let by_thread = pivot(&view, PivotOf::Slices, &["thread", "name"], None);
    assert_eq!(row(&by_thread, &value!(["2", "inner"]))["count"], 1);
    let by_arg = pivot(&view, PivotOf::Slices, &["arg:args.at"], None);
    assert_eq!(row(&by_arg, &value!(["0"]))["count"], 3);
    assert_eq!(row(&by_arg, &value!(["9900"]))["total"], 50_000);
    let unknown = pivot(&view, PivotOf::Slices, &["arg:nowhere", "nothing"], None);
    assert_eq!(row(&unknown, &value!(["", ""]))["count"], 102);
    assert_eq!(
        pivot(&view, PivotOf::Slices, &["name"], Some(&[u32::MAX]))["rows"],
        value!([])
    );
}

#[test]
fn time_on_cpus_states_and_events_are_counted_by_thread_and_process() {
    let view = view(SCHED.as_bytes());
    let cpu = pivot(&view, PivotOf::Cpu, &["thread"], None);
    assert_eq!(row(&cpu, &value!(["ping 10"]))["total"], 6_000_000);
    assert_eq!(row(&cpu, &value!(["pong 20"]))["total"], 3_000_000);
    let states = pivot(&view, PivotOf::States, &["state", "thread"], None);
    let running = row(&states, &value!(["Running", "pong 20"]));
    assert_eq!(running["count"], 1);
    // The states of one thread alone give the same time.
    let frame = Frame::read(&view.index(Circumstances::default()));
    let thread = frame.node(3, "ping");
    let own = pivot(&view, PivotOf::Cpu, &["thread"], Some(&[thread]));
    assert_eq!(row(&own, &value!(["ping 10"]))["total"], 6_000_000);
    let events = wakings(&[1000, 2000, 5000]);
    let events = pivot(&events, PivotOf::Events, &["name", "arg:comm"], None);
    assert_eq!(row(&events, &value!(["sched_waking", "pong"]))["count"], 3);
}

#[test]
fn cumulative_counters_have_rates_and_flows_are_counted() {
    let mut events = String::new();
    for n in 0..11 {
        events += &counter("sent", n * 100_000, (n * 50) as f64);
        events += &counter("queue", n * 100_000, (n % 3) as f64);
    }
    events += &slice(1, "ask", 0, 100);
    events += &slice(2, "answer", 300, 100);
    events += "{\"ph\":\"s\",\"pid\":1,\"tid\":1,\"id\":7,\"cat\":\"f\",\"name\":\"f\",\"ts\":10},\
               {\"ph\":\"f\",\"bp\":\"e\",\"pid\":1,\"tid\":2,\"id\":7,\"cat\":\"f\",\"name\":\"f\",\"ts\":310},";
    let view = json(&events);
    let all = view.summary(0.0, 1e9, None);
    let counters = all["counters"].as_array().expect("counters");
    let named = |name: &str| {
        counters
            .iter()
            .find(|it| it["name"].as_str().is_some_and(|it| it.starts_with(name)))
            .expect("counter")
    };
    assert_eq!(named("sent")["rate"].as_f64(), Some(500.0));
    assert_eq!(named("queue")["rate"], Value::Null);
    let process = named("sent")["process"].as_str().expect("process");
    assert!(process.ends_with('1'), "{process}");
    let flow = &all["flows"][0];
    assert_eq!(
        (&flow["direction"], &flow["from"], &flow["to"]),
        (&value!("within"), &value!("ask"), &value!("answer"))
    );
    assert_eq!(
        (&flow["count"], &flow["mean"]),
        (&value!(1), &value!(300_000.0))
    );
    let first = view.summary(0.0, 200e3, None);
    assert_eq!(first["flows"][0]["direction"], "out");
    let last = view.summary(200e3, 1e9, None);
    assert_eq!(last["flows"][0]["direction"], "in");
}

#[test]
fn a_search_takes_expressions_and_has_the_density_of_matches() {
    let names = ["read file", "write file", "Read socket"];
    let slices = names.iter().enumerate();
    let view = json(
        &slices
            .map(|(n, name)| slice(1, name, n as u64 * 100, 50))
            .collect::<String>(),
    );
    let search = |text: &str| Frame::read(&view.search(text, SearchIn::All, 100).expect("valid"));
    let found = search("/^read (file|socket)$/");
    assert_eq!(found.texts("name"), ["read file", "Read socket"]);
    let density = found.column("density");
    assert_eq!(density.len(), 800);
    assert_eq!(density.iter().filter(|share| **share > 0.0).count(), 2);
    assert_eq!(density[0], 255.0);
    assert_eq!(
        search("at=/^[12]00$/").texts("name"),
        ["write file", "Read socket"]
    );
    assert_eq!(search("/file").header["total"], 0);
    let error = view.search("/(/", SearchIn::All, 1).expect_err("invalid");
    assert!(
        error
            .to_string()
            .starts_with("/(/ is not a valid regular expression: "),
        "{error}"
    );
}

#[test]
fn processes_have_parents_and_cpu_time() {
    let view = of_a_command(true);
    let frame = Frame::read(&view.index(Circumstances::default()));
    let process = |name| frame.node(2, name) as usize;
    assert_eq!(frame.column("above")[process("work")], process("sh") as f64);
    assert_eq!(frame.column("above")[process("sh")], -1.0);
    assert_eq!(frame.column("cpu")[process("work")], 200.0);
}

#[test]
fn processes_are_found_by_their_container() {
    let view = of_a_command(false);
    let frame = Frame::read(&view.index(Circumstances::default()));
    let nodes = [frame.node(4, "docker 0123456789ab"), frame.node(2, "work")];
    let found = view.search("docker 0123456789ab", SearchIn::All, 10);
    let found = Frame::read(&found.expect("valid"));
    assert_eq!(found.header["nodes"], value!(nodes));
}

#[test]
fn disks_come_first() {
    let view = disk_request(1000, 3000);
    let frame = Frame::read(&view.index(Circumstances::default()));
    let subjects = frame.column("subject");
    let first = subjects.iter().position(|subject| *subject == 1.0);
    assert_eq!((first, frame.column("kind")[1]), (Some(1), 5.0));
}

#[test]
fn the_load_of_a_process_is_the_share_of_its_cpus() {
    // Two threads of a process on two CPUs; one of them runs all the time.
    let line = |cpu: u32, at: &str, prev: &str, next: &str| {
        let [prev, next] = [prev, next].map(|it| it.split_once('-').expect("name and number"));
        format!(
            "{}-{} ({}) [00{cpu}] d..2 {at}: sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state=S ==> next_comm={} next_pid={} next_prio=120\n",
            prev.0,
            prev.1,
            if prev.1 == "0" { "-----" } else { "   70" },
            prev.0,
            prev.1,
            next.0,
            next.1
        )
    };
    let mut text = "# tracer: nop\n".to_owned();
    text += &line(0, "1.000000", "swapper/0-0", "long-70");
    text += &line(1, "1.000000", "swapper/1-0", "short-71");
    text += &line(1, "1.500000", "short-71", "swapper/1-0");
    text += &line(1, "1.800000", "swapper/1-0", "short-71");
    text += &line(1, "2.000000", "short-71", "swapper/1-0");
    text += &line(0, "2.000000", "long-70", "swapper/0-0");
    let view = view(text.as_bytes());
    let frame = Frame::read(&view.index(Circumstances::default()));
    let node = frame.node(2, "*");
    let load = |from: f64, to: f64| {
        let window = Window {
            from,
            to,
            level: 20,
        };
        let tiles = Frame::read(&view.tiles(&[node], window));
        let load = tiles.column("load").to_vec();
        load[load.len() / 2]
    };
    // Also where the only event in sight is one that began long before.
    assert_eq!(load(100e6, 400e6), 255.0);
    assert_eq!(load(550e6, 750e6), 128.0);
}
