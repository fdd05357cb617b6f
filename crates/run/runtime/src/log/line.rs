//! Log lines and their timestamps.

use super::{Component, LogLevel};
use std::fmt::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};
use tenon_base::escape_controls;

/// A line. Display is the line without its end.
pub(super) struct Line<'a> {
    pub time: SystemTime,
    pub process: u32,
    pub thread: u32,
    pub level: LogLevel,
    pub component: Component,
    pub function: &'a str,
    pub message: fmt::Arguments<'a>,
}

impl Line<'_> {
    /// The line for syslog, which adds time and process itself.
    pub fn unstamped(&self) -> impl fmt::Display {
        struct Unstamped<'a>(&'a Line<'a>);
        impl fmt::Display for Unstamped<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let line = self.0;
                write!(f, "{}  {}:{}  ", line.level, line.component, line.function)?;
                OneLine(f).write_fmt(line.message)
            }
        }
        Unstamped(self)
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Stamp::from(self.time).fmt(f)?;
        write!(
            f,
            "  {}:{}  {:<5}  {}:{}  ",
            self.process, self.thread, self.level, self.component, self.function
        )?;
        OneLine(f).write_fmt(self.message)
    }
}

/// Writes text with its control characters escaped.
struct OneLine<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for OneLine<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_str(&escape_controls(text))
    }
}

/// Date and time in UTC, to the microsecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub year: i64,
    /// From 0.
    pub month: usize,
    /// From 1.
    pub day: u64,
    /// Since midnight.
    pub seconds: u64,
    pub micros: u32,
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

impl Stamp {
    /// `Sep 19 18:57:20`, the timestamp of syslog (RFC 3164, 4.1.2).
    pub fn brief(self) -> String {
        let (month, clock) = (MONTHS[self.month], self.clock());
        format!("{month} {:>2} {clock}", self.day)
    }

    fn clock(self) -> String {
        let (minutes, second) = (self.seconds / 60, self.seconds % 60);
        format!("{:02}:{:02}:{second:02}", minutes / 60, minutes % 60)
    }
}

impl From<SystemTime> for Stamp {
    /// The Gregorian date by periods of 400 years, which have equal lengths; years start in March,
    /// so that the leap day is the last (the algorithm of Hinnant's `civil_from_days`). A clock
    /// before 1970 shows 1970.
    fn from(time: SystemTime) -> Self {
        const PERIOD: u64 = 146_097;
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        // 1970-01-01 is day 719468 from 0000-03-01.
        let days = since.as_secs() / 86_400 + 719_468;
        let (period, day) = (days / PERIOD, days % PERIOD);
        // Leap days before `day` in the period: one each 4 years, none each 100, one at its end.
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        // From March on, five months have 153 days.
        let month = (5 * day + 2) / 153;
        let january = month >= 10;
        Self {
            year: (period * 400 + year + u64::from(january)) as i64,
            month: ((month + 2) % 12) as usize,
            day: day - (153 * month + 2) / 5 + 1,
            seconds: since.as_secs() % 86_400,
            micros: since.subsec_micros(),
        }
    }
}

impl fmt::Display for Stamp {
    /// `2025-Sep-19 18:57:20.782962`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (month, clock) = (MONTHS[self.month], self.clock());
        write!(
            f,
            "{:04}-{month}-{:02} {clock}.{:06}",
            self.year, self.day, self.micros
        )
    }
}
