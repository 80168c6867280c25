//! A flamegraph as an SVG image: boxes for viewers without scripts, and for browsers the data and a
//! script that redraws it for the window's size and on clicks.

use std::fmt::Write;

use super::layout::{MAX_ROWS, MIN_FILL, MIN_ROWS, MIN_WIDTH, PositionedBox, Shows, layout};
use super::picture::{Amount, Box, Name, Picture, Sort, share};
use crate::xml::escape;
use ferretto_text::amount::{counted, duration, grouped, human_bytes};

/// The width of the image without the script, which adapts it to the window.
const WIDTH: f64 = 1400.0;
/// Height of a row.
const ROW: f64 = 17.0;
/// Height of the text above the boxes.
const TOP: f64 = 128.0;
/// Margin around the boxes.
const MARGIN: f64 = 10.0;
/// Width of a character in a box.
const CHAR: f64 = 6.65;
/// The smallest change of a share that is shown.
const NO_GROWTH: f64 = 0.0005;

const STYLE: &str = include_str!("flamegraph.css");
const SCRIPT: &str = include_str!("flamegraph.js");

/// The texts around the boxes.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) title: String,
    /// The traces, the unit of the counts, and their sum.
    pub(super) subtitle: String,
    /// The explanation of how to read it.
    pub(super) hint: String,
}

/// The unit of amounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unit {
    Samples,
    Nanoseconds,
    Bytes,
    /// Others, by the noun for several.
    Other(String),
}

impl Unit {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Other(name) => name,
            Self::Samples => "samples",
            Self::Nanoseconds => "ns",
            Self::Bytes => "bytes",
        }
    }

    /// Formats an amount.
    pub(super) fn shown(&self, amount: u64) -> String {
        match self {
            Self::Other(name) => format!("{} {name}", grouped(amount)),
            Self::Samples => counted(amount, "sample"),
            Self::Nanoseconds => duration(amount),
            Self::Bytes => human_bytes(amount),
        }
    }
}

/// The style of the graph.
#[derive(Debug, Clone)]
pub(super) struct Style {
    /// The root at the top.
    pub(super) icicle: bool,
    /// The unit of amounts.
    pub(super) unit: Unit,
}

/// Draws the picture.
pub(super) fn svg(picture: &Picture, texts: &Texts, style: &Style) -> String {
    let boxes = layout(picture, WIDTH - 2.0 * MARGIN);
    let rows = boxes.iter().map(|at| at.row + 1).max().unwrap_or(1);
    let height = TOP + rows as f64 * ROW + MARGIN;
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" id=\"page\" width=\"100%\" height=\"{height}\"/>\n<g id=\"graph\">\n",
        escape(&texts.title)
    );
    let drawing = Drawing {
        picture,
        style,
        height,
        greatest: picture.greatest_growth(),
    };
    for at in &boxes {
        drawing.draw(at, &mut out);
    }
    out.push_str(
        "</g>\n<rect id=\"bar\" class=\"bar\" width=\"5\" rx=\"2\" style=\"display:none\"/>\n",
    );
    head(picture, texts, &mut out);
    let data = drawing.data();
    let _ = write!(
        out,
        "<script id=\"data\" type=\"application/json\">{data}</script>\n\
         <script><![CDATA[{SCRIPT}]]></script>\n</svg>\n"
    );
    out
}

/// Title, legend and buttons.
fn head(picture: &Picture, texts: &Texts, out: &mut String) {
    let _ = write!(
        out,
        "<g id=\"head\"><rect class=\"head\" width=\"{WIDTH}\" height=\"{}\"/>\
         <line class=\"line\" y1=\"{1}\" y2=\"{1}\" x2=\"{WIDTH}\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"26\">{2}</text>\n\
         <text class=\"dim\" x=\"{MARGIN}\" y=\"46\">{3}</text>\n",
        TOP - 6.0,
        TOP - 6.0,
        escape(&texts.title),
        escape(&texts.subtitle),
    );
    let mut x = MARGIN;
    for (class, text) in legend(picture) {
        let _ = writeln!(
            out,
            "<rect class=\"key {class}\" x=\"{x}\" y=\"58\" width=\"14\" height=\"14\"/>\
             <text x=\"{}\" y=\"69\">{text}</text>",
            x + 19.0
        );
        // Wide enough for common fonts.
        x += 42.0 + 6.6 * text.chars().count() as f64;
    }
    let _ = write!(
        out,
        "<text class=\"dim\" x=\"{MARGIN}\" y=\"91\">{}</text>\n\
         <text class=\"info\" id=\"info\" x=\"{MARGIN}\" y=\"112\"> </text>\n\
         <g id=\"buttons\" style=\"display:none\">\
         <text class=\"button\" id=\"reset\" x=\"{}\" y=\"26\">Show all (Esc)</text>\
         <text class=\"button\" id=\"turn\" x=\"{}\" y=\"26\">Turn over</text>\
         <text class=\"button\" id=\"search\" x=\"{}\" y=\"26\">Search (Ctrl-F)</text></g>\n</g>\n",
        escape(&texts.hint),
        WIDTH - 290.0,
        WIDTH - 185.0,
        WIDTH - 110.0,
    );
}

/// Writes the legend of the colours in the picture.
fn legend(picture: &Picture) -> Vec<(&'static str, &'static str)> {
    let sorts: [(Sort, &str); 9] = [
        (Sort::Task, "process"),
        (Sort::Program, "the program's own code"),
        (Sort::Library, "shared library"),
        (Sort::Inlined, "inlined function"),
        (Sort::Jit, "compiled at run time"),
        (Sort::Kernel, "kernel"),
        (Sort::Unknown, "unknown name"),
        (Sort::Truncated, "callstack truncated"),
        (Sort::Merged, "… too small to show"),
    ];
    let is_there = |sort: Sort| {
        let mut used = picture.boxes.iter().map(|of| picture.names[of.name].sort);
        sort == Sort::Merged || used.any(|used| used == sort)
    };
    let sorts = sorts.into_iter().filter(|(sort, _)| is_there(*sort));
    if !picture.has_baseline {
        return sorts.map(|(sort, text)| (class(sort), text)).collect();
    }
    let plain = sorts.filter(|(sort, _)| matches!(sort, Sort::Task | Sort::Merged));
    let changes = [
        ("more", "larger own share than in the baseline"),
        ("less", "smaller own share"),
        ("same", "no change"),
    ];
    let plain = plain.map(|(sort, text)| (class(sort), text));
    changes.into_iter().chain(plain).collect()
}

fn class(sort: Sort) -> &'static str {
    match sort {
        Sort::Task => "t",
        Sort::Program => "p",
        Sort::Library => "l",
        Sort::Inlined => "i",
        Sort::Kernel => "k",
        Sort::Jit => "j",
        Sort::Unknown => "n",
        Sort::Truncated => "c",
        Sort::Merged => "m",
    }
}

/// Returns true if a name has the lighter of two shades, so that neighbours are distinguishable.
fn is_light(name: &Name) -> bool {
    name.text
        .bytes()
        .fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte))
        & 1
        == 1
}

struct Drawing<'a> {
    picture: &'a Picture,
    style: &'a Style,
    height: f64,
    greatest: f64,
}

impl Drawing<'_> {
    fn draw(&self, at: &PositionedBox, out: &mut String) {
        let of = &self.picture.boxes[at.index];
        let name = &self.picture.names[of.name];
        let y = if self.style.icicle {
            TOP + at.row as f64 * ROW
        } else {
            self.height - MARGIN - (at.row + 1) as f64 * ROW
        };
        let (x, width) = (MARGIN + at.x, at.width);
        let (class, fill) = match at.shows {
            Shows::Box => self.colour(of, name),
            Shows::Narrow { .. } | Shows::Deeper => ("m".to_owned(), String::new()),
        };
        let _ = write!(
            out,
            "<g class=\"b {class}\"><title>{}</title>\
             <rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" rx=\"1\"{fill}/>",
            escape(&self.description(of, name, at.shows)),
            ROW - 1.0
        );
        let text = match at.shows {
            Shows::Box => fit(&name.short, ((width - 6.0) / CHAR).max(0.0) as usize),
            _ if width > 10.0 => "…".to_owned(),
            _ => String::new(),
        };
        if !text.is_empty() {
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{}\">{}</text>",
                x + 3.0,
                y + ROW - 5.0,
                escape(&text)
            );
        }
        out.push_str("</g>\n");
    }

    /// The class of a box and, in a comparison, its own colour.
    fn colour(&self, of: &Box, name: &Name) -> (String, String) {
        let is_plain = matches!(name.sort, Sort::Task | Sort::Merged);
        if !self.picture.has_baseline || is_plain {
            let light = if is_light(name) { " s" } else { "" };
            return (format!("{}{light}", class(name.sort)), String::new());
        }
        let growth = self.picture.growth(of);
        let (class, to) = match growth {
            growth if growth.abs() < NO_GROWTH => return ("same".to_owned(), String::new()),
            growth if growth > 0.0 => ("more", [226.0, 62.0, 50.0]),
            _ => ("less", [56.0, 112.0, 214.0]),
        };
        let strength = (growth.abs() / self.greatest).sqrt().min(1.0);
        let mix = |from: f64, to: f64| (from + (to - from) * strength).round();
        let (r, g, b) = (mix(241.0, to[0]), mix(238.0, to[1]), mix(232.0, to[2]));
        let fill = format!(" style=\"fill:rgb({r},{g},{b})\"");
        (class.to_owned(), fill)
    }

    fn description(&self, of: &Box, name: &Name, shows: Shows) -> String {
        let all = self.picture.all();
        let percent = |part, whole| format!("{:.1} %", share(part, whole) * 100.0);
        match shows {
            Shows::Narrow { boxes, total } => {
                let share = percent(total, all.amount.total);
                return format!("{}: {share}", counted(boxes as u64, "function"));
            }
            Shows::Deeper => return "the callstack continues".to_owned(),
            Shows::Box => {}
        }
        let amount = self.style.unit.shown(of.amount.total);
        let shares = |of: Amount, all: Amount| {
            let (total, own) = (percent(of.total, all.total), percent(of.own, all.total));
            (total, own)
        };
        let (total, own) = shares(of.amount, all.amount);
        let mut text = name.text.clone();
        if !name.module.is_empty() && name.module != name.text {
            let _ = write!(text, " ({})", name.module);
        }
        let _ = write!(text, ": {total}, {amount}; itself {own}");
        if self.picture.has_baseline {
            let (total, own) = shares(of.before, all.before);
            let _ = write!(text, "; before {total}, itself {own}");
        }
        text
    }

    /// Writes the data that the script draws from.
    fn data(&self) -> String {
        let picture = self.picture;
        let mut out = format!(
            "{{\"width\":{WIDTH},\"row\":{ROW},\"top\":{TOP},\"margin\":{MARGIN},\"char\":{CHAR},\"min\":{MIN_WIDTH},\
             \"fill\":{MIN_FILL},\"least\":{MIN_ROWS},\"most\":{MAX_ROWS},\"icicle\":{},\"unit\":{},\"growth\":{},\
             \"step\":{},\n\"names\":[",
            self.style.icicle,
            json(self.style.unit.name()),
            if picture.has_baseline {
                self.greatest
            } else {
                0.0
            },
            if picture.has_baseline { 6 } else { 4 },
        );
        for (number, name) in picture.names.iter().enumerate() {
            let _ = write!(
                out,
                "{}[{},{},\"{}\",{}",
                if number == 0 { "" } else { ",\n" },
                json(&name.text),
                json(&name.module),
                class(name.sort),
                u8::from(is_light(name))
            );
            if name.short != name.text {
                let _ = write!(out, ",{}", json(&name.short));
            }
            out.push(']');
        }
        out.push_str("],\n\"boxes\":[");
        for (number, of) in picture.boxes.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let own = if of.merged > 0 {
                of.merged as u64
            } else {
                of.amount.own
            };
            let (total, children) = (of.amount.total, of.children);
            let _ = write!(out, "{comma}{},{own},{total},{children}", of.name);
            if picture.has_baseline {
                let _ = write!(out, ",{},{}", of.before.own, of.before.total);
            }
        }
        out.push_str("]}");
        out
    }
}

/// Shortens a name to a number of characters: without its modules, or else its end.
fn fit(name: &str, chars: usize) -> String {
    let length = |text: &str| text.chars().count();
    if chars < 3 {
        return String::new();
    }
    let mut short = name;
    while length(short) > chars
        && let Some((_, inner)) = short.split_once("::")
        // A closure needs the name of its function.
        && !inner.starts_with('{')
    {
        short = inner;
    }
    if length(short) > chars {
        return short.chars().take(chars - 1).chain(['…']).collect();
    }
    // Methods such as `run` need the name of their type.
    let skipped = length(name).saturating_sub(chars - 1);
    if length(short) < length(name) && length(short) * 2 < chars {
        ['…']
            .into_iter()
            .chain(name.chars().skip(skipped))
            .collect()
    } else {
        short.to_owned()
    }
}

/// Text for JSON inside XML.
fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '<' | '>' | '&' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_shortened_to_their_most_specific_part() {
        assert_eq!(fit("main", 10), "main");
        assert_eq!(fit("main", 2), "");
        assert_eq!(fit("std::vector::push_back", 22), "std::vector::push_back");
        assert_eq!(fit("std::vector::push_back", 18), "vector::push_back");
        assert_eq!(fit("a::main::{closure#0}", 16), "main::{closure#…");
        assert_eq!(fit("extraordinarily_long", 8), "extraor…");
        assert_eq!(fit("llvm::RepeatedPass::run", 14), "…atedPass::run");
    }

    #[test]
    fn text_of_others_stays_text() {
        assert_eq!(escape("a<b>&\"\u{1}"), "a&lt;b&gt;&amp;&quot; ");
        assert_eq!(
            json("]]></script>\"\\\n"),
            "\"]]\\u003e\\u003c/script\\u003e\\\"\\\\\\u000a\""
        );
    }
}
