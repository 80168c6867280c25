//! Manual pages and completions, generated from the `--help` output of the programs.

use std::fmt::Write as _;

/// The help of a program, or of a subcommand.
#[derive(Debug)]
pub(super) struct Help {
    /// The words of the command.
    pub(super) words: Vec<String>,
    pub(super) text: String,
}

impl Help {
    /// Returns the first sentence.
    fn about(&self) -> &str {
        let mut lines = self.text.lines();
        let first = lines
            .find(|line| !line.is_empty() && !line.starts_with("Usage:") && !line.starts_with(' '));
        let sentence = first.unwrap_or_default().split(". ").next();
        sentence.unwrap_or_default().trim_end_matches('.')
    }

    /// Returns the subcommands with their descriptions.
    pub(super) fn commands(&self) -> Vec<(&str, &str)> {
        let lines = self.text.lines().skip_while(|line| *line != "Commands:");
        let lines = lines.skip(1).take_while(|line| !line.is_empty());
        let rows = lines.filter_map(|line| line.strip_prefix("  ")?.split_once(' '));
        let rows = rows.filter(|(name, _)| !name.is_empty());
        rows.map(|(name, about)| (name, about.trim())).collect()
    }

    /// Returns the options; `-o` and `--output` count separately.
    fn options(&self) -> Vec<&str> {
        let mut options = Vec::new();
        for line in self.text.lines() {
            let row = line.trim_start();
            if !row.starts_with('-') || line == row {
                continue;
            }
            for word in row.split(", ") {
                let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                let option = &word[..end.unwrap_or(word.len())];
                if option.len() > 1 && option.starts_with('-') && !options.contains(&option) {
                    options.push(option);
                }
                // The rest is the value or the description.
                if end.is_some() {
                    break;
                }
            }
        }
        options
    }

    /// Returns the manual page.
    pub(super) fn page(&self, version: &str) -> String {
        let name = self.words.join("-");
        let mut page = String::new();
        let title = name.to_uppercase();
        let _ = writeln!(page, ".TH {title} 1 \"\" \"ferretto {version}\"");
        let _ = writeln!(
            page,
            ".SH NAME\n{} \\- {}",
            escaped(&name),
            escaped(self.about())
        );
        let _ = writeln!(page, ".SH DESCRIPTION\n.nf");
        for line in self.text.lines() {
            // A line that starts with a dot would be a roff request.
            let _ = writeln!(page, "\\&{}", escaped(line));
        }
        let _ = writeln!(page, ".fi");
        page
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// Returns the bash completions of a program with its subcommands.
pub(super) fn bash(program: &Help, commands: &[Help]) -> String {
    let name = &program.words[0];
    let words: Vec<&str> = program.commands().iter().map(|(name, _)| *name).collect();
    let mut cases = String::new();
    for command in commands {
        let last = command.words.last().map_or("", String::as_str);
        let options = command.options().join(" ");
        let _ = writeln!(cases, "        {last}) words='{options}' ;;");
    }
    format!(
        "_{name}() {{\n    local words current=${{COMP_WORDS[COMP_CWORD]}}\n    \
         case ${{COMP_WORDS[1]}} in\n{cases}        *) words='{} {}' ;;\n    esac\n    \
         COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n    \
         [[ ${{#COMPREPLY[@]}} -gt 0 ]] || COMPREPLY=($(compgen -f -- \"$current\"))\n}}\n\
         complete -o filenames -F _{name} {name}\n",
        words.join(" "),
        program.options().join(" "),
    )
}

/// Returns the same for zsh.
pub(super) fn zsh(program: &Help, commands: &[Help]) -> String {
    let name = &program.words[0];
    let mut rows = String::new();
    for (command, about) in program.commands() {
        let about = about.replace('\'', "'\\''");
        let _ = writeln!(rows, "    '{command}:{about}'");
    }
    let mut cases = String::new();
    for command in commands {
        let last = command.words.last().map_or("", String::as_str);
        let options = command.options().join(" ");
        let _ = writeln!(cases, "        {last}) compadd -- {options} ;;");
    }
    format!(
        "#compdef {name}\nlocal -a commands\ncommands=(\n{rows})\n\
         if (( CURRENT == 2 )) && [[ -n \"${{commands}}\" ]]; then\n    \
         _describe command commands\n    compadd -- {}\nelse\n    case ${{words[2]}} in\n{cases}    esac\n    \
         _files\nfi\n",
        program.options().join(" "),
    )
}

/// Returns the same for fish.
pub(super) fn fish(program: &Help, commands: &[Help]) -> String {
    let name = &program.words[0];
    let mut text = String::new();
    for (command, about) in program.commands() {
        let about = about.replace('\'', "\\'");
        let _ = writeln!(
            text,
            "complete -c {name} -n __fish_use_subcommand -a {command} -d '{about}'"
        );
    }
    for command in commands {
        let last = command.words.last().map_or("", String::as_str);
        for option in command.options() {
            let kind = match option.strip_prefix("--") {
                Some(long) => format!("-l {long}"),
                None => format!("-s {}", option.trim_start_matches('-')),
            };
            let _ = writeln!(
                text,
                "complete -c {name} -n '__fish_seen_subcommand_from {last}' {kind}"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(word: &str, text: &str) -> Help {
        Help {
            words: vec![word.to_owned()],
            text: text.to_owned(),
        }
    }

    #[test]
    fn options_and_commands_are_found_in_help() {
        let text = "Does things. And more.\n\nUsage: x\n\nCommands:\n  cut    Cut it\n  help   Print\n\n\
                    Options:\n  -o, --output <FILE>\n          - is standard output\n      --perf[=<HZ>]  rate\n\
                    -x is no option\n";
        let help = help("x", text);
        assert_eq!(help.options(), ["-o", "--output", "--perf"]);
        assert_eq!(help.commands(), [("cut", "Cut it"), ("help", "Print")]);
        assert!(help.page("1").contains("x \\- Does things\n"));
        assert!(help.page("1").contains("\\&      \\-\\-perf[=<HZ>]"));
    }

    #[test]
    fn every_shell_gets_the_commands_and_their_options() {
        let program = help("x", "About\n\nCommands:\n  cut   Cut it\n\n");
        let cut = [help("cut", "Cut\n  -o, --output <FILE>  there\n")];
        assert!(bash(&program, &cut).contains("cut) words='-o --output' ;;"));
        assert!(zsh(&program, &cut).contains("'cut:Cut it'"));
        assert!(fish(&program, &cut).contains("_from cut' -l output\n"));
    }
}
