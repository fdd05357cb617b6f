//! The page for people: the models, their load and their times, in HTML without scripts.

use crate::app::App;
use crate::histogram::Histogram;
use crate::process::Process;
use crate::repository::IndexRow;
use crate::served_model::ServedModel;
use std::fmt::{self, Display, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a browser may do with the page: nothing but show it.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta http-equiv=\"refresh\" content=\"5\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>Tenon: models</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em; color: #222; background: #fff }
table { border-collapse: collapse; margin: 1em 0 }
th, td { border-bottom: 1px solid #ddd; padding: .3em .8em; text-align: right; vertical-align: top }
th:first-child, td:first-child, .text { text-align: left }
.bad { color: #b00020 }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } th, td { border-color: #444 } }
</style>
</head>
<body>
";

const COLUMNS: [&str; 11] = [
    "requests",
    "failed",
    "waiting",
    "executing",
    "median",
    "99 %",
    "in the queue",
    "execution",
    "rows",
    "sequences",
    "size",
];

/// The page now.
pub fn page(app: &App) -> String {
    let mut page = HEAD.to_owned();
    // Writing to a String cannot fail.
    let _ = write_body(&mut page, app);
    page
}

fn write_body(page: &mut String, app: &App) -> fmt::Result {
    let state = match (app.is_ready(), app.is_draining.load(Ordering::Relaxed)) {
        (true, _) => "ready",
        (false, true) => "ending",
        (false, false) => "loading models",
    };
    writeln!(page, "<h1>Tenon {}</h1>", env!("CARGO_PKG_VERSION"))?;
    let in_flight = app.in_flight.load(Ordering::Relaxed);
    let connections = app.connections.load(Ordering::Relaxed);
    write!(
        page,
        "<p>{state}; {in_flight} requests in flight, {connections} connections"
    )?;
    if let Some(process) = Process::now() {
        let memory = Bytes(process.resident_bytes);
        write!(
            page,
            "; memory {memory}, {:.1} s of processor time",
            process.cpu_seconds
        )?;
    }
    page.push_str("</p>\n<table>\n<tr><th>model</th><th>version</th><th class=\"text\">state</th>");
    for column in COLUMNS {
        write!(page, "<th>{column}</th>")?;
    }
    page.push_str("</tr>\n");
    let served = app.repository.served();
    let rows = app.repository.index();
    for row in &rows {
        let model = served
            .iter()
            .find(|model| model.name() == row.name && model.version() == row.version);
        write_row(page, row, model)?;
    }
    page.push_str("</table>\n");
    if rows.is_empty() {
        page.push_str("<p>There are no models in the folder.</p>\n");
    }
    page.push_str(
        "<p>Times are of all requests since the server started. <a href=\"/openapi.json\">Pages</a>, \
         <a href=\"/metrics\">metrics</a>, <a href=\"/v2/models/stats\">statistics</a>.</p>\n</body>\n</html>\n",
    );
    Ok(())
}

fn write_row(page: &mut String, row: &IndexRow, model: Option<&Arc<ServedModel>>) -> fmt::Result {
    let name = Text(&row.name);
    write!(page, "<tr><td>{name}</td><td>{}</td>", row.version)?;
    match row.reason.as_str() {
        "" => write!(page, "<td class=\"text\">{}</td>", row.state)?,
        reason => write!(
            page,
            "<td class=\"text bad\">{}: {}</td>",
            row.state,
            Text(reason)
        )?,
    }
    if let Some(model) = model {
        let counts = model.statistics().counts();
        let quantile = |histogram: &Histogram, part| Seconds(histogram.quantile(part));
        let rows = counts.batch_rows.mean();
        let cells: [&dyn Display; COLUMNS.len()] = [
            &counts.success.count,
            &counts.fail.count,
            &model.waiting(),
            &model.running(),
            &quantile(&counts.request_seconds, 0.5),
            &quantile(&counts.request_seconds, 0.99),
            &Seconds(counts.queue_seconds.mean()),
            &Seconds(counts.compute_seconds.mean()),
            &rows.map_or(String::new(), |rows| format!("{rows:.1}")),
            &model.sequences(),
            &Bytes(model.bytes()),
        ];
        for cell in cells {
            write!(page, "<td>{cell}</td>")?;
        }
    }
    page.push_str("</tr>\n");
    Ok(())
}

/// Text of a file or a caller, in which HTML has no meaning.
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for symbol in self.0.chars() {
            match symbol {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// A time, or none.
struct Seconds(Option<f64>);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => Ok(()),
            Some(seconds) if seconds < 1e-3 => write!(f, "{:.0} µs", seconds * 1e6),
            Some(seconds) if seconds < 1.0 => write!(f, "{:.1} ms", seconds * 1e3),
            Some(seconds) => write!(f, "{seconds:.1} s"),
        }
    }
}

struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{} B", self.0),
            1024..1_048_576 => write!(f, "{:.1} KiB", bytes / 1024.0),
            1_048_576..1_073_741_824 => write!(f, "{:.1} MiB", bytes / 1_048_576.0),
            _ => write!(f, "{:.1} GiB", bytes / 1_073_741_824.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_html() {
        let text = Text("<a href='x'>&\"").to_string();
        assert_eq!(text, "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
    }

    #[test]
    fn quantities_have_units() {
        let times = [None, Some(2.5e-5), Some(0.0125), Some(3.0)].map(|it| Seconds(it).to_string());
        assert_eq!(times, ["", "25 µs", "12.5 ms", "3.0 s"]);
        let sizes = [0, 1536, 5 << 20, 3 << 30].map(|it| Bytes(it).to_string());
        assert_eq!(sizes, ["0 B", "1.5 KiB", "5.0 MiB", "3.0 GiB"]);
    }
}
