//! The rules for queues: buffers, views, producers and readers.

use super::Rule;
use super::check::Checker;
use crate::Finding;
use crate::netlist::{Queue, product};
use crate::words::QueueKind;
use tenon_tile::Arch;

pub(super) fn check(checker: &mut Checker<'_>) {
    for queue in &checker.netlist.queues {
        buffers(checker, queue);
        alias(checker, queue);
        producer(checker, queue);
        readers(checker, queue);
    }
}

fn buffers(checker: &mut Checker<'_>, queue: &Queue) {
    let [rows, columns] = queue.blocking.grid_size.value;
    let expected = u64::from(rows) * u64::from(columns);
    if queue.buffers.len() as u64 != expected {
        let message = format!("wrong number of buffers of '{}'", queue.name.value);
        let finding = Finding::new(Rule::QueueBuffers, queue.name.span, message);
        let expected = format!(
            "{expected} in '{}', one for each of {rows}x{columns}",
            queue.loc.value
        );
        checker.report(finding.expected(expected).found(queue.buffers.len()));
    }
    for ports in [&queue.read_ports, &queue.write_ports] {
        if !ports.is_empty() && ports.len() as u64 != expected {
            let finding = Finding::new(Rule::QueueBuffers, ports[0].span, "wrong number of ports");
            checker.report(finding.expected(expected).found(ports.len()));
        }
    }
    if checker.arch == [Arch::Blackhole] {
        let buffers = queue.buffers.iter();
        for buffer in buffers.filter(|buffer| buffer.value.byte % 64 != 0) {
            let message = "the buffer is not aligned";
            let finding = Finding::new(Rule::BufferAlignment, buffer.span, message);
            let found = format!("{:#x}", buffer.value.byte);
            checker.report(finding.expected("a multiple of 64").found(found));
        }
    }
}

fn alias(checker: &mut Checker<'_>, queue: &Queue) {
    let Some(alias) = &queue.alias else { return };
    let Some(base) = checker.links.queue(&alias.value) else {
        return super::names::unknown(checker, alias, "ram");
    };
    let mut broken = |what: &str, expected: String, found: String| {
        let message = format!(
            "'{}' cannot be a view of '{}': {what}",
            queue.name.value, alias.value
        );
        let finding = Finding::new(Rule::QueueAlias, alias.span, message);
        checker.report(finding.expected(expected).found(found));
    };
    for view in [queue, base] {
        if view.kind.value != QueueKind::Ram {
            broken(
                "both must be rams",
                "type ram".into(),
                format!("'{}' is a queue", view.name.value),
            );
        }
    }
    let elements = |queue: &Queue| {
        let blocking = &queue.blocking;
        let [height, width] = blocking.tile().map(u64::from);
        let [t, entries] = [blocking.t, queue.entries].map(|count| u64::from(count.value));
        product([
            blocking.rows(),
            blocking.columns(),
            t,
            entries,
            height,
            width,
        ])
    };
    if elements(queue) != elements(base) {
        let [expected, found] = [base, queue].map(|view| format!("{} elements", elements(view)));
        broken("their sizes differ", expected, found);
    }
}

fn producer(checker: &mut Checker<'_>, queue: &Queue) {
    let Some(crate::links::Node::Op(_, op)) = checker.links.find(&queue.input.value) else {
        return;
    };
    if queue.blocking.tile() != op.blocking.tile() {
        let message = format!(
            "the tile sizes of queue '{}' and op '{}' differ",
            queue.name.value, op.name.value
        );
        let span = queue
            .blocking
            .tile_dim
            .map_or(queue.name.span, |tile| tile.span);
        let [expected, found] = [&op.blocking, &queue.blocking].map(|b| format!("{:?}", b.tile()));
        let finding = Finding::new(Rule::QueueTile, span, message);
        checker.report(finding.expected(expected).found(found));
    }
}

fn readers(checker: &mut Checker<'_>, queue: &Queue) {
    let readers = checker.links.readers(&queue.name.value);
    let Some(&(first, ..)) = readers.first() else {
        return;
    };
    if queue.kind.value == QueueKind::Queue && queue.entries.value > 1 {
        for &(graph, op, input) in readers {
            if graph.input_count.value != first.input_count.value {
                let name = &queue.name.value;
                let message = format!("graphs with different input_count read '{name}'");
                let span = op.inputs[input].name.span;
                let finding = Finding::new(Rule::InputCount, span, message);
                let of = |graph: &crate::Graph| {
                    format!(
                        "{} of graph '{}'",
                        graph.input_count.value, graph.name.value
                    )
                };
                checker.report(finding.expected(of(first)).found(of(graph)));
            }
        }
    }
}
