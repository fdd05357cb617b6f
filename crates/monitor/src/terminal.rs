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
        let mut text = String::from("\x1b[H");
        let shown: Vec<&str> = page.lines().take(lines.max(1)).collect();
        // Each line ends the old one's rest, the last one the old page's.
        text.push_str(&shown.join("\x1b[K\r\n"));
        text.push_str("\x1b[K\x1b[J");
        self.write(&text)
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

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.write(LEAVE);
        let _ = tcsetattr(&self.input, OptionalActions::Now, &self.before);
    }
}
