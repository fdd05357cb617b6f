//! A terminal that is drawn on again and again, with the sequences of ECMA-48 that all have.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{Read, Stdin, Stdout, Write};
use std::time::Duration;
use tenon_base::{Error, Result};

/// The alternate page, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The terminal of this process; dropping it gives it back as it was.
pub struct Terminal {
    input: Stdin,
    output: Stdout,
    before: Termios,
}

impl Terminal {
    /// Takes it: keys come one by one and are not shown.
    pub fn take() -> Result<Self> {
        let (input, output) = (std::io::stdin(), std::io::stdout());
        let failed = |error: rustix::io::Errno| {
            Error::io("the terminal", "use", error.into())
                .help("tenon top needs a terminal; tenon monitor does not")
        };
        let before = tcgetattr(&input).map_err(failed)?;
        tcgetwinsize(&output).map_err(failed)?;
        let mut modes = before.clone();
        // Ctrl-c is a key too (`wait`), so that the terminal is given back.
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        tcsetattr(&input, OptionalActions::Now, &modes).map_err(failed)?;
        let mut terminal = Self {
            input,
            output,
            before,
        };
        terminal.write(ENTER)?;
        Ok(terminal)
    }

    /// Columns and lines.
    pub fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(&self.output);
        size.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into()))
    }

    /// Draws a page over the one before, as much of it as fits.
    pub fn draw(&mut self, page: &str) -> Result<()> {
        let (_, lines) = self.size();
        self.write(&frame(page, lines))
    }

    /// Waits for a key, `patience` at most; whether it says to end: q, escape or ctrl-c.
    pub fn wait(&mut self, patience: Duration) -> Result<bool> {
        let timeout = Timespec::try_from(patience).ok();
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

    fn write(&mut self, text: &str) -> Result<()> {
        let mut output = self.output.lock();
        let written = output
            .write_all(text.as_bytes())
            .and_then(|()| output.flush());
        written.map_err(|error| Error::io("the terminal", "write", error))
    }
}

/// What draws a page over the one before on a terminal of so many lines.
fn frame(page: &str, lines: usize) -> String {
    let shown: Vec<&str> = page.lines().take(lines.max(1)).collect();
    // Each line ends the old one's rest, the last one the old page's.
    format!("\x1b[H{}\x1b[K\x1b[J", shown.join("\x1b[K\r\n"))
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.write(LEAVE);
        let _ = tcsetattr(&self.input, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Screen;
    use crate::metrics::tests::metrics;

    /// What a terminal shows: lines of characters, changed as ECMA-48 says.
    struct Shown {
        lines: Vec<Vec<char>>,
        at: (usize, usize),
    }

    impl Shown {
        fn new(lines: usize, columns: usize) -> Self {
            Self {
                lines: vec![vec![' '; columns]; lines],
                at: (0, 0),
            }
        }

        fn write(&mut self, text: &str) {
            let mut chars = text.chars();
            while let Some(char) = chars.next() {
                let (line, column) = self.at;
                match char {
                    '\r' => self.at.1 = 0,
                    '\n' => self.at.0 += 1,
                    '\x1b' => {
                        assert_eq!(chars.next(), Some('['));
                        match chars.next() {
                            Some('H') => self.at = (0, 0),
                            Some('K') => self.lines[line][column..].fill(' '),
                            Some('J') => {
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
                        self.at.1 += 1;
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
    fn a_page_takes_the_place_of_the_one_before() {
        let mut shown = Shown::new(12, 101);
        let mut metrics = metrics();
        let full = Screen::new(&metrics, 100).text();
        assert!((9..=12).contains(&full.lines().count()), "{full}");
        shown.write(&frame(&full, 12));
        let mut expected: Vec<&str> = full.lines().collect();
        expected.resize(12, "");
        assert_eq!(shown.text(), expected);
        // The process has left: of its lines nothing stays.
        metrics.later.processes.clear();
        let empty = Screen::new(&metrics, 100).text();
        shown.write(&frame(&empty, 12));
        let mut expected: Vec<&str> = empty.lines().collect();
        expected.resize(12, "");
        assert_eq!(shown.text(), expected);
    }

    #[test]
    fn a_page_that_is_too_long_is_cut() {
        let mut shown = Shown::new(3, 10);
        shown.write(&frame("1\n2\n3\n4\n5\n", 3));
        assert_eq!(shown.text(), ["1", "2", "3"]);
        shown.write(&frame("", 3));
        assert_eq!(shown.text(), ["", "", ""]);
        assert_eq!(frame("a\nb\n", 0), "\x1b[Ha\x1b[K\x1b[J");
    }
}
