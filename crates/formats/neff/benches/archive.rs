//! Packing, compressing, unpacking and verifying, compared with tar, gzip, pigz and sha256sum where
//! they are installed.

use divan::Bencher;
use divan::counter::BytesCount;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tenon_neff::{
    Control, Digest, HashCheck, Header, PackOptions, Package, PackageWriter, VerifyOptions, pack,
    verify,
};

const MIB: usize = 1 << 20;

fn main() {
    divan::main();
}

/// Elements as of weights: bf16 values stored as f32, which compress to about a half.
fn weights(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as f32 / 32768.0 - 1.0
    };
    let number = |_| {
        let value: f32 = next() + next() + next();
        (value.to_bits() & 0xffff_0000).to_le_bytes()
    };
    (0..len / 4).flat_map(number).collect()
}

/// A folder of `count` constants of `mib` MiB each.
fn folder(count: usize, mib: usize) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = weights(mib * MIB);
    std::fs::create_dir(folder.path().join("in")).expect("a folder");
    for id in 0..count {
        std::fs::write(folder.path().join(format!("in/{id}.bin")), &bytes).expect("written");
    }
    folder
}

/// Runs a tool; false when it is not installed.
fn tool(folder: &Path, command: &str) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder);
    shell
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn bench_tool(bencher: Bencher, folder: &Path, mib: usize, command: &str) {
    if !tool(folder, command) {
        return;
    }
    bencher
        .counter(BytesCount::new(mib * MIB))
        .bench_local(|| tool(folder, command));
}

const PLAIN: usize = 1024;

mod plain {
    use super::*;

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn pack_1_gib(bencher: Bencher) {
        let folder = folder(16, PLAIN / 16);
        let (from, to) = (folder.path().join("in"), folder.path().join("out.neff"));
        let control = Control::new();
        bencher
            .counter(BytesCount::new(PLAIN * MIB))
            .bench_local(|| pack(&from, &to, &PackOptions::default(), &control).expect("packed"));
    }

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn tar_1_gib(bencher: Bencher) {
        let folder = folder(16, PLAIN / 16);
        bench_tool(bencher, folder.path(), PLAIN, "tar cf out.tar in");
    }

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn tar_and_sha256sum_1_gib(bencher: Bencher) {
        let folder = folder(16, PLAIN / 16);
        bench_tool(
            bencher,
            folder.path(),
            PLAIN,
            "tar cf out.tar in && sha256sum out.tar",
        );
    }
}

const PACKED: usize = 256;

mod compressed {
    use super::*;

    fn package(folder: &Path) -> std::path::PathBuf {
        let to = folder.join("out.neff");
        let options = PackOptions {
            pkg_version: Some(2),
            ..Default::default()
        };
        pack(folder.join("in"), &to, &options, &Control::new()).expect("packed");
        to
    }

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn pack_256_mib(bencher: Bencher) {
        let folder = folder(4, PACKED / 4);
        bencher
            .counter(BytesCount::new(PACKED * MIB))
            .bench_local(|| package(folder.path()));
        let len = std::fs::metadata(package(folder.path()))
            .expect("there")
            .len();
        report(&format!("our gzip: {len} bytes"));
    }

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn tar_pigz_256_mib(bencher: Bencher) {
        let folder = folder(4, PACKED / 4);
        bench_tool(
            bencher,
            folder.path(),
            PACKED,
            "tar cf - in | pigz > out.tgz",
        );
        let len = std::fs::metadata(folder.path().join("out.tgz")).map_or(0, |data| data.len());
        report(&format!("pigz: {len} bytes"));
    }

    #[divan::bench(sample_count = 1, sample_size = 1)]
    fn tar_gzip_256_mib(bencher: Bencher) {
        let folder = folder(4, PACKED / 4);
        bench_tool(bencher, folder.path(), PACKED, "tar czf out.tgz in");
    }

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn unpack_256_mib(bencher: Bencher) {
        let folder = folder(4, PACKED / 4);
        let path = package(folder.path());
        let to = folder.path().join("out");
        bencher
            .counter(BytesCount::new(PACKED * MIB))
            .bench_local(|| {
                let _ = std::fs::remove_dir_all(&to);
                let package = Package::open(&path, &Control::new()).expect("opened");
                package.unpack(&to, &Control::new()).expect("unpacked");
            });
    }

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn unpack_one_stream_256_mib(bencher: Bencher) {
        let folder = folder(4, PACKED / 4);
        if !tool(
            folder.path(),
            "cd in && tar cf - *.bin | gzip -1 > ../out.tgz",
        ) {
            return;
        }
        let stream = std::fs::read(folder.path().join("out.tgz")).expect("there");
        let mut header = Header::tenon("stream", 2);
        header.data_size = stream.len() as u64;
        let path = folder.path().join("stream.neff");
        std::fs::write(&path, [&header.encode()[..], &stream].concat()).expect("written");
        let to = folder.path().join("out");
        bencher
            .counter(BytesCount::new(PACKED * MIB))
            .bench_local(|| {
                let _ = std::fs::remove_dir_all(&to);
                let package = Package::open(&path, &Control::new()).expect("opened");
                package.unpack(&to, &Control::new()).expect("unpacked");
            });
    }

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn tar_and_gzip_unpack_256_mib(bencher: Bencher) {
        let folder = folder(4, PACKED / 4);
        if tool(folder.path(), "tar cf - in | pigz > out.tgz") {
            let command = "rm -rf out && mkdir out && tar xzf out.tgz -C out";
            bench_tool(bencher, folder.path(), PACKED, command);
        }
    }
}

mod hashes {
    use super::*;

    fn package(folder: &Path) -> Package {
        let path = folder.join("out.neff");
        let header = Header::tenon("large", 1);
        let mut writer = PackageWriter::create(&path, header)
            .expect("written")
            .with_digests();
        let bytes = weights(PLAIN / 16 * MIB);
        for id in 0..16 {
            writer.add(&format!("{id}.bin"), &bytes).expect("written");
        }
        writer.finish().expect("written");
        Package::open(&path, &Control::new()).expect("opened")
    }

    #[divan::bench(sample_count = 5, sample_size = 1)]
    fn verify_digests_1_gib(bencher: Bencher) {
        let folder = tempfile::tempdir().expect("a folder");
        let package = package(folder.path());
        bencher
            .counter(BytesCount::new(PLAIN * MIB))
            .bench_local(|| {
                let options = VerifyOptions::default();
                let found = verify(&package, &options, &Control::new()).expect("checked");
                assert!(
                    !found
                        .list
                        .iter()
                        .any(|finding| finding.rule.id.starts_with("digest"))
                );
            });
    }

    #[divan::bench(sample_count = 5, sample_size = 1)]
    fn blake3_alone_1_gib(bencher: Bencher) {
        let folder = tempfile::tempdir().expect("a folder");
        drop(package(folder.path()));
        let file = std::fs::File::open(folder.path().join("out.neff")).expect("there");
        let map = tenon_tensor::Buffer::map(&file).expect("mapped");
        bencher
            .counter(BytesCount::new(PLAIN * MIB))
            .bench_local(|| Digest::of(&map));
    }

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn verify_header_hash_1_gib(bencher: Bencher) {
        let folder = tempfile::tempdir().expect("a folder");
        let package = package(folder.path());
        bencher
            .counter(BytesCount::new(PLAIN * MIB))
            .bench_local(|| {
                assert_eq!(
                    package.verify_hash(&Control::new()).expect("hashed"),
                    HashCheck::Equal
                );
            });
    }

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn sha256sum_1_gib(bencher: Bencher) {
        let folder = tempfile::tempdir().expect("a folder");
        drop(package(folder.path()));
        bench_tool(bencher, folder.path(), PLAIN, "sha256sum out.neff");
    }
}

#[allow(clippy::print_stderr, reason = "prints sizes with the times")]
fn report(text: &str) {
    eprintln!("{text}");
}
