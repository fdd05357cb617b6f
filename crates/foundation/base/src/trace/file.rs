//! The Trace Event Format, JSON that Perfetto and Chrome open.

use std::fmt::Write;
use std::time::Duration;

/// A trace file under construction, event by event. Times are relative to an origin that the caller
/// chooses.
///
/// ```
/// use std::time::Duration;
/// use tenon_base::trace::TraceFile;
/// let mut file = TraceFile::new(1);
/// file.thread_name(7, "main");
/// let (start, length) = (Duration::from_micros(3), Duration::from_nanos(1500));
/// file.scope(7, "kernel", "MatMul_0", start, length, &[("bytes", 64)]);
/// assert!(file.finish().contains(r#""name":"MatMul_0","ts":3.000,"dur":1.500"#));
/// ```
#[derive(Debug)]
pub struct TraceFile {
    text: String,
    process: u32,
}

impl TraceFile {
    /// A file with the events of one process, given its id.
    pub fn new(process: u32) -> Self {
        Self {
            text: "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[".to_owned(),
            process,
        }
    }

    /// Names the process.
    pub fn process_name(&mut self, name: &str) {
        self.named(0, "process_name", name);
    }

    /// Names the track of a thread.
    pub fn thread_name(&mut self, thread: u64, name: &str) {
        self.named(thread, "thread_name", name);
    }

    /// A scope (complete event) of a thread, with integer arguments.
    pub fn scope(
        &mut self,
        thread: u64,
        category: &str,
        name: &str,
        start: Duration,
        length: Duration,
        integers: &[(&str, u64)],
    ) {
        self.scope_with::<&str>(thread, category, name, start, length, integers, &[]);
    }

    /// As [`scope`](Self::scope), with text arguments, too.
    pub fn scope_with<T: AsRef<str>>(
        &mut self,
        thread: u64,
        category: &str,
        name: &str,
        start: Duration,
        length: Duration,
        integers: &[(&str, u64)],
        texts: &[(&str, T)],
    ) {
        self.begin("X", Some(thread));
        self.category(category);
        self.name(name);
        self.time("ts", start);
        self.time("dur", length);
        let integers = integers
            .iter()
            .map(|(key, value)| (*key, value.to_string()));
        let texts = texts
            .iter()
            .map(|(key, text)| (*key, quoted(text.as_ref())));
        self.arguments(integers.chain(texts));
    }

    /// An instant event of a thread.
    pub fn event(&mut self, thread: u64, category: &str, name: &str, at: Duration) {
        self.begin("i", Some(thread));
        self.category(category);
        self.name(name);
        self.time("ts", at);
        self.text += ",\"s\":\"t\"}";
    }

    /// The counter called `name` is `value` from `at` on.
    pub fn counter(&mut self, name: &str, at: Duration, value: u64) {
        self.begin("C", None);
        self.name(name);
        self.time("ts", at);
        self.arguments([("value", value.to_string())]);
    }

    /// The text of the file.
    pub fn finish(self) -> String {
        self.text + "\n]}\n"
    }

    fn named(&mut self, thread: u64, metadata: &str, name: &str) {
        self.begin("M", Some(thread));
        self.name(metadata);
        let name = quoted(name);
        self.put(format_args!(",\"args\":{{\"name\":{name}}}}}"));
    }

    fn begin(&mut self, phase: &str, thread: Option<u64>) {
        let separator = if self.text.ends_with('[') {
            "\n"
        } else {
            ",\n"
        };
        let process = self.process;
        self.put(format_args!(
            "{separator}{{\"ph\":\"{phase}\",\"pid\":{process}"
        ));
        if let Some(thread) = thread {
            self.put(format_args!(",\"tid\":{thread}"));
        }
    }

    fn category(&mut self, category: &str) {
        self.put(format_args!(",\"cat\":{}", quoted(category)));
    }

    fn name(&mut self, name: &str) {
        self.put(format_args!(",\"name\":{}", quoted(name)));
    }

    /// Microseconds with three decimals: exact, so that nested scopes stay nested in the file.
    fn time(&mut self, key: &str, time: Duration) {
        let nanos = time.as_nanos();
        let (micros, rest) = (nanos / 1000, nanos % 1000);
        self.put(format_args!(",\"{key}\":{micros}.{rest:03}"));
    }

    /// The arguments, whose values are JSON, and the end of the event.
    fn arguments<'k>(&mut self, values: impl IntoIterator<Item = (&'k str, String)>) {
        let mut separator = ",\"args\":{";
        let mut end = "}";
        for (key, value) in values {
            self.put(format_args!("{separator}{}:{value}", quoted(key)));
            (separator, end) = (",", "}}");
        }
        self.text += end;
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.text.write_fmt(text);
    }
}

/// `text` as a JSON string (RFC 8259, 7).
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for char in text.chars() {
        match char {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            // Writing to a String cannot fail.
            char if (char as u32) < 0x20 => drop(write!(quoted, "\\u{:04x}", char as u32)),
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}
