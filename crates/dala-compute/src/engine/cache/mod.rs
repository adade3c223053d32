//! Compiled kernels, kept in a folder of the user's for the next process.

pub(super) mod store;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use store::Store;

/// What the user chose, before the first device was opened.
static CHOSEN: Mutex<Option<Option<PathBuf>>> = Mutex::new(None);
static SETTLED: OnceLock<KernelCache> = OnceLock::new();

/// The kernels that were built last.
static BUILT: Mutex<VecDeque<BuiltKernel>> = Mutex::new(VecDeque::new());
/// So many are remembered.
const REMEMBERED: usize = 4096;

/// What it took to build a kernel, as opposed to finding one that was kept.
#[derive(Clone, Debug)]
pub struct BuiltKernel {
    /// Which kernel it is. Those of one name differ in their programs, types and layouts.
    pub name: String,
    /// How long it took to generate its code, if that was measured.
    pub generated: Option<Duration>,
    /// How long the compiler took: the engine's passes, and LLVM on the CPU device. What a driver makes of a shader is not in it.
    pub compiled: Duration,
    /// The bytes of its machine code or its shader, if it is kept.
    pub bytes: Option<usize>,
}

impl BuiltKernel {
    pub(super) fn remember(name: &str, generated: Option<Duration>, compiled: Duration, bytes: Option<usize>) {
        let name = name.strip_prefix("dala_kernels::launch::").unwrap_or(name).to_owned();
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if built.len() == REMEMBERED {
            built.pop_front();
        }
        built.push_back(BuiltKernel { name, generated, compiled, bytes });
    }
}

/// Where compiled kernels are kept for the next process.
///
/// It is the folder that [`keep_in`](KernelCache::keep_in) names, or the environment variable `DALA_CACHE`, which may say `off`, or
/// else a folder of the user's cache directory. It is made if it is not there. Whoever can write to it decides what this program
/// executes, so a folder that is open to others is not used, and [`refused`](KernelCache::refused) says so.
///
/// It holds the machine code of the CPU device and the shaders of Vulkan devices. What drivers make of shaders, they keep in caches of
/// their own.
pub struct KernelCache(Settled);

enum Settled {
    Kept(Store),
    /// The folder, and why it is not used.
    Refused(PathBuf, String),
    Off,
}

impl KernelCache {
    /// The most bytes that are kept. Then those kernels go that were not used for the longest time.
    pub const LIMIT: u64 = 512 << 20;

    /// Chooses the folder, or none. Says whether it was in time: the first kernel that is built settles it.
    pub fn keep_in(folder: Option<&Path>) -> bool {
        let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
        if SETTLED.get().is_some() {
            return false;
        }
        *chosen = Some(folder.map(Path::to_owned));
        true
    }

    /// The cache of this process. From now on it stays where it is.
    pub fn get() -> &'static KernelCache {
        let chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
        SETTLED.get_or_init(|| KernelCache(settle(chosen.clone())))
    }

    /// The folder; none if kernels are not to be kept.
    pub fn folder(&self) -> Option<&Path> {
        match &self.0 {
            Settled::Kept(store) => Some(store.folder()),
            Settled::Refused(folder, _) => Some(folder),
            Settled::Off => None,
        }
    }

    /// Why the folder is not used, if it is not.
    pub fn refused(&self) -> Option<&str> {
        match &self.0 {
            Settled::Refused(_, why) => Some(why),
            Settled::Kept(_) | Settled::Off => None,
        }
    }

    /// The kernels that this process has built, at most the last 4096 of them.
    pub fn built() -> Vec<BuiltKernel> {
        BUILT.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// How many kernels are kept, and their bytes.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn size(&self) -> io::Result<(u64, u64)> {
        self.store().map_or(Ok((0, 0)), Store::size)
    }

    /// Removes all kernels that are kept, and says how many there were and their bytes.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be removed.
    pub fn clear(&self) -> io::Result<(u64, u64)> {
        self.store().map_or(Ok((0, 0)), Store::clear)
    }

    /// The folder of compiled kernels, if they are kept.
    pub(super) fn store(&self) -> Option<&Store> {
        match &self.0 {
            Settled::Kept(store) => Some(store),
            Settled::Refused(..) | Settled::Off => None,
        }
    }
}

fn settle(chosen: Option<Option<PathBuf>>) -> Settled {
    let folder = chosen.unwrap_or_else(|| match std::env::var_os("DALA_CACHE") {
        Some(off) if off.is_empty() || off == "off" => None,
        Some(folder) => Some(PathBuf::from(folder)),
        None => default_folder(),
    });
    let Some(folder) = folder else { return Settled::Off };
    match Store::open(&folder, KernelCache::LIMIT) {
        Ok(store) => Settled::Kept(store),
        Err(why) => Settled::Refused(folder, why),
    }
}

fn default_folder() -> Option<PathBuf> {
    dirs::cache_dir().map(|folder| folder.join("dala-compute").join("kernels"))
}
