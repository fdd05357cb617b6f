//! Destinations of log lines.

use super::line::{Line, Stamp};
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The syslog facility of user programs (RFC 3164, 4.1.1).
const USER: u8 = 1;

/// Destinations of log lines.
pub struct LogSink(Kind);

enum Kind {
    Writer(Mutex<Box<dyn Write + Send>>),
    Syslog(UnixDatagram),
}

impl LogSink {
    /// Standard error.
    pub fn console() -> Self {
        Self::writer(io::stderr())
    }

    /// The syslog socket at `path`.
    pub fn syslog(path: PathBuf) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        // A full socket must not block the caller.
        socket.set_nonblocking(true)?;
        Ok(Self(Kind::Syslog(socket)))
    }

    /// A writer; each line is one write.
    pub fn writer(writer: impl Write + Send + 'static) -> Self {
        Self(Kind::Writer(Mutex::new(Box::new(writer))))
    }

    /// Writes one line; errors are ignored.
    pub(super) fn write(&self, line: &Line<'_>) {
        match &self.0 {
            Kind::Writer(writer) => {
                let text = format!("{line}\n");
                let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = writer.write_all(text.as_bytes());
            }
            Kind::Syslog(socket) => {
                let priority = USER * 8 + line.level.severity();
                let time = Stamp::from(line.time).brief();
                let process = line.process;
                let text = format!("<{priority}>{time} tenon[{process}]: {}", line.unstamped());
                let _ = socket.send(text.as_bytes());
            }
        }
    }
}
