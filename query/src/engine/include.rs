//! Inclusion of modules.

use super::Engine;
use crate::error::{SqlError, nearest};

/// The state of an included module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Module {
    Running,
    Done,
}

impl Engine {
    /// Includes a module, or all modules of a package: `package.*`.
    pub(super) fn include(&mut self, name: &str) -> Result<(), SqlError> {
        if name == "*" || name.ends_with(".*") {
            let prefix = name.trim_end_matches('*');
            let names = self
                .packages
                .keys()
                .filter(|known| known.starts_with(prefix));
            let names: Vec<String> = names.cloned().collect();
            if names.is_empty() {
                return Err(SqlError::new(format!("There is no package '{name}'.")));
            }
            return names.iter().try_for_each(|name| self.include_one(name));
        }
        self.include_one(name)
    }

    fn include_one(&mut self, name: &str) -> Result<(), SqlError> {
        // The prelude is always there.
        if name.starts_with("prelude.") {
            return Ok(());
        }
        match self.modules.get(name) {
            Some(Module::Done) => return Ok(()),
            Some(Module::Running) => {
                return Err(SqlError::new(format!(
                    "The module '{name}' includes itself."
                )));
            }
            None => {}
        }
        let Some(sql) = self.packages.get(name).cloned() else {
            let mut message = format!("There is no module '{name}'.");
            if let Some(near) = nearest(name, self.module_names()) {
                message += &format!(" Did you mean '{near}'?");
            }
            return Err(SqlError::new(message));
        };
        self.modules.insert(name.to_owned(), Module::Running);
        match self.define_all(&sql) {
            Ok(()) => {
                self.modules.insert(name.to_owned(), Module::Done);
                Ok(())
            }
            Err(error) => {
                self.modules.remove(name);
                let line = match error.position(&sql) {
                    Some((line, _)) => format!(" (line {line})"),
                    None => String::new(),
                };
                Err(SqlError::new(format!(
                    "In the module '{name}'{line}: {}",
                    error.message
                )))
            }
        }
    }
}
