//! A trace and its page as one file.

use std::io::Read;

use crate::common::{Frame, SCHED, json, slice, view, wakings};
use ferretto_view::{Export, View};

fn page(export: &Export) -> String {
    let mut page = Vec::new();
    export.write(&mut page).expect("memory");
    assert_eq!(page.len() as u64, export.size());
    String::from_utf8(page).expect("text")
}

fn frames(page: &str) -> Vec<(String, Frame)> {
    let begin = "<script type=\"text/plain\" class=\"ferretto-frame\" data-kind=\"";
    let parts = page.split(begin).skip(1);
    parts
        .map(|part| {
            let (kind, rest) = part.split_once("\">").expect("kind");
            let (text, _) = rest.split_once("</script>").expect("end");
            let packed = decode(text);
            let mut frame = Vec::new();
            flate2::read::GzDecoder::new(&packed[..])
                .read_to_end(&mut frame)
                .expect("gzip");
            (kind.to_owned(), Frame::read(&frame))
        })
        .collect()
}

fn decode(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("{byte} is no digit"),
    };
    let digits = text.trim_end_matches('=').bytes().map(digit);
    let (mut bytes, mut word, mut bits) = (Vec::new(), 0_u32, 0);
    for digit in digits {
        word = word << 6 | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
        }
    }
    bytes
}

fn many(count: u64) -> View {
    let mut events = String::new();
    let mut state = 1_u32;
    for n in 0..count {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let dur = 1 + u64::from(state >> 16) % 150;
        events += &slice((n % 5) as u32 + 1, &format!("name {}", n % 13), n * 31, dur);
    }
    json(&events)
}

#[test]
fn an_export_has_all_rows_of_the_trace() {
    let view = many(3000);
    let export = Export::new(&view, u64::MAX, 2).expect("export");
    assert_eq!(export.left_out(), None);
    let frames = frames(&page(&export));
    assert_eq!(frames[0].0, "trace");
    let slices = &frames
        .iter()
        .find(|(kind, _)| kind == "slices")
        .expect("slices")
        .1;
    assert_eq!(slices.column("start").len(), 3000);
    assert_eq!(slices.column("rows").iter().sum::<f64>(), 3000.0);
    let args = &frames
        .iter()
        .find(|(kind, _)| kind == "args")
        .expect("args")
        .1;
    let row = slices
        .column("start")
        .iter()
        .position(|start| *start == 62_000.0)
        .expect("row");
    let set = slices.column("args")[row];
    let at = args
        .column("set")
        .iter()
        .position(|known| *known == set)
        .expect("set");
    assert_eq!(
        (args.texts("key")[at], args.texts("value")[at]),
        ("args.at", "62")
    );
}

#[test]
fn an_export_of_scheduling_has_the_threads_that_wake() {
    let export = Export::new(&view(SCHED.as_bytes()), u64::MAX, 1).expect("export");
    let frames = frames(&page(&export));
    let of = |wanted: &str| {
        &frames
            .iter()
            .find(|(kind, _)| kind == wanted)
            .expect(wanted)
            .1
    };
    assert_eq!(of("sched").column("start"), [0.0, 2e6, 5e6]);
    let events = Export::new(&wakings(&[1000, 2000]), u64::MAX, 1).expect("export");
    let events = self::frames(&page(&events));
    let logs = &events
        .iter()
        .find(|(kind, _)| kind == "logs")
        .expect("logs")
        .1;
    assert_eq!(logs.texts("name"), ["sched_waking"; 2]);
    let states = of("states");
    let woken = states
        .column("waker")
        .iter()
        .position(|waker| *waker != f64::from(u32::MAX));
    let waker = states.column("waker_state")[woken.expect("woken")] as usize;
    assert_eq!(states.texts("state")[waker], "Running");
}

#[test]
fn an_export_keeps_its_size_limit_and_lists_missing_parts() {
    let view = many(6000);
    let whole = Export::new(&view, u64::MAX, 2).expect("export").size();
    let empty = Export::new(&json(""), u64::MAX, 1).expect("export").size();
    let bound = empty + (whole - empty) / 8;
    let export = Export::new(&view, bound, 2).expect("export");
    assert!(export.size() <= bound);
    assert!(
        export.size() > bound / 4 * 3,
        "{} of {bound}",
        export.size()
    );
    let sentence = export.left_out().expect("sentence").to_owned();
    assert!(sentence.contains("arguments") && sentence.contains("begin after the first"));
    let frames = frames(&page(&export));
    let trace = &frames[0].1;
    assert_eq!(trace.header["left_out"], sentence.as_str());
    assert_eq!(trace.header["losses"].as_array().unwrap().len(), 1);
    let slices = &frames
        .iter()
        .find(|(kind, _)| kind == "slices")
        .expect("slices")
        .1;
    assert!((100..5500).contains(&slices.column("start").len()));
    let error = Export::new(&view, 1000, 2).expect_err("too small");
    assert!(error.to_string().contains("--max-size"));
}

#[test]
fn texts_of_a_trace_are_not_markup() {
    let export = Export::new(
        &json(&slice(1, "</script><script>alert(1)", 0, 5)),
        u64::MAX,
        1,
    );
    let export = export.expect("export");
    assert!(!page(&export).contains("alert(1)"));
}
