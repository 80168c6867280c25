//! The comparison as JSON. `docs/schema/diff.json` describes it.

use ferretto_diff::{Change, Comparison, Scope, Unit};

use crate::json::{self, Members};

/// Returns the comparison as one line.
pub(super) fn comparison(comparison: &Comparison) -> String {
    json::answer(|all| {
        let scope = match comparison.scope {
            Scope::Command => "command",
            Scope::Period => "period",
        };
        all.add("scope", scope);
        all.name("recordings").object(|it| {
            it.add("before", comparison.recordings.0);
            it.add("after", comparison.recordings.1);
        });
        all.name("dur_ns").object(|it| {
            it.add("before", comparison.durations.0);
            it.add("after", comparison.durations.1);
        });
        all.add("tested", comparison.tested);
        all.objects("changes", &comparison.changes, change);
        all.objects("effects", &comparison.effects, change);
        all.objects("possible", &comparison.possible, change);
        all.objects("setup", &comparison.setup, |it, (name, before, after)| {
            it.add("name", name);
            it.add("before", before);
            it.add("after", after);
        });
        all.name("remarks")
            .list(&comparison.remarks, |json, remark| json.string(remark));
    })
}

fn change(it: &mut Members<'_>, change: &Change) {
    let feature = &change.feature;
    it.add("kind", feature.kind.name());
    it.add("text", feature.text());
    let names = [
        ("process", &feature.process),
        ("thread", &feature.thread),
        ("name", &feature.name),
        ("detail", &feature.detail),
        ("mostly", &change.mostly),
        ("via", &change.via),
    ];
    for (name, text) in names {
        if !text.is_empty() {
            it.add(name, text);
        }
    }
    let unit = match feature.kind.unit() {
        Unit::Time => "ns",
        Unit::Count => "count",
        Unit::Bytes => "bytes",
        Unit::Value => "value",
    };
    it.add("unit", unit);
    it.add("before", change.before);
    it.add("after", change.after);
    it.add("size", change.size);
    it.add("p", change.p);
    it.add("q", change.q);
}
