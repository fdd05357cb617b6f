use super::pages::Pages;
use super::{built, has_scheme};
use std::fs;
use tempfile::TempDir;

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// The text of `docs/a.md` as it is staged, and what is wrong with its links.
fn staged(page: &str) -> (String, Vec<String>) {
    let folder = folder(&[
        ("book.toml", ""),
        ("docs/SUMMARY.md", "[A](a.md)\n[B](../sub/README.md)\n"),
        ("docs/a.md", page),
        ("sub/README.md", "# B\n"),
        ("sub/other.md", ""),
        ("sub/code.rs", ""),
    ]);
    let root = folder.path();
    let target = root.join("target");
    let (source, book) = (target.join("book-source"), target.join("book"));
    let pages = Pages::listed(root).unwrap();
    assert_eq!(pages.count(), 2);
    assert_eq!(pages.source("sub-readme.html").unwrap(), "sub/README.md");
    assert_eq!(pages.source("toc.html"), None);
    let problems = pages.stage(&source, &book).unwrap();
    let summary = fs::read_to_string(source.join("src/SUMMARY.md")).unwrap();
    assert_eq!(summary, "[A](a.md)\n[B](sub-readme.md)\n");
    (
        fs::read_to_string(source.join("src/a.md")).unwrap(),
        problems,
    )
}

#[test]
fn links_lead_to_pages_of_the_book_and_to_files_of_the_checkout() {
    let cases = [
        ("[b](../sub/README.md#x)", "[b](sub-readme.md#x)"),
        (
            "[`../sub/code.rs`](../sub/code.rs)",
            "[`../sub/code.rs`](../../sub/code.rs)",
        ),
        (
            "![p](../sub/code.rs \"title\")",
            "![p](../../sub/code.rs \"title\")",
        ),
        (
            "[![p](../sub/code.rs)](../sub/README.md)",
            "[![p](../../sub/code.rs)](sub-readme.md)",
        ),
        (
            "| a |\n|---|\n| [b](../sub) |",
            "| a |\n|---|\n| [b](../../sub) |",
        ),
        (
            "[a][b]\n\n[b]: ../sub/README.md",
            "[a][b]\n\n[b]: sub-readme.md",
        ),
        ("[m](../sub/other.md#x)", "[m](../../sub/other%2Emd#x)"),
        (
            "[e](https://example.org/a.md)",
            "[e](https://example.org/a.md)",
        ),
        ("[s](#x) `[c](../none)`", "[s](#x) `[c](../none)`"),
        ("    [code](../none)", "    [code](../none)"),
    ];
    for (page, expected) in cases {
        assert_eq!(staged(page), (expected.to_owned(), Vec::new()));
    }
}

#[test]
fn comments_for_tests_are_left_out() {
    let page = "a\n\n<!-- test: set up\n\n    cp a b -->\n\n    code <!-- test: x -->\n\nb <!-- test: y -->c <!-- d -->\n";
    let expected = "a\n\n\n\n    code <!-- test: x -->\n\nb c <!-- d -->\n";
    assert_eq!(staged(page), (expected.to_owned(), Vec::new()));
}

#[test]
fn links_without_a_file_and_out_of_the_repository_are_reported() {
    let (text, problems) = staged("# A\n\n[n](none.md#x)\n\n[o](../../other) [r](/etc)\n");
    assert_eq!(text, "# A\n\n[n](#)\n\n[o](#) [r](#)\n");
    let expected = [
        "docs/a.md:3: none.md#x: no such file",
        "docs/a.md:5: ../../other: it leads out of the repository",
        "docs/a.md:5: /etc: it leads out of the repository",
    ];
    assert_eq!(problems, expected);
}

#[test]
fn the_index_lists_pages_that_exist_and_all_of_its_folder() {
    let folder = folder(&[
        ("docs/SUMMARY.md", "[A](a.md)\n[B](b.md)\n"),
        ("docs/b.md", ""),
        ("docs/c.md", ""),
    ]);
    let error = Pages::listed(folder.path()).err().unwrap();
    assert_eq!(
        error,
        "docs/SUMMARY.md does not list docs/c.md\ndocs/SUMMARY.md: a.md: the page is missing"
    );
}

#[test]
fn links_of_built_pages_lead_to_files_and_anchors() {
    let folder = folder(&[
        (
            "a.html",
            "<h1 id='x'>A</h1><script>\"<a href='none'>\"</script><script src='a%20b.js'></script>\
             <a href='#x'></a><a href='b.html#y&amp;z'></a><a href='b.html#none'></a><a href='c.html#x'></a>\
             <img src='none.png'><a href='https://example.org'></a><a href='a%20b.js#L1'></a><a href='#'></a>",
        ),
        ("b.html", "<a name='y&amp;z'></a><a href='../none'></a>"),
        ("a b.js", ""),
    ]);
    let mut problems = Vec::new();
    let source = |page: &str| (page == "a.html").then(|| "docs/a.md".to_owned());
    let counts = built::check(folder.path(), source, &mut problems).unwrap();
    let expected = [
        "docs/a.md: b.html#none: b.html has no anchor none",
        "docs/a.md: c.html#x: no such file",
        "docs/a.md: none.png: no such file",
        "b.html: ../none: no such file",
    ];
    problems.sort_by_key(|problem| expected.iter().position(|it| it == problem));
    assert_eq!(problems, expected);
    assert_eq!((counts.checked, counts.external), (9, 1));
}

#[test]
fn schemes_are_distinguished_from_paths() {
    for link in ["https://a", "mailto:a@b", "data:x"] {
        assert!(has_scheme(link), "{link}");
    }
    for link in ["a.md", "../a:b.md", "a/b:c", "#a:b", ":a"] {
        assert!(!has_scheme(link), "{link}");
    }
}
