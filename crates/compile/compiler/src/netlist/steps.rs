//! TMs in the words of `netlist.move`.

use tenon_netlist::{Input, Pad, Spanned, Tm};

/// What is done to an input on its way: unpad, TMs, pad (facts 3.8).
pub(super) fn steps(input: &Input) -> Vec<String> {
    let unpad = input.unpad.iter().map(|unpad| {
        let [rows, columns] = unpad.value;
        format!("unpad {rows} {columns}")
    });
    let pads = input.pad.iter().map(|added| pad(&added.value));
    let unpad = unpad.filter(|step| step != "unpad 0 0");
    unpad.chain(tms(&input.tms)).chain(pads).collect()
}

/// A list of TMs; those inside tiles are no moves.
pub(super) fn tms(tms: &[Spanned<Tm>]) -> Vec<String> {
    tms.iter().filter_map(|tm| step(&tm.value)).collect()
}

/// Whether tiles come out transposed.
pub(super) fn flips(steps: &[String]) -> bool {
    steps.iter().filter(|step| *step == "transpose").count() % 2 == 1
}

/// Whether tiles are added.
pub(super) fn pads(steps: &[String]) -> bool {
    steps.iter().any(|step| step.starts_with("pad"))
}

/// Height and width of a tile after steps.
pub(super) fn tile(steps: &[String], [height, width]: [usize; 2]) -> [usize; 2] {
    match flips(steps) {
        true => [width, height],
        false => [height, width],
    }
}

fn step(tm: &Tm) -> Option<String> {
    Some(match tm {
        Tm::BroadcastRows(n) => format!("broadcast_r {n}"),
        Tm::BroadcastColumns(n) => format!("broadcast_c {n}"),
        Tm::BroadcastSlices(n) => format!("broadcast_z {n}"),
        Tm::Transpose => "transpose".to_owned(),
        Tm::Hslice(n) => format!("hslice {n}"),
        Tm::Vslice(n) => format!("vslice {n}"),
        Tm::Hstack(n) => format!("hstack {n}"),
        Tm::Vstack(n) => format!("vstack {n}"),
        Tm::Pad(added) => pad(added),
        Tm::TileBroadcast(_) => return None,
    })
}

fn pad(added: &Pad) -> String {
    format!("pad {} {} {}", added.rows, added.columns, added.value)
}
