//! The browser as a child process.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ferretto_interop::World;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A headless browser without network access that sends its events to the service.
const ARGUMENTS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--enable-features=EnablePerfettoSystemTracing",
];

/// The time limit for its end.
const END: Duration = Duration::from_secs(10);

/// A browser that can be started.
pub(crate) struct Browser(OsString);

impl Browser {
    pub(crate) fn new(program: OsString) -> Self {
        Self(program)
    }

    /// Opens a page. All files are in the folder of the scenario.
    pub(crate) fn start(&self, world: &World, address: &str) -> Running {
        let home = world.file("home");
        std::fs::create_dir_all(&home).expect("a folder for the browser");
        let log = File::create(world.file("browser.log")).expect("a log");
        let mut command = world.command(Command::new(&self.0));
        command
            .args(ARGUMENTS)
            .arg(format!("--user-data-dir={}", home.display()))
            .arg(address)
            .envs(
                [
                    "HOME",
                    "TMPDIR",
                    "XDG_CONFIG_HOME",
                    "XDG_CACHE_HOME",
                    "XDG_RUNTIME_DIR",
                ]
                .map(|name| (name, &home)),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0);
        Running(command.spawn().expect("the browser starts"))
    }
}

/// A running browser. Ended, with all its processes, when dropped.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.0);
        let _ = kill_process(pid, Signal::TERM);
        let deadline = Instant::now() + END;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.0.wait();
    }
}
