//! The tensor movements of an input: from the netlist's form to the kernels'.

use tenon_netlist::{Input, Pad, Spanned, Tm};
use tenon_tile::{MovementList, TensorMovement};

/// The movements between a stored tensor and an op: unpad, TMs, pad (netlist 3.8).
pub(super) fn of_input(input: &Input) -> MovementList {
    let unpad = input.unpad.iter().map(|unpad| unpad.value);
    let unpad = unpad.filter(|&removed| removed != [0, 0]);
    let unpad = unpad.map(|[rows, columns]| TensorMovement::Unpad { rows, columns });
    let pads = input.pad.iter().map(|added| pad(added.value));
    unpad.chain(of_tms(&input.tms)).chain(pads).collect()
}

/// The movements of a list of TMs. A tile broadcast moves no tiles and has none.
pub(super) fn of_tms(tms: &[Spanned<Tm>]) -> MovementList {
    tms.iter().filter_map(|tm| movement(tm.value)).collect()
}

/// Height and width of a tile after the movements.
pub(super) fn tile_after(movements: &MovementList, [height, width]: [usize; 2]) -> [usize; 2] {
    if movements.transposes_tiles() {
        [width, height]
    } else {
        [height, width]
    }
}

fn movement(tm: Tm) -> Option<TensorMovement> {
    Some(match tm {
        Tm::BroadcastRows(n) => TensorMovement::BroadcastRows(n),
        Tm::BroadcastColumns(n) => TensorMovement::BroadcastColumns(n),
        Tm::BroadcastSlices(n) => TensorMovement::BroadcastSlices(n),
        Tm::Transpose => TensorMovement::Transpose,
        Tm::Hslice(n) => TensorMovement::Hslice(n),
        Tm::Vslice(n) => TensorMovement::Vslice(n),
        Tm::Hstack(n) => TensorMovement::Hstack(n),
        Tm::Vstack(n) => TensorMovement::Vstack(n),
        Tm::Pad(added) => pad(added),
        Tm::TileBroadcast(_) => return None,
    })
}

fn pad(added: Pad) -> TensorMovement {
    TensorMovement::Pad {
        rows: added.rows,
        columns: added.columns,
        value: added.value,
    }
}
