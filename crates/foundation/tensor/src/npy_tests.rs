use super::*;
use half::bf16;
use proptest::prelude::*;

fn buffer(bytes: &[u8]) -> Buffer {
    BufferMut::copy_of(bytes).unwrap().freeze()
}

/// A file of version 1 with this header text.
fn file(text: &str, data: &[u8]) -> Vec<u8> {
    let length = (text.len() as u16).to_le_bytes();
    [MAGIC, &[1, 0], &length, text.as_bytes(), data].concat()
}

fn written(tensor: &Tensor) -> Vec<u8> {
    [&header(tensor).unwrap(), tensor.bytes()].concat()
}

#[test]
fn written_bytes_equal_those_of_numpy() {
    let tensor = Tensor::from_slice([3], &[1.0f32, 2.0, 3.0]).unwrap();
    let bytes = written(&tensor);
    let text = "\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
    assert_eq!(&bytes[6..6 + text.len()], text.as_bytes());
    assert_eq!((bytes.len(), bytes[127]), (128 + 12, b'\n'));
    let scalar = Tensor::scalar(1i8).unwrap();
    assert!(
        written(&scalar)
            .windows(13)
            .any(|window| window == b"'shape': (), ")
    );
    let matrix = Tensor::from_slice([1, 2], &[1i8, 2]).unwrap();
    assert!(
        written(&matrix)
            .windows(17)
            .any(|window| window == b"'shape': (1, 2), ")
    );
}

#[test]
fn fortran_order_and_big_endian_are_converted() {
    let text = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }";
    let tensor = parse(&buffer(&file(text, &[0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 1, 0]))).unwrap();
    assert_eq!(
        tensor,
        Tensor::from_slice([2, 3], &[1i16, 2, 3, 4, 5, 256]).unwrap()
    );
    let text = "{'descr': '>c8', 'fortran_order': False, 'shape': (1,)}";
    let data = [1f32.to_be_bytes(), 2f32.to_be_bytes()].concat();
    let tensor = parse(&buffer(&file(text, &data))).unwrap();
    assert_eq!(
        tensor.bytes(),
        [1f32.to_le_bytes(), 2f32.to_le_bytes()].concat()
    );
}

#[test]
fn header_syntax_variants_are_accepted() {
    for text in [
        "{\"shape\": (2L, 1), \"descr\": \"|u1\", \"fortran_order\": False}",
        "  {'fortran_order':False,'descr':'u1','shape':(2,1,)}   \n",
    ] {
        let tensor = parse(&buffer(&file(text, &[7, 8]))).unwrap();
        assert_eq!(tensor, Tensor::from_slice([2, 1], &[7u8, 8]).unwrap());
    }
}

#[test]
fn errors_of_unsupported_and_malformed_files() {
    let fails =
        |text: &str, data: &[u8]| parse(&buffer(&file(text, data))).unwrap_err().to_string();
    let head = |descr: &str, shape: &str| {
        format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}")
    };
    let structured = fails(&head("[('a', '<f4')]", "(1,)"), &[0; 4]);
    assert_eq!(
        structured,
        "a structured array; save it as a plain numeric array"
    );
    assert!(fails(&head("'|O'", "(1,)"), &[]).contains("Python objects"));
    assert!(fails(&head("'<U3'", "(1,)"), &[]).contains("strings"));
    assert!(fails(&head("'<V1'", "(1,)"), &[0]).contains("uint8"));
    assert!(fails(&head("'<f16'", "(1,)"), &[0; 16]).contains("found f16"));
    assert!(fails(&head("'<f4'", "(3,)"), &[0; 8]).contains("expected 12 bytes, found 8"));
    assert!(fails(&head("'|b1'", "(1,)"), &[2]).contains("neither"));
    assert!(fails(&head("'<f4'", "(-1,)"), &[]).contains("not an unsigned integer"));
    let huge = head("'<f4'", "(4294967296, 4294967296)");
    assert!(fails(&huge, &[]).contains("larger than memory"));
    assert!(fails("{}", &[]).contains("lacks descr"));
    assert!(fails("{'x': 1}", &[]).contains("unknown key"));
    assert!(fails(&"(".repeat(60_000), &[]).contains("dictionary"));
    assert!(
        parse(&buffer(b"PK"))
            .unwrap_err()
            .to_string()
            .contains("not an .npy file")
    );
    let long = [MAGIC, &[2, 0], &u32::MAX.to_le_bytes()].concat();
    assert!(
        parse(&buffer(&long))
            .unwrap_err()
            .to_string()
            .contains("too long")
    );
}

#[test]
fn npz_and_npy_files_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arrays.npz");
    let a = Tensor::from_slice([2, 2], &[1.5f64, -2.0, 0.0, 4.0]).unwrap();
    let b = Tensor::from_slice([0], &[0i64; 0]).unwrap();
    let c = Tensor::from_slice([2], &[bf16::ONE, bf16::MIN]).unwrap();
    write_npz(&path, &[("a", &a), ("b/c", &b), ("c", &c)]).unwrap();
    let read = read_npz(&path).unwrap();
    let expected = [
        ("a".to_owned(), a),
        ("b/c".to_owned(), b.clone()),
        ("c".to_owned(), c),
    ];
    assert_eq!(read, expected);
    let first = std::fs::read(&path).unwrap();
    let arrays: Vec<(&str, &Tensor)> = read.iter().map(|(n, t)| (n.as_str(), t)).collect();
    write_npz(&path, &arrays).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), first);
    let path = folder.path().join("one.npy");
    write_npy(&path, &b).unwrap();
    assert_eq!(read_npy(&path).unwrap(), b);
    let error = write_npy(folder.path().join("no/where.npy"), &b).unwrap_err();
    assert!(error.to_string().contains("cannot write"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    assert_eq!(
        read_npy(folder.path().join("none.npy")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn an_aligned_file_is_mapped_without_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    write_npy(&path, &Tensor::from_slice([3], &[1i32, 2, 3]).unwrap()).unwrap();
    let tensor = read_npy(&path).unwrap();
    assert!(tensor.buffer().is_mapped());
    assert_eq!(tensor.as_slice::<i32>().unwrap(), [1, 2, 3]);
}

fn archive() -> Vec<u8> {
    let mut zip = ZipWriter::new(io::Cursor::new(Vec::new()));
    let tensor = Tensor::from_slice([40], &[3i32; 40]).unwrap();
    for (name, method) in [
        ("a.npy", CompressionMethod::Stored),
        ("b.npy", CompressionMethod::Deflated),
        ("readme.txt", CompressionMethod::Stored),
    ] {
        zip.start_file(
            name,
            SimpleFileOptions::default().compression_method(method),
        )
        .unwrap();
        zip.write_all(&written(&tensor)).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn compressed_arrays_are_read() {
    let arrays = parse_npz(io::Cursor::new(archive())).unwrap();
    assert_eq!(arrays.len(), 2);
    assert_eq!(arrays[0].1, arrays[1].1);
}

proptest! {
    #[test]
    fn written_tensors_are_read_back(
        shape in proptest::collection::vec(0usize..5, 0..5),
        pick in 0usize..DataType::ALL.len(),
        seed in any::<u8>(),
    ) {
        let dtype = DataType::ALL[pick];
        let ty = TensorType::new(dtype, shape).unwrap();
        let bytes: Vec<u8> = (0..ty.bytes()).map(|i| seed.wrapping_mul(i as u8) & 1).collect();
        let tensor = match dtype {
            DataType::String => Tensor::zeroed(ty),
            _ => Tensor::new(ty, buffer(&bytes)),
        };
        let tensor = tensor.unwrap();
        if header(&tensor).is_ok() {
            match parse(&buffer(&written(&tensor))) {
                Ok(read) => {
                    prop_assert_eq!(read.shape(), tensor.shape());
                    prop_assert_eq!(read.bytes(), tensor.bytes());
                }
                Err(_) => prop_assert!(dtype.bits() == 8 && dtype.is_float()),
            }
        }
    }

    #[test]
    fn truncated_and_corrupted_files_never_panic(
        cut in 0usize..200,
        position in 0usize..200,
        byte in any::<u8>(),
    ) {
        let mut bytes = written(&Tensor::from_slice([2, 3], &[1.0f64; 6]).unwrap());
        bytes.truncate(cut);
        if let Some(changed) = bytes.get_mut(position) {
            *changed = byte;
        }
        let _ = parse(&buffer(&bytes));
    }

    #[test]
    fn truncated_and_corrupted_archives_never_panic(
        cut in 0usize..1200,
        changes in proptest::collection::vec((0usize..1200, any::<u8>()), 0..3),
    ) {
        let mut bytes = archive();
        for (position, byte) in changes {
            if let Some(changed) = bytes.get_mut(position) {
                *changed = byte;
            }
        }
        bytes.truncate(cut.max(1200 - cut));
        let _ = parse_npz(io::Cursor::new(bytes));
    }

    #[test]
    fn any_header_never_panics(text in "[{}()'\",: 0-9a-zA-Z<>|]{0,80}") {
        let _ = parse(&buffer(&file(&text, &[0; 16])));
    }
}
