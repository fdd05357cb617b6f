//! `tenon devices`, `tenon monitor`, `tenon top`

use crate::output::{self, say};
use crate::watch_flags::{Devices, Monitor, Top};
use std::sync::Mutex;
use std::time::Duration;
use tenon::{Error, ErrorKind, Result};
use tenon_monitor::{Config, Machine, Metrics, MetricsServer, Sample, Screen, Terminal};

/// The period of the first page of a screen or an endpoint.
const FIRST_PERIOD: Duration = Duration::from_millis(200);

pub fn devices(flags: &Devices) -> Result<()> {
    let devices = tenon_monitor::Devices::now(Machine::this()?);
    if flags.json {
        return output::json(format_args!("{:#}", devices.json()));
    }
    let text = devices.text(flags.wide, flags.all);
    if flags.topology {
        say!("{text}{}", devices.topology().trim_end())
    } else {
        say!("{}", text.trim_end())
    }
}

pub fn monitor(flags: &Monitor) -> Result<()> {
    let mut config = match &flags.config {
        Some(path) => Config::open(path)?,
        None => Config::default(),
    };
    if let Some(seconds) = flags.period {
        config.period = period(seconds)?;
    }
    let machine = Machine::this()?;
    match flags.prometheus {
        Some(port) => serve(&machine, port),
        None => stream(&machine, &config, flags.count),
    }
}

/// One JSON object a line.
fn stream(machine: &Machine, config: &Config, count: Option<u64>) -> Result<()> {
    let mut earlier = Sample::now(machine);
    let mut written = 0;
    while count.is_none_or(|count| written < count) {
        std::thread::sleep(config.period);
        let later = Sample::now(machine);
        let metrics = Metrics::between(machine, earlier, later.clone());
        output::json(metrics.json(config))?;
        earlier = later;
        written += 1;
    }
    Ok(())
}

/// Each page covers the period since the previous one.
fn serve(machine: &Machine, port: u16) -> Result<()> {
    let server = MetricsServer::listen(port)?;
    say!("http://{}/metrics", server.address()?)?;
    let machine = machine.clone();
    let last = Mutex::new(Sample::now(&machine));
    std::thread::sleep(FIRST_PERIOD);
    server.serve(move || {
        let later = Sample::now(&machine);
        let mut last = last.lock().unwrap_or_else(|lock| lock.into_inner());
        let earlier = std::mem::replace(&mut *last, later.clone());
        Metrics::between(&machine, earlier, later).exposition()
    })
}

pub fn top(flags: &Top) -> Result<()> {
    const WIDTH: usize = 100;
    let period = period(flags.period)?;
    let machine = Machine::this()?;
    let mut earlier = Sample::now(&machine);
    if flags.once {
        std::thread::sleep(period);
        let metrics = Metrics::between(&machine, earlier, Sample::now(&machine));
        return say!("{}", Screen::new(&metrics, WIDTH).text().trim_end());
    }
    let mut terminal = Terminal::open()?;
    let mut timeout = FIRST_PERIOD;
    while !terminal.is_quit_requested(timeout)? {
        let later = Sample::now(&machine);
        let metrics = Metrics::between(&machine, earlier, later.clone());
        let (width, _) = terminal.size();
        terminal.draw(&Screen::new(&metrics, width).text())?;
        earlier = later;
        timeout = period;
    }
    Ok(())
}

fn period(seconds: f64) -> Result<Duration> {
    if (0.01..=86_400.0).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(
        Error::new(ErrorKind::Usage, "--period is not a valid duration")
            .expected("0.01 to 86400 seconds")
            .found(seconds),
    )
}
