//! The text of rules.

use std::fmt::Write as _;

use super::{Measure, Rule, Rules, Statistic};
use crate::toml::{self, Table, Value, quoted};

/// The key of [`Rules::behind_others`].
const BEHIND_OTHERS: &str = "behind-others";

/// Returns the share that a text is, such as `5%`.
fn share_of(text: &str) -> Option<f64> {
    let percent = text.trim().strip_suffix('%')?.trim().parse::<f64>().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

impl Rules {
    /// Parses the text of a file.
    ///
    /// # Errors
    ///
    /// Fails if the text is not TOML, or a rule is not known, with the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Self::default();
        for table in toml::parse(text)? {
            match table.name.as_str() {
                "" => {
                    for (key, value, line) in table.keys {
                        match (key.as_str(), value) {
                            ("known-functions", Value::Texts(names)) => {
                                rules.known_functions.extend(names);
                            }
                            (BEHIND_OTHERS, Value::Text(share)) => {
                                let share = share_of(&share).ok_or_else(|| {
                                    format!("line {line}: {key} has to be a share, such as \"5%\"")
                                })?;
                                rules.behind_others = Some(share);
                            }
                            _ => return Err(format!("line {line}: unknown key {key}")),
                        }
                    }
                }
                "rule" => rules.rules.push(rule(&table)?),
                _ => return Err(format!("line {}: expected [[rule]]", table.line)),
            }
        }
        if rules.rules.is_empty() {
            return Err("it has no rules; begin each with [[rule]]".to_owned());
        }
        Ok(rules)
    }

    /// Returns the text of these rules.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.known_functions.is_empty() {
            let names: Vec<String> = self
                .known_functions
                .iter()
                .map(|name| quoted(name))
                .collect();
            let _ = writeln!(text, "known-functions = [{}]\n", names.join(", "));
        }
        if let Some(share) = self.behind_others {
            let _ = writeln!(text, "{BEHIND_OTHERS} = \"{:.3}%\"\n", share * 100.0);
        }
        for rule in &self.rules {
            if let Some(remark) = &rule.remark {
                let _ = writeln!(text, "# {remark}");
            }
            let _ = writeln!(text, "[[rule]]");
            if let Some(name) = &rule.name {
                let _ = writeln!(text, "name = {}", quoted(name));
            }
            let (key, value) = match &rule.measure {
                Measure::Duration => ("measure", "duration"),
                Measure::OwnDuration => ("measure", "own-duration"),
                Measure::Cpu => ("measure", "cpu"),
                Measure::NewFunctions => ("measure", "new-functions"),
                Measure::Loss => ("measure", "loss"),
                Measure::Slice(name, _) => ("slice", name.as_str()),
                Measure::Function(name) | Measure::FunctionTime(name) => {
                    ("function", name.as_str())
                }
                Measure::Calls(name) => ("calls", name.as_str()),
                Measure::Sql(sql) => ("sql", sql.as_str()),
            };
            let _ = writeln!(text, "{key} = {}", quoted(value));
            if let Measure::FunctionTime(_) = rule.measure {
                let _ = writeln!(text, "measure = \"time\"");
            }
            if let Measure::Slice(_, statistic) = &rule.measure {
                let statistic = match statistic {
                    Statistic::Quantile(part) if *part >= 1.0 => "max".to_owned(),
                    Statistic::Quantile(part) => format!("p{}", part * 100.0),
                    Statistic::Mean => "mean".to_owned(),
                    Statistic::Total => "total".to_owned(),
                    Statistic::Count => "count".to_owned(),
                };
                let _ = writeln!(text, "measure = {}", quoted(&statistic));
            }
            for (key, bound) in [("min", rule.min), ("max", rule.max)] {
                let Some(bound) = bound else {
                    continue;
                };
                let _ = match rule.measure.units().first() {
                    Some((unit, factor)) => {
                        writeln!(text, "{key} = \"{:.6}{unit}\"", bound / factor)
                    }
                    None => writeln!(text, "{key} = {bound}"),
                };
            }
            text.push('\n');
        }
        text
    }
}

/// Reads a rule.
fn rule(table: &Table) -> Result<Rule, String> {
    let text = |wanted: &str| -> Result<Option<&str>, String> {
        match table.keys.iter().find(|(key, _, _)| key == wanted) {
            None => Ok(None),
            Some((_, Value::Text(text), _)) => Ok(Some(text)),
            Some((_, _, line)) => Err(format!("line {line}: {wanted} has to be a text")),
        }
    };
    let known = [
        "name", "measure", "slice", "function", "calls", "sql", "min", "max",
    ];
    if let Some((key, _, line)) = table
        .keys
        .iter()
        .find(|(key, _, _)| !known.contains(&key.as_str()))
    {
        return Err(format!(
            "line {line}: unknown key {key}; known are {}",
            known.join(", ")
        ));
    }
    let line = table.line;
    let measure = text("measure")?;
    let subjects = (
        text("slice")?,
        text("function")?,
        text("calls")?,
        text("sql")?,
    );
    let measure = match (subjects, measure) {
        ((Some(name), None, None, None), measure) => {
            Measure::Slice(name.to_owned(), statistic(measure.unwrap_or("p50"), line)?)
        }
        ((None, Some(name), None, None), None | Some("share")) => {
            Measure::Function(name.to_owned())
        }
        ((None, Some(name), None, None), Some("time")) => Measure::FunctionTime(name.to_owned()),
        ((None, None, Some(name), None), None | Some("count")) => Measure::Calls(name.to_owned()),
        ((None, None, None, Some(sql)), None) => Measure::Sql(sql.to_owned()),
        ((None, None, None, None), Some("duration")) => Measure::Duration,
        ((None, None, None, None), Some("own-duration")) => Measure::OwnDuration,
        ((None, None, None, None), Some("cpu")) => Measure::Cpu,
        ((None, None, None, None), Some("new-functions")) => Measure::NewFunctions,
        ((None, None, None, None), Some("loss")) => Measure::Loss,
        _ => {
            return Err(format!(
                "line {line}: a rule has one of slice (with measure p50, p99, max, mean, total or \
                 count), function (with measure share or time), calls, sql, or measure = \
                 \"duration\", \"own-duration\", \"cpu\", \"loss\" or \"new-functions\""
            ));
        }
    };
    let bound = |wanted: &str| -> Result<Option<f64>, String> {
        let Some((_, value, line)) = table.keys.iter().find(|(key, _, _)| key == wanted) else {
            return Ok(None);
        };
        let error = || match measure.units() {
            [] => format!("line {line}: {wanted} has to be a number"),
            units => {
                let units: Vec<&str> = units.iter().map(|(unit, _)| *unit).collect();
                format!(
                    "line {line}: {wanted} has to be a number with one of {}",
                    units.join(", ")
                )
            }
        };
        let parsed = match value {
            Value::Number(number) if measure.units().is_empty() || *number == 0.0 => Some(*number),
            Value::Text(text) => measure.units().iter().find_map(|(unit, factor)| {
                let number = text.trim().strip_suffix(unit)?.trim().parse::<f64>().ok()?;
                number.is_finite().then_some(number * factor)
            }),
            _ => None,
        };
        parsed.map(Some).ok_or_else(error)
    };
    let (min, max) = (bound("min")?, bound("max")?);
    let max = max.or((measure == Measure::Loss).then_some(0.0));
    Ok(Rule {
        name: text("name")?.map(str::to_owned),
        line,
        measure,
        min,
        max,
        remark: None,
    })
}

fn statistic(text: &str, line: usize) -> Result<Statistic, String> {
    let percent = text
        .strip_prefix('p')
        .and_then(|text| text.parse::<f64>().ok());
    match (text, percent) {
        ("max", _) => Ok(Statistic::Quantile(1.0)),
        ("mean", _) => Ok(Statistic::Mean),
        ("total", _) => Ok(Statistic::Total),
        ("count", _) => Ok(Statistic::Count),
        (_, Some(percent)) if (0.0..=100.0).contains(&percent) => {
            Ok(Statistic::Quantile(percent / 100.0))
        }
        _ => Err(format!(
            "line {line}: unknown measure of slices; known are p50, p99 and so on, max, mean, total, count"
        )),
    }
}
