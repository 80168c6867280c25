//! Tests of `#[derive(ferretto::Argument)]`.
#![cfg(feature = "macros")]

use std::fmt;

use ferretto::Argument;
use ferretto_testing::sdk::events::record;

#[derive(Argument)]
struct Request<'a, T, U: fmt::Debug, const N: usize>
where
    U: Copy,
{
    id: u64,
    #[argument(rename = "request path")]
    path: &'a str,
    #[argument(skip)]
    _secret: fn(),
    #[argument(with = debug)]
    kind: U,
    #[argument(with = display)]
    address: Address,
    items: [T; N],
    r#type: Kind,
    next: Option<Box<Self>>,
}

struct Address;

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("here")
    }
}

#[derive(Argument)]
enum Kind {
    Plain,
    #[argument(rename = "with id")]
    WithId(u32),
    Pair(u8, #[argument(with = debug)] Option<()>),
    Named {
        x: i8,
        #[argument(skip)]
        _y: Address,
    },
}

#[derive(Argument)]
#[allow(dead_code)]
enum Never {}

#[derive(Argument)]
struct Meters(f64);

#[derive(Argument)]
struct Point<T>(T, #[argument(skip)] (), T);

#[derive(Argument)]
#[argument(rename = "nothing")]
struct Unit;

#[derive(Argument)]
struct Empty {}

/// A type parameter that needs only the bounds of its field.
#[derive(Argument)]
struct Shown<T>(#[argument(with = display)] T);

// One test, since a process has one connection.
#[test]
fn structs_and_enums_are_recorded_by_their_structure() {
    ferretto_testing::own_process!();
    let decoded = record(None, || {
        let request = |next| Request {
            id: 1,
            path: "/",
            _secret: || (),
            kind: 'k',
            address: Address,
            items: [true, false],
            r#type: Kind::WithId(3),
            next,
        };
        let request = request(Some(Box::new(request(None))));
        ferretto::instant!("derive", "struct", request = request);
        ferretto::instant!(
            "derive",
            "enum",
            plain = Kind::Plain,
            pair = Kind::Pair(1, None),
            named = Kind::Named { x: -1, _y: Address }
        );
        ferretto::instant!(
            "derive",
            "small",
            meters = Meters(0.5),
            point = Point("a", (), "b"),
            unit = Unit,
            empty = Empty {},
            shown = Shown(Address)
        );
    });
    let request = |next: &str| {
        format!(
            "{{id=u1 request path=\"/\" kind=\"'k'\" address=\"here\" items=[true false] \
             type={{with id=u3}} next={next}}}"
        )
    };
    assert_eq!(
        decoded.lines(),
        [
            format!("I derive struct request={}", request(&request(""))),
            "I derive enum plain=\"Plain\" pair={Pair=[u1 \"None\"]} named={Named={x=i-1}}"
                .to_owned(),
            "I derive small meters=d0.5 point=[\"a\" \"b\"] unit=\"nothing\" empty= shown=\"here\""
                .to_owned(),
        ]
    );
}
