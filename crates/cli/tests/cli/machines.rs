//! Three machines: a service and two others, each in its own network and with its own clock offset.

use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::world::{FERRETTO, Running, World, until};

/// The seconds by which the clocks of the other machines are ahead.
const AHEAD: [(&str, i64); 2] = [("alpha", 5_000), ("beta", 86_400)];

fn succeeds(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    let command = command
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Networks of machines, which are removed at the end of the test.
struct Networks {
    names: Vec<String>,
}

impl Networks {
    /// Creates a network for the host, and one for each other machine, connected only to the host.
    fn new() -> Option<Self> {
        let pid = std::process::id();
        let named = |role: &str| format!("ferretto-{pid}-{role}");
        let mut networks = Self { names: Vec::new() };
        for role in ["host", "alpha", "beta"] {
            if !succeeds("ip", &["netns", "add", &named(role)]) {
                return None;
            }
            networks.names.push(named(role));
            let up = ["-n", &named(role), "link", "set", "lo", "up"];
            succeeds("ip", &up).then_some(())?;
        }
        for (index, (role, _)) in AHEAD.iter().enumerate() {
            let here = format!("fh{index}p{pid}");
            let (host, there) = (named("host"), named(role));
            let add = [
                "-n", &host, "link", "add", &here, "type", "veth", "peer", "name",
            ];
            let add = [&add[..], &["eth0", "netns", &there]].concat();
            succeeds("ip", &add).then_some(())?;
            let address = |ns: &str, device: &str, last: u8| {
                let address = format!("10.99.{index}.{last}/24");
                succeeds("ip", &["-n", ns, "addr", "add", &address, "dev", device])
                    && succeeds("ip", &["-n", ns, "link", "set", device, "up"])
            };
            (address(&host, &here, 1) && address(&there, "eth0", 2)).then_some(())?;
        }
        Some(networks)
    }

    fn of(&self, role: &str) -> &str {
        let found = self.names.iter().find(|name| name.ends_with(role));
        found.unwrap()
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for name in &self.names {
            succeeds("ip", &["netns", "del", name]);
        }
    }
}

/// Starts a program of the binary in a network with clocks that are ahead, and waits until it is
/// ready.
fn start_in(world: &World, network: &str, ahead: i64, program: &str, args: &[&str]) -> Running {
    let variable = format!("{}_NOTIFY_FD", program.to_uppercase());
    let mut command = Command::new("ip");
    command.args(["netns", "exec", network]);
    if ahead != 0 {
        let ahead = ahead.to_string();
        command.args([
            "unshare",
            "--time",
            "--boottime",
            &ahead,
            "--monotonic",
            &ahead,
        ]);
    }
    command
        .args(["sh", "-c", "exec \"$0\" \"$@\" 9>&1 >/dev/null"])
        .args([FERRETTO, program])
        .args(args);
    let mut command = world.at_home(command);
    let mut running = Running::new(command.env(variable, "9").spawn().unwrap());
    running.wait_for("1");
    running
}

/// Returns the bytes in the buffers of the running recording.
fn bytes_recorded(host: &World) -> u64 {
    let output = host.run("ferretto", &["status", "--json"]).returned(0);
    let text = output.text().split("\"used_bytes\":").nth(1).unwrap_or("0");
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[test]
fn machines_with_other_clocks_share_a_time_line_within_the_reported_error() {
    if !succeeds("unshare", &["--time", "--boottime", "1", "true"]) {
        println!("skipped: time namespaces are not available");
        return;
    }
    let Some(networks) = Networks::new() else {
        println!("skipped: network namespaces are not available");
        return;
    };
    // A link with delays, jitter and losses, if the kernel supports that.
    let beta = networks.of("beta");
    let slow = ["netem", "delay", "10ms", "4ms", "loss", "1%"];
    let slow = [
        &["-n", beta, "qdisc", "add", "dev", "eth0", "root"],
        &slow[..],
    ]
    .concat();
    if !succeeds("tc", &slow) {
        println!("skipped: slow links: netem is not available");
    }
    let mut host = World::new();
    let producers = format!("{},0.0.0.0:20001", host.path("producer.sock").display());
    host.set("PERFETTO_PRODUCER_SOCK_NAME", &producers);
    let args = [
        "--enable-relay-endpoint-on",
        "0.0.0.0:20001",
        "--allow-host",
        "10.99.0.0/16",
    ];
    let mut all = vec![start_in(&host, networks.of("host"), 0, "traced", &args)];
    let mut guests = Vec::new();
    for (index, (name, ahead)) in AHEAD.into_iter().enumerate() {
        let mut guest = World::new();
        guest.set(
            "PERFETTO_RELAY_SOCK_NAME",
            &format!("10.99.{index}.1:20001"),
        );
        guest.set("PERFETTO_MACHINE_NAME", name);
        // The machines share a kernel.
        guest.set("FERRETTO_MACHINE_ID", name);
        all.push(start_in(
            &guest,
            networks.of(name),
            ahead,
            "traced_relay",
            &[],
        ));
        all.push(start_in(
            &guest,
            networks.of(name),
            ahead,
            "traced_probes",
            &[],
        ));
        guests.push(guest);
    }
    until("both clocks are known", || {
        let output = host.run("ferretto", &["status"]).returned(0);
        (output.text().matches("by network, clock ").count() == 2
            && output.text().matches("known to").count() == 2)
            .then_some(())
    });
    host.write(
        "config",
        "buffers { size_kb: 16384 } trace_all_machines: true\n\
         data_sources { config { name: \"linux.sys_stats\" sys_stats_config { stat_period_ms: 20 } } }",
    );
    let recording = host.start_recording(&["-o", "trace.pftrace"]);
    // One machine is disconnected for some time.
    let cut = |state: &str| {
        assert!(succeeds("ip", &["-n", beta, "link", "set", "eth0", state]));
    };
    let mut recorded = 0;
    let mut records_on = || {
        recorded = until("more is recorded", || {
            let used = bytes_recorded(&host);
            (used > recorded + 4000).then_some(used)
        });
    };
    records_on();
    cut("down");
    records_on();
    cut("up");
    records_on();
    // The relay of the other machine is killed, and started again.
    let relay = all.remove(1);
    relay.signal(Signal::KILL);
    relay.finish().returned(128 + 9);
    let (name, ahead) = AHEAD[0];
    let again = start_in(&guests[0], networks.of(name), ahead, "traced_relay", &[]);
    all.insert(1, again);
    until("its producers are back", || {
        let output = host.run("ferretto", &["status"]).returned(0);
        let (_, of_machine) = output.text().split_once("machine alpha")?;
        let of_machine = of_machine.split("\nmachine ").next()?;
        let is_back = of_machine.contains("known to") && of_machine.contains("traced_probes");
        is_back.then_some(())
    });
    records_on();
    recording.signal(Signal::INT);
    recording.finish().returned(0);
    let summary = host.summary("trace.pftrace");
    assert_eq!(summary.machines.len(), 2, "{:?}", summary.machines);
    for (name, ahead) in AHEAD {
        let machine = summary.machines.iter().find(|m| m.name == name);
        let machine = machine.unwrap_or_else(|| panic!("{:?}", summary.machines));
        assert!(machine.packets >= 10, "{machine:?}");
        if name == "beta" {
            // Packets that were read while the link was down arrive later; none is missing.
            assert_eq!(machine.gaps, 0, "{machine:?}");
        }
        let clock = machine.clock.unwrap();
        let wrong = clock.offset_ns.abs_diff(ahead * 1_000_000_000);
        assert!(wrong <= clock.error_ns, "{machine:?} is wrong by {wrong}");
        assert!(clock.error_ns < 100_000_000, "{machine:?}");
    }
    for running in all.into_iter().rev() {
        running.signal(Signal::TERM);
        running.finish().returned(0);
    }
}
