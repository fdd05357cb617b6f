//! The log of the host and its kernels: lines with a severity, on standard error (bef 5.3).

use std::fmt;
use std::io::Write;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Information.
    Info,
    /// Unexpected, but the program continues.
    Warning,
    /// A failure.
    Error,
}

impl Severity {
    /// The letter that a line starts with.
    pub fn letter(self) -> char {
        match self {
            Severity::Info => 'I',
            Severity::Warning => 'W',
            Severity::Error => 'E',
        }
    }
}

/// Receives a line: its severity, the source location of the call, its text.
type Sink = dyn Fn(Severity, &Location<'_>, fmt::Arguments<'_>) + Send + Sync;

/// A log: the destination of lines.
#[derive(Clone)]
pub struct Log(Arc<Sink>);

impl Log {
    /// A log that passes each line to `sink`.
    pub fn new(sink: impl Fn(Severity, fmt::Arguments<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |severity, _, text| sink(severity, text)))
    }

    /// Lines on standard error: severity, time (UTC), thread, source location, text.
    pub fn standard_error() -> Self {
        Self(Arc::new(|severity, place, text| {
            let line = Line {
                severity,
                time: SystemTime::now(),
                thread: thread_number(),
                place,
                text,
            };
            // A closed standard error must not stop the program.
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }))
    }

    /// Writes one line.
    #[track_caller]
    pub fn write(&self, severity: Severity, text: fmt::Arguments<'_>) {
        (self.0)(severity, Location::caller(), text);
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::standard_error()
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

/// `I 2026-01-01 12:00:00.123456 3 allocator.rs:70] text`
struct Line<'a> {
    severity: Severity,
    time: SystemTime,
    thread: u32,
    place: &'a Location<'a>,
    text: fmt::Arguments<'a>,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.time.duration_since(UNIX_EPOCH);
        let since = since.unwrap_or(Duration::ZERO);
        let seconds = since.as_secs();
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let file = self.place.file().rsplit('/').next().unwrap_or_default();
        write!(
            f,
            "{} {year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{:06} {} {file}:{}] {}",
            self.severity.letter(),
            since.subsec_micros(),
            self.thread,
            self.place.line(),
            self.text,
        )
    }
}

/// Year, month and day of a number of days since 1970-01-01 (Gregorian calendar).
fn date(days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut rest) = (1970 + days / 146_097 * 400, days % 146_097);
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if rest < length {
            break;
        }
        rest -= length;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if rest < length {
            break;
        }
        rest -= length;
        month += 1;
    }
    (year, month, rest + 1)
}

/// A number of the calling thread, from 1 in the order of first log lines.
fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local!(static NUMBER: u32 = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn dates_follow_the_gregorian_calendar() {
        // Python: (datetime.date(1970, 1, 1) + datetime.timedelta(days)).
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(20_454), (2026, 1, 1));
        assert_eq!(date(47_540), (2100, 2, 28));
        assert_eq!(date(47_541), (2100, 3, 1));
        assert_eq!(date(146_096), (2369, 12, 31));
    }

    #[test]
    fn a_line_has_severity_time_thread_and_location() {
        let place = Location::caller();
        let line = Line {
            severity: Severity::Warning,
            time: UNIX_EPOCH + Duration::from_micros(1_767_268_800_123_456),
            thread: 3,
            place,
            text: format_args!("text"),
        };
        let expected = format!(
            "W 2026-01-01 12:00:00.123456 3 log.rs:{}] text",
            place.line()
        );
        assert_eq!(line.to_string(), expected);
    }

    #[test]
    fn a_sink_receives_lines() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let log = Log::new(move |severity, text| {
            sink.lock()
                .unwrap()
                .push(format!("{} {text}", severity.letter()));
        });
        log.write(Severity::Info, format_args!("{}", 7));
        assert_eq!(*lines.lock().unwrap(), ["I 7"]);
    }
}
