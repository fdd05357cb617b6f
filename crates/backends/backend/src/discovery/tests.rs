use super::*;
use std::os::unix::fs::symlink;

/// The file names of backends 6.2 that are decided by the name alone.
#[test]
fn file_names_are_recognised_as_in_the_table() {
    for (name, valid) in [
        ("Arm_GpuAcc_backend.so", true),
        ("Arm_GpuAcc_backend.so.1", true),
        ("Arm_GpuAcc_backend.so.1.2", true),
        ("Arm_GpuAcc_backend.so.1.2.3", true),
        ("Arm_GpuAcc_backend.so.10.1.27", true),
        ("Arm_GpuAcc_backend.so.10.1.33.", false),
        ("Arm_GpuAcc_backend.so.3.4..5", false),
        ("Arm_GpuAcc_backend.so.1,1.1", false),
        ("Arm123_GpuAcc_backend.so", true),
        ("Arm_GpuAcc456_backend.so", true),
        ("Arm%Co_GpuAcc_backend.so", false),
        ("Arm_Gpu.Acc_backend.so", false),
        ("GpuAcc_backend.so", false),
        ("_GpuAcc_backend.so", false),
        ("Arm__backend.so", false),
        ("Arm_GpuAcc.so", false),
        ("__backend.so", false),
        ("__.so", false),
        ("Arm_GpuAcc_backend", false),
        ("Arm_GpuAcc_backend_v1.2.so", false),
        ("Arm_CpuAcc_backend.so", true),
        // The dot is literal (backends 6.2), and the pattern must match the whole name.
        ("Arm_GpuAcc_backendZso", false),
        ("Arm_GpuAcc_backend.so.1a", false),
        ("xArm_Gpu_Acc_backend.so", false),
        ("Arm_GpuAcc_backend.so ", false),
        ("", false),
    ] {
        assert_eq!(is_backend_file_name(name), valid, "{name}");
    }
}

/// The rows of the table about links and folders.
#[test]
fn links_and_folders_are_handled_as_in_the_table() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let (a, b) = (root.join("pathA"), root.join("pathB"));
    for folder in [&a, &b] {
        std::fs::create_dir(folder).unwrap();
    }
    let touch = |path: &Path| std::fs::write(path, "").unwrap();
    touch(&a.join("Arm_GpuAcc_backend.so.1.2.3"));
    touch(&a.join("Arm_CpuAcc_backend.so"));
    touch(&a.join("Arm_CpuAcc.so"));
    for (link, target) in [
        ("Arm_GpuAcc_backend.so", "Arm_GpuAcc_backend.so.1.2.3"),
        ("Arm_GpuAcc_backend.so.1", "Arm_GpuAcc_backend.so.1.2.3"),
        ("Arm_CpuAcc_backend.so.1", "Arm_CpuAcc_backend.so"),
        ("Arm_CpuAcc_backend.so.1.2", "Arm_CpuAcc_backend.so.1"),
        ("Arm_CpuAcc_backend.so.1.2.3", "Arm_CpuAcc_backend.so.1.2"),
        ("Arm_no_backend.so", "nothing"),
        ("Arm_odd_backend.so", "Arm_CpuAcc.so"),
    ] {
        symlink(a.join(target), a.join(link)).unwrap();
    }
    // The same file again, and another of the same name.
    symlink(
        a.join("Arm_CpuAcc_backend.so"),
        b.join("Arm_CpuAcc_backend.so"),
    )
    .unwrap();
    touch(&b.join("Arm_GpuAcc_backend.so"));
    std::fs::create_dir(b.join("Arm_Folder_backend.so")).unwrap();

    let found = discover(&[a.clone(), b.clone(), a.clone()]);
    assert_eq!(
        found.libraries,
        [
            a.join("Arm_CpuAcc_backend.so"),
            a.join("Arm_GpuAcc_backend.so.1.2.3"),
            // The name is that of the link, the file its target.
            a.join("Arm_CpuAcc.so"),
            b.join("Arm_GpuAcc_backend.so"),
        ]
    );
    let warnings: Vec<String> = found.warnings.iter().map(ToString::to_string).collect();
    let broken = a.join("Arm_no_backend.so").display().to_string();
    // The first folder is searched twice.
    let expected = format!("{broken}: dangling symbolic link");
    assert_eq!(warnings, [expected.clone(), expected]);
}

#[test]
fn folders_must_be_absolute_and_existing_and_are_distinct() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    std::fs::write(&file, "").unwrap();
    let list = format!(
        "{0}::relative:{0}:{0}/gone:{1}",
        root.path().display(),
        file.display()
    );
    let paths = folders_in(OsStr::new(&list));
    let codes: Vec<Option<&str>> = paths
        .iter()
        .map(|path| folder_problem(path).map(|problem| problem.code()))
        .collect();
    assert_eq!(
        codes,
        [
            None,
            Some("empty-path"),
            Some("relative-path"),
            Some("missing-path"),
            Some("not-a-folder"),
        ]
    );
    assert!(folders_in(OsStr::new("")).is_empty());
}

#[test]
fn an_override_is_the_only_folder_even_if_invalid() {
    let root = tempfile::tempdir().unwrap();
    let (folders, warnings) = backend_folders(Some(root.path()));
    assert_eq!((folders.len(), warnings.len()), (1, 0));
    for wrong in ["", "here", "/there/is/no/such/folder"] {
        let (folders, warnings) = backend_folders(Some(Path::new(wrong)));
        assert_eq!((folders.len(), warnings.len()), (0, 1), "{wrong}");
    }
}
