//! `dala cache`, and kernels that are kept from one process to the next.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::folder::Folder;
use super::{Run, command};

/// Several kernels, so that there is something to keep.
const CHAIN: &str = "blur(radius=2) | sobel | sharpen | grayscale";

struct Kept {
    folder: Folder,
    kernels: PathBuf,
    device: &'static str,
}

impl Kept {
    fn new() -> Kept {
        Kept::on("cpu")
    }

    fn on(device: &'static str) -> Kept {
        let folder = Folder::new();
        let kernels = PathBuf::from(folder.path("kernels"));
        folder.photo("photo.png");
        Kept { folder, kernels, device }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("DALA_CACHE", &self.kernels);
        command
    }

    fn filter(&self, output: &str) -> Command {
        let (photo, output) = (self.folder.path("photo.png"), self.folder.path(output));
        self.command(&["filter", CHAIN, &photo, &output, "--device", self.device])
    }

    /// What the filter makes of the photo, and what it says beside.
    fn filtered(&self) -> (Vec<u8>, String) {
        let run = Run::from(self.filter("out.png").output().unwrap());
        let said = run.stderr.clone();
        run.success();
        (fs::read(self.folder.path("out.png")).unwrap(), said)
    }

    /// The kernels that are kept. One that was made again is another file of the same name.
    fn files(&self) -> BTreeMap<PathBuf, (u64, i64, i64)> {
        let entries = fs::read_dir(&self.kernels).unwrap().map(Result::unwrap);
        // The number of a file that is gone may be given to the next one.
        let which = |about: fs::Metadata| (about.ino(), about.mtime(), about.mtime_nsec());
        entries.map(|entry| (entry.path(), which(entry.metadata().unwrap()))).collect()
    }
}

#[test]
fn the_second_process_builds_nothing() {
    for device in ["cpu", "vulkan"] {
        builds_once(&Kept::on(device));
    }
    let off = Run::from(command(&["cache"]).env("DALA_CACHE", "off").output().unwrap()).success();
    assert_eq!(off, "kernels are not kept: DALA_CACHE is off\n");
}

fn builds_once(kept: &Kept) {
    let (picture, said) = kept.filtered();
    assert_eq!(said, "");
    let files = kept.files();
    assert!(files.len() > 2, "{files:?}");
    assert_eq!(kept.filtered().0, picture);
    assert_eq!(kept.files(), files);
    // One that is missing is built, and no other.
    let missing = files.keys().next().unwrap();
    fs::remove_file(missing).unwrap();
    assert_eq!(kept.filtered().0, picture);
    let again = kept.files();
    assert!(again.keys().eq(files.keys()));
    assert_eq!(files.iter().filter(|(path, file)| again[*path] != **file).count(), 1);

    let count = files.len();
    let shown = Run::from(kept.command(&["cache"]).output().unwrap()).success();
    assert!(shown.contains(&format!(": {count} kernels, ")) && shown.contains("of at most 512.0 MiB"), "{shown}");
    let json = Run::from(kept.command(&["cache", "--json"]).output().unwrap()).json();
    assert_eq!((json["kernels"].as_u64(), json["refused"].is_null()), (Some(count as u64), true));
    let removed = Run::from(kept.command(&["cache", "--clear"]).output().unwrap()).success();
    assert!(removed.contains(&format!(": removed, {count} kernels, ")), "{removed}");
    assert!(kept.files().is_empty());

    let warm = || {
        let arguments = ["warm", CHAIN, "--size", "96x64", "--explain", "--device", kept.device];
        Run::from(kept.command(&arguments).output().unwrap()).success()
    };
    let (first, second) = (warm(), warm());
    assert!(!first.contains(" 0 kernels") && second.contains(" 0 kernels"), "{first}{second}");
    assert!(!first.contains("| all 0 |") && second.contains("| all 0 |"), "{first}{second}");
}

#[test]
fn damaged_kernels_are_built_again() {
    for device in ["cpu", "vulkan"] {
        survives_damage(&Kept::on(device));
    }
}

fn survives_damage(kept: &Kept) {
    let picture = kept.filtered().0;
    let files: Vec<PathBuf> = kept.files().into_keys().collect();
    let contents: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    let all = |make: &dyn Fn(usize) -> Vec<u8>| {
        for (number, path) in files.iter().enumerate() {
            fs::write(path, make(number)).unwrap();
        }
        assert_eq!(kept.filtered().0, picture);
        let whole = files.iter().zip(&contents).all(|(path, contents)| fs::read(path).unwrap().len() == contents.len());
        assert!(whole, "a damaged file stayed");
    };
    all(&|_| Vec::new());
    all(&|number| contents[number][..contents[number].len() / 2].to_vec());
    all(&|number| contents[(number + 1) % contents.len()].clone());
    all(&|number| {
        let mut damaged = contents[number].clone();
        damaged.iter_mut().skip(40).step_by(97).for_each(|byte| *byte ^= 0x55);
        damaged
    });
}

#[test]
fn a_folder_that_others_may_write_is_refused() {
    let kept = Kept::new();
    fs::create_dir(&kept.kernels).unwrap();
    fs::set_permissions(&kept.kernels, fs::Permissions::from_mode(0o777)).unwrap();
    let (_, said) = kept.filtered();
    assert!(said.starts_with("warning: kernels are not kept for the next time: "), "{said}");
    assert!(said.contains("is open to others (mode 777)") && said.contains("chmod 700"), "{said}");
    assert!(kept.files().is_empty());
    let shown = Run::from(kept.command(&["cache"]).output().unwrap()).success();
    assert!(shown.contains("kernels are not kept: "), "{shown}");
}

#[test]
fn fifty_processes_fill_it_at_once() {
    let kept = Kept::new();
    let quiet = |mut command: Command| command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let processes: Vec<_> = (0..50).map(|number| quiet(kept.filter(&format!("{number}.png")))).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let files = kept.files();
    let picture = kept.filtered().0;
    for number in 0..50 {
        assert_eq!(fs::read(kept.folder.path(&format!("{number}.png"))).unwrap(), picture, "{number}");
    }
    assert_eq!(kept.files(), files, "something was missing or damaged");
}

#[test]
fn processes_that_are_killed_leave_it_usable() {
    let kept = Kept::new();
    let count = std::env::var("DALA_KILLS").map_or(40, |count| count.parse::<u64>().unwrap());
    let mut ended = 0;
    for number in 0..count {
        let mut process = kept.filter("killed.png").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Spread over the time that such a process takes here, in steps that do not repeat.
        std::thread::sleep(Duration::from_micros(number * 37_919 % 300_000));
        ended += usize::from(process.try_wait().unwrap().is_some());
        let _ = process.kill();
        process.wait().unwrap();
        // Most of them find nothing, so that there is something to write.
        if number % 4 != 0 {
            for file in kept.kernels.read_dir().into_iter().flatten().flatten() {
                let _ = fs::remove_file(file.path());
            }
        }
    }
    let picture = kept.filtered().0;
    let whole: Vec<PathBuf> = kept.files().into_keys().filter(|path| path.extension().is_none()).collect();
    assert!(whole.len() > 2, "{whole:?}");
    println!("{count} processes, {ended} of them ended before they were killed");
    let fresh = Kept::new();
    assert_eq!(fresh.filtered().0, picture);
}

#[test]
fn warmed_kernels_are_not_built_again() {
    let kept = Kept::new();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../dala-model/tests/data/squeezenet.onnx");
    let arguments = ["warm", CHAIN, model, "--size", "5x7x3", "--device", "cpu"];
    let warm = || Run::from(kept.command(&arguments).output().unwrap()).success();
    let first = warm();
    assert!(first.starts_with(CHAIN) && first.contains(" kernels built, "), "{first}");
    let files = kept.files();
    assert_eq!(warm().matches(", 0 kernels built, ").count(), 2);
    // Elsewhere, as a folder that was shipped.
    let elsewhere = Kept::new();
    fs::create_dir(&elsewhere.kernels).unwrap();
    fs::set_permissions(&elsewhere.kernels, fs::Permissions::from_mode(0o700)).unwrap();
    for path in files.keys() {
        fs::copy(path, elsewhere.kernels.join(path.file_name().unwrap())).unwrap();
    }
    let shipped = elsewhere.files();
    elsewhere.filtered();
    assert_eq!(elsewhere.files(), shipped, "something was built");
}
