//! The canonical layout of a netlist as text; parsing it yields an equal netlist.

use crate::attributes::{AttributeValue, Attributes};
use crate::netlist::{
    Blocking, FusedOp, Graph, Input, Instruction, Netlist, Op, Operand, Pad, Program, Queue,
    QueueSetting, ScheduledOp, Tm,
};
use crate::source::Spanned;
use crate::words::Memory;
use crate::yaml_scalar::number_text;
use crate::yaml_text::{Entry, List, Map, Name, YamlText};
use std::fmt::{self, Display};

impl Display for Netlist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = YamlText::default();
        text.section("devices", |text| {
            text.field("arch", List(values(&self.arch).collect()));
        });
        section(&mut text, "queues", &self.queues, queue);
        section(&mut text, "graphs", &self.graphs, graph);
        if !self.fused_ops.is_empty() {
            section(&mut text, "fused_ops", &self.fused_ops, fused_op);
        }
        section(&mut text, "programs", &self.programs, program);
        for (name, node) in &self.others {
            text.gap();
            text.node(&name.value, node);
        }
        f.write_str(&text.into_text())
    }
}

fn values<T: Copy>(values: &[Spanned<T>]) -> impl Iterator<Item = T> {
    values.iter().map(|value| value.value)
}

fn names(names: &[Spanned<String>]) -> List<Name<'_>> {
    List(names.iter().map(|name| Name(&name.value)).collect())
}

fn section<T>(text: &mut YamlText, name: &str, all: &[T], print: fn(&mut YamlText, &T)) {
    text.gap();
    text.section(name, |text| all.iter().for_each(|one| print(text, one)));
}

/// The fields of a map on one line.
#[derive(Default)]
struct Fields(Vec<(String, String)>);

impl Fields {
    fn add(&mut self, key: &str, value: impl Display) {
        self.0.push((key.to_owned(), value.to_string()));
    }

    fn add_some(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.add(key, value);
        }
    }

    fn add_list<T: Display>(&mut self, key: &str, values: Vec<T>) {
        if !values.is_empty() {
            self.add(key, List(values));
        }
    }
}

impl Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Map(self
            .0
            .iter()
            .map(|(key, value)| Entry(key, value))
            .collect())
        .fmt(f)
    }
}

fn pair([rows, columns]: [u32; 2]) -> String {
    format!("[{rows}, {columns}]")
}

fn devices(devices: &[Spanned<u32>]) -> String {
    match devices {
        [one] => one.value.to_string(),
        all => List(values(all).collect()).to_string(),
    }
}

fn blocking(fields: &mut Fields, blocking: &Blocking) {
    fields.add("grid_size", pair(blocking.grid_size.value));
    fields.add("t", blocking.t.value);
    fields.add("mblock", pair(blocking.mblock.value));
    fields.add("ublock", pair(blocking.ublock.value));
    fields.add_some(
        "ublock_order",
        blocking.ublock_order.map(|order| order.value),
    );
    fields.add_some("tile_dim", blocking.tile_dim.map(|tile| pair(tile.value)));
}

fn queue(text: &mut YamlText, queue: &Queue) {
    let mut fields = Fields::default();
    fields.add("type", queue.kind.value);
    fields.add("input", Name(&queue.input.value));
    fields.add_list("input_tms", queue.input_tms.iter().map(tm).collect());
    fields.add("entries", queue.entries.value);
    blocking(&mut fields, &queue.blocking);
    fields.add("df", queue.df.value);
    fields.add_some("layout", queue.layout.map(|layout| layout.value));
    fields.add_some(
        "alias",
        queue.alias.as_ref().map(|alias| Name(&alias.value)),
    );
    fields.add("target_device", devices(&queue.target_device));
    fields.add("loc", queue.loc.value);
    let buffers = queue
        .buffers
        .iter()
        .map(|buffer| match (queue.loc.value, buffer.value) {
            (Memory::Host, address) if address.channel == 0 => format!("{:#x}", address.byte),
            (_, address) => format!("[{}, {:#x}]", address.channel, address.byte),
        });
    fields.add(queue.loc.value.name(), List(buffers.collect()));
    fields.add_list("read_ports", values(&queue.read_ports).collect());
    fields.add_list("write_ports", values(&queue.write_ports).collect());
    text.field(&queue.name.value, fields);
}

fn graph(text: &mut YamlText, graph: &Graph) {
    text.section(&graph.name.value, |text| {
        text.field("target_device", devices(&graph.target_device));
        text.field("input_count", graph.input_count.value);
        graph.ops.iter().for_each(|one| op(text, one));
    });
}

fn op(text: &mut YamlText, op: &Op) {
    text.section(&op.name.value, |text| {
        text.field("type", op.kind.value);
        if let Some(grid_loc) = op.grid_loc {
            text.field("grid_loc", pair(grid_loc.value));
        }
        if let Some(transpose) = op.grid_transpose {
            text.field("grid_transpose", transpose.value);
        }
        let inputs = op.inputs.iter();
        text.field(
            "inputs",
            List(inputs.map(|input| Name(&input.name.value)).collect()),
        );
        text.field(
            "in_df",
            List(op.inputs.iter().map(|input| input.df.value).collect()),
        );
        for (index, one) in op.inputs.iter().enumerate() {
            input(text, index, one);
        }
        let mut shape = Fields::default();
        blocking(&mut shape, &op.blocking);
        for (key, value) in shape.0 {
            text.field(&key, value);
        }
        text.field("out_df", op.out_df.value);
        text.field("intermed_df", op.intermed_df.value);
        if let Some(format) = op.acc_df {
            text.field("acc_df", format.value);
        }
        text.field("math_fidelity", op.math_fidelity.value);
        text.field("buf_size_mb", op.buf_size_mb.value);
        if let Some(untilize) = op.untilize_output {
            text.field("untilize_output", untilize.value);
        }
        if let Some(gradient) = op.gradient_op {
            text.field("gradient_op", gradient.value);
        }
        if !op.attributes.0.is_empty() {
            text.field("attributes", attributes(&op.attributes));
        }
        hints(text, op);
    });
}

fn hints(text: &mut YamlText, op: &Op) {
    let lists = [
        ("input_buf_min_size_tiles", &op.input_buf_min_size_tiles),
        (
            "input_dram_io_buf_size_tiles",
            &op.input_dram_io_buf_size_tiles,
        ),
    ];
    for (key, list) in lists {
        if !list.is_empty() {
            text.field(key, List(values(list).collect()));
        }
    }
    if let Some(size) = op.overlay_size {
        text.field("overlay_size", size.value);
    }
    if !op.forked_dram_inputs.is_empty() {
        let forked = op.forked_dram_inputs.iter();
        let maps = forked.map(|(queue, op)| Map(vec![Entry(Name(&queue.value), Name(&op.value))]));
        text.field("forked_dram_inputs", List(maps.collect()));
    }
}

fn input(text: &mut YamlText, index: usize, input: &Input) {
    if let Some(unpad) = input.unpad {
        let [rows, columns] = unpad.value;
        text.field(
            &format!("input_{index}_unpad"),
            format!("{{rt: {rows}, ct: {columns}}}"),
        );
    }
    if !input.tms.is_empty() {
        let tms = List(input.tms.iter().map(tm).collect());
        text.field(&format!("input_{index}_tms"), tms);
    }
    if let Some(Pad {
        rows,
        columns,
        value,
    }) = input.pad.map(|pad| pad.value)
    {
        let value = number_text(value);
        let pad = format!("{{rt: {rows}, ct: {columns}, pad_value: {value}}}");
        text.field(&format!("input_{index}_pad"), pad);
    }
}

fn tm(tm: &Spanned<Tm>) -> String {
    match tm.value {
        Tm::BroadcastRows(times) => format!("broadcast: {{r: {times}}}"),
        Tm::BroadcastColumns(times) => format!("broadcast: {{c: {times}}}"),
        Tm::BroadcastSlices(times) => format!("broadcast: {{z: {times}}}"),
        Tm::Transpose => "transpose".to_owned(),
        Tm::Hslice(parts) => format!("hslice: {parts}"),
        Tm::Vslice(parts) => format!("vslice: {parts}"),
        Tm::Hstack(parts) => format!("hstack: {parts}"),
        Tm::Vstack(parts) => format!("vstack: {parts}"),
        Tm::Pad(Pad {
            rows,
            columns,
            value,
        }) => format!("pad: [{rows}, {columns}, {}]", number_text(value)),
        Tm::TileBroadcast(broadcast) => format!("tile_broadcast: {broadcast}"),
    }
}

fn attributes(attributes: &Attributes) -> Fields {
    let mut fields = Fields::default();
    for (key, value) in &attributes.0 {
        let name = key.name();
        match &value.value {
            AttributeValue::Integer(value) => fields.add(name, value),
            AttributeValue::Bool(value) => fields.add(name, value),
            AttributeValue::Number(value) => fields.add(name, number_text(*value)),
            AttributeValue::Word(value) => fields.add(name, Name(value)),
            AttributeValue::List(values) => fields.add(name, List(values.clone())),
            AttributeValue::PerInput(values) => {
                let entries = values.iter();
                let entries = entries.map(|(input, value)| Entry(format!("input_{input}"), *value));
                fields.add(name, Map(entries.collect()));
            }
        }
    }
    fields
}

fn fused_op(text: &mut YamlText, op: &FusedOp) {
    text.section(&op.id.value, |text| {
        text.field("inputs", op.inputs.value);
        text.field("intermediates", op.intermediates.value);
        if let Some(path) = &op.custom_kernel_path {
            text.field("custom_kernel_path", Name(&path.value));
        }
        text.section("schedules", |text| {
            for schedule in &op.schedules {
                text.schedule(|text| schedule.iter().for_each(|op| scheduled_op(text, op)));
            }
        });
    });
}

fn scheduled_op(text: &mut YamlText, op: &ScheduledOp) {
    let mut fields = Fields::default();
    fields.add("type", op.kind.value);
    fields.add(
        "inputs",
        List(op.inputs.iter().map(|(buffer, _)| buffer.value).collect()),
    );
    for (index, (_, tms)) in op.inputs.iter().enumerate() {
        fields.add_list(&format!("input_{index}_tms"), tms.iter().map(tm).collect());
    }
    fields.add_list("pop", values(&op.pop).collect());
    fields.add_list("pop_last", values(&op.pop_last).collect());
    if !op.attributes.0.is_empty() {
        fields.add("attributes", attributes(&op.attributes));
    }
    fields.add("mblock", pair(op.mblock.value));
    fields.add("ublock", pair(op.ublock.value));
    fields.add("output", op.output.value);
    text.item(Entry(Name(&op.name.value), fields));
}

fn program(text: &mut YamlText, program: &Program) {
    text.item_section(&program.name.value, |text| {
        let mut depth = 0usize;
        for instruction in &program.instructions {
            if instruction.value == Instruction::EndLoop {
                depth = depth.saturating_sub(1);
            }
            let indent = "  ".repeat(depth);
            text.item(format_args!(
                "{indent}{}",
                instruction_text(&instruction.value)
            ));
            depth += usize::from(matches!(instruction.value, Instruction::Loop(_)));
        }
    });
}

fn instruction_text(instruction: &Instruction) -> String {
    match instruction {
        Instruction::Var(variables) => format!("var: {}", assignments(variables)),
        Instruction::StaticVar(variables) => format!("staticvar: {}", assignments(variables)),
        Instruction::Param(params) => format!("param: {}", names(params)),
        Instruction::VarInst {
            output,
            operation,
            operands,
        } => {
            let mut parts = vec![output.value.clone(), operation.value.to_string()];
            parts.extend(operands.iter().map(|operand| operand.value.to_string()));
            format!("varinst: {}", List(parts))
        }
        Instruction::Loop(count) => format!("loop: {}", count.value),
        Instruction::EndLoop => "endloop".to_owned(),
        Instruction::Execute { graph, settings } => {
            let graph = Name(&graph.value);
            let settings = Map(settings.iter().map(setting).collect());
            format!("execute: {{graph_name: {graph}, queue_settings: {settings}}}")
        }
        Instruction::AllocateQueue(queues) => format!("allocate_queue: {}", names(queues)),
        Instruction::DeallocateQueue(queues) => format!("deallocate_queue: {}", names(queues)),
        Instruction::EndProgram => "endprogram".to_owned(),
    }
}

fn assignments(variables: &[(Spanned<String>, Spanned<Operand>)]) -> String {
    let entries = variables.iter();
    let entries = entries.map(|(name, value)| Entry(Name(&name.value), &value.value));
    Map(entries.collect()).to_string()
}

fn setting(setting: &QueueSetting) -> Entry<Name<'_>, Map<Entry<&'static str, &Operand>>> {
    let fields = setting.fields.iter();
    let fields = fields.map(|(key, value)| Entry(key.value.name(), &value.value));
    Entry(Name(&setting.queue.value), Map(fields.collect()))
}
