//! Inclusion of modules.

use super::{Engine, Module};
use crate::error::{SqlError, nearest};
use crate::sql::lexer::{split, tokenize};

impl Engine {
    /// Runs a module once.
    pub(super) async fn include(&mut self, name: &str) -> Result<(), SqlError> {
        if let Some(prefix) = name.strip_suffix('*') {
            let names: Vec<String> = self
                .packages
                .keys()
                .filter(|m| m.starts_with(prefix))
                .cloned()
                .collect();
            if names.is_empty() {
                return Err(SqlError::new(format!("No module matches '{name}'.")));
            }
            for name in names {
                Box::pin(self.include(&name)).await?;
            }
            return Ok(());
        }
        match self.modules.get(name) {
            Some(Module::Done) => return Ok(()),
            Some(Module::Running) => {
                return Err(SqlError::new(format!(
                    "The module '{name}' includes itself."
                )));
            }
            Some(Module::Failed(message)) => return Err(SqlError::new(message.clone())),
            None => {}
        }
        if name.starts_with("prelude.") {
            return Ok(());
        }
        let Some(sql) = self.packages.get(name).cloned() else {
            let mut message = format!("There is no module '{name}'.");
            if let Some(near) = nearest(name, self.packages.keys().map(String::as_str)) {
                message += &format!(" Did you mean '{near}'?");
            }
            return Err(SqlError::new(message));
        };
        self.modules.insert(name.to_owned(), Module::Running);
        let mut result = Ok(());
        for statement in split(tokenize(&sql)?) {
            result = match Box::pin(self.run(statement)).await {
                Ok(None) => Ok(()),
                Ok(Some(_)) => Err(SqlError::new("statements of modules must not return rows")),
                Err(error) => Err(error),
            };
            if result.is_err() {
                break;
            }
        }
        match result {
            Ok(()) => {
                self.modules.insert(name.to_owned(), Module::Done);
                Ok(())
            }
            Err(error) => {
                let message = format!("The module '{name}' failed: {}", error.render(&sql));
                self.modules
                    .insert(name.to_owned(), Module::Failed(message.clone()));
                Err(SqlError::new(message))
            }
        }
    }
}
