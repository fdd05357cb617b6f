//! Encoding of functions (bef 1.5, 1.6).

use super::attribute_writer::size;
use super::body::PSEUDO_CODE;
use super::encode::Encoder;
use super::tables::written_attributes;
use super::wire::Writer;
use crate::{
    Function, FunctionKind, Kernel, RegisterId, StreamOptions, Streams, Uses, assign_streams,
};
use tenon_base::Result;

/// The location of the pseudo kernel.
const PSEUDO_LOCATION: u32 = 0xCDCD_CDCD;

impl Encoder<'_> {
    /// Adds a function: its entry in the function index, and its body.
    pub(super) fn function(&mut self, function: &Function) -> Result<()> {
        self.index.byte(function.kind as u8);
        self.index.vbr(self.functions.position() as u64);
        self.index.vbr(self.strings.of(&function.name)?);
        for types in [function.argument_types(), &function.result_types] {
            self.index.vbr(types.len() as u64);
            for r#type in types {
                self.index.vbr(self.tables.type_index(r#type)?);
            }
        }
        if function.kind == FunctionKind::Native {
            Ok(())
        } else {
            self.body(function)
        }
    }

    /// A function's body: location, register table, kernel table, results, kernels (bef 1.6).
    fn body(&mut self, function: &Function) -> Result<()> {
        let uses = Uses::of(function);
        let streams = assign_streams(function, StreamOptions::of(self.module, function));
        let location = self.locations.add(&function.location);
        let (kernels, offsets) = self.kernels(function, &uses)?;
        let out = &mut self.functions;
        out.vbr(location);
        out.vbr(function.registers.len() as u64);
        for register in (0..).take(function.registers.len()) {
            out.vbr(uses.count(RegisterId(register)).into());
        }
        kernel_table(out, function, &streams, &offsets);
        function
            .results
            .iter()
            .for_each(|register| out.vbr(register.0.into()));
        out.align(4);
        out.raw(&kernels.bytes);
        Ok(())
    }

    /// The kernel list, and the offset of each kernel in it.
    fn kernels(&mut self, function: &Function, uses: &Uses) -> Result<(Writer, Vec<u64>)> {
        let mut out = Writer::new();
        let mut offsets = vec![0];
        pseudo_kernel(&mut out, function, uses)?;
        for kernel in &function.kernels {
            offsets.push(out.position() as u64);
            self.kernel(&mut out, kernel, uses)?;
        }
        Ok((out, offsets))
    }

    fn kernel(&mut self, out: &mut Writer, kernel: &Kernel, uses: &Uses) -> Result<()> {
        let what = "a kernel";
        let location = self.locations.add(&kernel.location);
        out.u32(self.tables.kernel_code(&kernel.name)?);
        out.u32(size(location as usize, "the Locations section")?);
        out.u32(size(kernel.operands.len(), what)?);
        out.u32(size(written_attributes(kernel).count(), what)?);
        out.u32(size(kernel.functions.len(), what)?);
        out.u32(size(kernel.results.len(), what)?);
        for register in &kernel.results {
            out.u32(size(uses.users(*register).len(), what)?);
        }
        kernel
            .operands
            .iter()
            .for_each(|register| out.u32(register.0));
        for (_, attribute) in written_attributes(kernel) {
            out.u32(self.attributes.offset_of(attribute)?);
        }
        kernel
            .functions
            .iter()
            .for_each(|(_, function)| out.u32(function.0));
        kernel
            .results
            .iter()
            .for_each(|register| out.u32(register.0));
        for register in &kernel.results {
            put_users(out, uses.users(*register));
        }
        Ok(())
    }
}

fn kernel_table(out: &mut Writer, function: &Function, streams: &Streams, offsets: &[u64]) {
    out.vbr(offsets.len() as u64);
    let pseudo = [(0, streams.root)];
    let operands = function
        .kernels
        .iter()
        .map(|kernel| kernel.operands.len() as u64);
    let rows = pseudo
        .into_iter()
        .chain(operands.zip(streams.kernels.iter().copied()));
    for (offset, (operands, stream)) in offsets.iter().zip(rows) {
        out.vbr(*offset);
        out.vbr(operands);
        out.vbr(stream.into());
    }
}

/// Kernel 0 defines the arguments, and an extra register after the last one that kernels without
/// operands "use".
fn pseudo_kernel(out: &mut Writer, function: &Function, uses: &Uses) -> Result<()> {
    let what = "a function";
    out.u32(PSEUDO_CODE);
    out.u32(PSEUDO_LOCATION);
    [0, 0, 0, function.arguments + 1]
        .into_iter()
        .for_each(|count| out.u32(count));
    let arguments = || (0..function.arguments).map(RegisterId);
    out.u32(size(uses.without_operands().len(), what)?);
    for register in arguments() {
        out.u32(size(uses.users(register).len(), what)?);
    }
    out.u32(size(function.registers.len(), what)?);
    arguments().for_each(|register| out.u32(register.0));
    put_users(out, uses.without_operands());
    arguments().for_each(|register| put_users(out, uses.users(register)));
    Ok(())
}

/// Users are numbered from 1: kernel 0 is the pseudo kernel.
fn put_users(out: &mut Writer, users: &[u32]) {
    users.iter().for_each(|user| out.u32(user + 1));
}
