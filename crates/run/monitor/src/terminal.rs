//! The terminal of `tenon top`: raw mode and alternate screen, restored on every exit.

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::Print;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{execute, queue};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, IsTerminal, Read, Stdin, Write};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use tenon_base::{Error, Result};

/// Whether the terminal is in raw mode. Locked during writes, so that a restoration by another
/// thread is the last write.
static RAW: Mutex<bool> = Mutex::new(false);

/// How long [`restore_terminal`] waits for a write in progress.
const WRITE_LIMIT: Duration = Duration::from_millis(500);

/// The terminal of this process in raw mode; dropping it restores the terminal.
pub struct Terminal {
    input: Stdin,
}

impl Terminal {
    /// Enters raw mode and the alternate screen.
    ///
    /// # Errors
    /// `Io` if standard input or output is not a terminal.
    pub fn open() -> Result<Self> {
        let failed = |error: io::Error| {
            Error::io("the terminal", "use", error)
                .help("tenon top needs a terminal; tenon monitor does not")
        };
        let (input, mut output) = (io::stdin(), io::stdout());
        if !input.is_terminal() || !output.is_terminal() {
            return Err(failed(rustix::io::Errno::NOTTY.into()));
        }
        let mut raw = lock();
        // In raw mode ctrl-c is a key (`is_quit_requested`), not a signal.
        enable_raw_mode().map_err(failed)?;
        *raw = true;
        drop(raw);
        let terminal = Self { input };
        execute!(output, EnterAlternateScreen, Hide).map_err(failed)?;
        Ok(terminal)
    }

    /// Columns and lines.
    pub fn size(&self) -> (usize, usize) {
        size().map_or((80, 24), |(columns, lines)| (columns.into(), lines.into()))
    }

    /// Replaces the displayed page, truncated to the lines of the terminal.
    pub fn draw(&mut self, page: &str) -> Result<()> {
        let (_, lines) = self.size();
        let frame = frame(page, lines);
        let _raw = lock();
        let mut output = io::stdout().lock();
        let written = output.write_all(&frame).and_then(|()| output.flush());
        written.map_err(|error| Error::io("the terminal", "write", error))
    }

    /// Waits at most `timeout` for a key; returns whether it is q, escape or ctrl-c, or the input
    /// has ended.
    pub fn is_quit_requested(&mut self, timeout: Duration) -> Result<bool> {
        let timeout = Timespec::try_from(timeout).ok();
        let mut polled = [PollFd::new(&self.input, PollFlags::IN)];
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(Error::io("the terminal", "wait for", error.into())),
        }
        let mut key = [0; 1];
        let count = self.input.read(&mut key);
        let count = count.map_err(|error| Error::io("the terminal", "read", error))?;
        Ok(count == 0 || matches!(key[0], b'q' | b'Q' | 0x1b | 0x03))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore(&mut lock());
    }
}

/// Restores the terminal if a [`Terminal`] is open. For a process that is about to end by a signal:
/// later writes of other threads block.
pub fn restore_terminal() {
    // A write blocks while the terminal does not read, as after ctrl-s.
    let deadline = Instant::now() + WRITE_LIMIT;
    loop {
        match RAW.try_lock() {
            Ok(mut raw) => {
                restore(&mut raw);
                return std::mem::forget(raw);
            }
            Err(TryLockError::Poisoned(poisoned)) => return restore(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            // Without the alternate screen, which would need another write.
            Err(TryLockError::WouldBlock) => return drop(disable_raw_mode()),
        }
    }
}

fn restore(raw: &mut MutexGuard<'_, bool>) {
    if std::mem::take(&mut **raw) {
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

fn lock() -> MutexGuard<'static, bool> {
    RAW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The control sequences that replace the page on a terminal of `lines` lines.
fn frame(page: &str, lines: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    // Writing to a Vec cannot fail.
    let _ = queue!(frame, MoveTo(0, 0));
    for (index, line) in page.lines().take(lines.max(1)).enumerate() {
        let separator = if index == 0 { "" } else { "\r\n" };
        let _ = queue!(
            frame,
            Print(separator),
            Print(line),
            Clear(ClearType::UntilNewLine)
        );
    }
    let _ = queue!(frame, Clear(ClearType::FromCursorDown));
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Screen;
    use crate::metrics::tests::metrics;

    /// A terminal emulator for the control sequences of [`frame`] (ECMA-48).
    struct Emulator {
        lines: Vec<Vec<char>>,
        cursor: (usize, usize),
    }

    impl Emulator {
        fn new(lines: usize, columns: usize) -> Self {
            Self {
                lines: vec![vec![' '; columns]; lines],
                cursor: (0, 0),
            }
        }

        fn write(&mut self, bytes: &[u8]) {
            let mut chars = std::str::from_utf8(bytes).unwrap().chars();
            while let Some(char) = chars.next() {
                let (line, column) = self.cursor;
                match char {
                    '\r' => self.cursor.1 = 0,
                    '\n' => self.cursor.0 += 1,
                    '\x1b' => {
                        assert_eq!(chars.next(), Some('['));
                        let mut sequence = String::new();
                        while !sequence.ends_with(|char: char| char.is_ascii_alphabetic()) {
                            sequence.push(chars.next().unwrap());
                        }
                        match sequence.as_str() {
                            "1;1H" => self.cursor = (0, 0),
                            "K" => self.lines[line][column..].fill(' '),
                            "J" => {
                                self.lines[line][column..].fill(' ');
                                self.lines[line + 1..]
                                    .iter_mut()
                                    .for_each(|line| line.fill(' '));
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                    char => {
                        self.lines[line][column] = char;
                        self.cursor.1 += 1;
                    }
                }
            }
        }

        fn text(&self) -> Vec<String> {
            let line = |line: &Vec<char>| line.iter().collect::<String>().trim_end().to_owned();
            self.lines.iter().map(line).collect()
        }
    }

    #[test]
    fn a_page_replaces_the_previous_one() {
        let mut emulator = Emulator::new(12, 101);
        let mut metrics = metrics();
        let full = Screen::new(&metrics, 100).text();
        assert!((9..=12).contains(&full.lines().count()), "{full}");
        emulator.write(&frame(&full, 12));
        let mut expected: Vec<&str> = full.lines().collect();
        expected.resize(12, "");
        assert_eq!(emulator.text(), expected);
        // The process has exited: none of its lines remains.
        metrics.later.processes.clear();
        let empty = Screen::new(&metrics, 100).text();
        emulator.write(&frame(&empty, 12));
        let mut expected: Vec<&str> = empty.lines().collect();
        expected.resize(12, "");
        assert_eq!(emulator.text(), expected);
    }

    #[test]
    fn a_page_longer_than_the_terminal_is_truncated() {
        let mut emulator = Emulator::new(3, 10);
        emulator.write(&frame("1\n2\n3\n4\n5\n", 3));
        assert_eq!(emulator.text(), ["1", "2", "3"]);
        emulator.write(&frame("", 3));
        assert_eq!(emulator.text(), ["", "", ""]);
        assert_eq!(frame("a\nb\n", 0), b"\x1b[1;1Ha\x1b[K\x1b[J");
    }
}
