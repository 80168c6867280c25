use super::*;

fn parse(args: &[&str]) -> Result<Action, Refusal> {
    let read = |name: &OsStr| match name.to_str() {
        Some("cfg") => Ok(b"buffers {}".to_vec()),
        Some("empty" | "-") => Ok(Vec::new()),
        _ => Err(std::io::Error::from_raw_os_error(2)),
    };
    super::parse(args.iter().map(Into::into).collect(), read)
}

fn options(args: &[&str]) -> Options {
    match parse(args) {
        Ok(Action::Record(options)) => *options,
        other => panic!("{other:?}"),
    }
}

fn message(args: &[&str]) -> String {
    parse(args).unwrap_err().to_string()
}

#[test]
fn cli_001_no_arguments_help_and_unknown_flags_print_the_usage() {
    for args in [&[][..], &["--help"], &["-h"], &["--no-such-flag"], &["-Z"]] {
        assert!(message(args).contains("Usage: perfetto"), "{args:?}");
    }
    assert_eq!(parse(&["--version"]), Ok(Action::Version));
    assert!(matches!(
        parse(&["--bad", "--version"]),
        Err(Refusal::Usage(_))
    ));
}

#[test]
fn cli_002_each_conflict_has_its_message() {
    for (args, expected) in [
        (
            &["--query", "-d"][..],
            "--query cannot be combined with any other argument",
        ),
        (
            &["--long", "-c", "cfg"],
            "--long can only be used with --query",
        ),
        (
            &["--txt", "--txt-lossy"],
            "--txt and --txt-lossy are mutually exclusive",
        ),
        (
            &["--query", "-c", "cfg"],
            "Cannot specify a trace config with this option",
        ),
        (
            &["-c", "cfg", "-t", "1s"],
            "Cannot specify both -c/--config and any of --time",
        ),
        (&["-c", "cfg", "sched"], "Cannot specify both -c/--config"),
        (&["-o", "x"], "The TraceConfig is empty"),
        (
            &["--query", "-o", "x"],
            "Can't pass an --out file (or --upload) with this option",
        ),
        (
            &["--upload", "-c", "cfg"],
            "--upload is only supported on Android",
        ),
        (
            &["--query", "--attach", "k"],
            "--query cannot be combined with any other argument",
        ),
        (
            &["--attach", "k", "--detach", "k"],
            "--attach and --detach are mutually exclusive",
        ),
        (
            &["--detach", "k", "-d"],
            "--detach and --background are mutually exclusive",
        ),
        (
            &["--stop"],
            "--stop is supported only in combination with --attach",
        ),
        (
            &["--save-for-bugreport", "-D"],
            "--save-for-bugreport cannot take any other argument",
        ),
        (
            &["--save-all-for-bugreport", "--attach", "k"],
            "--save-for-bugreport cannot take any other argument",
        ),
        (
            &["--attach", "k", "-c", "cfg"],
            "Cannot specify a trace config with this option",
        ),
        (
            &["--save-all-for-bugreport", "-c", "cfg"],
            "Cannot specify a trace config with this option",
        ),
        (
            &["--is_detached", "k", "-o", "x"],
            "Can't pass an --out file (or --upload) with this option",
        ),
        (&["--attach", ""], "--attach needs a key that is not empty"),
        (
            &["--notify-fd", "x"],
            "--notify-fd needs the number of an open descriptor",
        ),
        (&["--clone", "3"], "Either --out or --upload is required"),
        (
            &["--clone", "3", "--clone-by-name", "s"],
            "--clone and --clone-by-name are mutually exclusive",
        ),
        (
            &["--clone-for-bugreport"],
            "--clone-for-bugreport requires --clone or --clone-by-name",
        ),
    ] {
        assert!(
            message(args).contains(expected),
            "{args:?}: {}",
            message(args)
        );
    }
}

#[test]
fn options_without_their_value_are_told_as_upstream_does() {
    for args in [&["--attach"][..], &["-t", "2s", "-o", "-", "--detach"]] {
        let option = args.last().unwrap();
        let text = format!("option '{option}' requires an argument\n");
        assert!(message(args).starts_with(&text), "{args:?}");
    }
}

#[test]
fn cli_003_a_missing_config_is_named() {
    assert!(message(&["-c", "missing"]).starts_with("Could not open missing"));
}

#[test]
fn cli_005_empty_configs_are_refused() {
    assert_eq!(
        message(&["-c", "empty", "-o", "x"]),
        "The TraceConfig is empty"
    );
    assert_eq!(message(&["-c", "-", "-o", "x"]), "The TraceConfig is empty");
    // An empty config does not exclude light options.
    assert_eq!(options(&["-c", "-", "-t", "1s", "-o", "x"]).config, None);
}

#[test]
fn cli_006_attributes_split_at_the_first_equals_sign() {
    let attributes =
        options(&["-c", "cfg", "--add-attribute", "a=b=c", "--add-attribute=x"]).attributes;
    assert_eq!(
        attributes,
        [("a".into(), "b=c".into()), ("x".into(), String::new())]
    );
    for wrong in ["=x", ""] {
        assert_eq!(
            message(&["-c", "cfg", "--add-attribute", wrong]),
            "add-attribute: key must be non-empty"
        );
    }
}

#[test]
fn options_may_be_shortened_and_in_any_order() {
    let options = options(&[
        "sched/sched_switch",
        "--tim=5s",
        "-oout",
        "freq",
        "--buff",
        "4mb",
    ]);
    assert_eq!(options.light.events, ["sched/sched_switch", "freq"]);
    assert_eq!(options.light.time.as_deref(), Some("5s"));
    assert_eq!(options.light.buffer.as_deref(), Some("4mb"));
    assert_eq!(options.out.as_deref(), Some("out".as_ref()));
    assert!(message(&["--no", "-c", "cfg"]).contains("ambiguous"));
}
