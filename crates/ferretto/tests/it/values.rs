//! Tests of the types of arguments and their recorded values.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::{NonZeroU8, Wrapping};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::time::{Duration, Instant, SystemTime};

use ferretto::Category;
use ferretto::track_event::{Annotation, Argument};
use ferretto_testing::sdk::events::Recorder;

static VALUES: Category = Category::new("values");

/// Returns the recorded form of a value.
fn written(recorder: &mut Recorder, value: &dyn Argument) -> String {
    let decoded = recorder.record(None, || {
        ferretto::instant!(VALUES, "value", key = value);
    });
    let (name, value) = &decoded.events[0].arguments[0];
    assert_eq!(name, "key");
    value.clone()
}

macro_rules! check {
    ($recorder:expr; $($value:expr => $expected:expr;)+) => {
        $(assert_eq!(written(&mut $recorder, &$value), $expected, "{}", stringify!($value));)+
    };
}

fn function(_: u8) {}

/// A value with any depth of nesting.
struct Nested(u32);

impl Argument for Nested {
    fn write(&self, annotation: &mut Annotation<'_>) {
        annotation.array(|array| {
            if self.0 > 0 {
                array.item(&Self(self.0 - 1));
            }
        });
    }
}

/// A message that viewers know.
struct Proto;

impl Argument for Proto {
    fn write(&self, annotation: &mut Annotation<'_>) {
        annotation.proto("perfetto.protos.LogMessage", |m| m.varint(3, 5));
    }
}

#[derive(Debug)]
struct Failure(std::num::ParseIntError);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no number")
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

// One test, since a process has one connection.
#[test]
fn trackevent_020_and_021_values_of_every_type_are_recorded() {
    ferretto_testing::own_process!();
    let mut recorder = Recorder::new();
    check!(recorder;
        i64::MIN => "i-9223372036854775808";
        -1i8 => "i-1";
        u64::MAX => "u18446744073709551615";
        i64::MAX as u64 + 1 => "u9223372036854775808";
        7u8 => "u7";
        usize::MAX => "u18446744073709551615";
        i128::from(i64::MIN) => "i-9223372036854775808";
        u128::MAX => "\"340282366920938463463374607431768211455\"";
        i128::MIN => "\"-170141183460469231731687303715884105728\"";
        true => "true";
        f64::NAN => "dNaN";
        f64::NEG_INFINITY => "d-inf";
        0.5f32 => "d0.5";
        NonZeroU8::MAX => "u255";
        Wrapping(3i16) => "i3";
        AtomicI32::new(-4) => "i-4";
    );
    check!(recorder;
        "" => "\"\"";
        "a\0b" => "\"a\\0b\"";
        "ž".to_owned() => "\"ž\"";
        'ž' => "\"ž\"";
        Cow::Borrowed("cow") => "\"cow\"";
        Box::<str>::from("boxed") => "\"boxed\"";
        Rc::new(String::from("counted")) => "\"counted\"";
        Arc::<str>::from("shared") => "\"shared\"";
        c"c\xff" => "\"c\u{fffd}\"";
        OsStr::new("os") => "\"os\"";
        Path::new("/tmp/x") => "\"/tmp/x\"";
        format_args!("{}-{}", 1, "x".repeat(200)) => format!("\"1-{}\"", "x".repeat(200));
        Ipv4Addr::LOCALHOST => "\"127.0.0.1\"";
        "[::1]:80".parse::<SocketAddr>().unwrap() => "\"[::1]:80\"";
        ferretto::display(1.5) => "\"1.5\"";
        ferretto::debug(Some("x")) => "\"Some(\\\"x\\\")\"";
    );
    let failure: Box<dyn std::error::Error> = Box::new(Failure("x".parse::<u8>().unwrap_err()));
    let kind = std::io::Error::other("lost");
    check!(recorder;
        failure => "\"no number: invalid digit found in string\"";
        kind => "\"lost\"";
        b"ab\xff\n".as_slice() => "\"ab\\\\xff\\\\n\"";
        vec![1u8, b'2'] => "\"\\\\x012\"";
        [b'x'; 3] => "\"xxx\"";
        ferretto::bytes("text") => "\"text\"";
    );
    let value = 5u32;
    let address = &raw const value;
    check!(recorder;
        address => format!("p{}", address.addr());
        std::ptr::null_mut::<u16>() => "p0";
        (function as fn(u8)) => format!("p{}", (function as fn(u8) as *const ()).addr());
    );
    check!(recorder;
        Some(3) => "i3";
        None::<u8> => "";
        () => "";
        Ok::<u8, u8>(1) => "{ok=u1}";
        Err::<u8, &str>("bad") => "{err=\"bad\"}";
        [1, 2] => "[i1 i2]";
        vec![Some(1), None, Some(3)] => "[i1 \"None\" i3]";
        Vec::<u32>::new() => "";
        VecDeque::from([true]) => "[true]";
        BTreeSet::from(["b", "a"]) => "[\"a\" \"b\"]";
        (1u8, "two", [3.0]) => "[u1 \"two\" [d3]]";
        BTreeMap::from([("x", vec![1, 2]), ("y", vec![])]) => "{x=[i1 i2] y=}";
        BTreeMap::<u8, u8>::new() => "";
        BTreeMap::from([(-1, BTreeMap::from([('k', "v")]))]) => "{-1={k=\"v\"}}";
        HashMap::from([(String::from("only"), 1u16)]) => "{only=u1}";
        Duration::from_millis(2) => "u2000000";
        SystemTime::UNIX_EPOCH + Duration::from_nanos(1) => "\"1970-01-01T00:00:00.000000001Z\"";
        Nested(2) => "[[\"None\"]]";
        Nested(100) => format!("{}\"…\"{}", "[".repeat(16), "]".repeat(16));
        Proto => "perfetto.protos.LogMessage<[18, 05]>";
    );

    // Instants use the clock of the recording.
    let read = |text: String| text.strip_prefix('u').unwrap().parse::<u64>().unwrap();
    let before = Instant::now();
    let times =
        [before, before + Duration::from_secs(60)].map(|time| read(written(&mut recorder, &time)));
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let uptime: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
    let uptime = (uptime * 1e9) as u64;
    assert!(times[0] < uptime + 10_000_000 && times[1] > times[0] + 59_000_000_000);

    // Values are evaluated only while a recording runs.
    let count = Cell::new(0);
    let value = || {
        count.set(count.get() + 1);
        1
    };
    ferretto::instant!(VALUES, "value", key = value());
    assert_eq!(count.get(), 0);
    recorder.record(None, || ferretto::instant!(VALUES, "value", key = value()));
    assert_eq!(count.get(), 1);
}
