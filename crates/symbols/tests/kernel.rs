//! The kernel's symbols: golden texts, lists that hide addresses, and the running kernel's list.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Cursor, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use ferretto_symbols::kernel::ParseError;
use ferretto_symbols::{KernelSymbols, LoadError};

fn parse(text: &str) -> KernelSymbols {
    KernelSymbols::parse(text.as_bytes()).expect("a text of symbols")
}

const TEXT: &str = "\
0000000000000000 A fixed_percpu_data
0000000000001000 D cpu_info
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81001000 t handler.cfi
ffffffff81001800 t $x.12
ffffffff81002000 t jumps.cfi_jt
ffffffff81003000 D data
ffffffff81003100 W weak
ffffffffc0001000 t in_module\t[mod_a]
ffffffffc0002000 t also\t[mod_b]
ffffffffc0001800 t in_module_too\t[mod_a]
ffffffffc0009000 t bpf_prog_1\t[bpf]
";

#[test]
fn perf_046_functions_are_found_by_any_address_inside() {
    let symbols = parse(TEXT);
    assert_eq!(symbols.len(), 7);
    let name = |address| symbols.lookup(address);
    assert_eq!(name(0xffffffff81000fff).as_deref(), Some("_stext"));
    assert_eq!(name(0xffffffff81001000).as_deref(), Some("handler"));
    // Mapping symbols, data and weak symbols are not functions.
    assert_eq!(name(0xffffffff81001801).as_deref(), Some("handler"));
    assert_eq!(name(0xffffffff81003101).as_deref(), Some("jumps"));
    assert_eq!(name(0xffffffff80ffffff), None, "below the first");
    assert_eq!(name(0), None);
    // A distance of exactly 1 MiB is still inside.
    assert_eq!(name(0xffffffff81102000).as_deref(), Some("jumps"));
    assert_eq!(name(0xffffffff81102001), None);
    assert_eq!(name(u64::MAX), None);
}

#[test]
fn perf_046_an_address_with_several_names_gets_the_first() {
    for names in [
        ["_stext", "_text", "startup"],
        ["startup", "_text", "_stext"],
    ] {
        let text: String = names
            .iter()
            .map(|name| format!("ffffffff81000000 T {name}\n"))
            .collect();
        // Other lines in between must not change the order of equal addresses.
        let text = format!("ffffffff81000100 T later\n{text}ffffffff80000000 T first\n");
        assert_eq!(
            parse(&text).lookup(0xffffffff81000001).as_deref(),
            Some(names[0])
        );
    }
}

#[test]
fn perf_046_names_of_any_length_and_form_are_kept_whole() {
    let rust = format!("_RNvMs_NtNt{}_6kernel4sync", "x".repeat(400));
    let odd = ["_", "__", "a_", "_a", "___a__b___", "x", "ünï", &rust];
    let text: String = (0u64..)
        .zip(odd)
        .map(|(index, name)| format!("{:016x} t {name}\n", 0xffffffff81000000 + index * 16))
        .collect();
    let symbols = parse(&text);
    for (index, name) in (0u64..).zip(odd) {
        assert_eq!(
            symbols.lookup(0xffffffff81000000 + index * 16).as_deref(),
            Some(name)
        );
    }
}

#[test]
fn perf_046_symbols_may_lie_further_apart_than_4_gib() {
    let symbols = parse("10000000 T low\nffff000010000000 T high\n");
    assert_eq!(symbols.lookup(0x10000010).as_deref(), Some("low"));
    assert_eq!(symbols.lookup(0xffff000010000010).as_deref(), Some("high"));
    assert_eq!(symbols.lookup(0x110000010), None);
}

#[test]
fn perf_046_lines_that_are_not_symbols_are_an_error() {
    let error = |text: &str| KernelSymbols::parse(text.as_bytes()).map(|table| table.len());
    for bad in [
        "FFFF0000 T upper\n",
        "hello\n",
        " 1000 T blank\n",
        "1000",
        "11112222333344445 T wide\n",
    ] {
        let text = format!("1000 T good\n{bad}");
        assert_eq!(error(&text), Err(ParseError { line: 2 }), "{bad:?}");
    }
    // A NUL in place of an address ends the list.
    assert_eq!(error("1000 T good\n\0\0\0\0\nFFFF T upper\n"), Ok(1));
    // Lines that end after the address describe no function.
    assert_eq!(error("1000 \n1000 T\n1000 T \n\n2000 T good"), Ok(1));
}

#[test]
fn perf_046_modules_of_functions_are_known() {
    let symbols = parse(TEXT);
    let module = |address| symbols.find(address).map(|found| found.module());
    assert_eq!(module(0xffffffff81000010), Some(None));
    assert_eq!(module(0xffffffffc0001010), Some(Some("mod_a")));
    assert_eq!(module(0xffffffffc0001810), Some(Some("mod_a")));
    assert_eq!(module(0xffffffffc0002010), Some(Some("mod_b")));
    assert_eq!(module(0xffffffffc0009010), Some(Some("bpf")));
    let found = symbols.find(0xffffffffc0001810).expect("a function");
    assert_eq!(
        (found.name().as_str(), found.address()),
        ("in_module_too", 0xffffffffc0001800)
    );
    assert_ne!(
        symbols
            .find(0xffffffffc0001010)
            .expect("a function")
            .index(),
        found.index()
    );
}

/// Returns a list that shows addresses while the setting in the file is at most `permitted`.
fn list(setting: &Path, permitted: u8) -> impl FnMut() -> io::Result<Cursor<Vec<u8>>> {
    let setting = setting.to_owned();
    move || {
        let value: u8 = fs::read_to_string(&setting)?
            .trim()
            .parse()
            .expect("a number");
        let shown = TEXT.to_owned();
        let hidden: String = TEXT
            .lines()
            .map(|line| format!("0000000000000000{}\n", &line[16..]))
            .collect();
        Ok(Cursor::new(
            if value <= permitted { shown } else { hidden }.into_bytes(),
        ))
    }
}

fn setting(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), text).expect("a setting");
    file
}

#[test]
fn perf_046_a_setting_that_hides_addresses_is_lowered_and_restored() {
    for before in ["0\n", "1\n", "2\n"] {
        let file = setting(before);
        let symbols = KernelSymbols::load_with(file.path(), list(file.path(), 1)).expect("symbols");
        assert_eq!(symbols.len(), 7);
        assert_eq!(fs::read_to_string(file.path()).unwrap(), before);
    }
}

#[test]
fn perf_046_a_list_opened_with_privileges_shows_addresses_without() {
    for before in ["0\n", "1\n", "2\n"] {
        let file = setting(before);
        let mut opened =
            KernelSymbols::open_with(file.path(), list(file.path(), 1)).expect("a list");
        assert_eq!(fs::read_to_string(file.path()).unwrap(), before);
        let mut text = String::new();
        opened.read_to_string(&mut text).expect("text");
        assert_eq!(text, TEXT);
    }
    // The running kernel's list can be read more than once.
    let list = KernelSymbols::open().expect("a list");
    let symbols = || KernelSymbols::load_from(&list);
    match (symbols(), symbols()) {
        (Ok(first), Ok(second)) => assert_eq!(first.len(), second.len()),
        (Err(error), _) | (_, Err(error)) => println!("skipped: {error}"),
    }
}

#[test]
fn perf_046_the_setting_is_never_lowered_to_zero() {
    let file = setting("2\n");
    let seen = RefCell::new(Vec::new());
    let mut list = list(file.path(), 0);
    let error = KernelSymbols::load_with(file.path(), || {
        seen.borrow_mut()
            .push(fs::read_to_string(file.path())?.trim().to_owned());
        list()
    })
    .expect_err("hidden");
    assert!(
        matches!(&error, LoadError::Restricted(why) if why.kptr_restrict == Some(2)),
        "{error}"
    );
    assert!(seen.borrow().contains(&"1".to_owned()));
    assert!(!seen.borrow().contains(&"0".to_owned()), "{seen:?}");
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "2\n");
}

#[test]
fn perf_046_the_setting_is_restored_even_if_reading_panics() {
    let file = setting("2\n");
    let mut list = list(file.path(), 1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        KernelSymbols::load_with(file.path(), || {
            if fs::read_to_string(file.path())?.trim() == "1" {
                panic!("while it is lowered");
            }
            list()
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "2\n");
}

#[test]
fn perf_046_hidden_addresses_are_an_error_with_a_remedy() {
    let message = |value: &str| {
        let file = setting(value);
        let hidden = || Ok(Cursor::new(b"0000000000000000 T _text\n".as_slice()));
        KernelSymbols::load_with(file.path(), hidden)
            .expect_err("hidden")
            .to_string()
    };
    // Root lacks a capability or has to lower the setting. The message must not ask root to run as
    // root.
    let is_root = rustix::process::geteuid().is_root();
    let (restricted, open) = if is_root {
        ("CAP_SYSLOG", "CAP_SYSLOG")
    } else {
        (
            "sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1",
            "sysctl kernel.perf_event_paranoid=1",
        )
    };
    assert!(message("1\n").contains(restricted));
    assert!(message("0\n").contains(open));
    assert!(message("2\n").contains("sysctl kernel.kptr_restrict=1"));
    assert!(
        !is_root
            || ["0\n", "1\n", "2\n"]
                .iter()
                .all(|value| !message(value).contains("as root"))
    );
    // The addresses are hidden, and the setting can be neither read nor written.
    let hidden = || Ok(Cursor::new(b"0000000000000000 T _text\n".as_slice()));
    let error = KernelSymbols::load_with(Path::new("/nonexistent"), hidden).expect_err("hidden");
    assert!(
        matches!(&error, LoadError::Restricted(why) if why.kptr_restrict.is_none()),
        "{error}"
    );
    // An empty list is an error, too.
    let empty = || Ok(Cursor::new(b"".as_slice()));
    KernelSymbols::load_with(Path::new("/nonexistent"), empty).expect_err("empty");
}

#[test]
fn perf_046_lookups_return_the_names_of_the_running_kernels_list() {
    let symbols = match KernelSymbols::load() {
        Ok(symbols) => symbols,
        Err(error) => return println!("skipped: {error}"),
    };
    let text = fs::read_to_string("/proc/kallsyms").expect("the list");
    let mut seen = std::collections::HashSet::new();
    for line in text.lines().filter(|line| !line.contains('[')) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [address, "t" | "T", name] = words[..] else {
            continue;
        };
        let address = u64::from_str_radix(address, 16).expect("an address");
        // A sample suffices and takes less time.
        let first = seen.insert(address) && seen.len() % 5 == 1;
        if first && address != 0 && !name.contains('$') && !name.contains(".cfi") {
            assert_eq!(symbols.lookup(address).as_deref(), Some(name));
        }
    }
    assert!(
        symbols.memory() < symbols.len() * 16,
        "{} bytes",
        symbols.memory()
    );
}
