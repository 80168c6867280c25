//! Arguments through `serde`.
#![cfg(feature = "serde")]

use std::collections::BTreeMap;

use ferretto_testing::sdk::events::record;
use serde::{Serialize, Serializer};

#[derive(Serialize)]
struct Config<'a> {
    name: &'a str,
    limits: Vec<u64>,
    pair: (i8, f32),
    nothing: Option<u8>,
    unit: (),
    modes: Vec<Mode>,
    names: BTreeMap<i32, char>,
    by_mode: BTreeMap<Simple, bool>,
}

#[derive(Serialize)]
enum Mode {
    Plain,
    Number(u8),
    Two(u8, Option<u8>),
    Named { x: u8, y: &'static str },
}

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
enum Simple {
    On,
}

/// A value whose serialization fails in the middle.
struct Failing;

impl Serialize for Failing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::{Error, SerializeStructVariant};

        let mut fields = serializer.serialize_struct_variant("Failing", 0, "Variant", 2)?;
        fields.serialize_field("first", &1)?;
        Err(S::Error::custom("no second"))
    }
}

/// Nested maps.
struct Deep(u32);

impl Serialize for Deep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            0 => serializer.serialize_bool(true),
            depth => serializer.collect_seq([Self(depth - 1)]),
        }
    }
}

// One test, since a process has one connection.
#[test]
fn serde_values_are_recorded() {
    ferretto_testing::own_process!();
    let config = Config {
        name: "x",
        limits: vec![1, 2],
        pair: (-1, 0.5),
        nothing: None,
        unit: (),
        modes: vec![
            Mode::Plain,
            Mode::Number(3),
            Mode::Two(4, None),
            Mode::Named { x: 5, y: "z" },
        ],
        names: BTreeMap::from([(-7, 'c')]),
        by_mode: BTreeMap::from([(Simple::On, true)]),
    };
    let maps_as_keys = BTreeMap::from([(vec![1], 1)]);
    let decoded = record(None, || {
        ferretto::instant!("serde", "struct", config = ferretto::serde(&config));
        ferretto::instant!(
            "serde",
            "odd",
            failing = ferretto::serde(Failing),
            keys = ferretto::serde(&maps_as_keys),
            after = 1,
        );
        ferretto::instant!("serde", "deep", deep = ferretto::serde(Deep(100)));
    });
    let deep = format!("{}\"…\"{}", "[".repeat(16), "]".repeat(16));
    let expected = [
        "I serde struct config={name=\"x\" limits=[u1 u2] pair=[i-1 d0.5] nothing= unit= \
         modes=[\"Plain\" {Number=u3} {Two=[u4 \"None\"]} {Named={x=u5 y=\"z\"}}] \
         names={-7=\"c\"} by_mode={On=true}}",
        "I serde odd failing={Variant={first=i1}} keys= after=i1",
        &format!("I serde deep deep={deep}"),
    ];
    assert_eq!(decoded.lines(), expected);
}
