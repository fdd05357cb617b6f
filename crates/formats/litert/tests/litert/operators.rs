//! Each model computes what LiteRT's interpreter computes.

use crate::data::{Case, cases, difference};
use std::sync::Arc;
use tenon_backend::Registry;
use tenon_base::Control;
use tenon_litert::Model;
use tenon_onnx::{Evaluator, ImportOptions};
use tenon_tensor::Tensor;

/// The outputs on CpuRef, in a graph whose inputs are constants.
fn run(case: &Case) -> Result<Vec<Tensor>, String> {
    let control = Control::new();
    let computed = Model::from_bytes(case.model.clone(), &control)
        .and_then(|model| model.to_onnx(None, &control))
        .and_then(tenon_onnx::Model::from_proto)
        .and_then(|model| {
            let mut registry = Registry::new();
            registry.register(Arc::new(tenon_cpu_ref::CpuRef))?;
            let evaluating = registry.clone();
            let names = model
                .signature()
                .inputs
                .iter()
                .map(|input| input.name.clone());
            let options = ImportOptions {
                constants: names.zip(case.inputs.iter().cloned()).collect(),
                evaluator: Some(Evaluator::new(move |graph, control| {
                    tenon_compiler::specialise(graph, &evaluating, control)
                })),
                ..ImportOptions::default()
            };
            let mut graph = model.graph(&options, &control)?;
            tenon_compiler::specialise(&mut graph, &registry, &control)?;
            Ok(graph)
        });
    let graph = computed.map_err(|error| error.to_string())?;
    let outputs = graph.outputs.iter().map(|&output| {
        let value = graph.value(output);
        value
            .constant
            .clone()
            .ok_or_else(|| format!("{} is not computed", value.name))
    });
    outputs.collect()
}

#[test]
fn every_model_computes_what_the_interpreter_does() {
    let mut wrong = Vec::new();
    for (name, case) in cases() {
        match run(&case) {
            Err(error) => wrong.push(format!("{name}: {error}")),
            Ok(found) if found.len() != case.outputs.len() => {
                wrong.push(format!("{name}: {} outputs", found.len()));
            }
            Ok(found) => {
                let pairs = found.iter().zip(&case.outputs);
                let differences = pairs
                    .filter_map(|(found, expected)| difference(found, expected, case.tolerance));
                wrong.extend(differences.map(|text| format!("{name}: {text}")));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
