//! The code of a function with its cost: its instructions and source lines.

mod cost;
mod costs;
mod disassembly;
mod source;

use std::path::Path;

use ferretto_symbols::{Code, Module, Options, Symbolizer};
use serde_json::{Value, json};

use self::cost::Cost;
use self::costs::Costs;
pub use self::costs::FunctionRequest;
use self::disassembly::{Instruction, disassemble};
use self::source::Sources;
use crate::view::View;

/// The largest function to disassemble.
const MAX_CODE: u64 = 256 << 10;

impl View {
    /// Returns the instructions and source lines of a function with the weight of its samples, as
    /// JSON. `None` if there is no such profile.
    pub fn code(&self, request: &FunctionRequest<'_>) -> Option<Value> {
        let costs = self.costs(request)?;
        let mut missing = Vec::new();
        let mut reply = json!({
            "function": request.function, "file": request.file, "total": costs.total,
            "own": costs.function.own, "all": costs.function.all,
            "instructions": [], "lines": [], "missing": [],
        });
        // Names may be those of several functions; the most expensive one is shown.
        let hottest = costs.addresses.iter().max_by(|a, b| {
            let order = a.1.all.total_cmp(&b.1.all);
            order.then_with(|| b.0.cmp(a.0))
        });
        let Some((((mapping, rel_pc), _), _)) = hottest else {
            return Some(reply);
        };
        let module = self.module(*mapping);
        let options = Options::from_environment().unwrap_or_default();
        let symbolizer = Symbolizer::new(Options {
            system: true,
            cache: None,
            ..options
        });
        let found = symbolizer.code(&module, *rel_pc).map_err(|skipped| {
            let reasons = skipped.iter();
            let reasons = reasons.map(|(path, why)| format!("{}: {why}", path.display()));
            let reasons: Vec<String> = reasons.collect();
            match &reasons[..] {
                [] => format!("no file of {} has this function", module.path),
                reasons => reasons.join("; "),
            }
        });
        let found = found.and_then(|code| Ok((instructions(&module, &code)?, code)));
        let (instructions, code) = match found {
            Ok(found) => found,
            Err(why) => {
                reply["lines"] = json!(costs.lines.json(None, &mut missing));
                missing.push(format!("Instructions are not shown: {why}."));
                reply["missing"] = json!(missing);
                return Some(reply);
            }
        };
        let addresses: Vec<u64> = instructions.iter().map(|it| it.address).collect();
        let named = symbolizer.lines(&module, &code, &addresses);
        missing.extend(named.remarks);
        let mut sources = Sources::default();
        let mut rows = Vec::new();
        for (instruction, cost) in instructions
            .iter()
            .zip(spread(&addresses, &costs, *mapping, &code))
        {
            let rel_pc = instruction.address.wrapping_sub(code.correction);
            let named = &named.names;
            let at = named.binary_search_by_key(&rel_pc, |named| named.rel_pc);
            let frame = at.ok().and_then(|at| named[at].frames.first());
            let line = frame.and_then(|it| Some((it.file.as_deref()?, it.line)));
            let line = line.filter(|(_, line)| *line > 0);
            if let Some((file, line)) = line {
                sources.add(file, line, cost);
            }
            let line = line.map(|(file, line)| {
                let name = Path::new(file).file_name().unwrap_or_default();
                format!("{}:{line}", name.to_string_lossy())
            });
            let address = format!("{:x}", instruction.address);
            rows.push(json!([address, instruction.text, cost.own, cost.all, line]));
        }
        if sources.is_empty() {
            missing.push(format!(
                "{} has no debug information, so the source lines are unknown.",
                code.path.display()
            ));
        }
        let built = std::fs::metadata(&code.path).and_then(|meta| meta.modified());
        reply["path"] = json!(code.path);
        reply["instructions"] = json!(rows);
        reply["lines"] = json!(sources.json(built.ok(), &mut missing));
        reply["missing"] = json!(missing);
        Some(reply)
    }

    fn module(&self, mapping: u32) -> Module {
        let (table, strings) = (
            &self.trace().tables().stack_profile_mapping,
            self.trace().strings(),
        );
        let id = strings.text(table.build_id().get(mapping));
        let digits = id.as_bytes().chunks_exact(2);
        let bytes = digits.map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        let exact = table.exact_offset().get(mapping);
        let start = table.start_offset().get(mapping);
        Module {
            path: strings.text(table.name().get(mapping)).to_owned(),
            build_id: bytes.collect::<Option<Vec<u8>>>().unwrap_or_default(),
            load_bias: table.load_bias().get(mapping) as u64,
            offset: Some(exact.wrapping_sub(start) as u64),
            rel_pcs: Vec::new(),
        }
    }
}

/// Disassembles a function.
fn instructions(module: &Module, code: &Code) -> Result<Vec<Instruction>, String> {
    let size = code.range.end.saturating_sub(code.range.start);
    if size > MAX_CODE {
        return Err(format!("the function has more than {} KiB", MAX_CODE >> 10));
    }
    disassemble(&code.path, &module.build_id, code.range.clone())
        .map_err(|error| format!("{}: {error}", code.path.display()))
}

/// Returns the cost of each instruction of a function, by their addresses.
fn spread(addresses: &[u64], costs: &Costs, mapping: u32, code: &Code) -> Vec<Cost> {
    let mut spread = vec![Cost::default(); addresses.len()];
    for (((of, rel_pc), is_return), cost) in &costs.addresses {
        // The call is before the address that it returns to.
        let back = u64::from(*is_return);
        let address = rel_pc.wrapping_add(code.correction).wrapping_sub(back);
        if *of != mapping || !code.range.contains(&address) {
            continue;
        }
        let behind = addresses.partition_point(|it| *it <= address);
        if let Some(it) = behind.checked_sub(1).and_then(|at| spread.get_mut(at)) {
            it.own += cost.own;
            it.all += cost.all;
        }
    }
    spread
}
