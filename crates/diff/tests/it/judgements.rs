//! Rules: their text, their verdicts, their calibration.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_diff::Recording;
use ferretto_diff::rules::{
    Function, Measure, Rules, Statistic, Verdict, held_out, known_in, value,
};
use ferretto_testing::Random;

use crate::made::Step::{Lock, Missing, Ready, Run};
use crate::made::trace;

#[test]
fn rules_are_read_and_written() {
    let text = "known-functions = ['main']\n[[rule]] # a comment\nname = \"fast \\\"p99\\\"\"\n\
                slice = \"request\"\nmeasure = \"p99\"\nmax = \"20ms\"\n\
                [[rule]]\nmeasure = \"loss\"\n[[rule]]\nfunction = \"parse\"\nmax = \"5 %\"\n\
                [[rule]]\nsql = 'SELECT 1'\nmin = 1_000\n\
                [[rule]]\nfunction = \"parse\"\nmeasure = \"time\"\nmax = \"5ms\"\n\
                [[rule]]\nmeasure = \"own-duration\"\n[[rule]]\nmeasure = \"cpu\"\n";
    let rules = Rules::parse(text).expect("rules");
    let first = &rules.rules[0];
    assert_eq!(first.title(), "fast \"p99\"");
    assert_eq!(
        first.measure,
        Measure::Slice("request".to_owned(), Statistic::Quantile(0.99))
    );
    assert_eq!(first.max, Some(20e6));
    assert_eq!(rules.rules[1].max, Some(0.0));
    assert_eq!(rules.rules[2].max, Some(0.05));
    assert_eq!(rules.rules[3].min, Some(1000.0));
    let again = Rules::parse(&rules.text()).expect("rules");
    assert_eq!(again.known_functions, rules.known_functions);
    let measures = |rules: &Rules| -> Vec<_> {
        rules
            .rules
            .iter()
            .map(|rule| (rule.measure.clone(), rule.min, rule.max))
            .collect()
    };
    assert_eq!(measures(&again), measures(&rules));
    // A rule without a name is named by its place in the file that it is in.
    let titles = |rules: &Rules| [1, 2].map(|at| rules.rules[at].title());
    assert_eq!(titles(&rules), ["the rule in line 7", "the rule in line 9"]);
    let line = |text: &str| text.lines().position(|line| line == "measure = \"loss\"");
    let line = line(&rules.text()).expect("the rule");
    assert_eq!(titles(&again)[0], format!("the rule in line {line}"));
}

#[test]
fn wrong_rules_are_refused_with_their_line() {
    for (text, expected) in [
        ("", "no rules"),
        (
            "[[rule]]\nslice = \"a\"\nmax = 5",
            "line 3: max has to be a number with one of ms",
        ),
        (
            "[[rule]]\ncalls = \"read\"\nmax = \"5ms\"",
            "line 3: max has to be a number",
        ),
        (
            "[[rule]]\nslice = \"a\"\nmeasure = \"often\"",
            "line 1: unknown measure",
        ),
        ("[[rule]]\nslise = \"a\"", "line 2: unknown key slise"),
        (
            "[[rule]]\nslice = \"a\"\nsql = \"b\"",
            "line 1: a rule has one of",
        ),
        ("[[rule]]\nslice = \"a", "line 2: invalid basic string"),
        ("[[rule]]\nslice = [\"a\"", "line 2: "),
        (
            "[[rule]]\nslice = \"a\"\nslice = \"b\"",
            "line 3: duplicate key",
        ),
        ("[rule]", "line 1: expected"),
        ("[[rules]]", "line 1: expected [[rule]]"),
        ("[[rule]]\nsql = \"a\" b", "line 2: "),
    ] {
        let error = Rules::parse(text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn values_are_judged() {
    let rules = Rules::parse("[[rule]]\nslice = \"a\"\nmin = \"1ms\"\nmax = \"2ms\"").unwrap();
    let judge = |value| rules.rules[0].judge(value);
    assert_eq!(judge(Ok(1.5e6)), Verdict::Holds(1.5e6));
    assert!(
        matches!(judge(Ok(2.1e6)), Verdict::Broken(_, text) if text == "2.100 ms is more than 2.000 ms")
    );
    assert!(matches!(judge(Ok(0.1e6)), Verdict::Broken(..)));
    assert_eq!(
        judge(Err("no".to_owned())),
        Verdict::Unknown("no".to_owned())
    );
}

#[test]
fn calibrated_rules_hold_for_more_of_the_same() {
    let rules = Rules::parse("[[rule]]\nslice = \"a\"").unwrap();
    let mut random = Random(7);
    let mut broken = 0;
    // Values that vary by 3 and by 30 %.
    for variation in [0.03, 0.3] {
        let mut value = || {
            let uniform = |random: &mut Random| random.below(1 << 20) as f64 / f64::from(1 << 20);
            let sum: f64 = (0..12).map(|_| uniform(&mut random)).sum();
            1e6 * ((sum - 6.0) * variation).exp()
        };
        for _ in 0..20 {
            let mut rule = rules.rules[0].clone();
            let values: Vec<f64> = (0..8).map(|_| value()).collect();
            rule.calibrate(&values, 0.002);
            broken += (0..100)
                .filter(|_| matches!(rule.judge(Ok(value())), Verdict::Broken(..)))
                .count();
            // A bound that nothing exceeds were of no use.
            let max = rule.max.expect("a bound");
            assert!(max < 1e6 * (12.0 * variation + 0.5).exp(), "{max}");
        }
    }
    // Of 4000.
    assert!(broken <= 20, "{broken}");
}

#[test]
fn own_durations_do_not_depend_on_other_programs() {
    let value = |measure: Measure, ready| {
        let trace = trace(
            &[Run(20_000), Ready(ready), Lock(5_000), Run(10_000)],
            0.0,
            1,
        );
        let recording = Recording::new(&trace, None);
        let value = value(&measure, &trace, &recording, &BTreeSet::new());
        value.map(|value| (value / 1e6).round())
    };
    // The lock's holder runs for as long as it has it. A part of the wait counts as cold caches.
    for (ready, duration, own, cpu) in [(1_000, 36.0, 35.0, 35.0), (70_000, 105.0, 33.0, 34.0)] {
        assert_eq!(value(Measure::Duration, ready), Ok(duration));
        assert_eq!(value(Measure::OwnDuration, ready), Ok(own));
        assert_eq!(value(Measure::Cpu, ready), Ok(cpu));
    }
    // However long it waits.
    assert_eq!(value(Measure::OwnDuration, 5_000_000), Ok(26.0));
    let unknown = value(Measure::FunctionTime("parse".to_owned()), 1_000);
    assert!(unknown.is_err_and(|reason| reason.contains("no callstacks")));
}

#[test]
fn durations_are_calibrated_without_other_programs() {
    let text = "[[rule]]\nmeasure = \"duration\"\n[[rule]]\nmeasure = \"duration\"\nmax = \"2s\"";
    let mut rules = Rules::parse(text).expect("rules");
    rules.leave_out_others();
    let measures: Vec<&Measure> = rules.rules.iter().map(|rule| &rule.measure).collect();
    assert_eq!(measures, [&Measure::OwnDuration, &Measure::Duration]);
}

#[test]
fn functions_that_few_samples_do_not_show_are_not_new() {
    /// The number of functions that take two thirds of the time together.
    const RARE: usize = 200;
    let rules = Rules::parse("[[rule]]\nmeasure = \"new-functions\"").unwrap();
    let mut random = Random(11);
    let mut broken = 0;
    for samples in [30, 300] {
        let mut recording = || -> Vec<usize> {
            let drawn = (0..samples).map(|_| random.below(RARE * 3 / 2).min(RARE));
            drawn.collect()
        };
        for _ in 0..20 {
            let mut rule = rules.rules[0].clone();
            let known: BTreeSet<usize> = (0..10).flat_map(|_| recording()).collect();
            rule.calibrate_new_functions(&[samples as f64; 10], &[], 0.002);
            for _ in 0..100 {
                let mut new = [0; RARE + 1];
                for function in recording() {
                    new[function] += usize::from(!known.contains(&function));
                }
                let most = new.iter().max().map_or(0, |most| *most);
                let verdict = rule.judge(Ok(most as f64 / samples as f64));
                broken += usize::from(matches!(verdict, Verdict::Broken(..)));
            }
            let max = rule.max.expect("a bound");
            assert!((0.05..0.25).contains(&max), "{max}");
        }
    }
    // Of 4000.
    assert!(broken <= 8, "{broken}");
}

#[test]
fn many_samples_leave_the_least_bound_of_new_functions() {
    let rules = Rules::parse("[[rule]]\nmeasure = \"new-functions\"").unwrap();
    let mut rule = rules.rules[0].clone();
    rule.calibrate_new_functions(&[1000.0; 10], &[0.0; 10], 0.002);
    assert_eq!(rule.max, Some(0.05));
    // A function that takes a fifth of few samples is new.
    rule.calibrate_new_functions(&[40.0; 10], &[0.0; 10], 0.002);
    assert!(matches!(rule.judge(Ok(0.2)), Verdict::Broken(..)));
}

fn of_samples(share: f64, samples: f64) -> Function {
    Function {
        time: share * 1e9,
        share,
        samples,
    }
}

/// In a short process, one sample stands for much time.
#[test]
fn a_function_with_few_samples_is_not_new() {
    let recording = |samples| {
        BTreeMap::from([
            ("main".to_owned(), of_samples(0.7, 30.0)),
            ("other".to_owned(), of_samples(0.3, samples)),
        ])
    };
    let known = BTreeSet::from(["main".to_owned()]);
    for (samples, expected) in [(1.0, 0.0), (2.0, 0.0), (3.0, 0.3), (9.0, 0.3)] {
        assert_eq!(held_out(&[recording(samples)], &known), [expected]);
    }
}

/// Programs that start many short processes: each has functions of its own, with several samples.
#[test]
fn functions_that_come_with_many_samples_give_a_wide_bound() {
    let rules = Rules::parse("[[rule]]\nmeasure = \"new-functions\"").unwrap();
    let mut random = Random(5);
    let mut recording = || -> BTreeMap<String, Function> {
        let mut functions = BTreeMap::from([("main".to_owned(), of_samples(0.6, 600.0))]);
        for rare in 0..60 {
            if random.below(100) < 3 {
                let share = 0.05 + random.below(1000) as f64 / 1e4;
                let function = of_samples(share, share * 1000.0);
                functions.insert(format!("rare {rare}"), function);
            }
        }
        functions
    };
    let (mut broken, mut widest) = (0, 0.0_f64);
    for _ in 0..40 {
        let recordings: Vec<_> = (0..10).map(|_| recording()).collect();
        let none = BTreeSet::new();
        let mut rule = rules.rules[0].clone();
        let samples = [1000.0; 10];
        rule.calibrate_new_functions(&samples, &held_out(&recordings, &none), 0.002);
        let known: BTreeSet<String> = recordings
            .iter()
            .flat_map(known_in)
            .map(str::to_owned)
            .collect();
        for _ in 0..50 {
            let value = held_out(&[recording()], &known)[0];
            broken += usize::from(matches!(rule.judge(Ok(value)), Verdict::Broken(..)));
        }
        widest = widest.max(rule.max.expect("a bound"));
    }
    // Of 2000.
    assert!(broken <= 4, "{broken}");
    assert!(widest < 0.5, "{widest}");
}

#[test]
fn a_few_values_close_to_each_other_by_chance_give_a_wide_bound() {
    let rules = Rules::parse("[[rule]]\nslice = \"a\"").unwrap();
    let mut random = Random(11);
    const VARIATION: f64 = 0.3;
    let mut value = || {
        let uniform = |random: &mut Random| random.below(1 << 20) as f64 / f64::from(1 << 20);
        let sum: f64 = (0..12).map(|_| uniform(&mut random)).sum();
        1e6 * ((sum - 6.0) * VARIATION).exp()
    };
    // The bound that one of a hundred values exceeds: 2.326 standard deviations.
    let covering = 1e6 * (2.326 * VARIATION).exp();
    let mut narrow = 0;
    for _ in 0..200 {
        let mut rule = rules.rules[0].clone();
        let values: Vec<f64> = (0..6).map(|_| value()).collect();
        rule.calibrate(&values, 0.01);
        narrow += usize::from(rule.max.expect("a bound") < covering);
    }
    // 5 % are expected, with a standard deviation of 1.5 %.
    assert!(narrow < 20, "{narrow} of 200");
}

#[test]
fn a_bound_far_from_all_values_has_a_remark() {
    let remark = |rule: &str, values: &[f64]| {
        let mut rule = Rules::parse(rule).unwrap().rules.remove(0);
        rule.calibrate(values, 0.002);
        rule.remark_on(values);
        rule.remark
    };
    let cpu = "[[rule]]\nmeasure = \"cpu\"";
    let scattered = remark(cpu, &[0.4e9, 7.5e9, 1.1e9]).expect("a remark");
    assert!(
        scattered.contains("times the greatest value of 3 recordings (400.000 ms to 7500.000 ms)"),
        "{scattered}"
    );
    // A few that are alike, and many that vary a little, bound the next one.
    assert_eq!(remark(cpu, &[1.00e9, 1.02e9, 0.99e9]), None);
    let many: Vec<f64> = (0..10)
        .map(|at| 1e9 * (1.0 + 0.03 * f64::from(at)))
        .collect();
    assert_eq!(remark(cpu, &many), None);
    let least = "[[rule]]\ncalls = \"read\"\nmin = 1";
    let scattered = remark(least, &[40.0, 7500.0, 1100.0]).expect("a remark");
    assert!(scattered.contains("of the least value of 3"), "{scattered}");
    // Shares below the least bound are of no interest, and neither is 0.
    let share = "[[rule]]\nfunction = \"parse\"";
    assert_eq!(remark(share, &[0.001; 10]), None);
    let few = remark(share, &[0.001, 0.002, 0.001]).expect("a remark");
    assert!(few.starts_with("the bound 100.000 % is"), "{few}");
    assert_eq!(remark("[[rule]]\ncalls = \"read\"", &[0.0; 3]), None);
}

#[test]
fn a_remark_is_a_comment() {
    let mut rules = Rules::parse("[[rule]]\nmeasure = \"cpu\"\nmax = \"5ms\"").unwrap();
    rules.rules[0].remark = Some("the bound is wide".to_owned());
    rules.behind_others = Some(0.125);
    let text = rules.text();
    assert!(text.contains("# the bound is wide\n[[rule]]\n"), "{text}");
    let again = Rules::parse(&text).expect("rules");
    assert_eq!(again.behind_others, Some(0.125));
    assert_eq!(again.rules[0].max, Some(5e6));
    let wrong = Rules::parse("behind-others = \"much\"\n[[rule]]\nmeasure = \"cpu\"");
    assert!(wrong.is_err_and(|error| error.contains("line 1: behind-others has to be a share")));
}

/// A recording of a machine that is busier than those of the calibration does not compare.
#[test]
fn a_busier_machine_cannot_be_judged_by_a_little_longer_time() {
    let judge = |calibrated: Option<f64>, ready, max: &str| {
        let text = format!("[[rule]]\nmeasure = \"own-duration\"\nmax = \"{max}\"");
        let mut rules = Rules::parse(&text).expect("rules");
        rules.behind_others = calibrated;
        // It takes 35 ms, besides.
        let steps = [Run(20_000), Ready(ready), Lock(5_000), Run(10_000)];
        let trace = trace(&steps, 0.0, 1);
        let recording = Recording::new(&trace, None);
        let rule = &rules.rules[0];
        let value = value(&rule.measure, &trace, &recording, &BTreeSet::new());
        rules.judge(rule, value, &recording)
    };
    let calm = Some(0.1);
    let busy = judge(calm, 35_000, "30ms");
    assert!(
        matches!(&busy, Verdict::Unknown(text) if text.contains("other programs had the CPUs")
            && text.contains("at most 10.0 % in the recordings")),
        "{busy:?}"
    );
    // A machine as busy as it was, rules that are not calibrated, and a time that no other
    // programs explain.
    for (calibrated, ready, max) in [
        (calm, 1_000, "30ms"),
        (Some(0.5), 35_000, "30ms"),
        (None, 35_000, "30ms"),
        (calm, 35_000, "15ms"),
    ] {
        let verdict = judge(calibrated, ready, max);
        assert!(matches!(verdict, Verdict::Broken(..)), "{verdict:?}");
    }
    assert!(matches!(judge(calm, 35_000, "40ms"), Verdict::Holds(_)));
}

/// Other programs may have had the CPU while switches are missing.
#[test]
fn an_own_duration_with_missing_switches_cannot_be_judged() {
    let judge = |steps: &[_], max: &str| {
        let text = format!("[[rule]]\nmeasure = \"own-duration\"\nmax = \"{max}\"");
        let rules = Rules::parse(&text).expect("rules");
        let trace = trace(steps, 0.0, 1);
        let recording = Recording::new(&trace, None);
        let rule = &rules.rules[0];
        let value = value(&rule.measure, &trace, &recording, &BTreeSet::new());
        rules.judge(rule, value, &recording)
    };
    let steps = [Run(20_000), Missing(30_000), Run(10_000)];
    let verdict = judge(&steps, "30ms");
    assert!(
        matches!(&verdict, Verdict::Unknown(text) if text.contains("left out switches")),
        "{verdict:?}"
    );
    // The known part is too long, or nothing is missing.
    for (steps, max) in [(&steps[..], "5ms"), (&[Run(60_000)], "30ms")] {
        let verdict = judge(steps, max);
        assert!(matches!(verdict, Verdict::Broken(..)), "{verdict:?}");
    }
    assert!(matches!(judge(&steps, "70ms"), Verdict::Holds(_)));
}
