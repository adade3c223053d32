//! The folder: one file for each kernel, named by its key.
//!
//! A file is written beside its place and moved there, so that other processes see all of it or nothing. What is read is
//! compared with a sum over key and contents; whatever is wrong with a file, it counts as missing and is written anew.

use std::fs::{self, File, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use cubecl::hash::StableHasher;

/// What every file begins with: what it is, and in which form.
const MAGIC: &[u8; 8] = b"dalakrn1";
/// Magic, key, sum.
const HEADER: usize = 8 + 16 + 16;
/// Files that were begun so long ago were left by a process that was killed.
const ABANDONED: Duration = Duration::from_secs(600);
/// A file that is used is marked as such at most once in this time.
const MARKED: Duration = Duration::from_secs(24 * 3600);
/// How many files are written before the folder is looked at again.
const BETWEEN_SWEEPS: u64 = 64;

/// What a kernel is found under: everything that its machine code depends on, in one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(u128);

impl Key {
    /// The key of what these texts say together.
    pub(crate) fn of(parts: &[&str]) -> Key {
        let mut hasher = StableHasher::new();
        for part in parts {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part.as_bytes());
        }
        Key(hasher.finalize())
    }
}

/// A folder of compiled kernels that only its user can write to.
pub(crate) struct Store {
    folder: PathBuf,
    /// At most so many bytes are kept.
    limit: u64,
    written: AtomicU64,
}

impl Store {
    /// Opens a folder, or makes it; or says why it is not to be trusted.
    pub(crate) fn open(folder: &Path, limit: u64) -> Result<Store, String> {
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        make(folder).map_err(failed)?;
        only_ours(&fs::metadata(folder).map_err(failed)?)
            .map_err(|problem| format!("{} {problem}", folder.display()))?;
        Ok(Store { folder: folder.to_owned(), limit, written: AtomicU64::new(0) })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, key: Key) -> PathBuf {
        self.folder.join(format!("{:032x}", key.0))
    }

    /// What was kept under the key, if it is there and whole.
    pub(crate) fn get(&self, key: Key) -> Option<Vec<u8>> {
        let path = self.path(key);
        let mut bytes = fs::read(&path).ok()?;
        if !is_whole(key, &bytes) {
            // Somebody may have put a good one there meanwhile: then it is made once more.
            let _ = fs::remove_file(&path);
            return None;
        }
        mark_as_used(&path);
        bytes.drain(..HEADER);
        Some(bytes)
    }

    /// Removes what was kept under the key: it was whole, and of no use.
    pub(crate) fn remove(&self, key: Key) {
        let _ = fs::remove_file(self.path(key));
    }

    /// Keeps this under the key. Who cannot write has to do without.
    pub(crate) fn put(&self, key: Key, contents: &[u8]) {
        static BEGUN: AtomicU64 = AtomicU64::new(0);
        let number = BEGUN.fetch_add(1, Ordering::Relaxed);
        let begun = self.folder.join(format!("{}-{number}.begun", std::process::id()));
        let moved = write(&begun, key, contents).and_then(|()| fs::rename(&begun, self.path(key)));
        if moved.is_err() {
            let _ = fs::remove_file(&begun);
        }
        if self.written.fetch_add(1, Ordering::Relaxed).is_multiple_of(BETWEEN_SWEEPS) {
            self.sweep();
        }
    }

    /// Removes what was left half-written, and the files that were not used for the longest time if all are too many.
    fn sweep(&self) {
        let mut files = self.files().unwrap_or_default();
        let (now, mut bytes) = (SystemTime::now(), files.iter().map(|file| file.bytes).sum::<u64>());
        files.sort_unstable_by_key(|file| file.used);
        let too_many = bytes > self.limit;
        for file in files {
            let age = now.duration_since(file.used).unwrap_or_default();
            let begun = file.path.extension().is_some_and(|extension| extension == "begun");
            // Down to three quarters, so that this is not to be done again soon.
            let removed = if begun { age > ABANDONED } else { too_many && bytes > self.limit / 4 * 3 };
            if removed && fs::remove_file(&file.path).is_ok() {
                bytes -= file.bytes;
            }
        }
    }

    /// Every file of ours.
    fn files(&self) -> io::Result<Vec<Kept>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            // It may be gone by now.
            let Ok(about) = entry.metadata() else { continue };
            if about.is_file() && is_our_name(&entry.file_name().to_string_lossy()) {
                let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push(Kept { path: entry.path(), bytes: about.len(), used });
            }
        }
        Ok(files)
    }

    /// How many kernels are kept, and their bytes.
    pub(crate) fn size(&self) -> io::Result<(u64, u64)> {
        let files = self.files()?;
        Ok((files.len() as u64, files.iter().map(|file| file.bytes).sum()))
    }

    /// Removes all kernels, and says how many there were and their bytes. Files of others stay.
    pub(crate) fn clear(&self) -> io::Result<(u64, u64)> {
        let (mut count, mut bytes) = (0, 0);
        for file in self.files()? {
            match fs::remove_file(&file.path) {
                Ok(()) => (count, bytes) = (count + 1, bytes + file.bytes),
                // Another process was quicker.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok((count, bytes))
    }
}

struct Kept {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

fn is_our_name(name: &str) -> bool {
    let hexadecimal = |name: &str| name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    hexadecimal(name) || name.ends_with(".begun")
}

fn sum(key: Key, contents: &[u8]) -> u128 {
    let mut hasher = StableHasher::new();
    hasher.write(&key.0.to_le_bytes());
    hasher.write(contents);
    hasher.finalize()
}

fn is_whole(key: Key, bytes: &[u8]) -> bool {
    let Some((header, contents)) = bytes.split_at_checked(HEADER) else { return false };
    header[..8] == *MAGIC && header[8..24] == key.0.to_le_bytes() && header[24..] == sum(key, contents).to_le_bytes()
}

fn write(path: &Path, key: Key, contents: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let mut bytes = Vec::with_capacity(HEADER + contents.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&key.0.to_le_bytes());
    bytes.extend_from_slice(&sum(key, contents).to_le_bytes());
    bytes.extend_from_slice(contents);
    file.write_all(&bytes)
}

/// Kernels that are used are the last to be removed.
fn mark_as_used(path: &Path) {
    let is_old = |about: fs::Metadata| about.modified().ok()?.elapsed().ok().map(|age| age > MARKED);
    if fs::metadata(path).ok().and_then(is_old) == Some(true)
        && let Ok(file) = File::options().write(true).open(path)
    {
        let _ = file.set_modified(SystemTime::now());
    }
}

fn make(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Code from the folder is executed: nobody else may have put it there.
#[cfg(unix)]
fn only_ours(folder: &fs::Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;

    if !folder.is_dir() {
        return Err("is not a folder".to_owned());
    }
    // SAFETY: the call reads a number of the process and has no conditions.
    let user = unsafe { libc::geteuid() };
    if folder.uid() != user {
        return Err(format!("belongs to user {}, and this is user {user}: kernels from it would be run", folder.uid()));
    }
    match folder.mode() & 0o777 {
        0o700 => Ok(()),
        mode => {
            Err(format!("is open to others (mode {mode:o}), and kernels from it would be run: chmod 700 closes it"))
        }
    }
}

#[cfg(not(unix))]
fn only_ours(folder: &fs::Metadata) -> Result<(), String> {
    if folder.is_dir() { Ok(()) } else { Err("is not a folder".to_owned()) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A folder that is gone when the test is.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Folder {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            Folder(std::env::temp_dir().join(format!("dala-kernels-{}-{number}", std::process::id())))
        }

        fn store(&self, limit: u64) -> Store {
            Store::open(&self.0, limit).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn key(name: &str) -> Key {
        Key::of(&["test", name])
    }

    #[test]
    fn kept_kernels_are_found_by_the_next_process() {
        let folder = Folder::new();
        folder.store(1 << 20).put(key("one"), b"machine code");
        let again = folder.store(1 << 20);
        assert_eq!(again.get(key("one")).as_deref(), Some(&b"machine code"[..]));
        assert_eq!(again.get(key("two")), None);
        assert_eq!(again.size().unwrap(), (1, HEADER as u64 + 12));
        fs::write(folder.0.join("notes.txt"), "of somebody else").unwrap();
        assert_eq!(again.clear().unwrap().0, 1);
        assert_eq!((again.get(key("one")), again.size().unwrap()), (None, (0, 0)));
        assert!(folder.0.join("notes.txt").exists());
        // What was said is not what was meant, however it is divided.
        assert_ne!(Key::of(&["ab", "c"]), Key::of(&["a", "bc"]));
    }

    #[test]
    fn damaged_files_count_as_missing() {
        let folder = Folder::new();
        let store = folder.store(1 << 20);
        let path = store.path(key("one"));
        let damages: [fn(&mut Vec<u8>); 6] = [
            |bytes| bytes.clear(),
            |bytes| bytes.truncate(HEADER - 1),
            |bytes| bytes.truncate(HEADER + 3),
            |bytes| bytes[HEADER + 5] ^= 1,
            |bytes| bytes[0] = b'D',
            |bytes| bytes.push(0),
        ];
        for (number, damage) in damages.into_iter().enumerate() {
            store.put(key("one"), b"machine code");
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(&path, bytes).unwrap();
            assert_eq!(store.get(key("one")), None, "{number}");
            assert!(!path.exists(), "{number}");
        }
        // A whole file, of another kernel.
        store.put(key("two"), b"other code");
        fs::rename(store.path(key("two")), &path).unwrap();
        assert_eq!(store.get(key("one")), None);
        store.put(key("one"), b"machine code");
        assert!(store.get(key("one")).is_some());
    }

    #[test]
    fn least_recently_used_files_go_first() {
        let folder = Folder::new();
        let store = folder.store(10_000);
        for number in 0..20 {
            store.put(key(&number.to_string()), &[0; 960]);
            let past = SystemTime::now() - Duration::from_secs(3600 * (30 - number));
            File::options().write(true).open(store.path(key(&number.to_string()))).unwrap().set_modified(past).unwrap();
        }
        store.sweep();
        let left: Vec<u64> = (0..20).filter(|number| store.get(key(&number.to_string())).is_some()).collect();
        assert_eq!(left, [13, 14, 15, 16, 17, 18, 19]);
        assert!(store.size().unwrap().1 <= 7_500);
    }

    #[test]
    fn what_a_killed_process_left_is_removed() {
        let folder = Folder::new();
        let store = folder.store(1 << 20);
        let (old, new) = (folder.0.join("17-0.begun"), folder.0.join("18-0.begun"));
        fs::write(&old, "half").unwrap();
        fs::write(&new, "half").unwrap();
        File::options().write(true).open(&old).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        store.sweep();
        assert!(!old.exists() && new.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_is_open_to_others_is_refused() {
        use std::os::unix::fs::PermissionsExt;

        let folder = Folder::new();
        folder.store(1 << 20);
        assert_eq!(fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);
        for mode in [0o777, 0o770, 0o702, 0o755] {
            fs::set_permissions(&folder.0, fs::Permissions::from_mode(mode)).unwrap();
            let problem = Store::open(&folder.0, 1 << 20).err().unwrap();
            assert!(problem.contains(&format!("is open to others (mode {mode:o})")), "{problem}");
        }
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).unwrap();
        folder.store(1 << 20);
        // Nobody's folder is root's either.
        if folder.store(1).folder().exists() && std::os::unix::fs::chown(&folder.0, Some(65_534), None).is_ok() {
            assert!(Store::open(&folder.0, 1 << 20).err().unwrap().contains("belongs to user 65534"));
        }
        let file = folder.0.with_extension("file");
        fs::write(&file, "").unwrap();
        assert!(Store::open(&file, 1).err().unwrap().contains("is not a folder"));
        fs::remove_file(file).unwrap();
    }

    #[test]
    fn many_threads_write_the_same_kernel() {
        let folder = Folder::new();
        let contents = vec![7; 100_000];
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let store = folder.store(1 << 30);
                    for number in 0..20 {
                        let key = key(&(number % 5).to_string());
                        if let Some(found) = store.get(key) {
                            assert_eq!(found, contents);
                        }
                        store.put(key, &contents);
                    }
                });
            }
        });
        assert_eq!(folder.store(1 << 30).size().unwrap().0, 5);
    }
}
