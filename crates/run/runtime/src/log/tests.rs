use super::line::{Line, Stamp};
use super::*;
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};
use tenon_base::{ErrorKind, Location};

/// Keeps the written text.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

fn at(seconds: u64, micros: u32) -> SystemTime {
    UNIX_EPOCH + Duration::new(seconds, micros * 1000)
}

#[test]
fn a_line_has_the_published_format() {
    // The line of nrt 2.3: 1758308240 is that second, by GNU date.
    let line = Line {
        time: at(1_758_308_240, 782_962),
        process: 4444,
        thread: 4447,
        level: LogLevel::Error,
        component: Component::Tdrv,
        function: "func_name",
        message: format_args!("message"),
    };
    assert_eq!(
        line.to_string(),
        "2025-Sep-19 18:57:20.782962  4444:4447  ERROR  TDRV:func_name  message"
    );
}

#[test]
fn dates_match_gnu_date() {
    // `date -u -d @N '+%Y-%b-%d %T'`
    let known = [
        (0, "1970-Jan-01 00:00:00.000000"),
        (951_782_399, "2000-Feb-28 23:59:59.000000"),
        (951_868_799, "2000-Feb-29 23:59:59.000000"),
        (951_868_800, "2000-Mar-01 00:00:00.000000"),
        (1_709_251_199, "2024-Feb-29 23:59:59.000000"),
        (1_735_689_599, "2024-Dec-31 23:59:59.000000"),
        (4_107_542_400, "2100-Mar-01 00:00:00.000000"),
    ];
    for (seconds, text) in known {
        assert_eq!(Stamp::from(at(seconds, 0)).to_string(), text);
    }
    assert_eq!(Stamp::from(at(0, 0)).brief(), "Jan  1 00:00:00");
}

#[test]
fn a_level_enables_itself_and_more_severe_levels() {
    let page = Page::default();
    let levels = LogLevels::all(LogLevel::Error).with(Component::Tdrv, LogLevel::Debug);
    let log = Log::new(levels, LogSink::writer(page.clone()));
    log.warning(Component::Nrt, "f", format_args!("disabled"));
    log.debug(Component::Tdrv, "f", format_args!("enabled"));
    log.trace(Component::Tdrv, "f", format_args!("disabled"));
    log.error(Component::Nrt, "f", format_args!("enabled too"));
    let text = page.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].ends_with("  DEBUG  TDRV:f  enabled"), "{text}");
    assert!(lines[1].ends_with("  ERROR  NRT:f  enabled too"), "{text}");
    let own = format!("  {}:", std::process::id());
    assert!(lines[0].contains(&own), "{text}");
}

#[test]
fn a_quiet_log_writes_nothing() {
    let page = Page::default();
    let log = Log::new(
        LogLevels::all(LogLevel::Quiet),
        LogSink::writer(page.clone()),
    );
    log.error(Component::Nrt, "f", format_args!("x"));
    log.write(LogLevel::Quiet, Component::Nrt, "f", format_args!("x"));
    assert_eq!(page.text(), "");
}

#[test]
fn a_message_cannot_forge_a_line() {
    let page = Page::default();
    let log = Log::new(LogLevels::default(), LogSink::writer(page.clone()));
    let name = "a\n2025-Jan-01 \x1b[31m\t\r";
    log.error(Component::Nrt, "f", format_args!("model '{name}'!"));
    let text = page.text();
    assert!(
        text.ends_with("  model 'a\\u{a}2025-Jan-01 \\u{1b}[31m\\u{9}\\u{d}'!\n"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn every_problem_is_a_line() {
    let page = Page::default();
    let log = Log::new(LogLevels::default(), LogSink::writer(page.clone()));
    let problems = ["one", "two"].map(|text| Error::new(ErrorKind::InvalidPackage, text));
    let error = Error::from_all(problems).unwrap();
    log.problems(Component::Nmgr, "load", &error.at(Location::file("m.neff")));
    let text = page.text();
    assert!(text.contains("NMGR:load  m.neff: one\n"), "{text}");
    assert!(text.ends_with("NMGR:load  m.neff: two\n"), "{text}");
}

#[test]
fn the_environment_selects_levels() {
    let log = |pairs: &'static [(&str, &str)]| {
        Log::from_variables(|name| {
            let found = pairs.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    };
    let default = log(&[]);
    assert!(default.is_enabled(LogLevel::Error, Component::Nrt));
    assert!(!default.is_enabled(LogLevel::Warning, Component::Nrt));
    for (word, level) in [
        ("WARN", LogLevel::Warning),
        ("WARNING", LogLevel::Warning),
        ("trace", LogLevel::Trace),
        ("QUIET", LogLevel::Quiet),
    ] {
        assert_eq!(word.parse(), Ok(level));
    }
    let own = log(&[
        ("NEURON_RT_LOG_LEVEL", "QUIET"),
        ("NEURON_RT_LOG_LEVEL_NMGR", "TRACE"),
    ]);
    assert!(!own.is_enabled(LogLevel::Error, Component::Nrt));
    assert!(own.is_enabled(LogLevel::Trace, Component::Nmgr));
    assert!("LOUD".parse::<LogLevel>().is_err());
    let (_, complaint) = location(Some("printer"));
    let complaint = complaint.unwrap();
    assert!(
        complaint.ends_with("expected console or syslog"),
        "{complaint}"
    );
}

#[test]
fn lines_are_sent_to_syslog() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let listener = UnixDatagram::bind(&path).unwrap();
    let levels = LogLevels::all(LogLevel::Warning);
    let log = Log::new(levels, LogSink::syslog(path).unwrap());
    log.warning(Component::Enc, "barrier", format_args!("a\nb"));
    let mut bytes = [0; 256];
    let count = listener.recv(&mut bytes).unwrap();
    let text = std::str::from_utf8(&bytes[..count]).unwrap();
    // Facility 1 times 8, severity 4.
    assert!(text.starts_with("<12>"), "{text}");
    let ident = format!(" tenon[{}]: ", std::process::id());
    assert!(text.contains(&ident), "{text}");
    assert!(text.ends_with("WARN  ENC:barrier  a\\u{a}b"), "{text}");
    assert!(LogSink::syslog(folder.path().join("missing")).is_err());
}
