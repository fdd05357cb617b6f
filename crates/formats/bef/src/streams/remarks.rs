//! Remarks on stream assignment, the output of `-tfrt-print-stream` (bef 4.5).

use super::StreamOptions;
use super::analysis::Analysis;
use crate::{Diagnostic, Function, KernelLocation, Module, Severity};

/// A remark for every function with a body, for each of its kernels and for its return: the stream,
/// its cost, the stream it forks from, and the streams that fork there. The kernels of a region,
/// whose streams are numbered separately, precede the kernel that contains it, as the region does.
pub fn stream_remarks(module: &Module) -> Vec<Diagnostic> {
    let bodies = (module.functions.iter()).filter(|function| !function.is_native());
    bodies
        .flat_map(|function| function_remarks(function, StreamOptions::of(module, function)))
        .collect()
}

fn function_remarks(function: &Function, options: StreamOptions) -> Vec<Diagnostic> {
    let analysis = Analysis::of(function, options);
    let forks = forks(&analysis);
    let remark = |op: usize, location: &KernelLocation| {
        let stream = analysis.stream_of(op);
        let cost = analysis.cost(stream);
        let parent = match analysis.parent_op(stream) {
            Some(op) => analysis.stream_of(op).to_string(),
            None => "-1".into(),
        };
        let mut text = format!("stream id: {stream}, stream cost: {cost}, parent stream: {parent}");
        if !forks[op].is_empty() {
            let children: Vec<String> = forks[op].iter().map(usize::to_string).collect();
            text.push_str(&format!(", child streams: [{}]", children.join(", ")));
        }
        Diagnostic::new(Severity::Remark, location.position(), text)
    };
    let kernels = function.kernels.iter().enumerate();
    // A region is no operation with a location for a remark.
    let head = (!function.is_region()).then(|| remark(analysis.root(), &function.location));
    head.into_iter()
        .chain(kernels.map(|(op, kernel)| remark(op, &kernel.location)))
        .chain([remark(function.kernels.len(), &function.return_location)])
        .collect()
}

/// The streams that fork under each op, in the order of their first ops.
fn forks(analysis: &Analysis) -> Vec<Vec<usize>> {
    let ops = analysis.root() + 1;
    let mut forks = vec![Vec::new(); ops];
    let mut seen = vec![false; ops];
    for op in 0..ops {
        let stream = analysis.stream_of(op);
        if !std::mem::replace(&mut seen[stream], true)
            && let Some(parent) = analysis.parent_op(stream)
        {
            forks[parent].push(stream);
        }
    }
    forks
}
