//! Verdicts as text, as JSON, as JUnit's XML and as Markdown.

use std::fmt::Write as _;

use ferretto_diff::rules::Verdict;
use ferretto_text::terminal::shown;

use super::Judgement;
use crate::json;
use crate::xml::escape;

/// Returns the word for a verdict, and its value or reason.
fn words(judgement: &Judgement) -> (&'static str, String) {
    match &judgement.verdict {
        Verdict::Holds(value) => ("ok", judgement.measure.format(*value)),
        Verdict::Broken(_, text) => ("FAILED", text.clone()),
        Verdict::Unknown(reason) => ("unknown", reason.clone()),
    }
}

/// Returns the verdicts as lines.
pub(super) fn text(judgements: &[Judgement]) -> String {
    let mut text = String::new();
    for judgement in judgements {
        let (word, value) = words(judgement);
        let (rule, file) = (shown(&judgement.rule), shown(&judgement.file));
        let _ = writeln!(text, "{word:<8} {rule}: {} ({file})", shown(&value));
    }
    text
}

/// Returns the verdicts as one line, for programs. `docs/schema/assert.json` describes it.
pub(super) fn json(verdict: &str, judgements: &[Judgement]) -> String {
    json::answer(|all| {
        all.add("verdict", verdict);
        all.objects("rules", judgements, |it, judgement| {
            let (word, value) = match judgement.verdict {
                Verdict::Holds(value) => ("holds", Some(value)),
                Verdict::Broken(value, _) => ("broken", Some(value)),
                Verdict::Unknown(_) => ("unknown", None),
            };
            it.add("rule", &judgement.rule);
            it.add("file", &judgement.file);
            it.add("verdict", word);
            it.add("value", value);
            it.add("unit", judgement.measure.unit());
            it.add("text", words(judgement).1);
        });
    })
}

/// Returns the verdicts as Markdown.
pub(super) fn markdown(judgements: &[Judgement]) -> String {
    let mut text = "| | rule | value | recording |\n|---|---|---|---|\n".to_owned();
    let escaped = crate::diff::escaped;
    for judgement in judgements {
        let (word, value) = words(judgement);
        let (rule, file) = (escaped(&judgement.rule), escaped(&judgement.file));
        let _ = writeln!(text, "| {word} | {rule} | {} | {file} |", escaped(&value));
    }
    text
}

/// Returns the verdicts as JUnit's XML.
pub(super) fn junit(judgements: &[Judgement]) -> String {
    let count = |is: fn(&Verdict) -> bool| judgements.iter().filter(|it| is(&it.verdict)).count();
    let failures = count(|it| matches!(it, Verdict::Broken(..)));
    let errors = count(|it| matches!(it, Verdict::Unknown(_)));
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"ferretto assert\" \
         tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\">\n",
        judgements.len()
    );
    for judgement in judgements {
        let (_, value) = words(judgement);
        let (rule, file) = (escape(&judgement.rule), escape(&judgement.file));
        let _ = write!(text, "  <testcase classname=\"{file}\" name=\"{rule}\"");
        let _ = match judgement.verdict {
            Verdict::Holds(_) => writeln!(text, "/>"),
            Verdict::Broken(..) => {
                writeln!(
                    text,
                    "><failure message=\"{}\"/></testcase>",
                    escape(&value)
                )
            }
            Verdict::Unknown(_) => {
                writeln!(text, "><error message=\"{}\"/></testcase>", escape(&value))
            }
        };
    }
    text.push_str("</testsuite>\n");
    text
}
