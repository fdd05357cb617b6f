//! The commands that unpack, pack and verify packages.
#![allow(clippy::print_stderr, reason = "a test says why it skips")]

mod common;

use common::{done, folder, package, tenon};
use std::path::Path;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// Names and sizes of members.
fn members(folder: &Path, file: &str) -> serde_json::Value {
    json(&done(folder, &["ls", file, "--json"]))
}

#[test]
fn unpacked_and_packed_again_nothing_differs() {
    let folder = folder();
    let here = folder.path();
    package(here, "models/digits/digits.onnx");
    let out = done(here, &["unpack", "model.neff", "-o", "parts"]);
    assert_eq!(out, "Unpacking NEFF in \"parts\" directory...\n");
    assert!(here.join("parts/neff.header").is_file());
    done(here, &["pack", "-i", "parts", "-o", "again.neff"]);
    assert_eq!(done(here, &["diff", "model.neff", "again.neff"]), "");
    done(
        here,
        &["pack", "-i", "parts", "-o", "small.neff", "-r", "2"],
    );
    let bytes = |name: &str| std::fs::metadata(here.join(name)).unwrap().len();
    assert!(bytes("small.neff") < bytes("again.neff"));
    for file in ["again.neff", "small.neff"] {
        let out = done(here, &["verify", file, "--hash"]);
        assert!(
            out.ends_with(&format!("{file}: 0 errors, 0 warnings\n")),
            "{out}"
        );
    }
    // A folder that is not empty is not changed.
    let answer = tenon(here, &["unpack", "model.neff", "-o", "parts"]);
    assert_eq!(answer.status, Some(1));
    assert!(
        answer.err.contains("the folder is not empty"),
        "{}",
        answer.err
    );
}

#[test]
fn a_packed_model_runs_as_before() {
    let folder = folder();
    let here = folder.path();
    package(here, "models/digits/digits.onnx");
    done(here, &["unpack", "model.neff", "-o", "parts"]);
    done(here, &["pack", "-i", "parts", "-o", "again.neff"]);
    done(here, &["strip", "again.neff", "-o", "bare.neff"]);
    let picture = common::repository("models/digits/seven.png");
    let answers = ["model.neff", "bare.neff"].map(|file| {
        done(
            here,
            &["run", file, "--input", &picture, "--quiet", "-o", "out"],
        );
        let outputs = std::fs::read_dir(here.join("out")).unwrap();
        let files = outputs.map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
        files.collect::<Vec<_>>()
    });
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn members_are_listed_and_printed() {
    let folder = folder();
    let here = folder.path();
    package(here, "models/digits/digits.onnx");
    let all = members(here, "model.neff");
    let names: Vec<&str> = all
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|m| m["name"].as_str())
        .collect();
    assert!(names.contains(&"neff.json"), "{names:?}");
    let graph = json(&done(here, &["cat", "model.neff", "neff.json"]));
    assert!(graph["nodes"].is_array());
    let answer = tenon(here, &["cat", "model.neff", "nothing.json"]);
    assert_eq!(answer.status, Some(1));
    assert!(answer.err.contains("nothing.json"), "{}", answer.err);
}

#[test]
fn load_errors_are_findings() {
    let folder = folder();
    let here = folder.path();
    package(here, "models/digits/digits.onnx");
    done(here, &["unpack", "model.neff", "-o", "parts"]);
    let program = here.join("parts/sg00/program.bef");
    let bytes = std::fs::read(&program).unwrap();
    let report = |file: &str| {
        let answer = tenon(here, &["verify", file, "--json"]);
        (answer.status, json(&answer.out))
    };
    let first = |report: &serde_json::Value| report["findings"][0]["rule"].clone();
    // After packing again, the digests are those of the damaged program.
    for (length, rule) in [
        (0, "tenon.load"),
        (7, "tenon.load"),
        (bytes.len() - 9, "tenon.load"),
    ] {
        std::fs::write(&program, &bytes[..length]).unwrap();
        done(here, &["pack", "-i", "parts", "-o", "cut.neff"]);
        let (status, report) = report("cut.neff");
        assert_eq!(
            (status, first(&report)),
            (Some(1), rule.into()),
            "{length}: {report:#}"
        );
        assert_eq!(report["findings"][0]["member"], "sg00/program.bef");
        assert_ne!(
            tenon(here, &["run", "cut.neff", "--random", "1"]).status,
            Some(0)
        );
    }
    std::fs::remove_file(&program).unwrap();
    done(here, &["pack", "-i", "parts", "-o", "none.neff"]);
    let (status, missing) = report("none.neff");
    assert_eq!(status, Some(1), "{missing:#}");
    assert_ne!(
        tenon(here, &["run", "none.neff", "--random", "1"]).status,
        Some(0)
    );
    // Without digests it runs, and the changed constant is not noticed.
    let mut whole = std::fs::read(here.join("model.neff")).unwrap();
    let name = b"digests.json\0";
    let at = whole.windows(name.len()).position(|window| window == name);
    // The checksum of the entry's header stays the same.
    let at = at.unwrap();
    whole[at..at + name.len()].copy_from_slice(b"digests.jsno\0");
    std::fs::write(here.join("plain.neff"), &whole).unwrap();
    let (status, plain) = report("plain.neff");
    assert_eq!(
        (status, first(&plain)),
        (Some(0), "digest.none".into()),
        "{plain:#}"
    );
    done(here, &["run", "plain.neff", "--random", "1", "--quiet"]);
}

#[test]
fn a_changed_byte_is_found() {
    let folder = folder();
    let here = folder.path();
    package(here, "models/digits/digits.onnx");
    let mut bytes = std::fs::read(here.join("model.neff")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(here.join("bad.neff"), &bytes).unwrap();
    let answer = tenon(here, &["verify", "bad.neff", "--json"]);
    assert_eq!(answer.status, Some(1), "{}", answer.out);
    let report = json(&answer.out);
    assert!(report["errors"].as_u64().unwrap() >= 1);
    assert!(report["findings"][0]["rule"].is_string());
    let answer = tenon(here, &["diff", "model.neff", "bad.neff"]);
    assert_eq!(answer.status, Some(1));
    assert_ne!(answer.out, "");
    // The middle of a model is a constant: the model runs, unless digests are checked.
    let run = ["run", "bad.neff", "--random", "1", "--check-digests"];
    done(here, &run[..4]);
    let answer = tenon(here, &run);
    assert_eq!(answer.status, Some(1), "{}", answer.out);
    assert!(answer.err.contains("was changed"), "{}", answer.err);
}

#[test]
fn every_command_that_unpacks_has_a_limit() {
    let folder = folder();
    let folder = folder.path();
    package(folder, "models/digits/digits.onnx");
    done(folder, &["unpack", "model.neff", "-o", "parts"]);
    std::fs::write(folder.join("parts/zeros"), vec![0; 8 << 20]).unwrap();
    done(
        folder,
        &["pack", "-i", "parts", "-o", "bomb.neff", "-r", "2"],
    );
    assert!(folder.join("bomb.neff").metadata().unwrap().len() < 1 << 20);
    for command in [
        &["ls"][..],
        &["info"],
        &["disasm"],
        &["verify"],
        &["unpack", "-o", "new"],
        &["strip", "-o", "new.neff"],
        &["dma"],
        &["run", "--random", "1"],
        &["bench", "--seconds", "0"],
        &["profile", "--runs", "1"],
        &["compare", "--random", "1"],
    ] {
        let limited = [command, &["bomb.neff", "--max-unpacked", "1M"]].concat();
        let answer = tenon(folder, &limited);
        assert_eq!(answer.status, Some(1), "{command:?}: {}", answer.err);
        let text = answer.out + &answer.err;
        assert!(
            text.contains("at most 1048576 bytes"),
            "{command:?}: {text}"
        );
        let enough = [command, &["bomb.neff", "--max-unpacked", "64M"]].concat();
        done(folder, &enough);
    }
    for more in [
        &["cat", "bomb.neff", "neff.json"],
        &["diff", "bomb.neff", "bomb.neff"],
    ] {
        let answer = tenon(folder, &[&more[..], &["--max-unpacked", "1M"]].concat());
        assert!(
            answer.err.contains("at most 1048576 bytes"),
            "{}",
            answer.err
        );
    }
}

#[test]
fn the_header_and_the_nodes_are_shown() {
    let folder = folder();
    let here = folder.path();
    package(here, "models/digits/digits.onnx");
    let out = done(here, &["info", "model.neff", "--wide"]);
    for part in [
        "NEFF Header:",
        "NEFF Nodes:",
        "Executor",
        "tenon-host-program",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let info = json(&done(here, &["info", "model.neff", "--json"]));
    assert_eq!(info["neff"]["header"]["package_version"], 1);
    assert!(info["neff"]["nodes"][0]["ports"].is_array());
}

#[test]
fn the_rules_are_listed() {
    let folder = folder();
    let out = done(folder.path(), &["verify", "--rules"]);
    assert!(out.contains("var.alignment"), "{out}");
    assert!(out.contains("docs/neff.md#2.4, docs/neff.md#2.7"), "{out}");
    let rules = json(&done(folder.path(), &["verify", "--rules", "--json"]));
    let rules = rules.as_array().unwrap();
    assert!(rules.len() > 50);
    let sources = |id| &rules.iter().find(|rule| rule["id"] == id).unwrap()["sources"];
    assert_eq!(
        *sources("engine.activation"),
        serde_json::json!([{"page": "docs/neff.md", "anchor": "2.7"}, {"page": "docs/neff.md", "anchor": "2.9"}])
    );
    assert_eq!(
        *sources("tenon.contents"),
        serde_json::json!([{"page": "docs/package.md", "anchor": null}])
    );
}

/// A package of another compiler, if the folder of extra data has one.
#[test]
fn a_foreign_package_reads_verifies_unpacks_packs_and_does_not_differ() {
    let Some(data) = std::env::var_os("TENON_EXTRA_DATA") else {
        eprintln!("skipped: TENON_EXTRA_DATA does not name a folder with a package");
        return;
    };
    let files = std::fs::read_dir(Path::new(&data).join("neff")).unwrap();
    let neff = files.map(|entry| entry.unwrap().path());
    let neff = neff.filter(|path| path.extension().is_some_and(|it| it == "neff"));
    for file in neff {
        let file = file.to_str().unwrap();
        let folder = folder();
        let here = folder.path();
        done(here, &["verify", file]);
        assert!(done(here, &["info", file]).contains("NEFF Nodes:"));
        done(here, &["unpack", file, "-o", "parts"]);
        done(
            here,
            &["pack", "-i", "parts", "-o", "again.neff", "-r", "2"],
        );
        assert_eq!(done(here, &["diff", file, "again.neff"]), "");
        assert_eq!(
            members(here, file).as_array().map(Vec::len),
            members(here, "again.neff").as_array().map(Vec::len)
        );
        done(here, &["dma", file]);
    }
}
