//! The pages of the book: the files that docs/SUMMARY.md lists, and how they are staged for mdBook.

use super::has_scheme;
use super::markdown::Parts;
use crate::Result;
use percent_encoding::percent_decode_str;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The index of the book, from the root folder.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The pages, each with the name under which it is staged, by their path from the root folder.
pub(super) struct Pages {
    root: PathBuf,
    names: BTreeMap<PathBuf, String>,
}

impl Pages {
    /// The pages that the index lists. All of them exist, and the folder of the index has no other page.
    pub(super) fn listed(root: &Path) -> Result<Self> {
        let mut names = BTreeMap::new();
        let mut problems = Vec::new();
        let summary = read(&root.join(SUMMARY))?;
        for link in Parts::of(&summary).links {
            let path = resolved(Path::new(SUMMARY), &link.target).unwrap_or_default();
            let name = name(&path);
            if !root.join(&path).is_file() {
                problems.push(format!("{SUMMARY}: {}: the page is missing", link.target));
            } else if names.values().any(|other| *other == name) {
                problems.push(format!(
                    "{SUMMARY}: {}: {name} is listed twice",
                    link.target
                ));
            }
            names.insert(path, name);
        }
        let folder = root.join("docs");
        for entry in fs::read_dir(&folder).map_err(|error| path_error(&folder, &error))? {
            let entry = entry.map_err(|error| path_error(&folder, &error))?;
            let path = Path::new("docs").join(entry.file_name());
            let is_page = path.extension().is_some_and(|extension| extension == "md");
            if is_page && path != Path::new(SUMMARY) && !names.contains_key(&path) {
                problems.push(format!("{SUMMARY} does not list {}", path.display()));
            }
        }
        if !problems.is_empty() {
            problems.sort();
            return Err(problems.join("\n"));
        }
        Ok(Self {
            root: root.to_owned(),
            names,
        })
    }

    /// Writes the configuration, the index and the pages into `folder`, with links for pages that are built in `book`.
    /// Returns what is wrong with links.
    pub(super) fn stage(&self, folder: &Path, book: &Path) -> Result<Vec<String>> {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|error| path_error(folder, &error))?;
        }
        let source = folder.join("src");
        fs::create_dir_all(&source).map_err(|error| path_error(&source, &error))?;
        let configuration = read(&self.root.join("book.toml"))?;
        write(&folder.join("book.toml"), &configuration)?;
        let mut problems = Vec::new();
        let index = (Path::new(SUMMARY), "SUMMARY.md");
        let pages = self.names.iter();
        let pages = pages.map(|(path, name)| (path.as_path(), name.as_str()));
        for (path, name) in pages.chain([index]) {
            let text = read(&self.root.join(path))?;
            let text = self.rewritten(path, &text, book, &mut problems);
            write(&source.join(name), &text)?;
        }
        Ok(problems)
    }

    pub(super) fn count(&self) -> usize {
        self.names.len()
    }

    /// The source of a built page; pages that mdBook adds have none.
    pub(super) fn source(&self, built: &str) -> Option<String> {
        let staged = format!("{}.md", built.strip_suffix(".html")?);
        let (path, _) = self.names.iter().find(|(_, name)| **name == staged)?;
        Some(path.display().to_string())
    }

    /// A page with the links of the book and without comments for tests.
    fn rewritten(
        &self,
        path: &Path,
        text: &str,
        book: &Path,
        problems: &mut Vec<String>,
    ) -> String {
        let parts = Parts::of(text);
        let comments = parts.test_comments.into_iter();
        let mut changes: Vec<_> = comments.map(|range| (range, String::new())).collect();
        for link in parts.links {
            let changed = match (self.target(path, &link.target, book), link.range) {
                (Ok(None), _) => continue,
                (Ok(Some(changed)), Some(range)) => Ok((range, changed)),
                (Ok(Some(_)), None) => Err("write it without escapes".to_owned()),
                // The check of the built pages does not report it a second time.
                (Err(problem), range) => {
                    changes.extend(range.map(|range| (range, "#".to_owned())));
                    Err(problem)
                }
            };
            match changed {
                Ok(change) => changes.push(change),
                Err(problem) => {
                    let (path, line) = (path.display(), link.line);
                    problems.push(format!("{path}:{line}: {}: {problem}", link.target));
                }
            }
        }
        changes.sort_by_key(|(range, _)| range.start);
        let mut page = text.to_owned();
        for (range, changed) in changes.into_iter().rev() {
            page.replace_range(range, &changed);
        }
        page
    }

    /// The target of a link of a page, in the book; `None` if it stays as it is.
    fn target(&self, page: &Path, link: &str, book: &Path) -> Result<Option<String>> {
        if has_scheme(link) || link.starts_with('#') {
            return Ok(None);
        }
        let path = resolved(page, link).ok_or("it leads out of the repository")?;
        let fragment = link.find('#').map_or("", |at| &link[at..]);
        if let Some(name) = self.names.get(&path) {
            return Ok(Some(format!("{name}{fragment}")));
        }
        let file = self.root.join(path);
        if !file.exists() {
            return Err("no such file".to_owned());
        }
        // mdBook would change the ending of a link to Markdown, which is a page of its book.
        let link = relative(book, &file).replace(".md", "%2Emd");
        Ok(Some(format!("{link}{fragment}")))
    }
}

/// The name of a staged page: `docs/neff.md` is `neff.md`, `models/README.md` is `models-readme.md`.
fn name(path: &Path) -> String {
    let path = path.strip_prefix("docs").unwrap_or(path);
    path.to_string_lossy().to_lowercase().replace('/', "-")
}

/// The path of a link of a page, from the root folder; `None` outside of it.
fn resolved(page: &Path, link: &str) -> Option<PathBuf> {
    let link = link.split('#').next().unwrap_or_default();
    let link = percent_decode_str(link).decode_utf8().ok()?;
    let mut path = PathBuf::new();
    for component in page.parent()?.join(&*link).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => path.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// The link from a page in `folder` to a file.
fn relative(folder: &Path, file: &Path) -> String {
    let same = folder.components().zip(file.components());
    let same = same.take_while(|(one, other)| one == other).count();
    let up = folder.components().skip(same).map(|_| "..".into());
    let down = file.components().skip(same);
    let down = down.map(|component| component.as_os_str().to_string_lossy());
    up.chain(down).collect::<Vec<_>>().join("/")
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| path_error(path, &error))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| path_error(path, &error))
}

fn path_error(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
