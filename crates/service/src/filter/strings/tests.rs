use ferretto_proto::Message;

use super::*;

fn rule(policy: StringFilterPolicy, pattern: &str, prefix: &str) -> StringFilterRule {
    StringFilterRule {
        policy: Some(policy),
        regex_pattern: Some(pattern.into()),
        atrace_payload_starts_with: Some(prefix.into()),
        ..Default::default()
    }
}

fn named(name: &str, rule: StringFilterRule) -> StringFilterRule {
    StringFilterRule {
        name: Some(name.into()),
        ..rule
    }
}

fn typed(kinds: &[u64], mut rule: StringFilterRule) -> StringFilterRule {
    for kind in kinds {
        add(&mut rule, SEMANTIC_TYPE, *kind);
    }
    rule
}

/// Adds a number, which may be outside the enumeration.
fn add(rule: &mut StringFilterRule, field: u32, value: u64) {
    let encoded = ferretto_wire::encode(|e| e.varint(field, value));
    rule.merge_from_slice(&encoded).unwrap();
}

fn load(rules: &[StringFilterRule]) -> Result<StringRules, FilterError> {
    StringRules::load(rules.iter(), &mut Budget::of_session())
}

fn redact(rules: &[StringFilterRule], string: &str, kind: u16) -> String {
    let mut bytes = string.as_bytes().to_vec();
    load(rules).unwrap().redact(&mut bytes, kind);
    assert_eq!(bytes.len(), string.len());
    String::from_utf8(bytes).unwrap()
}

use StringFilterPolicy::*;

#[test]
fn service_064_redaction_keeps_the_length() {
    let rules = [rule(SFP_MATCH_REDACT_GROUPS, "a(.*)c(x?)", "")];
    assert_eq!(redact(&rules, "abbc", 0), "aP6c");
    assert_eq!(redact(&rules, "a0123456789ABCc", 0), "aP60REDACTED--c");
    assert_eq!(redact(&rules, "ac", 0), "ac");
    assert_eq!(redact(&rules, "abbcd", 0), "abbcd", "a part only");
    assert_eq!(redact(&rules, "", 0), "");
    let mut bytes = *b"a\xff\xfec";
    load(&rules).unwrap().redact(&mut bytes, 0);
    assert_eq!(&bytes, b"aP6c", "not UTF-8");
}

#[test]
fn service_064_rules_in_order() {
    let rules = [
        rule(SFP_MATCH_BREAK, "keep.*", ""),
        rule(SFP_MATCH_REDACT_GROUPS, "(.)eep.*", ""),
        rule(SFP_MATCH_REDACT_GROUPS, ".*(p)", ""),
    ];
    assert_eq!(redact(&rules, "keep me", 0), "keep me");
    assert_eq!(redact(&rules, "deep", 0), "Peep");
    assert_eq!(redact(&rules, "damp", 0), "damP");
}

#[test]
fn service_064_atrace_policies() {
    let rules = [
        rule(SFP_ATRACE_MATCH_BREAK, ".*public.*", "job"),
        rule(SFP_ATRACE_MATCH_REDACT_GROUPS, ".*job=(.*)", "job"),
        rule(
            SFP_ATRACE_REPEATED_SEARCH_REDACT_GROUPS,
            r"k=(\d+)",
            "many ",
        ),
    ];
    let redact = |string| redact(&rules, string, 0);
    assert_eq!(redact("B|12|job=secret"), "B|12|job=P60RED");
    assert_eq!(redact("B|12|job=public"), "B|12|job=public");
    assert_eq!(redact("B|12|a job=secret"), "B|12|a job=secret");
    assert_eq!(redact("E|12|job=secret"), "E|12|job=secret");
    assert_eq!(redact("job=secret"), "job=secret");
    assert_eq!(redact("B|1|many k=12 k=3 k=x"), "B|1|many k=P6 k=P k=x");
    assert_eq!(redact("B|"), "B|");
    assert_eq!(redact("||"), "||");
}

#[test]
fn atrace_text_begins_after_the_process() {
    assert_eq!(atrace_payload(b"B|1024|x"), Some(7));
    assert_eq!(atrace_payload(b"B|1|"), Some(4));
    for none in ["", "B", "B|", "E|1024", "E|1|x", "foobarbaz", "|||"] {
        let expected = (none == "|||").then_some(3);
        assert_eq!(atrace_payload(none.as_bytes()), expected, "{none}");
    }
}

#[test]
fn empty_matches_end() {
    let rules = [
        rule(SFP_ATRACE_REPEATED_SEARCH_REDACT_GROUPS, "x*", ""),
        rule(SFP_MATCH_REDACT_GROUPS, "(.*)", ""),
    ];
    assert_eq!(
        redact(&rules, "B|1|axxb", 0),
        "B|1|axxb",
        "matched, no group"
    );
    assert_eq!(redact(&rules, "abc", 0), "P60");
}

#[test]
fn service_064_semantic_types() {
    let redact_all = || rule(SFP_MATCH_REDACT_GROUPS, "(.*)", "");
    let hidden = |kinds: &[u64], kind| redact(&[typed(kinds, redact_all())], "ab", kind) == "P6";
    assert!(hidden(&[], 0) && !hidden(&[], 1) && hidden(&[], 128));
    assert!(!hidden(&[1, 127], 0) && hidden(&[1, 127], 1) && hidden(&[1, 127], 127));
    assert!(hidden(&[1], 0xffff), "beyond what rules can name");
    for bad in [128, u64::MAX] {
        let error = load(&[typed(&[bad], redact_all())]).unwrap_err();
        assert_eq!(error, FilterError::SemanticType);
    }
}

#[test]
fn service_063_named_rules_replace() {
    let rules = [
        named("a", rule(SFP_MATCH_REDACT_GROUPS, "(a.*)", "")),
        named("b", rule(SFP_MATCH_REDACT_GROUPS, "(b.*)", "")),
        named("a", rule(SFP_MATCH_BREAK, "b.*", "")),
        named("", rule(SFP_MATCH_REDACT_GROUPS, "(c.*)", "")),
        named("", rule(SFP_MATCH_REDACT_GROUPS, "(d.*)", "")),
    ];
    let redact = |string| redact(&rules, string, 0);
    let all = ["a1", "b1", "c1", "d1"].map(redact);
    assert_eq!(all, ["a1", "b1", "P6", "P6"]);
}

#[test]
fn service_022_row_26_rules() {
    let error = |rule: StringFilterRule| load(&[rule]).unwrap_err();
    assert_eq!(
        error(StringFilterRule::default()),
        FilterError::StringPolicy
    );
    assert_eq!(
        error(rule(SFP_UNSPECIFIED, "", "")).to_string(),
        "Trace filter has invalid string filtering rules"
    );
    let mut newer = rule(SFP_MATCH_BREAK, "", "");
    add(&mut newer, POLICY, 6);
    assert_eq!(error(newer), FilterError::StringPolicy);
    assert_eq!(
        error(rule(SFP_MATCH_BREAK, "a(", "")).to_string(),
        "Invalid regular expression \"a(\" in trace_filter: unclosed group"
    );
    assert!(load(&vec![rule(SFP_MATCH_BREAK, "", ""); 256]).is_ok());
    let error = load(&vec![rule(SFP_MATCH_BREAK, "", ""); 257]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("one session may have 256 expressions"),
        "{error}"
    );
    let unicode = [rule(SFP_MATCH_REDACT_GROUPS, "([é]+)x", "")];
    assert_eq!(redact(&unicode, "ééx", 0), "P60Rx");
}
