//! Progress bars on stderr, when it is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tenon::{Control, Progress};

/// A control whose steps are drawn as a bar on stderr; silent when that is no terminal.
pub fn control() -> Control {
    control_within(None)
}

/// The same with a deadline in seconds, if any.
pub fn control_within(seconds: Option<f64>) -> Control {
    let deadline = seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let is_drawn = std::io::stderr().is_terminal();
    match (deadline, is_drawn) {
        (Some(deadline), true) => Control::with_deadline_and_listener(deadline, drawn()),
        (Some(deadline), false) => Control::with_deadline(deadline),
        (None, true) => Control::with_listener(drawn()),
        (None, false) => Control::new(),
    }
}

/// Draws steps as bars.
fn drawn() -> impl Fn(Progress<'_>) + Send + Sync + 'static {
    let bar = Mutex::new(None::<(String, ProgressBar)>);
    move |Progress { step, done, total }| {
        let Ok(mut bar) = bar.lock() else { return };
        if bar.as_ref().is_none_or(|(drawn, _)| drawn != step) {
            if let Some((_, old)) = bar.take() {
                old.finish_and_clear();
            }
            *bar = Some((step.to_owned(), new_bar(step, total)));
        }
        if let Some((_, drawn)) = &*bar {
            drawn.set_position(done);
            if done >= total {
                drawn.finish_and_clear();
            }
        }
    }
}

/// A bar that counts items, with the current item and the elapsed time; hidden if stderr is no
/// terminal.
pub fn counting(total: u64) -> ProgressBar {
    styled(total, "[{bar:20}] {pos}/{len} {msg} {elapsed}")
}

/// A bar that counts files, with a message and the estimated time that is left; hidden if stderr is no terminal.
pub fn of_files(total: u64) -> ProgressBar {
    styled(total, "[{bar:20}] {pos}/{len} files, {msg}, {eta} left").with_message("starting")
}

fn styled(total: u64, template: &str) -> ProgressBar {
    let bar = if std::io::stderr().is_terminal() {
        ProgressBar::new(total)
    } else {
        ProgressBar::hidden()
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

fn new_bar(step: &str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total).with_message(step.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{msg:>20} [{bar:30}] {pos}/{len} {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
