//! No two files of a crate import each other, however long the way around: what is below knows nothing of what is above.
//!
//! Re-exports are followed to the file that has the item, so a room's `mod.rs` counts for what it defines itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::documents::project;
use super::folder::Folder;

/// A module: its path from the crate's root, such as `plan::cache`.
type Module = Vec<String>;

/// A file of a crate, without its tests.
struct File {
    path: PathBuf,
    text: String,
}

/// The files of a crate by module.
struct Crate(BTreeMap<Module, File>);

impl Crate {
    fn read(folder: &Path) -> Crate {
        let mut files = Crate(BTreeMap::new());
        files.add_folder(&Vec::new(), folder);
        files
    }

    /// Adds the files of a folder, which is that of a module.
    fn add_folder(&mut self, module: &Module, folder: &Path) {
        let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let child = |path: &Path| {
            let mut child = module.clone();
            child.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
            child
        };
        let declares = ["lib.rs", "main.rs", "mod.rs"].map(|name| fs::read_to_string(folder.join(name)));
        let declares: String = declares.into_iter().filter_map(Result::ok).collect();
        let is_test = |name: &str| {
            ["mod", "pub(crate) mod"]
                .iter()
                .any(|declared| declares.contains(&format!("#[cfg(test)]\n{declared} {name};")))
        };
        for path in paths {
            match path.file_name().unwrap().to_str().unwrap() {
                // Programs of their own, and what is compiled for tests alone.
                "bin" | "tests" | "tests.rs" => {}
                name if is_test(name.trim_end_matches(".rs")) => {}
                "lib.rs" | "main.rs" | "mod.rs" => self.add(module.clone(), path),
                name if name.ends_with(".rs") => self.add(child(&path), path),
                _ if path.is_dir() => self.add_folder(&child(&path), &path),
                _ => {}
            }
        }
    }

    fn add(&mut self, module: Module, path: PathBuf) {
        let text = without_tests(&fs::read_to_string(&path).unwrap());
        self.0.insert(module, File { path, text });
    }

    /// The module that has the item of a path, re-exports followed; none if the path leaves the crate.
    fn definer(&self, from: &Module, path: &[String]) -> Option<Module> {
        let mut at: Module = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => from.clone(),
            "super" => from[..from.len().checked_sub(1)?].to_vec(),
            child => {
                let mut module = from.clone();
                module.push(child.to_owned());
                self.0.contains_key(&module).then_some(module)?
            }
        };
        let mut rest = &path[1..];
        while let Some((first, more)) = rest.split_first() {
            let mut child = at.clone();
            child.push(first.clone());
            if first == "super" {
                at.pop()?;
            } else if self.0.contains_key(&child) {
                at = child;
            } else {
                return Some(self.exported(&at, first).unwrap_or(at));
            }
            rest = more;
        }
        Some(at)
    }

    /// The module of an item that another hands on.
    fn exported(&self, module: &Module, item: &str) -> Option<Module> {
        let uses = imports(&self.0[module].text);
        let handed_on = uses.into_iter().filter(|import| import.is_public);
        let path = handed_on.map(|import| import.path).find(|path| path.last().is_some_and(|last| last == item))?;
        self.definer(module, &path).filter(|found| found != module)
    }

    /// The modules that each one imports from.
    fn arrows(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let mut arrows = BTreeMap::new();
        for (module, file) in &self.0 {
            let uses = imports(&file.text).into_iter().filter(|import| !import.is_public).map(|import| import.path);
            let inline = paths_in(&file.text);
            let targets = uses.chain(inline).filter_map(|path| self.definer(module, &path));
            arrows.insert(module, targets.filter(|target| target != module).collect());
        }
        arrows
    }

    /// The circles, each as the files that can be reached from one another.
    fn circles(&self) -> Vec<Vec<String>> {
        let arrows = self.arrows();
        let reachable: BTreeMap<&Module, BTreeSet<Module>> =
            arrows.keys().map(|module| (*module, reach(&arrows, module))).collect();
        let mut circles = BTreeSet::new();
        for (module, reached) in &reachable {
            if reached.contains(*module) {
                let together = reached.iter().filter(|other| reachable[other].contains(*module));
                circles.insert(together.cloned().collect::<Vec<Module>>());
            }
        }
        let names = |circle: Vec<Module>| {
            let name = |module: &Module| {
                let others = arrows[module].iter().filter(|other| circle.contains(other)).map(|other| other.join("::"));
                format!("{} -> {}", self.0[module].path.display(), others.collect::<Vec<_>>().join(", "))
            };
            circle.iter().map(name).collect()
        };
        circles.into_iter().map(names).collect()
    }
}

fn reach(arrows: &BTreeMap<&Module, BTreeSet<Module>>, from: &Module) -> BTreeSet<Module> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from.clone()]);
    while let Some(module) = next.pop() {
        for target in &arrows[&module] {
            if reached.insert(target.clone()) {
                next.push(target.clone());
            }
        }
    }
    reached
}

/// Code without comments, and without what is compiled for tests alone.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    while let Some(line) = lines.next() {
        if !["#[cfg(test)]", "#[cfg(doctest)]", "#[cfg(all(test"].iter().any(|test| line.trim().starts_with(test)) {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        // What follows: one line, or a block up to the brace at the same depth.
        let indent = line.len() - line.trim_start().len();
        for line in lines.by_ref() {
            let own = line.len() - line.trim_start().len();
            let closes = own == indent && line.trim_start().starts_with('}');
            if closes || (own == indent && (line.ends_with(';') || line.ends_with(','))) {
                break;
            }
        }
    }
    kept
}

struct Import {
    path: Vec<String>,
    is_public: bool,
}

/// What a file's `use` items name, one by one.
fn imports(text: &str) -> Vec<Import> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("use ") {
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let before = text[line..at].trim();
        if !(before.is_empty() || before.starts_with("pub")) {
            continue;
        }
        let Some(end) = text[at..].find(';') else { continue };
        let tree: String = text[at + 4..at + end].split_whitespace().collect::<Vec<_>>().join(" ");
        let mut paths = Vec::new();
        expand(&tree, &[], &mut paths);
        found.extend(paths.into_iter().map(|path| Import { path, is_public: !before.is_empty() }));
    }
    found
}

/// The paths of a tree such as `crate::a::{b, c::{d, e as f}}`.
fn expand(tree: &str, prefix: &[String], paths: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let mut path = prefix.to_vec();
    let (head, group) = match tree.find('{') {
        Some(at) => (&tree[..at], tree[at + 1..].strip_suffix('}')),
        None => (tree, None),
    };
    let plain = head.split(" as ").next().unwrap_or_default();
    path.extend(plain.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
    let Some(group) = group else {
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        return paths.push(path);
    };
    let (mut depth, mut start) = (0, 0);
    for (at, character) in group.char_indices().chain([(group.len(), ',')]) {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !group[start..at].trim().is_empty() {
                    expand(&group[start..at], &path, paths);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The paths of the crate that code names where it uses them.
fn paths_in(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
            let whole =
                text[..at].chars().next_back().is_none_or(|before| !(before.is_alphanumeric() || before == '_'));
            let nested = text[..at].ends_with("::");
            if !whole || nested || text[line..at].contains("use ") || text[line..at].contains("pub(in") {
                continue;
            }
            let rest =
                text[at..].split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).next().unwrap_or_default();
            found.push(rest.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect());
        }
    }
    found
}

#[test]
fn files_of_a_crate_do_not_import_each_other_in_a_circle() {
    let mut crates: Vec<PathBuf> =
        fs::read_dir(project().join("crates")).unwrap().map(|entry| entry.unwrap().path().join("src")).collect();
    crates.push(project().join("elixir/native/dala_nif/src"));
    crates.sort();
    let mut problems = Vec::new();
    for folder in crates.iter().filter(|folder| folder.exists()) {
        let files = Crate::read(folder);
        assert!(!files.0.is_empty(), "{} has no root", folder.display());
        for circle in files.circles() {
            problems.push(format!("{}\n  {}", folder.display(), circle.join("\n  ")));
        }
    }
    assert!(problems.is_empty(), "files that import each other:\n{}", problems.join("\n"));
}

#[test]
fn circles_are_found_through_re_exports() {
    let folder = Folder::new();
    let root = PathBuf::from(folder.path("."));
    fs::create_dir_all(root.join("room")).unwrap();
    let write = |name: &str, text: &str| drop(folder.file(name, text));
    write("lib.rs", "mod a;\nmod room;\npub use a::A;\n");
    write("a.rs", "use crate::room::B;\npub struct A(B);\n");
    write("room/mod.rs", "mod b;\nmod c;\npub use b::B;\n");
    write("room/c.rs", "use super::B;\n#[cfg(test)]\nmod tests {\n    use crate::A;\n}\n");
    write("room/b.rs", "pub struct B;\n");
    assert!(Crate::read(&root).circles().is_empty(), "tests do not count");
    write("room/b.rs", "pub struct B;\nfn back(_: &crate::A) {}\n");
    let circles = Crate::read(&root).circles();
    assert_eq!(circles.len(), 1);
    assert_eq!(circles[0].len(), 2, "{circles:?}");
}
