//! A picture of the viewer, by a browser.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ferretto_mcp::{Answer, Call, Image};
use serde_json::json;

use super::loaded::Loaded;

/// The browsers that can draw without a screen.
const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
/// The time that a picture may take.
const PATIENCE: Duration = Duration::from_secs(60);
const PERIOD: Duration = Duration::from_millis(20);
/// The size of the exported page.
const MAX_PAGE: &str = "32M";

/// Returns a browser that is installed.
pub(super) fn browser() -> Option<String> {
    let path = env::var_os("PATH")?;
    let is_there = |name: &&str| env::split_paths(&path).any(|folder| folder.join(name).is_file());
    BROWSERS.into_iter().find(is_there).map(str::to_owned)
}

pub(super) fn answer(loaded: &Loaded, browser: &str, call: &Call) -> Result<Answer, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (page, picture) = (
        folder.path().join("page.html"),
        folder.path().join("page.png"),
    );
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut export = Command::new(program);
    export
        .arg0("ferretto")
        .args(["view", "--max-size", MAX_PAGE, "-o"]);
    run(export.arg(&page).arg(loaded.path()), call)?;
    let mut draw = Command::new(browser);
    draw.args([
        "--headless",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-first-run",
    ])
    .arg(format!(
        "--user-data-dir={}",
        folder.path().join("profile").display()
    ))
    .args(["--window-size=1400,900", "--virtual-time-budget=5000"])
    .arg(format!("--screenshot={}", picture.display()));
    if rustix::process::geteuid().is_root() {
        draw.arg("--no-sandbox");
    }
    run(draw.arg(format!("file://{}", page.display())), call)?;
    let bytes = fs::read(&picture).map_err(|_| format!("{browser} has not drawn the page"))?;
    let mut answer = Answer::new(
        json!({ "file": loaded.name, "picture_bytes": bytes.len() }),
        Vec::new(),
    );
    answer.image = Some(Image {
        mime: "image/png",
        bytes,
    });
    Ok(answer)
}

/// Runs a program until it ends, takes too long or the call is cancelled.
fn run(command: &mut Command, call: &Call) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = quiet
        .spawn()
        .map_err(|error| format!("cannot run {name}: {error}"))?;
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() || status.code() == Some(3) => return Ok(()),
            Ok(Some(status)) => return Err(format!("{name} failed: {status}")),
            Ok(None) if call.is_cancelled() || Instant::now() > until => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{name} took too long"));
            }
            Ok(None) => thread::sleep(PERIOD),
            Err(error) => return Err(error.to_string()),
        }
    }
}
