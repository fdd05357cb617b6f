use super::*;
use crate::cores::{CoreOptions, Cores};

fn cores() -> Cores {
    Cores::new(&CoreOptions {
        total: Some(2),
        memory: Some(1 << 20),
        ..CoreOptions::default()
    })
    .unwrap()
}

fn device(cores: &Cores, core: u32, size: usize) -> CoreTensor {
    let core = cores.core(core).unwrap();
    CoreTensor::allocate(core, Placement::Device, size, "t").unwrap()
}

fn bytes(tensor: &CoreTensor) -> Vec<u8> {
    let mut bytes = vec![0; tensor.size()];
    tensor.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn slices_keep_their_shared_memory_alive() {
    let cores = cores();
    let memory = cores.core(0).unwrap().memory().clone();
    let whole = device(&cores, 0, 10);
    let part = whole.slice(2, 6, "part").unwrap();
    let inner = part.slice(1, 2, "inner").unwrap();
    inner.write(0, &[7, 8]).unwrap();
    part.fill(5, 1, 9).unwrap();
    assert_eq!(bytes(&whole), [0, 0, 0, 7, 8, 0, 0, 9, 0, 0]);
    let offset = whole.address().unwrap().wrapping_add(3);
    assert_eq!(inner.address(), Some(offset));
    assert_eq!(memory.used(), 10);
    drop((whole, part));
    assert_eq!(memory.used(), 10);
    assert_eq!(bytes(&inner), [7, 8]);
    drop(inner);
    assert_eq!(memory.used(), 0);
}

#[test]
fn ranges_outside_are_rejected() {
    let cores = cores();
    let tensor = device(&cores, 0, 10);
    let slice = tensor.slice(4, 4, "s").unwrap();
    assert_eq!(
        slice.write(1, &[0; 4]).unwrap_err().to_string(),
        "tensor 's': the range exceeds the tensor: expected at most its 4 bytes, found 4 bytes from offset 1"
    );
    assert!(tensor.read(usize::MAX, &mut [0]).is_err());
    assert!(tensor.slice(11, 0, "").is_err());
    assert!(slice.copy_to(0, &tensor, 7, 4).is_err());
    tensor.read(10, &mut []).unwrap();
}

#[test]
fn copies_may_overlap_but_not_cross_cores() {
    let cores = cores();
    let tensor = device(&cores, 0, 5);
    tensor.write(0, &[1, 2, 3, 4, 5]).unwrap();
    tensor.copy_to(0, &tensor, 1, 4).unwrap();
    assert_eq!(bytes(&tensor), [1, 1, 2, 3, 4]);
    let slice = tensor.slice(3, 2, "").unwrap();
    slice.copy_to(0, &tensor, 0, 2).unwrap();
    assert_eq!(bytes(&tensor), [3, 4, 2, 3, 4]);
    let other = device(&cores, 1, 5);
    let error = tensor.copy_to(0, &other, 0, 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let host = CoreTensor::allocate(cores.core(0).unwrap(), Placement::Virtual, 5, "host").unwrap();
    tensor.copy_to(0, &host, 0, 5).unwrap();
    host.copy_to(0, &other, 0, 5).unwrap();
    assert_eq!(bytes(&other), [3, 4, 2, 3, 4]);
}

#[test]
fn memory_has_limits() {
    let cores = cores();
    let core = cores.core(0).unwrap();
    let error = CoreTensor::allocate(core, Placement::Host, MAX_HOST_BYTES + 1, "big").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    CoreTensor::allocate(core, Placement::Host, MAX_HOST_BYTES, "big").unwrap();
    let error = CoreTensor::allocate(core, Placement::Device, (1 << 20) + 1, "big").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert_eq!(core.memory().used(), 0);
}

#[test]
fn memory_can_be_attached_to_an_empty_tensor() {
    let tensor = CoreTensor::empty("e");
    assert_eq!((tensor.size(), tensor.address()), (0, None));
    assert!(tensor.read(0, &mut []).is_err() && tensor.slice(0, 0, "").is_err());
    let mut memory = [5u8; 3];
    // SAFETY: the array outlives the tensor and is accessed only through it.
    #[allow(unsafe_code)]
    unsafe {
        tensor.attach(NonNull::from(&mut memory).cast(), 3);
    }
    assert_eq!((tensor.size(), tensor.placement()), (3, Placement::Virtual));
    tensor.write(1, &[6]).unwrap();
    assert_eq!(bytes(&tensor), [5, 6, 5]);
}

#[test]
fn a_set_has_weak_references() {
    let cores = cores();
    let (a, b) = (device(&cores, 0, 1), device(&cores, 0, 2));
    let set = TensorSet::new();
    set.add("x", &a);
    set.add("x", &b);
    set.add("y", &a);
    assert_eq!(set.tensor("x").unwrap().size(), 2);
    let error = set.tensor("z").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the set has no tensor 'z': expected 'x', 'y'"
    );
    drop(a);
    assert_eq!(
        set.tensor("y").unwrap_err().kind(),
        ErrorKind::InvalidHandle
    );
}
