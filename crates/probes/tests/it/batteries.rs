//! Tests of batteries with a simulated `/sys`.

use std::path::Path;

use crate::common::Packets;
use ferretto_probes::{Batteries, DataSource};
use ferretto_proto::fields::{battery_counters as field, trace_packet};
use ferretto_wire::{Fields, Value};

fn supply(root: &Path, name: &str, files: &[(&str, &str)]) {
    let folder = root.join("sys/class/power_supply").join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    for (file, text) in files {
        std::fs::write(folder.join(file), format!("{text}\n")).expect("written");
    }
}

/// The counters of a battery: name, integers by field number, percentage.
#[derive(Debug, Default, PartialEq)]
struct Counters {
    name: Option<String>,
    numbers: Vec<(u32, i64)>,
    percent: Option<f32>,
}

impl Counters {
    fn parse(message: &[u8]) -> Self {
        let mut counters = Self::default();
        for it in Fields::new(message).map(|it| it.expect("a field")) {
            match it.value {
                Value::Varint(value) => counters.numbers.push((it.number, value as i64)),
                Value::Fixed32(bits) => {
                    assert_eq!(it.number, field::CAPACITY_PERCENT);
                    counters.percent = Some(f32::from_bits(bits));
                }
                _ => {
                    assert_eq!(it.number, field::NAME);
                    let name = it.as_bytes().expect("text").to_vec();
                    counters.name = String::from_utf8(name).ok();
                }
            }
        }
        counters.numbers.sort();
        counters
    }
}

fn poll(root: &Path) -> Vec<Counters> {
    let packets = Packets::default();
    let mut batteries = Batteries::with_root(root, Box::new(packets.clone()));
    batteries.poll();
    let counters = packets.raw().into_iter().map(|packet| {
        assert!(Fields::find(trace_packet::TIMESTAMP, &packet).is_some());
        let battery = Fields::find(trace_packet::BATTERY, &packet).expect("a battery");
        Counters::parse(battery.as_bytes().expect("a message"))
    });
    counters.collect()
}

const BATTERY: [(&str, &str); 8] = [
    ("type", "Battery"),
    ("present", "1"),
    ("charge_now", "2600000"),
    ("capacity", "52"),
    ("current_now", "-410000"),
    ("current_avg", "-390000"),
    ("energy_now", "29000000"),
    ("voltage_now", "11400000"),
];

fn full() -> Counters {
    Counters {
        name: None,
        numbers: vec![
            (field::CHARGE_COUNTER_UAH, 2_600_000),
            (field::CURRENT_UA, -410_000),
            (field::CURRENT_AVG_UA, -390_000),
            (field::ENERGY_COUNTER_UWH, 29_000_000),
            (field::VOLTAGE_UV, 11_400_000),
        ],
        percent: Some(52.0),
    }
}

#[test]
fn probes_068_without_a_battery_nothing_is_written() {
    let root = tempfile::tempdir().expect("a folder");
    assert!(poll(root.path()).is_empty(), "no power supplies at all");
    supply(root.path(), "AC", &[("type", "Mains"), ("online", "1")]);
    supply(
        root.path(),
        "BAT1",
        &[("type", "Battery"), ("present", "0")],
    );
    supply(root.path(), "BAT2", &[("type", "Battery")]);
    assert!(poll(root.path()).is_empty());
    let batteries = Batteries::with_root(root.path(), Box::new(Packets::default()));
    assert_eq!(batteries.poll_period_ms(), None);
}

#[test]
fn one_battery_has_all_its_counters_and_no_name() {
    let root = tempfile::tempdir().expect("a folder");
    supply(root.path(), "AC", &[("type", "Mains"), ("present", "1")]);
    supply(root.path(), "BAT0", &BATTERY);
    assert_eq!(poll(root.path()), [full()]);
    let batteries = Batteries::with_root(root.path(), Box::new(Packets::default()));
    assert_eq!(batteries.poll_period_ms(), Some(1000));
}

#[test]
fn several_batteries_have_names_and_unreadable_counters_are_omitted() {
    let root = tempfile::tempdir().expect("a folder");
    supply(root.path(), "BAT1", &BATTERY);
    let odd = [
        ("type", "Battery"),
        ("present", "1"),
        ("charge_now", "much"),
        ("capacity", "300"),
        ("voltage_now", "7"),
    ];
    supply(root.path(), "BAT0", &odd);
    let low = Counters {
        name: Some("BAT0".to_owned()),
        numbers: vec![(field::VOLTAGE_UV, 7)],
        percent: None,
    };
    let full = Counters {
        name: Some("BAT1".to_owned()),
        ..full()
    };
    assert_eq!(poll(root.path()), [low, full]);
}
