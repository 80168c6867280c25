//! Upstream's programs in the folder `FERRETTO_UPSTREAM`.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A program of upstream that ends with the test.
pub struct Upstream(Child);

impl Upstream {
    /// Starts a program; `None` if it is not available.
    pub fn start(program: &str, args: &[&str], variables: &[(&str, String)]) -> Option<Self> {
        let folder = std::env::var_os("FERRETTO_UPSTREAM").map(PathBuf::from);
        let Some(folder) = folder.filter(|folder| folder.join(program).exists()) else {
            println!("skipped: FERRETTO_UPSTREAM does not name a folder with {program}");
            return None;
        };
        let mut command = Command::new(folder.join(program));
        command
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Some(Self(command.spawn().unwrap()))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
