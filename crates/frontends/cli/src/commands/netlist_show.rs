//! `tenon netlist show` and `tenon netlist draw`

use crate::netlist_view_flags::{NetlistDraw, NetlistShow};
use crate::output::{self, say};
use crate::table::{Table, bytes};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use tenon::netlist::{
    Blocking, ChannelUsage, Device, Graph, GraphEstimate, MemoryUsage, Netlist, PerformanceCheck,
    ProgramCode, Queue,
};
use tenon::netlist::{choose_arch, find_device, read_source};
use tenon::{Count, Error, Result, files, netlist};

pub fn show(flags: &NetlistShow) -> Result<ExitCode> {
    let (netlist, device) = open(&flags.file, flags.device.as_deref())?;
    let memory = MemoryUsage::of(&netlist, device.arch);
    if flags.json {
        output::json(as_json(&netlist, &device, &memory))?;
    } else {
        print(&netlist, &device, &memory)?;
    }
    Ok(ExitCode::SUCCESS)
}

pub fn draw(flags: &NetlistDraw) -> Result<ExitCode> {
    let (netlist, device) = open(&flags.file, flags.device.as_deref())?;
    let folder = output::folder(&flags.output)?;
    std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, "make", error))?;
    for (name, picture) in netlist::pictures(&netlist, &device) {
        let path = folder.join(format!("{name}.svg"));
        files::write(&path, picture.to_string().as_bytes())?;
        say!("{}", path.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A netlist without errors, and the device for which it is shown.
fn open(file: &Path, device: Option<&str>) -> Result<(Netlist, Device)> {
    let source = read_source(file)?;
    let read = tenon::netlist::read(&source);
    read.findings.to_result(&source)?;
    let netlist = read.netlist;
    let own = netlist.arch.first().map(|arch| arch.value);
    let own = choose_arch(&netlist, None)?.or(own).map(|arch| arch.name());
    let device = find_device(device.or(own).unwrap_or("grayskull"))?;
    Ok((netlist, device))
}

fn print(netlist: &Netlist, device: &Device, memory: &MemoryUsage<'_>) -> Result<()> {
    let arch: Vec<&str> = netlist.arch.iter().map(|arch| arch.value.name()).collect();
    say!("for {}; shown on {}", arch.join(", "), device.name)?;
    queues(netlist)?;
    for graph in &netlist.graphs {
        graph_table(netlist, graph, device, memory)?;
    }
    channels(
        "memory of the device, by channel",
        "channel",
        memory.channels.iter(),
    )?;
    channels(
        "memory of the host, by region",
        "region",
        memory.regions.iter(),
    )?;
    for check in PerformanceCheck::read(netlist) {
        for metric in &check.metrics {
            let about = check
                .graph
                .as_deref()
                .or(check.program.as_deref())
                .unwrap_or(&check.name);
            say!(
                "\nexpected of {about} on a device: {} {} within {} %",
                metric.name,
                metric.expected,
                metric.rtol * 100.0
            )?;
        }
    }
    for program in &netlist.programs {
        say!("\n{}", ProgramCode(program))?;
    }
    Ok(())
}

fn queues(netlist: &Netlist) -> Result<()> {
    let mut table = Table::new(&[
        "queue", "type", "from", "entries", "t", "grid", "mblock", "ublock", "format", "in",
    ]);
    for queue in &netlist.queues {
        let b = &queue.blocking;
        table.row([
            queue.name.value.clone(),
            queue.kind.value.to_string(),
            queue.input.value.clone(),
            queue.entries.value.to_string(),
            b.t.value.to_string(),
            pair(b.grid_size.value),
            pair(b.mblock.value),
            pair(b.ublock.value),
            queue.df.value.to_string(),
            location(queue),
        ]);
    }
    say!("\n{table}")
}

fn location(queue: &Queue) -> String {
    let devices: Vec<String> = queue
        .target_device
        .iter()
        .map(|device| device.value.to_string())
        .collect();
    format!("{} {}", queue.loc.value, devices.join(","))
}

fn pair([rows, columns]: [u32; 2]) -> String {
    format!("{rows}x{columns}")
}

fn graph_table(
    netlist: &Netlist,
    graph: &Graph,
    device: &Device,
    memory: &MemoryUsage<'_>,
) -> Result<()> {
    let estimate = GraphEstimate::of(netlist, graph);
    let devices: Vec<String> = graph
        .target_device
        .iter()
        .map(|device| device.value.to_string())
        .collect();
    say!(
        "\ngraph {} on device {}, {} per execute",
        graph.name.value,
        devices.join(","),
        Count(graph.input_count.value, "input")
    )?;
    let mut table = Table::new(&[
        "op", "type", "reads", "at", "grid", "t", "mblock", "ublock", "format", "a core", "cycles",
    ]);
    for op in &estimate.ops {
        let (b, inputs) = (&op.op.blocking, op.op.inputs.iter());
        let reads: Vec<&str> = inputs.map(|input| input.name.value.as_str()).collect();
        let used = memory
            .cores
            .iter()
            .find(|used| std::ptr::eq(used.op, op.op));
        table.row([
            op.op.name.value.clone(),
            op.op.kind.value.to_string(),
            reads.join(", "),
            op.op.grid_loc.map_or(String::new(), |at| {
                format!("{},{}", at.value[0], at.value[1])
            }),
            pair(b.grid_size.value),
            b.t.value.to_string(),
            pair(b.mblock.value),
            pair(b.ublock.value),
            op.op.out_df.value.to_string(),
            used.map_or(String::new(), |used| bytes(used.bytes)),
            op.cycles.to_string(),
        ]);
    }
    say!("{table}")?;
    let cores = u64::from(device.rows) * u64::from(device.columns);
    match estimate.utilisation(cores) {
        Some(part) => say!(
            "estimate: {} between two inputs, utilisation of {} {:.1} %",
            Count(estimate.cycles, "cycle"),
            Count(cores, "core"),
            part * 100.0
        ),
        None => Ok(()),
    }
}

fn channels<'a>(
    title: &str,
    noun: &str,
    all: impl Iterator<Item = (&'a (u32, u32), &'a ChannelUsage)>,
) -> Result<()> {
    let mut all = all.peekable();
    if all.peek().is_none() {
        return Ok(());
    }
    let mut table = Table::new(&["device", noun, "buffers", "bytes", "end"]);
    for ((device, channel), used) in all {
        table.row([
            device.to_string(),
            channel.to_string(),
            used.buffers.to_string(),
            bytes(used.bytes),
            format!("{:#x}", used.end),
        ]);
    }
    say!("\n{title}\n{table}")
}

fn as_json(netlist: &Netlist, device: &Device, memory: &MemoryUsage<'_>) -> Value {
    let cores = u64::from(device.rows) * u64::from(device.columns);
    let graph = |graph: &Graph| {
        let estimate = GraphEstimate::of(netlist, graph);
        let ops = estimate.ops.iter().map(|op| {
            let used = memory.cores.iter().find(|used| std::ptr::eq(used.op, op.op));
            let inputs = op.op.inputs.iter();
            json!({
                "name": op.op.name.value, "type": op.op.kind.value.name(),
                "inputs": inputs.map(|input| input.name.value.as_str()).collect::<Vec<_>>(),
                "grid_loc": op.op.grid_loc.map(|at| at.value), "blocking": blocking(&op.op.blocking),
                "format": op.op.out_df.value.name(), "core_bytes": used.map(|used| used.bytes),
                "estimated_cycles": op.cycles,
            })
        });
        json!({
            "name": graph.name.value, "input_count": graph.input_count.value,
            "devices": graph.target_device.iter().map(|device| device.value).collect::<Vec<_>>(),
            "ops": ops.collect::<Vec<_>>(), "estimated_cycles": estimate.cycles,
            "estimated_utilisation": estimate.utilisation(cores),
        })
    };
    let queue = |queue: &Queue| {
        json!({
            "name": queue.name.value, "type": queue.kind.value.name(), "input": queue.input.value,
            "entries": queue.entries.value, "blocking": blocking(&queue.blocking),
            "format": queue.df.value.name(), "location": queue.loc.value.name(),
            "devices": queue.target_device.iter().map(|device| device.value).collect::<Vec<_>>(),
        })
    };
    let used = |all: &std::collections::BTreeMap<(u32, u32), ChannelUsage>, noun: &str| {
        let one = |((device, channel), used): (&(u32, u32), &ChannelUsage)| json!({"device": device, noun: channel, "buffers": used.buffers, "bytes": used.bytes, "end": used.end});
        Value::from_iter(all.iter().map(one))
    };
    json!({
        "architectures": netlist.arch.iter().map(|arch| arch.value.name()).collect::<Vec<_>>(),
        "device": device.name,
        "queues": netlist.queues.iter().map(queue).collect::<Vec<_>>(),
        "graphs": netlist.graphs.iter().map(graph).collect::<Vec<_>>(),
        "memory": {
            "device": used(&memory.channels, "channel"), "host": used(&memory.regions, "region"),
        },
        "programs": netlist.programs.iter().map(|program| {
            json!({"name": program.name.value, "code": ProgramCode(program).to_string()})
        }).collect::<Vec<_>>(),
    })
}

fn blocking(blocking: &Blocking) -> Value {
    json!({
        "grid": blocking.grid_size.value, "t": blocking.t.value, "mblock": blocking.mblock.value,
        "ublock": blocking.ublock.value, "tile": blocking.tile(),
    })
}
